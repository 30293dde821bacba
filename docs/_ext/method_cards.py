"""Directives that let the library describe itself: cards of methods, tables, departures.

The pages are Markdown and docstrings are reStructuredText, so what is drawn from docstrings is
handed to MyST's ``eval-rst``.
"""

import re
from inspect import cleandoc, getsourcefile
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sklearn.utils.validation import has_fit_parameter
from sphinx.util.docutils import SphinxDirective

from pigmil import all_estimators
from pigmil.estimators.registry import assumption_results, get_estimator
from pigmil.io import formats

SECTION = re.compile(r"^[A-Z][A-Za-z ]+\n-{3,}$", re.MULTILINE)


def departures(docstring):
    """Return what a docstring says under "Departs from the paper"."""
    text = cleandoc(docstring)
    lead = SECTION.split(text)[0]
    found = re.search(r"Departs from the paper: (.*?)(?:\n\n|\Z)", lead, re.DOTALL)
    if found is None or found[1].strip() != "see Notes.":
        return found[1].strip() if found else ""
    notes = re.search(r"^Notes\n-+\n(.*?)(?:\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return notes[1].strip()


class _Written(SphinxDirective):
    """A directive that writes reStructuredText, see :meth:`lines`."""

    has_content = False

    def run(self):
        self.env.note_dependency(__file__)
        holder = nodes.container()
        lines = ["````{eval-rst}", *self.lines(), "````"]
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, holder)
        return holder.children


def _table(head, rows, widths="auto", classes=""):
    lines = [".. list-table::", f"   :widths: {widths}"]
    lines += ["   :header-rows: 1"] if head else []
    lines += [f"   :class: {classes}"] if classes else []
    lines += [""]
    for row in [*([head] if head else []), *rows]:
        lines += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def _verdict(one):
    return f"**{one['verdict']}** ({one['auc']:.2f} ± {one['margin']:.2f})"


class AssumptionTable(_Written):
    """``{assumption-table}``: one row per method with the verdicts of the algorithmic tests."""

    def lines(self):
        results = {card.name: assumption_results(card.name) for card in all_estimators(deep=True)}
        rows = [
            (
                name,
                *(f"{_verdict(one)}, training {one['train_auc']:.2f}" for one in tests.values()),
                str(min(one["seeds"] for one in tests.values())),
            )
            for name, tests in results.items()
            if tests
        ]
        if not rows:
            return ["No results are kept here: run the benchmark."]
        head = ("method", "single concept", "multi concept", "false frequency", "seeds")
        return _table(head, rows, "19 25 25 25 6")


class MethodCard(_Written):
    """``{method-card} MILES``: the card of a method and its departures, from the class itself."""

    required_arguments = 1

    def lines(self):
        cls = get_estimator(self.arguments[0])
        card = cls.card
        self.env.note_dependency(getsourcefile(cls))
        does = [word for word, done in (("detects instances", card.detects),
                                        ("classifies bags", card.classifies)) if done]  # fmt: skip
        rows = [
            ("Class", f":class:`pigmil.{cls.__name__}`"),
            ("Paper", f"{card.paper}" + ("" if str(card.year) in card.paper else f", {card.year}")),
            ("Does", " and ".join(does)),
            ("Use it for", card.when_to_use),
            ("Cost of a fit", card.cost),
        ]
        if card.grid:
            tuned = "; ".join(
                f"``{name}`` {'among' if len(values) > 1 else 'is'} {', '.join(map(str, values))}"
                for name, values in card.grid.items()
            )
            rows.append(("In benchmarks", tuned))
        weighted = has_fit_parameter(cls, "sample_weight")
        rows.append(
            ("Weights of bags", "``sample_weight`` in ``fit``" if weighted else "not taken")
        )
        if card.default_chosen:
            rows.append(("Defaults", card.default_chosen))
        if card.extra:
            rows.append(("Needs", f"``pip install 'pigmil[{card.extra}]'`` to be fitted"))
        tested = assumption_results(card.name)
        if tested:
            cells = [f"{test.replace('_', ' ')} {_verdict(one)}" for test, one in tested.items()]
            rows.append((":doc:`Assumptions </methods/assumptions>`", "; ".join(cells)))
        if card.shortfall:
            rows.append(("Below its published figures", card.shortfall))
        departs = departures(cls.__doc__)
        departs = departs.removeprefix("Departures, each measured on data: ")
        table = _table(None, rows, "20 80", "method-card")
        return (
            [*table, f"**Departs from the paper:** {' '.join(departs.split())}", ""]
            if departs
            else table
        )


class MethodList(_Written):
    """``{method-list}``: a row a method."""

    def lines(self):
        pages = {
            name: path.stem
            for path in sorted((Path(self.env.srcdir) / "methods").glob("*.md"))
            for name in re.findall(r"\{method-card\} (\S+)", path.read_text(encoding="utf-8"))
        }
        rows = []
        for card in all_estimators(deep=True):
            page = pages[get_estimator(card.name).__name__]
            marks = ["✓" if flag else "–" for flag in (card.detects, card.classifies)]
            link = f":doc:`{card.name} </methods/{page}>`"
            rows.append((link, str(card.year), *marks, card.when_to_use))
        return _table(
            ("method", "year", "detects", "classifies", "use it for"), rows, "16 8 9 10 57"
        )


class FormatList(_Written):
    """``{format-list}``: a row a file format."""

    def lines(self):
        rows = [
            (
                f"``{one.name}``",
                ", ".join(f"``{suffix}``" for suffix in one.suffixes),
                one.title,
                "✓" if one.columns else "–",
                "✓" if one.write else "–",
                f"``{one.extra}``" if one.extra else "–",
            )
            for one in formats().values()
        ]
        head = ("format", "suffix", "what it is", "names columns", "written", "extra")
        return _table(head, rows, "15 17 37 11 11 9")


# Pages that hold what a command writes: placeholder -> file, and what to say without it.
KEPT = {
    "```{reproduction}\n```": (
        "reproduction/README.md",
        "No results are kept in this copy of the documentation: run the commands above.",
    ),
    "```{growth}\n```": ("_parts/growth.md", "No table is kept here: run the benchmark."),
    "```{benchmark-answer}\n```": (
        "_parts/benchmark_answer.md",
        "No table is kept here: run the benchmark.",
    ),
    "```{benchmark}\n```": ("_parts/benchmark.md", "No tables are kept here: run the benchmark."),
}


def include_kept(app, docname, source):
    """Replace placeholders by the files they stand for, before the page is read."""
    for mark, (name, instead) in KEPT.items():
        if mark in source[0]:
            file = Path(app.srcdir) / name
            app.env.note_dependency(str(file))
            text = file.read_text(encoding="utf-8") if file.exists() else instead
            source[0] = source[0].replace(mark, _moved(text, name.rpartition("/")[0]))


def _moved(text, folder):
    """Markdown of a file in a folder, as part of a page beside it: one level of headings down."""
    text = re.sub(r"\]\((?!https?:|#|/)", f"]({folder}/", text)
    return re.sub(r"(?m)^(#{1,5} )", r"#\1", text)


def unwritten_methods(srcdir):
    """Pages of methods that this version of the library does not hold."""
    known = {get_estimator(card.name).__name__ for card in all_estimators(deep=True)}
    return [
        f"methods/{path.name}"
        for path in sorted((Path(srcdir) / "methods").glob("*.md"))
        if not set(re.findall(r"\{method-card\} (\S+)", path.read_text(encoding="utf-8"))) <= known
    ]


def setup(app):
    app.add_directive("method-card", MethodCard)
    app.add_directive("method-list", MethodList)
    app.add_directive("assumption-table", AssumptionTable)
    app.add_directive("format-list", FormatList)
    app.connect("source-read", include_kept)
    app.connect(
        "config-inited",
        lambda app, config: config.exclude_patterns.extend(unwritten_methods(app.srcdir)),
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
