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
import pytest
from whole_project import RESULTS, ROOT, run, succeed

from rarefeat.workflow.files.sealed_files import read_table
from rarefeat.workflow.pages import ROWS
from rarefeat.workflow.project import load

pytestmark = pytest.mark.browser
QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
PAGES = ("imbalance", "scaling", "augmentation")
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
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, SECONDS).until(lambda _: condition(), name)


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
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
    uri = "results[arguments[0]].data_uri"
    view = f"{{content: '{content}', contentPath: {uri}, resultPath: arguments[0]}}"
    browser.execute_script(f"app.setView({view})", path)


def show_page(browser, path: str) -> None:
    show(browser, path, "html")
    frames = "//iframe[starts-with(@src, 'data:text/html')]"
    (frame,) = wait(browser, lambda: browser.find_elements("xpath", frames), path)
    browser.switch_to.frame(frame)


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


@pytest.mark.parametrize("page", PAGES)
def test_tables_sort_and_filter_as_pandas_does(opened, finished, page):
    name = QUICK.pages[page].tables[0]
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


def open_explorer(browser, address: str = "") -> dict[str, str]:
    browser.get("about:blank")
    browser.get((ROOT / "docs/play.html").as_uri() + address)
    return {name: browser.find_element("id", name).text for name in ("measured", "predicted")}


@pytest.mark.parametrize("setting", ["share=0", "T=2000", "N=2048"])
def test_explorer_shows_no_law_where_it_was_not_tested(browser, setting):
    assert "The law places" in open_explorer(browser)["predicted"]
    assert browser.find_elements("css selector", "#shares path.law")
    assert "was not tested" in open_explorer(browser, f"#{setting}")["predicted"]
    assert not browser.find_elements("css selector", "#shares path.law")


def test_explorer_plays_a_recorded_run_by_keyboard(browser):
    open_explorer(browser, "#eps=0.7")
    frame = browser.find_element("id", "frame")
    frame.send_keys("\ue011")  # The key Home.
    assert browser.find_element("id", "step").text == "step 0"
    assert not browser.find_elements("css selector", "#star .gate")
    browser.find_element("id", "play").send_keys(" ")
    wait(browser, lambda: browser.find_elements("css selector", "#star .gate"), "a gate")
    wait(browser, lambda: browser.find_elements("css selector", "#star circle.rare"), "a neuron")
