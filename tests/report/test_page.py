"""The page, as a browser and a screen reader have it."""

from importlib import resources
from xml.etree import ElementTree

import pytest

from report.conftest import ODD
from report.stored import COMMIT

WIDTHS = (400, 1600)


@pytest.fixture
def page(written):
    return written[0]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_is_accessible_and_fits_the_window(chromium, page, width, dark):
    chromium.open(page, width, dark=dark)
    assert chromium.script("return window.innerWidth") == width
    assert chromium.script("return document.documentElement.scrollWidth") <= width
    axe = resources.files("axe_core_python") / "axe.min.js"
    found = chromium.script(f"{axe.read_text(encoding='utf-8')}; return axe.run();")
    assert [(v["id"], v["nodes"][0]["html"]) for v in found["violations"]] == []
    assert {"color-contrast", "image-alt", "svg-img-alt"} & {v["id"] for v in found["passes"]}


def test_it_asks_for_nothing_and_complains_of_nothing(chromium, page):
    chromium.requests()
    chromium.complaints()
    chromium.open(page, 1600)
    chromium.script("return new Promise(done => setTimeout(done, 200))")
    assert {url for url in chromium.requests() if not url.startswith("data:")} == {page.as_uri()}
    assert chromium.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_seen_and_lies_within_the_page(chromium, page, width):
    chromium.open(page, width)
    boxes = chromium.script(
        "return [...document.querySelectorAll('svg')].map(svg => {"
        "  const box = svg.getBoundingClientRect();"
        "  const texts = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());"
        "  const scale = box.width / svg.viewBox.baseVal.width;"
        "  const fonts = [...svg.querySelectorAll('text:not(:has(tspan))')]"
        "    .map(t => scale * parseFloat(getComputedStyle(t).fontSize));"
        "  return [box.left, box.right, box.height,"
        "    Math.min(...texts.map(t => t.left)), Math.max(...texts.map(t => t.right)),"
        "    Math.min(...fonts), svg.querySelectorAll('path').length]; })"
    )
    # A line chart for each stream; dots and a matrix for each group; a spectrum where it filters.
    assert len(boxes) == 2 + 2 * 3 + 2
    for left, right, height, first, last, font, paths in boxes:
        assert left >= 0
        assert right <= width
        assert height > 150
        assert first >= left - 1
        assert last <= right + 1
        assert font >= 8  # pixels: it can be read
        assert paths > 8


def test_ids_are_one_figures_alone(page):
    text = page.read_text(encoding="utf-8")
    ids = [part.split('"')[0] for part in text.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    uses = [part.split('"')[0] for part in text.split(' href="#')[1:]]
    assert set(uses) <= set(ids)


def test_what_users_named_is_text_and_nothing_else(page):
    text = page.read_text(encoding="utf-8")
    assert ODD not in text
    assert "a &lt;b&gt; &amp; &quot;c&quot;" in text
    assert "<i>" not in text
    assert "&lt;b&gt;Lower&lt;/b&gt; it." in text
    assert "<script" not in text


def test_it_is_well_formed_and_says_where_it_comes_from(page):
    text = page.read_text(encoding="utf-8")
    for svg in text.split("<svg")[1:]:
        ElementTree.fromstring(f"<svg{svg.split('</svg>')[0]}</svg>")
    for said in (COMMIT[:10], "0.10.2", "Linux x86_64", "seeds 0, 1", "kind = &quot;digits&quot;"):
        assert said in text
    assert 'lang="en"' in text
    assert "hot-" in text
