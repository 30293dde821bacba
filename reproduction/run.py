"""The paper's experiments in one call: numbers, figures, and a page on what matches."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pigmil.datasets import load_dataset
from reproduction import drawing
from reproduction.ablation import LABELLED_SETS, ablation
from reproduction.claims import Claim, table1_claims, table2_claims
from reproduction.detection import CONFIGURATIONS, DISPLAY_NAMES, Callback, Runner
from reproduction.figures import FigureSize, figures
from reproduction.pages import claim_to_dict, environment, page, strict_json
from reproduction.pools import pools
from reproduction.printed import REAL
from reproduction.retrieval import ANIMALS, retrieval, retrieval_claims, retrieval_section
from reproduction.sections import (
    ablation_section,
    figure_section,
    pools_section,
    pools_summary,
    table1_section,
    table2_section,
    table2_summary,
)
from reproduction.tables import AVERAGE, table1, table2

PARTS = ("table1", "table2", "pools", "ablation", "retrieval", "figures", "all")


@dataclass(frozen=True)
class Size:
    """How much is computed, and what that leaves out.

    Attributes
    ----------
    seeds : int
        Draws of each synthetic set for Table I.
    sets : sequence of str, or mapping of name to bags
        Real sets of Table II and, with the labelled ones, of the comparison of pools.
    repeats, folds : int
        Of their cross-validation in Table II.
    pool_folds : int
        In the comparison of pools.
    ablation_seeds : int
        Draws of each synthetic set for the ablation.
    labelled : sequence of str
        Real sets with labelled instances for the ablation and the comparison of pools.
    retrieval_splits : int
        Random halves of each set for retrieval.
    figures : FigureSize
        Seeds and points of the curves.
    left_out : str
        What a smaller size leaves out, for the page.
    """

    seeds: int = 20
    sets: Sequence[str] | Mapping[str, Any] = tuple(REAL)
    repeats: int = 5
    folds: int = 10
    pool_folds: int = 10
    ablation_seeds: int = 10
    labelled: Sequence[str] = LABELLED_SETS
    retrieval_splits: int = 5
    figures: FigureSize = field(default_factory=FigureSize)
    left_out: str = ""


FULL = Size()
QUICK = Size(
    seeds=4,
    sets=("musk1", "tiger", "eastwest"),
    repeats=1,
    folds=3,
    pool_folds=3,
    ablation_seeds=2,
    labelled=("letter_frost_e",),
    retrieval_splits=2,
    figures=FigureSize(
        seeds=2,
        ratios=(0.125, 1.0, 8.0),
        levels=(0, 3, 5),
        fractions=(20, 40, 100),
    ),
    left_out="A small run: fewer sets, draws, folds and points of curves.",
)


def reproduce(
    which: str = "all",
    output: Any = "pigmil-reproduction",
    *,
    quick: bool = False,
    n_jobs: int | None = None,
    callback: Callback | None = None,
    size: Size | None = None,
) -> list[Path]:
    """Reproduce the paper's tables and figures into a folder.

    Parameters
    ----------
    which : {"table1", "table2", "pools", "ablation", "retrieval", "figures", "all"}
        What to reproduce. ``"pools"`` compares the bag accuracy of the detected pool with that of
        others; ``"ablation"`` leaves out each piece of the method in turn; ``"retrieval"`` asks
        for similar bags by the detected instance and by others. All of them by default.
    output : path, default="pigmil-reproduction"
        The folder: ``README.md`` with what matches and what does not, numbers as CSV, JSON, LaTeX
        and Markdown, figures as PNG and SVG, ``environment.json``, and every fit in
        ``results.sqlite`` and ``cache``. Called again with the same folder it goes on where it
        was stopped; the page shows all parts that the folder holds.
    quick : bool, default=False
        A small run of a few minutes, which says what it leaves out.
    n_jobs : int, optional
        Parallel fits.
    callback : callable, optional
        Called with (done, total, what) after every fit; ``total`` is that of the part at work.
    size : Size, optional
        How much to compute, in place of the full or the quick size.

    Returns
    -------
    list of Path
        The files it wrote, the page first.
    """
    if which not in PARTS:
        raise ValueError(f"which must be one of {', '.join(PARTS)}; got {which!r}.")
    size = size or (QUICK if quick else FULL)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    options = " --quick" if quick else ""
    written: list[Path] = []
    for part in PARTS[:-1]:
        if which in (part, "all"):
            work = _Part(folder, size, Runner(folder / "cache", n_jobs, callback), written)
            work.run(part, f"python -m reproduction {part}{options}")
    # Parts of earlier calls stay on the page.
    known = [folder / f"{part}.json" for part in PARTS[:-1]]
    parts = [json.loads(file.read_text("utf-8")) for file in known if file.is_file()]
    work.text("environment.json", strict_json({part["part"]: part["facts"] for part in parts}))
    work.text("claims.json", strict_json([claim for part in parts for claim in part["claims"]]))
    work.text("README.md", page(parts))
    return [written.pop(), *written]


@dataclass
class _Part:
    """The files and the share of the page of one part."""

    folder: Path
    size: Size
    runner: Runner
    written: list[Path]
    claims: list[Claim] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)
    summary: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def run(self, part: str, command: str) -> None:
        """Compute a part and write its numbers, figures and its share of the page."""
        start = time.perf_counter()
        getattr(self, part)()
        facts = environment(command, seconds=time.perf_counter() - start, n_jobs=self.runner.n_jobs)
        record = {
            "part": part,
            "facts": facts | self.facts,
            "summary": self.summary,
            "left_out": [self.size.left_out] if self.size.left_out else [],
            "sections": self.sections,
            "claims": [claim_to_dict(claim) for claim in self.claims],
        }
        self.text(f"{part}.json", strict_json(record))

    def table1(self) -> None:
        table, cells = table1(self.runner, seeds=self.size.seeds)
        self.claims = table1_claims(cells)
        self.frame("table1", table)
        self.sections = [table1_section(table, self.claims)]
        average = table[table["data"] == AVERAGE].set_index("method")
        listed = ", ".join(
            f"`{DISPLAY_NAMES[name]}` {average.loc[name, 'ours']:.1f}" for name in CONFIGURATIONS
        )
        self.summary = (
            f"Detection: of the instances picked on the three synthetic sets, this many per cent "
            f"are truly positive: {listed}; the paper prints {average.loc['PIGMIL', 'paper']:.1f}. "
            f"Means over {self.size.seeds} draws."
        )

    def table2(self) -> None:
        table, results = table2(
            sets=self.size.sets,
            repeats=self.size.repeats,
            folds=self.size.folds,
            n_jobs=self.runner.n_jobs,
            store=self.folder / "results.sqlite",
            callback=self._progress,
        )
        self.claims = table2_claims(table)
        spent = results.frame[["fit_seconds", "predict_seconds"]].to_numpy().sum()
        self.facts["table2_processor_seconds"] = round(float(spent))
        self.frame("table2", table)
        self.written.append(results.export(self.folder / "table2_cells.csv"))
        self.written.append(results.export(self.folder / "table2.tex"))
        drawn = not results.significance().nemenyi.isna().all(axis=None)
        if drawn:  # there are data sets enough for a critical-difference diagram
            self.picture("table2_ranks", drawing.draw_ranks(results))
        self.sections = [table2_section(table, results, drawn, self.claims)]
        self.summary = table2_summary(table)

    def pools(self) -> None:
        sets = _loaded(self.size.sets) | _loaded(self.size.labelled)
        table = pools(sets, self.runner, folds=self.size.pool_folds)
        self.frame("pools", table)
        self.sections = [pools_section(table)]
        self.summary = pools_summary(table)

    def ablation(self) -> None:
        table = ablation(self.runner, seeds=self.size.ablation_seeds, labelled=self.size.labelled)
        self.frame("ablation", table)
        self.sections = [ablation_section(table)]

    def retrieval(self) -> None:
        groups = [_loaded(ANIMALS), *(_loaded([name]) for name in self.size.labelled)]
        cells = retrieval(groups, self.runner, splits=self.size.retrieval_splits)
        self.claims = retrieval_claims(cells)
        self.frame("retrieval", cells)
        self.picture("figure_retrieval", drawing.draw_retrieval(cells))
        self.sections = [retrieval_section(cells, self.claims)]

    def figures(self) -> None:
        for outcome in figures(self.runner, self.size.figures):
            self.claims += outcome.claims
            self.frame(outcome.name, outcome.frame)
            for name, frame in outcome.extra.items():
                self.frame(f"{outcome.name}_{name}", frame)
            self.picture(outcome.name, outcome.draw(outcome.frame))
            self.sections.append(figure_section(outcome))

    def frame(self, name: str, frame: Any) -> None:
        path = self.folder / f"{name}.csv"
        frame.to_csv(path, index=False, float_format="%.6g")
        self.written.append(path)

    def picture(self, name: str, figure: Any) -> None:
        for suffix in (".png", ".svg"):
            path = self.folder / f"{name}{suffix}"
            drawing.save(figure, path)
            self.written.append(path)

    def text(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self.written.append(path)

    def _progress(self, progress: Any) -> None:
        if self.runner.callback is not None:
            cell = progress.cell
            self.runner.callback(progress.done, progress.total, f"{cell.data} {cell.method}")


def _loaded(sets: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return sets by name."""
    return dict(sets) if isinstance(sets, Mapping) else {name: load_dataset(name) for name in sets}
