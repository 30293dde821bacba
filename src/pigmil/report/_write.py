"""Write reports: a self-contained HTML page or Markdown, from the same summary."""

import json
import os
import secrets
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from pigmil._core.errors import import_optional
from pigmil._core.files import atomic_write
from pigmil._core.text import Table, escape_markdown, number, probability

_SUFFIXES = (".html", ".htm", ".md")
# The parts of a summary that the scripts draw.
_DRAWN = ("bags", "map", "heatmaps", "marks")


def write_report(summary: Any, path: str | os.PathLike[str]) -> Path:
    """Write a report; the suffix sets the format.

    Parameters
    ----------
    summary : dict or Results
        From :func:`detection_summary`, :func:`retrieval_summary` or :func:`comparison_summary`,
        or the results of a comparison.
    path : path
        Suffix ``.html`` for one self-contained page, ``.md`` for Markdown.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from pigmil import PIGMIL
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.report import detection_summary, write_report
    >>> bags = make_ring(random_state=0)
    >>> model = PIGMIL(random_state=0).fit(bags)
    >>> summary = detection_summary(model, bags, source="RING")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = write_report(summary, folder + "/ring.md").read_text()
    >>> text.splitlines()[0]
    '# PIGMIL on RING'
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise ValueError(f"Cannot write '{path}': a report is .html or .md.")
    if not isinstance(summary, dict):
        from pigmil.report._comparison import comparison_summary

        summary = comparison_summary(summary)
    text = render_markdown(summary) if suffix == ".md" else render_html(summary)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def render_html(summary: dict[str, Any]) -> str:
    """Render a report as one HTML page that contains its styles, data, scripts and figures.

    The content security policy allows only the scripts of the page, which have a random number
    that no name in the data can know, and no connections.

    Parameters
    ----------
    summary : dict
        From :func:`detection_summary`, :func:`retrieval_summary` or :func:`comparison_summary`.
    """
    drawn = summary["kind"] == "detection"
    scripts = [_plotly(), _template_text("report.js")] if drawn else []
    parts = {name: summary[name] for name in _DRAWN} if drawn else {}
    return _environment(escape=True).get_template("report.html.j2").render(
        **summary,
        style=_template_text("report.css"),
        scripts=scripts,
        nonce=secrets.token_urlsafe(16),
        data=script_json(parts) if drawn else None,
    )  # fmt: skip


def render_markdown(summary: dict[str, Any]) -> str:
    """Render a report as Markdown, without figures.

    Parameters
    ----------
    summary : dict
        From :func:`detection_summary`, :func:`retrieval_summary` or :func:`comparison_summary`.
    """
    text = _environment(escape=False).get_template("report.md.j2").render(**summary)
    return str(text).strip() + "\n"


def script_json(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: it cannot close the element.

    Examples
    --------
    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _environment(*, escape: bool) -> Any:
    jinja2 = import_optional("jinja2", extra="report", purpose="Writing a report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pigmil.report"),
        autoescape=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(number=number, probability=probability, md=escape_markdown)
    form = Table.html if escape else Table.markdown
    environment.filters["table"] = lambda values: form(Table(**values))
    return environment


def _template_text(name: str) -> str:
    return resources.files("pigmil.report").joinpath("templates", name).read_text("utf-8")


@lru_cache(maxsize=1)
def _plotly() -> str:
    offline = import_optional("plotly.offline", extra="report", purpose="Drawing a report")
    script: str = offline.get_plotlyjs()
    return script.replace("</script", "<\\/script")
