"""The page in real headless Chromium: it opens, answers, and runs nothing of the data's."""

import re
import shutil

import numpy as np
import pytest

from pigmil import Bags
from pigmil.bags import mark_values
from pigmil.estimators import get_estimator
from pigmil.report import detection_summary, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-unsafe-swiftshader",
)  # fmt: skip

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="chromium and chromedriver are not here: apt-get install chromium chromium-driver",
    ),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    options = selenium.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = selenium.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


class Tab:
    """A page at a width and in a colour scheme."""

    def __init__(self, driver, path, width=1200, scheme="light"):
        self.driver = driver
        self.width = width
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        driver.get_log("browser")
        driver.get(path.resolve().as_uri())

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def text(self, name):
        return self.run("return document.getElementById(arguments[0]).textContent", name)

    def change(self, name, value, event="input"):
        self.run(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event(arguments[2], {bubbles: true}))",
            name, value, event,
        )  # fmt: skip

    def traces(self, name):
        return self.run("return document.getElementById(arguments[0]).data.length", name)

    def complaints(self):
        return [entry for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]


@pytest.fixture(scope="module")
def page(rhombus_summary, tmp_path_factory):
    return write_report(rhombus_summary, tmp_path_factory.mktemp("page") / "rhombus.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_without_complaints_and_draws_everything(browser, page, scheme):
    tab = Tab(browser, page, scheme=scheme)
    assert tab.complaints() == []
    assert tab.run("return document.documentElement.dataset.ready") == "yes"
    drawn = tab.run(
        "return [...document.querySelectorAll('.figure')].map(f => !!f.querySelector('svg'))"
    )
    assert drawn == [True]
    ground = tab.run("return getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
    assert (brightness < 128) == (scheme == "dark")


@pytest.mark.parametrize("width", [360, 1400])
def test_fits_the_screen_without_broken_numbers(browser, page, width):
    tab = Tab(browser, page, width=width)
    tab.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.run("return document.documentElement.scrollWidth") <= width
    heights = tab.run(
        "return [...document.querySelectorAll('#ranking td, #answer td, #features td')]"
        ".filter(c => c.offsetHeight).map(c => c.offsetHeight)"
    )
    assert heights
    assert max(heights) < 45  # a broken number needs two lines


def test_few_rows_until_asked_for_more(browser, page, rhombus_summary):
    tab = Tab(browser, page)
    visible = (
        "return [...document.querySelector('details.bag').querySelectorAll('tbody tr')]"
        ".filter(r => !r.hidden).length"
    )
    assert tab.run(visible) == 5
    tab.run("document.querySelector('details.bag button.more').click()")
    assert tab.run(visible) == rhombus_summary["ranking"]["bags"][0]["size"]
    assert not tab.run("return document.getElementById('more-bags').open")
    opened = "return [...document.querySelectorAll('details.bag')].filter(b => b.open).length"
    assert tab.run(opened) == 3


def test_heat_maps_are_drawn_where_the_tiles_are(browser, rhombus, tmp_path):
    bags, model = rhombus
    coords = np.column_stack([np.arange(320) % 8, np.zeros(320)]) * 100
    placed = bags.with_info(instance_info={"coords": coords})
    summary = detection_summary(model, placed, source="tiles")
    tab = Tab(browser, write_report(summary, tmp_path / "tiles.html"))
    assert tab.complaints() == []
    pixels = (
        "const c = document.querySelector('canvas[data-heat]'); const i = c.getContext('2d');"
        "return [0, 1, 2, 3, 4, 5, 6, 7].map(n => [...i.getImageData("
        "Math.floor((n + 0.5) * c.width / 8), Math.floor(c.height / 2), 1, 1).data].join())"
    )
    by_score = tab.run(pixels)
    scores = summary["heatmaps"]["maps"][0]["score"]
    low, high = summary["heatmaps"]["range"]
    distinct = {round((min(max(s, low), high) - low) / (high - low), 2) for s in scores}
    assert len(set(by_score)) > 1
    assert len(set(by_score)) <= len(distinct) + 1
    phone = Tab(browser, tmp_path / "tiles.html", width=390)
    cut_off = (
        "return [...document.querySelectorAll('#answer .scroll, details.bag[open] .scroll')]"
        ".filter(s => s.scrollWidth > s.clientWidth + 1).length"
    )
    assert phone.run(cut_off) == 0


def test_filter_leaves_the_bags_and_rows_asked_for(browser, page, rhombus_summary):
    tab = Tab(browser, page)
    n_bags = len(rhombus_summary["ranking"]["bags"])
    assert tab.text("filter-status").startswith(f"{n_bags} of {n_bags} bags")
    tab.run("document.getElementById('only-detected').click()")
    detected = sum(bag["detected"] for bag in rhombus_summary["ranking"]["bags"])
    shown = (
        "return [...document.querySelectorAll('#ranking tbody tr')].filter(r => !r.hidden).length"
    )
    assert tab.run(shown) == detected
    tab.run("document.getElementById('only-detected').click()")
    name = rhombus_summary["ranking"]["bags"][0]["id"]
    tab.change("filter", name)
    visible = tab.run(
        "return [...document.querySelectorAll('details.bag')].filter(b => !b.hidden)"
        ".map(b => b.querySelector('.name').textContent)"
    )
    assert name in visible
    tab.change("filter", "no such name")
    assert tab.text("filter-status").startswith("0 of")


def test_marks_are_kept_after_a_reload_and_saved_as_a_table(browser, rhombus, tmp_path):
    from selenium.webdriver.support.ui import WebDriverWait

    bags, model = rhombus
    summary = detection_summary(model, bags, source="marks")
    page = write_report(summary, tmp_path / "marks.html")
    tab = Tab(browser, page)
    first, second = (summary["ranking"]["bags"][place] for place in (0, 1))
    places = [(first["bag"], first["rows"][0], "yes"), (second["bag"], second["rows"][1], "no")]

    def press(bag, row, mark):
        tab.run(
            "document.querySelector(`#ranking td[data-bag='${arguments[0]}'][data-instance="
            "'${arguments[1]}'] button[data-mark=${arguments[2]}]`).click()",
            bag, row["instance"], mark,
        )  # fmt: skip

    for place in places:
        press(*place)
    browser.refresh()
    assert tab.text("marks-status") == "1 right, 1 wrong"
    pressed = "return document.querySelectorAll('#ranking [aria-pressed=true]').length"
    assert tab.run(pressed) == 2
    settings = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", settings)
    tab.run("document.getElementById('save-marks').click()")
    WebDriverWait(browser, 20).until(lambda _: (tmp_path / "marks.csv").exists())
    values = mark_values(bags, tmp_path / "marks.csv")
    rows = [bags.offsets[bag] + row["instance"] for bag, row, _ in places]
    assert values[rows].tolist() == [1, 0]
    assert np.isnan(values).sum() == bags.n_instances - 2
    assert tab.complaints() == []
    press(*places[0])  # once more takes a mark back
    assert tab.text("marks-status") == "0 right, 1 wrong"
    tab.run("document.getElementById('clear-marks').click()")
    assert tab.run(pressed) == 0
    learned = detection_summary(model, bags, source="marks", marks=values)
    tab = Tab(browser, write_report(learned, tmp_path / "learned.html"), width=390)
    assert tab.text("marks-status") == "1 right, 1 wrong"
    assert tab.run("return document.documentElement.scrollWidth") <= 390
    assert tab.run("return document.querySelector('td.marks button').offsetHeight") > 20


def test_choosing_a_bag_marks_its_instances(browser, page, rhombus_summary):
    tab = Tab(browser, page)
    before = tab.traces("map-figure")
    tab.run("document.querySelector('.on-map').click()")
    bag = rhombus_summary["ranking"]["bags"][0]
    assert tab.run("return document.getElementById('bag-select').value") == str(bag["bag"])
    assert f"{bag['size']} instances on the map" in tab.text("bag-status")
    assert tab.traces("map-figure") == before + 1
    marked = tab.run("return document.getElementById('map-figure').data.at(-1).x.length")
    assert marked == bag["size"]
    tab.run("document.getElementById('clear-bag').click()")
    assert tab.traces("map-figure") == before


def test_hostile_names_are_inert_everywhere(browser, hostile, tmp_path):
    bags, model = hostile
    summary = detection_summary(model, bags, source="<script>document.title='hacked'")
    tab = Tab(browser, write_report(summary, tmp_path / "hostile.html"))
    for bag in range(bags.n_bags):
        tab.change("bag-select", str(bag), "change")
        assert summary["bags"]["id"][bag] in tab.text("bag-status")
    tab.run(
        "const f = document.getElementById('map-figure');"
        "for (let i = 0; i < f.data[0].x.length; i += 4)"
        "  Plotly.Fx.hover(f, [{curveNumber: 0, pointNumber: i}]);"
    )
    assert tab.complaints() == []
    assert "hacked" not in tab.run(
        "return document.title.replace(document.querySelector('h1').textContent, '')"
    )
    assert tab.run("return document.querySelectorAll('img, b, i, u, em, s').length") == 0
    title = tab.run("return document.querySelector('#map-figure .xtitle').textContent")
    assert "<u>first</u>" in title
    names = tab.run(
        "return [...document.querySelectorAll('#ranking .name')].map(n => n.textContent)"
    )
    assert set(names) <= set(summary["bags"]["id"])


def test_many_instances_stay_usable(browser, tmp_path):
    rng = np.random.RandomState(0)
    points = rng.normal(size=(12_000, 2))
    points[61] = 1000.0  # far off, in a positive bag
    bags = Bags(points, np.arange(0, 12_001, 60), y=np.arange(200) % 2, ids=None)
    model = get_estimator("KDE_min")().fit(bags)
    summary = detection_summary(model, bags, source="large")
    tab = Tab(browser, write_report(summary, tmp_path / "large.html"))
    assert "10,000 of 12,000" in tab.run("return document.querySelector('#map p').textContent")
    tab.change("bag-select", "1", "change")
    assert tab.text("bag-status").startswith("Bag")
    assert tab.run("return document.getElementById('map-figure').data[0].x.length") == 10_000
    right = "return document.getElementById('map-figure').layout.xaxis.range[1]"
    assert tab.run(right) < 10
    assert "lie far off" in tab.run("return document.querySelector('#map p').textContent")
    assert [entry for entry in tab.complaints() if entry["level"] == "SEVERE"] == []
