"""The report in a real browser: no errors, each figure shows, tables are sorted and filtered, nothing is asked of a network.

Needs Chromium with its driver, which are installed where that is allowed; run by `make test-browser`.
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
from rarefeat.report.html_tables import ROWS, claims_page
from test_browse import some_claims
from whole_project import RESULTS, ROOT, run, succeeded

import rarefeat
from rarefeat.claims.tables import VERDICTS
from rarefeat.project import load
from rarefeat.run.metadata import build_origin, write_page, write_product
from rarefeat.storage.sealed_files import read_table

pytestmark = pytest.mark.browser
QUICK = load(ROOT / "config/config.yaml", ROOT / "config/quick.yaml")
TABLES = [
    page
    for page, item in QUICK.browsed.items()
    if item.category == "Tables" and f"pages/{page}.html" in QUICK.default
]
CLAIMS = "claims_imbalance_and_pruning"
SECONDS = 120
WIDTH = "const image = document.querySelector('img[src^=\"data:image/png\"]'); return image && image.naturalWidth"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--window-size=1600,1100",
]  # fmt: skip


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory) -> Path:
    """The report of the quick grid, with planted claims, in a copy of the finished folder."""
    folder = Path(
        shutil.copytree(finished, tmp_path_factory.mktemp("report") / "project", symlinks=True)
    )
    table = folder / RESULTS / f"tables/{CLAIMS}.parquet"
    write_product(table, some_claims(), build_origin(QUICK.table_job(CLAIMS)))
    page = RESULTS / f"pages/{CLAIMS}.html"
    job = QUICK.claims_page_job("imbalance_and_pruning")
    write_page(folder / page, claims_page({CLAIMS: some_claims()}, job), job)
    succeeded(run(folder, "--report", "report.html", "--", "all", str(page)))
    return folder / "report.html"


def installed() -> tuple[str, str]:
    """Chromium and its driver; skips where they cannot be had."""
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found) and os.geteuid() == 0 and shutil.which("apt-get"):
        command = [
            "apt-get",
            "install",
            "--yes",
            "--no-install-recommends",
            "chromium",
            "chromium-driver",
        ]
        for words in (["apt-get", "update"], command):
            subprocess.run(
                words,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                timeout=600,
            )
        found = shutil.which("chromium"), shutil.which("chromedriver")
    if not all(found):
        pytest.skip("no Chromium with its driver here, and it cannot be installed")
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A headless Chromium that resolves no name."""
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: make test-browser installs it"
    )
    chromium, driver = installed()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_page_load_timeout(SECONDS)
    started.set_script_timeout(SECONDS)
    yield started
    started.quit()


def until(browser, condition, what: str):
    """What `condition` gives as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, SECONDS).until(condition, what)


def by(browser, path: str) -> list:
    return browser.find_elements("xpath", path)


@pytest.fixture
def opened(browser, report):
    """The report's first page."""
    browser.get(report.as_uri())
    until(browser, lambda _: by(browser, "//*[text()='Figures']"), "the menu")
    return browser


def show(browser, path: str, content: str) -> None:
    """Open a result as its eye button does."""
    view = f"{{content: '{content}', contentPath: results[arguments[0]].data_uri, resultPath: arguments[0]}}"
    browser.execute_script(f"app.setView({view})", path)


def errors(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def requests(browser) -> set[str]:
    """Addresses that the browser has asked for, without those of files, of data and of the browser itself."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    return {url for url in asked if not re.match(r"file:|data:|blob:|about:|chrome:", url)}


def test_the_overview_has_its_text_and_the_rule_graph(opened):
    graph = "const drawn = document.querySelector('#rulegraph canvas, #rulegraph svg'); return drawn && drawn.clientHeight"
    assert until(opened, lambda _: opened.execute_script(graph), "the graph") > 300
    nodes = "return rulegraph_spec.data.find(part => part.name == 'node-data').values.map(node => node.rule)"
    assert {"pretrain", "aggregate_grid", "plot"} <= set(opened.execute_script(nodes))
    text = opened.find_element("tag name", "body").text
    assert "Contrastive learning sees some features often" in text
    assert "Claims, each claim of the theory" in text
    assert errors(opened) == []


def test_each_figure_shows_with_a_caption_that_names_its_tables(opened, report):
    figures = sorted(path.name for path in (report.parent / RESULTS / "figures").glob("*.png"))
    results = opened.execute_script(
        "return Object.entries(results).map(([path, entry]) => [path, entry.caption, entry.labels])"
    )
    shown = {
        Path(path).name: (path, caption, labels)
        for path, caption, labels in results
        if path.endswith(".png")
    }
    assert sorted(shown) == figures
    for path, caption, labels in shown.values():
        assert "tables/" in caption
        assert len(caption) > 250
        assert set(labels) == {"study", "figure"}
        show(opened, path, "img")
        assert until(opened, lambda _: opened.execute_script(WIDTH), path) > 300
    assert errors(opened) == []


def test_a_figure_opens_with_clicks_alone(opened):
    by(opened, "//*[text()='Figures']")[0].click()
    eyes = until(
        opened,
        lambda _: by(opened, "//table//a[@type='button'] | //table//button"),
        "the results of the category",
    )
    eyes[0].click()
    image = until(
        opened, lambda _: by(opened, "//img[starts-with(@src, 'data:image/png')]"), "the figure"
    )[0]
    assert until(opened, lambda _: image.get_property("naturalWidth"), "its pixels") > 300


def in_page(browser, path: str, table: str):
    """Switch to a page of tables in the report; the wrapper of the table of that name."""
    show(browser, path, "html")
    until(browser, lambda _: by(browser, "//iframe[starts-with(@src, 'data:text/html')]"), path)
    browser.switch_to.frame(by(browser, "//iframe")[0])
    wrapper = f"//div[@id='table_{table}_wrapper']"
    until(browser, lambda _: by(browser, f"{wrapper}//tbody/tr"), table)
    return wrapper


def rows_told(browser, wrapper: str) -> int:
    """Rows after filtering, as the table says."""
    text = browser.find_element("xpath", f"{wrapper}//div[contains(@class, 'dt-info')]").text
    return int(re.search(r"of ([\d,]+)|^No ", text)[1].replace(",", ""))


def column(browser, wrapper: str, number: int) -> list[str]:
    """The cells of a column on the page of the table that is shown."""
    rows = "document.evaluate(arguments[0], document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE)"
    cells = "Array.from({length: rows.snapshotLength}, (_, i) => rows.snapshotItem(i).textContent)"
    return browser.execute_script(
        f"const rows = {rows}; return {cells}", f"{wrapper}//tbody/tr/td[{number}]"
    )


@pytest.mark.parametrize("page", TABLES)
def test_tables_are_sorted_and_filtered_as_pandas_would(opened, report, page):
    name = QUICK.browsed[page].tables[0]
    table = read_table(report.parent / RESULTS / f"tables/{name}.parquet").to_pandas()
    wrapper = in_page(opened, str(RESULTS / f"pages/{page}.html"), name)
    assert rows_told(opened, wrapper) == len(table)

    numeric = next(key for key in ("mean", "exponent", "reduced", "value") if key in table)
    number = list(table).index(numeric) + 1
    arrows = by(opened, f"{wrapper}//thead//th[{number}]//*[@role='button']")[0]
    opened.execute_script(
        "arguments[0].scrollIntoView({inline: 'center', block: 'center'})", arrows
    )
    arrows.click()
    # What is not a number stands before the lowest.
    expected = table[numeric].sort_values(na_position="first").head(ROWS)

    def sorted_(_) -> bool:
        return np.allclose(
            [float(cell) for cell in column(opened, wrapper, number)],
            expected,
            rtol=1e-3,
            equal_nan=True,
        )

    until(opened, sorted_, f"rows in the order of {numeric}")

    text = next(key for key in ("metric", "quantity") if key in table)
    value = table[text].iloc[0]
    box = by(opened, f"{wrapper}//tfoot//input")[list(table).index(text)]
    opened.execute_script("arguments[0].scrollIntoView({inline: 'center', block: 'center'})", box)
    box.send_keys(value)
    expected = int(table[text].str.contains(value, regex=False).sum())
    assert 0 < expected < len(table)
    until(
        opened,
        lambda _: rows_told(opened, wrapper) == expected,
        f"{expected} rows with {text} {value}",
    )
    assert errors(opened) == []


def test_the_claims_are_searched(opened):
    claims = some_claims()
    wrapper = in_page(opened, str(RESULTS / f"pages/{CLAIMS}.html"), "verdicts")
    assert rows_told(opened, wrapper) == claims["claim_id"].nunique()
    measured = "//div[@id='table_measured_wrapper']"
    assert rows_told(opened, measured) == len(claims)
    by(opened, f"{measured}//input[@type='search']")[0].send_keys(VERDICTS[2])
    expected = int((claims["verdict"] == VERDICTS[2]).sum())
    until(opened, lambda _: rows_told(opened, measured) == expected, f"{expected} rows")
    assert errors(opened) == []


def test_nothing_is_asked_of_a_network_and_the_page_is_small(opened, report):
    for path in opened.execute_script(
        "return Object.keys(results).filter(path => path.endsWith('.html'))"
    ):
        show(opened, path, "html")
        until(opened, lambda _: by(opened, "//iframe"), path)
    assert requests(opened) == set()
    assert report.stat().st_size < 30e6


SLIDERS = """
const at = id => document.getElementById(id);
const set = (id, value) => { at(id).value = value; at(id).dispatchEvent(new Event("input")); };
set("eps", arguments[0]); set("share", arguments[1]); set("lambda", arguments[2]); set("T", DATA.steps.indexOf(arguments[3]));
set("N", arguments[4]);
return [document.getElementById("said").textContent, document.getElementById("measured").textContent,
        document.querySelectorAll("#course .neuron").length, predictStep(arguments[1], arguments[2])];
"""


@pytest.mark.parametrize(("share", "lambda_"), [(0.1, 0.05), (0.2, 0.05), (0.4, 0.03), (0.7, 0.02)])
def test_the_page_to_play_with_computes_the_law_as_python_does(browser, share, lambda_):
    browser.get((ROOT / "docs/play.html").as_uri())
    law, measured, neurons, step = browser.execute_script(SLIDERS, 0.5, share, lambda_, 500, 2048)
    fitted = pd.read_csv(ROOT / "docs/tables/selection_law_constants.csv").iloc[0]
    expected = rarefeat.predict_step(
        fitted.kappa, fitted.gamma, bias={"share": share}, **{"lambda": lambda_}
    )
    # Both draw initial weights of their own, 150 and 200 replicas.
    assert step == pytest.approx(expected, abs=0.03)
    assert f"from {step:.2f} times" in law
    assert "nearest to here" in measured
    assert neurons == 30
    assert errors(browser) == []
    assert requests(browser) == set()


def test_the_page_to_play_with_shows_what_was_measured_with_its_interval(browser):
    browser.get((ROOT / "docs/play.html").as_uri())
    _, measured, *_ = browser.execute_script(SLIDERS, 0.52, 0.2, 0.05, 500, 8192)
    fates = pd.read_csv(ROOT / "docs/tables/confirmation_fates.csv").query(
        "sigma == 0.05 and eps_min == 0.5 and fate == 'learned'"
    )
    row = 100 * fates.iloc[0][["share", "ci_low", "ci_high"]].astype(float)
    assert (
        f"at 0.5 times, {row['share']:.0f} [{row['ci_low']:.0f}, {row['ci_high']:.0f}] %"
        in measured
    )
    assert "Measured here" in measured


def test_the_page_to_play_with_shows_who_has_learned_by_the_step_of_its_slider(browser):
    shares = pd.read_csv(ROOT / "docs/tables/fate_shares.csv").query(
        "study == 'reuse' and N == 2048"
    )
    browser.get((ROOT / "docs/play.html").as_uri())
    told = []
    for row in (shares[shares["step"] >= 100].iloc[0], shares.iloc[-1]):
        _, measured, *_ = browser.execute_script(
            SLIDERS, row.eps_min, row.share, row["lambda"], int(row.step), int(row.N)
        )
        values = (row.learned_share, row.ci_low, row.ci_high)
        share, *ends = (
            f"{100 * value:.{int(0.001 < value < 0.1)}f}" for value in values
        )  # as `percent` of the page
        assert (
            f"{share} [{', '.join(ends)}] % of {row.n} trainings learned it by step {row.step}"
            in measured
        )
        assert "Measured here" in measured
        told.append(share)
    assert told[0] != told[1]
    assert errors(browser) == []


def test_a_run_s_page_to_play_with_opens_from_the_report(opened):
    show(opened, str(RESULTS / "pages/play.html"), "html")
    until(opened, lambda _: by(opened, "//iframe[starts-with(@src, 'data:text/html')]"), "the page")
    opened.switch_to.frame(by(opened, "//iframe")[0])
    assert "trainings learned it" in until(
        opened, lambda _: opened.find_element("id", "measured").text, "what was measured"
    )
    assert errors(opened) == []
