"""The paper's experiments in one call: numbers, figures, and a page on what matches."""

import functools
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pigmil._core.errors import PigmilError
from pigmil._core.files import atomic_write_folder
from pigmil.datasets import load_dataset
from pigmil.evaluation._results import Results
from pigmil.evaluation._store import Store
from pigmil.reproduction._ablation import LABELLED_SETS, ablation, ablation_latex
from pigmil.reproduction._claims import Claim, table1_claims, table2_claims
from pigmil.reproduction._detection import CONFIGURATIONS, DISPLAY_NAMES
from pigmil.reproduction._figures import FigureSize, Outcome, figures
from pigmil.reproduction._pages import claim_to_dict, environment, page, strict_json
from pigmil.reproduction._pools import pools
from pigmil.reproduction._printed_tables import REAL
from pigmil.reproduction._sections import (
    ablation_section,
    figure_section,
    pools_section,
    pools_summary,
    table1_section,
    table2_section,
    table2_summary,
)
from pigmil.reproduction._tables import AVERAGE, table1, table1_latex, table2

__all__ = ["PARTS", "Size", "ablation", "figures", "pools", "reproduce", "table1", "table2"]

PARTS = ("table1", "table2", "pools", "ablation", "figures", "all")
_logger = logging.getLogger("pigmil")


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
    pool_repeats, pool_folds : int
        Of their cross-validation in the comparison of pools.
    ablation_seeds : int
        Draws of each synthetic set for the ablation.
    labelled : sequence of str
        Real sets with labelled instances for the ablation and the comparison of pools.
    figures : FigureSize
        Seeds and points of the curves.
    left_out : mapping of part to str
        Said on the page.
    """

    seeds: int = 20
    sets: Sequence[str] | Mapping[str, Any] = tuple(REAL)
    repeats: int = 5
    folds: int = 10
    pool_repeats: int = 1
    pool_folds: int = 10
    ablation_seeds: int = 10
    labelled: Sequence[str] = LABELLED_SETS
    figures: FigureSize = field(default_factory=FigureSize)
    left_out: Mapping[str, str] = field(default_factory=dict)


FULL = Size()
QUICK = Size(
    seeds=4,
    sets=("musk1", "tiger", "eastwest"),
    repeats=1,
    folds=3,
    pool_folds=3,
    ablation_seeds=2,
    labelled=("letter_frost_e",),
    figures=FigureSize(
        seeds=2,
        ratios=(0.125, 1.0, 8.0),
        levels=(0, 3, 5),
        fractions=(20, 40, 100),
    ),
    left_out={
        "table1": "Table I: 4 draws of each set in place of 20.",
        "table2": "Table II: Musk-1, Tiger and Eastwest only, 1 x 3 folds in place of 5 x 10; the "
        "other eight sets are left out.",
        "pools": "Pools: Musk-1, Tiger, Eastwest and one labelled set only, 3 folds in place of "
        "10.",
        "ablation": "Ablation: 2 draws in place of 10, one labelled set of six.",
        "figures": "Figures: 2 seeds in place of 10, three ratios in place of five, three noise "
        "levels of six and three sizes of working sets of five.",
    },
)


def reproduce(
    which: str = "all",
    output: Any = "pigmil-reproduction",
    *,
    quick: bool = False,
    seeds: int | None = None,
    n_jobs: int | None = None,
    callback: Callable[[int, int, str], None] | None = None,
    size: Size | None = None,
    store: Any = None,
) -> list[Path]:
    """Reproduce the paper's tables and figures into a folder.

    Parameters
    ----------
    which : {"table1", "table2", "pools", "ablation", "figures", "all"}, default="all"
        What to reproduce. ``"pools"`` compares the bag accuracy of the detected pool with that of
        others; ``"ablation"`` leaves out each piece of the method in turn.
    output : path, default="pigmil-reproduction"
        The folder: ``README.md`` with what matches and what does not, numbers as CSV, JSON, LaTeX
        and Markdown, figures as PNG and SVG, ``environment.json``, and ``results.sqlite`` with
        every fit. Called again with the same folder it goes on where it was stopped; the page
        shows all parts that the folder holds.
    quick : bool, default=False
        A small run of a few minutes, which says what it leaves out.
    seeds : int, optional
        Draws of each synthetic set, in place of those of the size.
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
    if seeds is not None:
        size = replace(
            size, seeds=seeds, ablation_seeds=seeds, figures=replace(size.figures, seeds=seeds)
        )
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    path = Path(store) if store is not None else folder / "results.sqlite"
    options = (" --quick" if quick else "") + (f" --seeds {seeds}" if seeds is not None else "")
    with atomic_write_folder(folder) as staging:
        work = _Work(staging, path, size, n_jobs, callback)
        for part in [part for part in PARTS[:-1] if which in (part, "all")]:
            work.run(part, f"pigmil reproduce {part}{options}")
        # Parts of earlier calls stay on the page.
        found = {path.name: path for at in (folder, staging) for path in Path(at).glob("*.json")}
        known = [found[f"{part}.json"] for part in PARTS[:-1] if f"{part}.json" in found]
        parts = [json.loads(file.read_text(encoding="utf-8")) for file in known]
        claims = [claim for part in parts for claim in part["claims"]]
        work.text("environment.json", strict_json({part["part"]: part["facts"] for part in parts}))
        work.text("claims.json", strict_json(claims))
        work.text("README.md", page(parts))
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
        self.sections: list[str] = []
        self.summary = ""
        self.facts: dict[str, Any] = {}

    def run(self, part: str, command: str) -> None:
        """Compute a part and write its numbers, figures and its share of the page."""
        self.claims, self.left_out, self.sections, self.summary, self.facts = [], [], [], "", {}
        start = time.perf_counter()
        getattr(self, part)()
        facts = environment(command, seconds=time.perf_counter() - start, n_jobs=self.n_jobs)
        left_out = [self.size.left_out[part]] if part in self.size.left_out else []
        record = {
            "part": part,
            "facts": facts | self.facts,
            "summary": self.summary,
            "left_out": left_out + self.left_out,
            "sections": self.sections,
            "claims": [claim_to_dict(claim) for claim in self.claims],
        }
        self.text(f"{part}.json", strict_json(record))

    def table1(self) -> None:
        with Store(self.store) as store:
            table, cells = table1(
                seeds=self.size.seeds,
                n_jobs=self.n_jobs,
                store=store,
                callback=self._progress("table1"),
            )
        self.claims = table1_claims(cells)
        self.frame("table1", table)
        self.text("table1.tex", table1_latex(table))
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
        sets = self._loaded("Table II")
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
        self.claims = table2_claims(table)
        spent = results.frame[["fit_seconds", "predict_seconds"]].to_numpy().sum()
        self.facts["table2_processor_seconds"] = round(float(spent))
        self.frame("table2", table)
        self.written.append(results.export(self.folder / "table2_cells.csv"))
        self.written.append(results.export(self.folder / "table2.tex"))
        self.sections = [table2_section(table, results, self._diagram(results), self.claims)]
        self.summary = table2_summary(table)

    def pools(self) -> None:
        sets = self._loaded("The comparison of pools")
        for name in self.size.labelled:
            bags = self._try_to_load(name, "The comparison of pools")
            if bags is not None:
                sets[name] = bags
        if not sets:
            return
        with Store(self.store) as store:
            table = pools(
                sets,
                repeats=self.size.pool_repeats,
                folds=self.size.pool_folds,
                n_jobs=self.n_jobs,
                store=store,
                callback=self._progress("pools"),
            )
        self.frame("pools", table)
        self.sections = [pools_section(table)]
        self.summary = pools_summary(table)

    def ablation(self) -> None:
        with Store(self.store) as store:
            table = ablation(
                seeds=self.size.ablation_seeds,
                labelled=self._available(self.size.labelled),
                n_jobs=self.n_jobs,
                store=store,
                callback=self._progress("ablation"),
            )
        self.frame("ablation", table)
        self.text("ablation.tex", ablation_latex(table))
        self.sections = [ablation_section(table)]

    def _available(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self._try_to_load(name, "The ablation") is not None]

    def _try_to_load(self, name: str, part: str) -> Any:
        """Return a real set, or None after noting why it is not available."""
        try:
            return load_dataset(name)
        except (PigmilError, OSError) as error:
            _logger.warning("%s is left out of %s: %s", name, part, error)
            reason = str(error).splitlines()[0]
            self.left_out.append(
                f"{part}: {REAL.get(name, name)}, which is not available: {reason}"
            )
            return None

    def _loaded(self, part: str) -> dict[str, Any]:
        """Return the real sets that are available; the page lists the others."""
        if isinstance(self.size.sets, Mapping):
            return dict(self.size.sets)
        sets = {name: self._try_to_load(name, part) for name in self.size.sets}
        return {name: bags for name, bags in sets.items() if bags is not None}

    def _diagram(self, results: Results) -> bool:
        """Draw the critical-difference diagram, if there are data sets enough for one."""
        if results.significance().nemenyi.isna().all(axis=None):
            return False
        from pigmil.reproduction._drawing import draw_ranks

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
        self.sections[0] = (
            f"Figures: the shares and curves are means over {self.size.figures.seeds} seeds, with "
            f"bands from the 10th to the 90th percentile.\n\n{self.sections[0]}"
        )

    def _figure(self, outcome: Outcome) -> None:
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
        from pigmil.reproduction._drawing import save

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
