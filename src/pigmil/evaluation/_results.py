"""Results of a comparison: tables, ranks, significance, intervals and files."""

import itertools
import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pigmil._core.errors import import_optional
from pigmil._core.files import atomic_write
from pigmil._core.text import (
    Cell,
    Table,
    escape_formula,
    escape_latex,
    escape_markdown,
    to_json_safe,
)
from pigmil.evaluation._statistics import (
    MIN_FOLDS,
    Comparison,
    bootstrap_interval,
    compare_over_datasets,
    corrected_t_test,
    holm,
)
from pigmil.evaluation._store import PER_BAG, Store

_logger = logging.getLogger("pigmil")
_LEVEL = 0.05  # of the tests that decide which methods are within error of the best
_NAMES = ("data", "method", "repeat", "fold")
EXPORTS = {  # suffix of an exported file: how it begins
    ".md": "| data set |",
    ".tex": r"\begin{tabular}",
    ".csv": ",".join(_NAMES),
    ".json": '{\n "rows": [',
}
_SIGNIFICANCE = (
    "Bold: the best mean; †: within error of it (corrected resampled t-test, Holm, level 0.05)"
)


class Results:
    """Results of a comparison.

    Parameters
    ----------
    rows : list of dict
        Cells as saved in the store.
    findings : dict of str to list, optional
        Findings of the audit of each data set.
    path : Path, optional
        The store.

    Attributes
    ----------
    rows : list of dict
        All cells, failed ones included.
    failures : list of dict
        The failed ones: ``data``, ``method``, ``repeat``, ``fold``, ``error``.
    """

    lesser_is_better: ClassVar[tuple[str, ...]] = ("fit_seconds", "predict_seconds", "peak_mb")

    def __init__(
        self,
        rows: list[dict[str, Any]],
        *,
        findings: dict[str, list[dict[str, Any]]] | None = None,
        path: Path | None = None,
    ) -> None:
        self.rows = rows
        self.findings = findings or {}
        self.path = path
        self._tested: dict[str, Comparison] = {}
        self.failures = [
            {key: row[key] for key in (*_NAMES, "error")}
            for row in rows
            if row["status"] == "failed"
        ]

    @classmethod
    def from_store(cls, path: str | os.PathLike[str]) -> "Results":
        """Read the results in a store.

        Where a method was run on a data set more than once, with other parameters, folds or
        versions, the run that ended last counts.
        """
        with Store(path, read_only=True) as store:
            findings, rows = store.audits(), store.rows()
        latest = {
            (row["data"], row["method"]): _run_of(row)
            for row in sorted(rows, key=lambda row: row["finished"])
        }
        kept = [row for row in rows if latest[row["data"], row["method"]] == _run_of(row)]
        if len(kept) < len(rows):
            text = "'%s' holds %d cells of earlier runs with other settings, which are left out"
            _logger.warning(text, path, len(rows) - len(kept))
        return cls(kept, findings=findings, path=Path(path))

    @property
    def frame(self) -> Any:
        """A pandas DataFrame with one row per finished cell and one column per metric."""
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        done = [row for row in self.rows if row["status"] == "done"]
        rows = [{**{key: row[key] for key in _NAMES}, **row["metrics"]} for row in done]
        return pd.DataFrame(rows).drop(columns=["warnings", PER_BAG], errors="ignore")

    def _names(self, column: str) -> list[str]:
        """Return the data sets or the methods in their order."""
        return list(dict.fromkeys(row[column] for row in self.rows))

    def table(self, metric: str = "accuracy", *, statistic: str = "mean") -> Any:
        """Return a table with one row per data set and one column per method.

        Parameters
        ----------
        metric : str, default="accuracy"
            Any metric of :func:`pigmil.evaluation._cells.compute_cell`. Shares are in per cent.
        statistic : {"mean", "std", "count", "text", "interval"}, default="mean"
            Over all cells. ``"text"`` is "mean ± std" ready to print, with the number of cells
            where some of them failed; ``"interval"`` is "mean [low, high]", see
            :meth:`intervals`.

        Returns
        -------
        pandas.DataFrame
        """
        frame = self.frame
        if frame.empty or metric not in frame:
            have = ", ".join(sorted(set(frame.columns) - set(_NAMES))) or "none"
            raise ValueError(
                f"There are no results for {metric!r}; there are {have}. {self.summary()}"
            )
        groups = frame.groupby(["data", "method"])[metric]
        scale = 1.0 if metric in self.lesser_is_better else 100.0
        # A method that failed everywhere keeps its column, empty.
        order = {"index": self._names("data"), "columns": self._names("method")}
        mean, std, count = (
            value.unstack().reindex(**order)
            for value in (groups.mean() * scale, groups.std(ddof=0) * scale, groups.count())
        )
        tables = {"mean": mean, "std": std, "count": count.fillna(0).astype(int)}
        if statistic in tables:
            return tables[statistic]
        text = mean.astype(object)
        text[:] = "-"
        if statistic == "interval":
            for row in self.intervals(metric).dropna().itertuples():
                text.loc[row.data, row.method] = f"{row.mean:.1f} [{row.low:.1f}, {row.high:.1f}]"
        elif statistic == "text":
            wanted = Counter((row["data"], row["method"]) for row in self.rows)
            for pair, n in groups.count()[groups.count() > 0].items():
                some = f" ({n}/{wanted[pair]})" if n < wanted[pair] else ""
                text.loc[pair] = f"{mean.loc[pair]:.1f} ± {std.loc[pair]:.1f}{some}"
        else:
            known = [*tables, "text", "interval"]
            raise ValueError(f"statistic must be one of {known}; got {statistic!r}.")
        return text

    def intervals(self, metric: str = "auc") -> Any:
        """Return 95 % confidence intervals by a bootstrap over groups of bags.

        Parameters
        ----------
        metric : {"auc", "accuracy"}, default="auc"
            The metric.

        Returns
        -------
        pandas.DataFrame
            ``data``, ``method``, ``mean``, ``low``, ``high``, in per cent. See
            :func:`pigmil.evaluation._statistics.bootstrap_interval`.
        """
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        if metric not in ("auc", "accuracy"):
            raise ValueError(f"Intervals exist for 'auc' and 'accuracy'; got {metric!r}.")
        mean = self.table(metric)
        cells: dict[tuple[str, str], list[Any]] = {}
        for row in self.rows:
            if row["status"] == "done" and PER_BAG in row["metrics"]:
                cells.setdefault((row["data"], row["method"]), []).append(row["metrics"][PER_BAG])
        rows = []
        for (data, method), tested in cells.items():
            low, high = bootstrap_interval(tested, metric)
            rows.append((data, method, mean.loc[data, method], 100 * low, 100 * high))
        return pd.DataFrame(rows, columns=["data", "method", "mean", "low", "high"])

    def ranks(self, metric: str = "accuracy") -> Any:
        """Return the average rank of each method over the data sets; 1 is the best."""
        return self.significance(metric).ranks

    def significance(self, metric: str = "accuracy") -> Comparison:
        """Test differences over the data sets by Friedman, Nemenyi and Wilcoxon-Holm."""
        # Exact tests of many pairs take seconds, and a report needs them more than once.
        if metric not in self._tested:
            self._tested[metric] = compare_over_datasets(
                self.table(metric), greater_is_better=metric not in self.lesser_is_better
            )
        return self._tested[metric]

    def paired_tests(self, metric: str = "accuracy") -> Any:
        """Compare every pair of methods on each data set by the corrected resampled t-test.

        Parameters
        ----------
        metric : str, default="accuracy"
            The metric.

        Returns
        -------
        pandas.DataFrame
            ``data``, ``method``, ``rival``, ``difference``, ``t``, ``p`` and ``p_holm``, adjusted
            for the number of pairs on the data set.
        """
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        pairs = list(itertools.combinations(self._names("method"), 2))
        by_data = self.frame.groupby("data", sort=False)
        tests = [test for _, own in by_data for test in self._test(own, metric, pairs)]
        columns = ["data", "method", "rival", "difference", "t", "p", "p_holm"]
        return pd.DataFrame(tests, columns=columns)

    def _test(self, own: Any, metric: str, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        """Return rows of :meth:`paired_tests` for pairs; ``own`` is the frame of a data set."""
        data = own["data"].iloc[0]
        wide = own.pivot_table(index=["repeat", "fold"], columns="method", values=metric)
        protocols = [row["protocol"] for row in self.rows if row["data"] == data]
        share = 1 / max(1, json.loads(protocols[-1])["folds"] - 1)
        tests = []
        for method, rival in pairs:
            if method in wide and rival in wide:
                both = wide[[method, rival]].dropna()
                t, p = corrected_t_test(both[method], both[rival], test_share=share)
                tests.append((data, method, rival, (both[method] - both[rival]).mean(), t, p))
        adjusted = holm([test[-1] for test in tests])
        return [(*test, float(p)) for test, p in zip(tests, adjusted, strict=True)]

    def within_error(self, metric: str = "accuracy") -> Any:
        """Return which methods are the best on a data set, or not significantly worse.

        Each method is compared with the one of best mean by the corrected resampled t-test, with
        Holm's correction, at level 0.05. Without enough folds for a test no difference is
        significant.

        Returns
        -------
        pandas.DataFrame
            Of bool, shaped as :meth:`table`.
        """
        marked, bests = self.table(metric).notna(), self.best(metric)
        for data, own in self.frame.groupby("data", sort=False):
            best = bests.get(data, "")
            rivals = [(name, best) for name in marked if marked.loc[data, name] and name != best]
            for _, name, _, _, _, _, p in self._test(own, metric, rivals):
                marked.loc[data, name] = not p < _LEVEL
        return marked

    def n_folds(self, data: str, metric: str = "accuracy") -> int:
        """Return the number of folds, over all repeats, with a result on a data set."""
        return int(self.table(metric, statistic="count").loc[data].max())

    def decides(self, data: str, metric: str = "accuracy") -> bool:
        """Return whether a data set has enough folds for a test to find a difference."""
        return self.n_folds(data, metric) >= MIN_FOLDS

    def best(self, metric: str = "accuracy") -> dict[str, str]:
        """Return the method with the best mean on each data set."""
        pick = "idxmin" if metric in self.lesser_is_better else "idxmax"
        rows = ((data, row.dropna()) for data, row in self.table(metric).iterrows())
        return {data: getattr(row, pick)() for data, row in rows if len(row)}

    def best_methods(self, metric: str = "accuracy") -> list[str]:
        """Return one sentence per data set: the best method, and those within error of it."""
        mean, marked = self.table(metric), self.within_error(metric)
        sentences = []
        for data, best in self.best(metric).items():
            if mean.loc[data].notna().sum() < 2:
                continue
            rivals = [name for name in mean if marked.loc[data, name] and name != best]
            if not self.decides(data, metric):
                worse = f"{self.n_folds(data, metric)} folds are too few to test the others"
            elif rivals:
                worse = "not significantly worse: " + ", ".join(rivals)
            else:
                worse = "all others are significantly worse"
            sentences.append(f"{data}: {best} has the best mean; {worse}")
        return sentences

    def critical_difference(self, metric: str = "accuracy", *, ax: Any = None) -> Any:
        """Draw the critical-difference diagram and return its axes."""
        plt = import_optional("matplotlib.pyplot", extra="plot", purpose="Drawing a diagram")
        posthocs = import_optional("scikit_posthocs", extra="evaluation", purpose="The diagram")
        outcome = self.significance(metric)
        if outcome.nemenyi.isna().all(axis=None):
            raise ValueError(
                "A critical-difference diagram needs at least three methods and two data sets "
                "with results for all of them."
            )
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.4 * len(outcome.ranks) + 1), layout="constrained")
        posthocs.critical_difference_diagram(outcome.ranks, outcome.nemenyi, ax=ax)
        return ax

    def notes(self, metric: str = "accuracy") -> list[str]:
        """Return paragraphs of Markdown: the best, intervals, failures and findings."""
        text = escape_markdown
        best = [f"{text(line)}." for line in self.best_methods(metric)]
        failed = [
            f"{text(item['method'])} on {text(item['data'])}, repeat {item['repeat']}, "
            f"fold {item['fold']}: {text(item['error'])}"
            for item in self.failures
        ]
        found = [
            f"{text(name)}: {text(item['message'])}"
            for name, findings in self.findings.items()
            for item in findings
        ]
        intervals = []
        if metric in ("accuracy", "auc") and len(self.intervals(metric)):
            table = self.table(metric, statistic="interval")
            rows = Table(["data set", *table.columns], table.reset_index().to_numpy())
            how = "Mean with 95 % interval (bootstrap over groups of bags):"
            intervals = [f"{how}\n\n{rows.markdown()}"]
        return [
            *_bullets(f"{_SIGNIFICANCE}:", best),
            *intervals,
            *_bullets(f"{len(failed)} cells failed:", failed),
            *_bullets("The audit of the data found:", found),
        ]

    def best_table(self, metric: str = "accuracy", *, statistic: str = "text") -> Table:
        """Return a table of text, in which the best mean is bold and those within error are marked.

        Without enough folds to decide which means are within error, none is marked.

        Parameters
        ----------
        metric, statistic
            As in :meth:`table`.

        Returns
        -------
        pigmil.report.Table
        """
        text, within = self.table(metric, statistic=statistic), self.within_error(metric)
        bests, rows = self.best(metric), []
        for data in text.index:
            best, decides = bests.get(data), self.decides(data, metric)
            marked = [bool(decides and within.loc[data, name] and name != best) for name in text]
            cells = zip(text.loc[data], [name == best for name in text], marked, strict=True)
            rows.append([data, *(Cell(*cell) for cell in cells)])
        return Table(["data set", *text.columns], rows)

    def _markdown(self, metric: str) -> str:
        return "\n\n".join([self.best_table(metric).markdown(), *self.notes(metric)]) + "\n"

    def _latex(self, metric: str) -> str:
        text = self.best_table(metric).latex() + "\n"
        best = " ".join(f"{escape_latex(line)}." for line in self.best_methods(metric))
        note = escape_latex(_SIGNIFICANCE)
        return f"{text}\n\\par\\footnotesize {note}. {best}\n" if best else text

    def _json(self) -> str:
        content = {"rows": self.rows, "failures": self.failures, "findings": self.findings}
        safe = to_json_safe(content)
        return json.dumps(safe, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def export(self, path: str | os.PathLike[str], metric: str = "accuracy") -> Path:
        """Write results, in the format of the suffix.

        ``.md`` and ``.tex`` (booktabs) hold the table "mean ± std"; ``.csv`` and ``.json`` one row
        per cell.

        Parameters
        ----------
        path : path
            The file; it is written atomically.
        metric : str, default="accuracy"
            For the tables.

        Returns
        -------
        Path
        """
        path = Path(path)
        texts: dict[str, Callable[[], str]] = {
            ".md": lambda: self._markdown(metric),
            ".tex": lambda: self._latex(metric),
            ".csv": lambda: self.frame.map(escape_formula).to_csv(index=False),
            ".json": self._json,
        }
        if path.suffix not in texts:
            raise ValueError(f"Cannot export to '{path.name}'; suffixes are {', '.join(texts)}.")
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(texts[path.suffix](), encoding="utf-8")
        return path

    def summary(self) -> str:
        """Return the number of cells, how many failed, and their errors."""
        done = len(self.rows) - len(self.failures)
        text = f"{done} cells done, {len(self.failures)} failed"
        kinds = dict.fromkeys(f"{item['method']}: {item['error']}" for item in self.failures)
        return "\n".join([text, *(f"- {kind}" for kind in list(kinds)[:10])])

    def __repr__(self) -> str:
        return f"Results({self.summary().splitlines()[0]})"


def holds_results(path: Path) -> bool:
    """Return whether a file begins as one that :meth:`Results.export` writes, or is empty."""
    beginning = EXPORTS[path.suffix.lower()].encode()
    with path.open("rb") as file:
        return file.read(len(beginning)) in (b"", beginning)


def _bullets(title: str, lines: Sequence[str]) -> list[str]:
    """Return a paragraph and its list; nothing if the list is empty."""
    return [f"{title}\n\n" + "\n".join(f"- {line}" for line in lines)] if lines else []


def _run_of(row: dict[str, Any]) -> tuple[str, ...]:
    """Return what distinguishes one run of a method on a data set from another."""
    names = ("checksum", "estimator", "parameters", "protocol", "version")
    return tuple(row[name] for name in names)
