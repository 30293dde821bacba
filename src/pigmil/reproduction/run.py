"""The paper's experiments in one call: numbers, figures, and a page on what matches."""

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pigmil._core.errors import PigmilError
from pigmil._core.files import atomic_write_folder
from pigmil.datasets import load_dataset
from pigmil.evaluation.results import Results
from pigmil.evaluation.store import Store
from pigmil.reproduction.claims import Claim, table1_claims, table2_claims
from pigmil.reproduction.figures import FigureSize, Outcome, figures
from pigmil.reproduction.pages import environment, page, strict_json
from pigmil.reproduction.printed_tables import REAL
from pigmil.reproduction.tables import table1, table2

__all__ = ["PARTS", "Size", "figures", "reproduce", "table1", "table2"]

PARTS = ("table1", "table2", "figures", "all")
_logger = logging.getLogger("pigmil")


@dataclass(frozen=True)
class Size:
    """How much is computed, and what that leaves out.

    Attributes
    ----------
    seeds : int
        Draws of each synthetic set for Table I.
    sets : sequence of str, or mapping of name to bags
        Real sets of Table II.
    repeats, folds : int
        Of their cross-validation.
    figures : FigureSize
        Seeds and points of the curves.
    left_out : mapping of part to str
        Said on the page.
    """

    seeds: int = 50
    sets: Sequence[str] | Mapping[str, Any] = tuple(REAL)
    repeats: int = 5
    folds: int = 10
    figures: FigureSize = field(default_factory=FigureSize)
    left_out: Mapping[str, str] = field(default_factory=dict)


FULL = Size()
QUICK = Size(
    seeds=4,
    sets=("musk1", "tiger", "eastwest"),
    repeats=1,
    folds=3,
    figures=FigureSize(
        seeds=3,
        ratios=(0.125, 1.0, 8.0),
        levels=(0, 1, 3, 5),
        fractions=(20, 40, 70, 100),
    ),
    left_out={
        "table1": "Table I: 4 draws of each set in place of 50.",
        "table2": "Table II: Musk-1, Tiger and Eastwest only, 1 x 3 folds in place of 5 x 10; the "
        "other eight sets are left out.",
        "figures": "Figures: 3 seeds in place of 20, three ratios in place of seven, four noise "
        "levels of six and four sizes of working sets of nine.",
    },
)


def reproduce(
    which: str = "all",
    output: Any = "pigmil-reproduction",
    *,
    quick: bool = False,
    n_jobs: int | None = None,
    callback: Callable[[int, int, str], None] | None = None,
    size: Size | None = None,
    store: Any = None,
) -> list[Path]:
    """Reproduce the paper's tables and figures into a folder.

    Parameters
    ----------
    which : {"table1", "table2", "figures", "all"}, default="all"
        What to reproduce.
    output : path, default="pigmil-reproduction"
        The folder: ``README.md`` with what matches and what does not, numbers as CSV, JSON and
        Markdown, figures as PNG and SVG, ``environment.json``, and ``results.sqlite`` with every
        fit. Called again with the same folder it goes on where it was stopped.
    quick : bool, default=False
        A small run of about two minutes, which says what it leaves out.
    n_jobs : int, optional
        Parallel fits.
    callback : callable, optional
        Called with (done, total, what) after every fit; ``total`` is that of the part at work.
    size : Size, optional
        How much to compute, in place of the full or the quick size.
    store : path, optional
        File of finished fits, if not in the folder.

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
    path = Path(store) if store is not None else folder / "results.sqlite"
    start = time.perf_counter()
    parts = [part for part in PARTS[:-1] if which in (part, "all")]
    command = f"pigmil reproduce {which}" + (" --quick" if quick else "")
    with atomic_write_folder(folder) as staging:
        work = _Work(staging, path, size, n_jobs, callback)
        for part in parts:
            getattr(work, part)()
        left_out = [size.left_out[part] for part in parts if part in size.left_out]
        seconds = time.perf_counter() - start
        facts = environment(command, seconds=seconds, n_jobs=n_jobs) | work.facts
        work.text("environment.json", strict_json(facts))
        work.text("claims.json", strict_json([vars(claim) for claim in work.claims]))
        work.text("README.md", page(work.sections, work.claims, facts, left_out + work.left_out))
    names = [one.name for one in work.written if one.name != "README.md"]
    return [folder / "README.md", *(folder / name for name in names), path]


class _Work:
    """The results and files of one call; the folder is moved to its place when all are written."""

    def __init__(
        self,
        folder: Path,
        store: Path,
        size: Size,
        n_jobs: int | None,
        callback: Callable[[int, int, str], None] | None,
    ) -> None:
        self.folder, self.store, self.size, self.n_jobs = folder, store, size, n_jobs
        self.callback = callback
        self.written: list[Path] = []
        self.claims: list[Claim] = []
        self.left_out: list[str] = []
        self.sections: list[tuple[str, Any]] = []
        self.facts: dict[str, Any] = {}

    def table1(self) -> None:
        table = table1(
            seeds=self.size.seeds,
            n_jobs=self.n_jobs,
            store=self.store,
            callback=self._progress("table1"),
        )
        self.claims += table1_claims(table)
        self.frame("table1", table)
        self.sections.append(("table1", table))

    def table2(self) -> None:
        sets = self._loaded()
        if not sets:
            return
        table, results = table2(
            sets=sets,
            repeats=self.size.repeats,
            folds=self.size.folds,
            n_jobs=self.n_jobs,
            store=self.store,
            callback=self._progress("table2"),
        )
        self.claims += table2_claims(table)
        spent = results.frame[["fit_seconds", "predict_seconds"]].to_numpy().sum()
        self.facts["table2_processor_seconds"] = round(float(spent))
        self.frame("table2", table)
        self.written.append(results.export(self.folder / "table2_cells.csv"))
        self.written.append(results.export(self.folder / "table2.tex"))
        self.sections.append(("table2", (table, results, self._diagram(results))))

    def _loaded(self) -> dict[str, Any]:
        """The real sets that can be had; the page lists the others."""
        if isinstance(self.size.sets, Mapping):
            return dict(self.size.sets)
        sets = {}
        for name in self.size.sets:
            try:
                sets[name] = load_dataset(name)
            except (PigmilError, OSError) as error:
                _logger.warning("%s is left out of Table II: %s", name, error)
                reason = str(error).splitlines()[0]
                self.left_out.append(f"Table II: {REAL[name]}, which cannot be had: {reason}")
        return sets

    def _diagram(self, results: Results) -> bool:
        """Draw the critical-difference diagram, if there are data sets enough for one."""
        if results.significance().nemenyi.isna().all(axis=None):
            return False
        from pigmil.reproduction.drawing import draw_ranks

        self.picture("table2_ranks", draw_ranks(results))
        return True

    def figures(self) -> None:
        with Store(self.store) as store:
            found = figures(
                size=self.size.figures,
                n_jobs=self.n_jobs,
                store=store,
                callback=self._progress("figures"),
            )
        for outcome in found:
            self._figure(outcome)

    def _figure(self, outcome: Outcome) -> None:
        self.claims += outcome.claims
        self.frame(outcome.name, outcome.frame)
        for name, frame in outcome.extra.items():
            self.frame(f"{outcome.name}_{name}", frame)
        self.picture(outcome.name, outcome.draw(outcome.frame))
        self.sections.append(("figure", outcome))

    def frame(self, name: str, frame: Any) -> None:
        path = self.folder / f"{name}.csv"
        frame.to_csv(path, index=False, float_format="%.6g")
        self.written.append(path)

    def picture(self, name: str, figure: Any) -> None:
        from pigmil.reproduction.drawing import save

        for suffix in (".png", ".svg"):
            path = self.folder / f"{name}{suffix}"
            save(figure, path)
            self.written.append(path)

    def text(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self.written.append(path)

    def _progress(self, part: str) -> Callable[..., None]:
        return functools.partial(_pass_on, self.callback, part)


def _pass_on(callback: Callable[[int, int, str], None] | None, part: str, progress: Any) -> None:
    cell = progress.cell
    _logger.debug("%s: %d of %d", part, progress.done, progress.total)
    if callback is not None:
        callback(progress.done, progress.total, f"{part}: {cell.data} {cell.method}")
