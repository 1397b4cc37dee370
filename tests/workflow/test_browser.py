"""The report and the interactive page in Chromium: figures, sorted and filtered tables, no network.

Needs Chromium with its driver, which are installed where that is allowed: `make test-browser`.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from whole_project import RESULTS, ROOT, run, succeed

import rarefeat
from rarefeat.project import load
from rarefeat.report.html_pages import ROWS
from rarefeat.storage.sealed_files import read_table

pytestmark = pytest.mark.browser
QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
PAGES = [name for name in ("imbalance", "scaling", "augmentation") if QUICK.pages[name].shown]
SECONDS = 120
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1600,1100", "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip


def find_programs() -> list[str]:
    """Return Chromium and its driver; skip the test where they cannot be installed."""
    names = "chromium", "chromedriver"
    if not all(map(shutil.which, names)) and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["install", "-y", "--no-install-recommends", "chromium", "chromium-driver"]
        for words in (["update"], install):
            subprocess.run(["apt-get", *words], capture_output=True, timeout=600)
    if not all(map(shutil.which, names)):
        pytest.skip("no Chromium with its driver here, and it cannot be installed")
    return list(map(shutil.which, names))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless Chromium that resolves no name."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="make test-browser installs it")
    chromium, driver = find_programs()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_page_load_timeout(SECONDS)
    started.set_script_timeout(SECONDS)
    yield started
    started.quit()


def wait(browser, condition, name: str):
    """Return what a condition gives as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, SECONDS).until(lambda _: condition(), name)


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
    """The report of the quick grid."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    succeed(run(finished, "--report", path, "--", "existing_outputs"))
    return path


@pytest.fixture
def opened(browser, report):
    """The first page of the report; afterwards there must be no error and no request."""
    browser.get(report.as_uri())
    wait(browser, lambda: browser.find_elements("xpath", "//*[text()='Figures']"), "the menu")
    yield browser
    browser.switch_to.default_content()
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert not [url for url in urls if not re.match(r"(file|data|blob|about|chrome):", url)]


def show(browser, path: str, content: str) -> None:
    """Open a result as its eye button does."""
    uri = "results[arguments[0]].data_uri"
    view = f"{{content: '{content}', contentPath: {uri}, resultPath: arguments[0]}}"
    browser.execute_script(f"app.setView({view})", path)


def show_page(browser, path: str) -> None:
    """Open a page of the report and switch to it."""
    show(browser, path, "html")
    frames = "//iframe[starts-with(@src, 'data:text/html')]"
    (frame,) = wait(browser, lambda: browser.find_elements("xpath", frames), path)
    browser.switch_to.frame(frame)


def test_first_page_has_its_text_and_the_rule_graph(opened, report):
    graph = (
        "const x = document.querySelector('#rulegraph canvas, #rulegraph svg');"
        "return x && x.clientHeight"
    )
    assert wait(opened, lambda: opened.execute_script(graph), "the graph") > 300
    text = opened.find_element("tag name", "body").text
    assert "Contrastive learning sees some features often" in text
    assert "A run of size quick" in text
    assert report.stat().st_size < 30e6


def test_figures_show_with_captions_that_name_their_tables(opened, finished):
    script = "return Object.entries(results).map(([path, entry]) => [path, entry.caption])"
    captions = {path: text for path, text in opened.execute_script(script) if path[-4:] == ".png"}
    names = sorted(path.name for path in (finished / RESULTS / "figures").glob("*.png"))
    assert sorted(Path(path).name for path in captions) == names
    image = "const x = document.querySelector('img[src^=\"data:image/png\"]');"
    for path, caption in captions.items():
        assert "tables/" in caption
        assert len(caption) > 250
        show(opened, path, "img")
        script = f"{image} return x && x.naturalWidth"
        assert wait(opened, lambda text=script: opened.execute_script(text), path) > 300


def test_figure_opens_with_clicks_alone(opened):
    opened.find_elements("xpath", "//*[text()='Figures']")[0].click()
    path = "//table//a[@type='button'] | //table//button"
    wait(opened, lambda: opened.find_elements("xpath", path), "results")[0].click()
    image_path = "//img[starts-with(@src, 'data:image/png')]"
    image = wait(opened, lambda: opened.find_elements("xpath", image_path), "the figure")[0]
    assert wait(opened, lambda: image.get_property("naturalWidth"), "its pixels") > 300


@pytest.mark.parametrize("page", PAGES)
def test_tables_sort_and_filter_as_pandas_does(opened, finished, page):
    name = QUICK.pages[page].shown[0]
    table = read_table(finished / RESULTS / f"tables/{name}.parquet").to_pandas()
    show_page(opened, str(RESULTS / f"pages/{page}.html"))
    identifier = re.sub(r"\W", "_", name)
    wrapper = f"//div[@id='table_{identifier}_wrapper']"

    def find(path: str) -> list:
        return opened.find_elements("xpath", wrapper + path)

    def count_rows() -> int:
        text = find("//div[contains(@class, 'dt-info')]")[0].text
        return int(re.search(r"of ([\d,]+)|^No ", text)[1].replace(",", ""))

    wait(opened, lambda: find("//tbody/tr"), name)
    assert count_rows() == len(table)
    key = next(key for key in ("mean", "exponent", "reduced", "value", "ratio") if key in table)
    number = list(table).index(key) + 1
    # What is not a number stands before the lowest.
    expected = table[key].sort_values(na_position="first").head(ROWS)

    def is_sorted() -> bool:
        cells = [float(cell.get_attribute("textContent")) for cell in find(f"//td[{number}]")]
        return np.allclose(cells, expected, rtol=1e-3, equal_nan=True)

    arrows = find(f"//thead//th[{number}]//*[@role='button']")[0]
    scroll = "arguments[0].scrollIntoView({inline: 'center', block: 'center'})"
    opened.execute_script(scroll, arrows)
    arrows.click()
    wait(opened, is_sorted, f"rows in the order of {key}")

    key = next(key for key in ("metric", "quantity", "arm", "study") if key in table)
    box = find("//tfoot//input")[list(table).index(key)]
    opened.execute_script(scroll, box)
    box.send_keys(value := table[key].iloc[0])
    expected = int(table[key].str.contains(value, regex=False).sum())
    wait(opened, lambda: count_rows() == expected, f"{expected} rows with {value}")


def test_interactive_page_of_a_run_opens_from_the_report(opened):
    show_page(opened, str(RESULTS / "pages/play.html"))
    measured = opened.find_element("id", "measured")
    assert "trainings learned it" in wait(opened, lambda: measured.text, "its values")


SLIDERS = """
const at = id => document.getElementById(id);
const set = (id, value) => {
  at(id).value = value; at(id).dispatchEvent(new Event("input")); };
set("eps", arguments[0]); set("share", arguments[1]); set("lambda", arguments[2]);
set("T", DATA.steps.indexOf(arguments[3])); set("N", arguments[4]);
return [at("said").textContent, at("measured").textContent,
        predictStep(arguments[1], arguments[2])];
"""


def move_sliders(browser, *values) -> tuple[str, str, float]:
    """Return the prediction and the measurement that the interactive page of docs/ shows."""
    browser.get((ROOT / "docs/play.html").as_uri())
    return browser.execute_script(SLIDERS, *values)


@pytest.mark.parametrize(("share", "weight"), [(0.1, 0.05), (0.4, 0.03), (0.7, 0.02)])
def test_interactive_page_predicts_as_python_does(browser, share, weight):
    text, measured, frequency = move_sliders(browser, 0.5, share, weight, 500, 2048)
    constants = pd.read_csv(ROOT / "docs/tables/selection_law_constants.csv").iloc[0]
    expected = rarefeat.predict_critical_frequency(
        constants.kappa, constants.gamma, bias={"share": share}, outside=True, **{"lambda": weight}
    )
    # Both draw initial weights of their own, 150 and 200 replicas.
    assert frequency == pytest.approx(expected.eps_min, abs=0.03)
    assert f"from {frequency:.2f} times" in text
    assert "nearest to here" in measured


def test_interactive_page_shows_measured_fractions(browser):
    fates = pd.read_csv(ROOT / "docs/tables/confirmation_fates.csv")
    row = fates.query("sigma == 0.05 and eps_min == 0.5 and fate == 'learned'").iloc[0]
    share, low, high = 100 * row[["share", "ci_low", "ci_high"]].astype(float)
    _, measured, _ = move_sliders(browser, 0.52, 0.2, 0.05, 500, 8192)
    assert f"at 0.5 times, {share:.0f} [{low:.0f}, {high:.0f}] %" in measured
    rows = pd.read_csv(ROOT / "docs/tables/fate_shares.csv")
    row = rows.query("study == 'reuse' and N == 2048").iloc[-1]
    values = row.eps_min, row["share"], row["lambda"], int(row.step), int(row.N)
    _, measured, _ = move_sliders(browser, *values)
    assert f"% of {row.n} trainings learned it by step {row.step}" in measured
    assert "Measured here" in measured
