"""The page and the Markdown: whole, without network, and hostile names inert."""

import json
import re
from html.parser import HTMLParser

import pytest

from pigmil.report import detection_summary, render_html, render_markdown, write_report
from pigmil.report._write import _plotly


class Page(HTMLParser):
    """Tags, attributes and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts, self.inside = [], [], [], None
        self.scripts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        self.inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)


@pytest.fixture(scope="module")
def hostile_summary(hostile):
    bags, model = hostile
    return detection_summary(model, bags, source="</title><script>x", command="pigmil detect '<b>'")


def test_page_is_alone(rhombus_summary):
    text = render_html(rhombus_summary).replace(_plotly(), "")
    page = Page(text)
    assert not [entry for entry in page.attributes if entry[1] == "src"]
    links = [value for _, name, value in page.attributes if name == "href"]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "http" not in re.sub(r"http-equiv", "", text)
    assert "</script" not in _plotly()


def test_every_label_target_and_anchor_exists(rhombus_summary):
    page = Page(render_html(rhombus_summary))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    wanted = [v[1:] for _, n, v in page.attributes if n == "href" and v.startswith("#")]
    wanted += [v for _, n, v in page.attributes if n == "aria-labelledby"]
    assert set(wanted) <= set(ids)


def test_hostile_names_are_text(hostile, hostile_summary):
    page = Page(render_html(hostile_summary).replace(_plotly(), ""))
    assert not set(page.tags) & {"img", "b", "i", "u", "s", "em"}
    assert page.tags.count("script") == 3
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert json.loads(page.scripts[0])["bags"]["id"] == hostile_summary["bags"]["id"]
    shown = "".join(page.texts)
    for name in ("<img src=x onerror=\"document.title='hacked'\">", "{{ 7 * 7 }} %{x} $x^2$"):
        assert name in shown
    assert "\u202e" not in shown
    assert "turned<U+202E>thgir" in shown


def test_hostile_names_stay_cells_of_markdown(hostile_summary):
    text = render_markdown(hostile_summary)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in rows if "em" in line}
    assert columns == {6}
    assert "<img" not in text
    assert "[a](javascript" not in text


def test_markdown_has_the_same_content(rhombus_summary):
    text = render_markdown(rhombus_summary)
    assert "**Detected**: 19 instances in 19 bags" in text
    assert rhombus_summary["provenance"]["checksums"]["RHOMBUS"] in text
    assert "\n\n\n\n" not in text


def test_other_suffixes_are_refused(rhombus_summary, tmp_path):
    with pytest.raises(ValueError, match=r"a report is \.html or \.md"):
        write_report(rhombus_summary, tmp_path / "report.pdf")
