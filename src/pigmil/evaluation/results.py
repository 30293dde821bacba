"""Results of a comparison: tables, ranks, significance, and files for papers and machines."""

import json
import logging
import os
from pathlib import Path
from typing import Any, ClassVar

from pigmil._core.optional import import_optional
from pigmil.evaluation.cells import PER_BAG
from pigmil.evaluation.exports import write_results
from pigmil.evaluation.statistics import (
    Comparison,
    average_ranks,
    compare_over_datasets,
    corrected_t_test,
)
from pigmil.evaluation.store import Store

_logger = logging.getLogger("pigmil")
_SHARES = ("accuracy", "balanced_accuracy", "f1", "auc", "detection_accuracy", "instance_auc",
           "instance_ap", "top1")  # fmt: skip


class Results:
    """What a comparison found.

    Parameters
    ----------
    rows : list of dict
        Cells as the store keeps them.
    findings : dict of str to list, optional
        What the audit of each data set found.
    path : Path, optional
        The store.

    Attributes
    ----------
    rows : list of dict
        All cells, failed ones too.
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
            {key: row[key] for key in ("data", "method", "repeat", "fold", "error")}
            for row in rows
            if row["status"] == "failed"
        ]

    @classmethod
    def from_store(cls, path: str | os.PathLike[str]) -> "Results":
        """Read what a store holds.

        Where a method was run on a data set more than once, with other parameters, folds or
        another version of the library, the run that ended last counts.
        """
        with Store(path, read_only=True) as store:
            findings = {row["data"]: row["findings"] for row in store.audits()}
            rows = store.rows()
        runs: dict[tuple[str, str], dict[tuple[str, ...], float]] = {}
        for row in rows:
            ended = runs.setdefault((row["data"], row["method"]), {})
            ended[_run_of(row)] = max(ended.get(_run_of(row), 0.0), row["finished"])
        latest = {pair: max(ended, key=ended.__getitem__) for pair, ended in runs.items()}
        kept = [row for row in rows if latest[row["data"], row["method"]] == _run_of(row)]
        if len(kept) < len(rows):
            _logger.warning(
                "'%s' holds %d cells of earlier runs with other settings, left out",
                path,
                len(rows) - len(kept),
            )
        return cls(kept, findings=findings, path=Path(path))

    @property
    def frame(self) -> Any:
        """One row a finished cell, one column a metric, as a pandas DataFrame."""
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        named, no_numbers = ("data", "method", "repeat", "fold"), ("warnings", PER_BAG)
        return pd.DataFrame(
            [
                {key: row[key] for key in named}
                | {key: value for key, value in row["metrics"].items() if key not in no_numbers}
                for row in self.rows
                if row["status"] == "done"
            ]
        )

    def table(self, metric: str = "accuracy", *, statistic: str = "mean") -> Any:
        """One row a data set, one column a method.

        Parameters
        ----------
        metric : str, default="accuracy"
            Any metric of :func:`pigmil.evaluation.cells.compute_cell`. Shares are in per cent.
        statistic : {"mean", "std", "count", "text"}, default="mean"
            Over all cells; ``"text"`` is "mean ± std" ready to print, with the number of cells
            where some of them failed.

        Returns
        -------
        pandas.DataFrame
        """
        frame = self.frame
        if frame.empty or metric not in frame:
            have = sorted(set(frame.columns) - {"data", "method", "repeat", "fold"})
            raise ValueError(
                f"There are no results for {metric!r}; there are {', '.join(have) or 'none'}. "
                f"{self.summary()}"
            )
        # A method that failed everywhere keeps its column, empty.
        data = list(dict.fromkeys(row["data"] for row in self.rows))
        methods = list(dict.fromkeys(row["method"] for row in self.rows))
        scale = 100.0 if metric in _SHARES else 1.0
        groups = frame.groupby(["data", "method"])[metric]
        tables = {
            "mean": groups.mean() * scale,
            "std": groups.std(ddof=0) * scale,
            "count": groups.count(),
        }
        if statistic not in (*tables, "text"):
            raise ValueError(f"statistic must be one of {[*tables, 'text']}; got {statistic!r}.")
        shaped = {
            name: values.unstack().reindex(index=data, columns=methods)
            for name, values in tables.items()
        }
        shaped["count"] = shaped["count"].fillna(0).astype(int)
        return self._text(shaped) if statistic == "text" else shaped[statistic]

    def _text(self, tables: dict[str, Any]) -> Any:
        """Mean ± std, with how many cells there are where some failed."""
        wanted: dict[tuple[str, str], int] = {}
        for row in self.rows:
            pair = row["data"], row["method"]
            wanted[pair] = wanted.get(pair, 0) + 1
        text = tables["mean"].astype(object)
        for data in text.index:
            for method in text.columns:
                count, of = int(tables["count"].loc[data, method]), wanted.get((data, method), 0)
                told = "-"
                if count:
                    mean, std = (tables[name].loc[data, method] for name in ("mean", "std"))
                    told = f"{mean:.1f} ± {std:.1f}" + (f" ({count}/{of})" if count < of else "")
                text.loc[data, method] = told
        return text

    def ranks(self, metric: str = "accuracy") -> Any:
        """Average rank of each method over the data sets, 1 is best."""
        return average_ranks(
            self.table(metric), greater_is_better=metric not in self.lesser_is_better
        )

    def significance(self, metric: str = "accuracy") -> Comparison:
        """Friedman, Nemenyi and Wilcoxon-Holm over the data sets."""
        # Exact tests of many pairs take seconds, and a report asks for them more than once.
        if metric not in self._tested:
            self._tested[metric] = compare_over_datasets(
                self.table(metric), greater_is_better=metric not in self.lesser_is_better
            )
        return self._tested[metric]

    def paired_tests(self, metric: str = "accuracy", *, baseline: str) -> Any:
        """Corrected resampled t-test of every method against one, on each data set.

        Parameters
        ----------
        metric : str, default="accuracy"
            What is compared.
        baseline : str
            The method to compare with.

        Returns
        -------
        pandas.DataFrame
            ``data``, ``method``, ``difference``, ``t``, ``p``.
        """
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        methods = {row["method"] for row in self.rows}
        if baseline not in methods:
            raise ValueError(f"There is no method {baseline!r}; there are {sorted(methods)}.")
        folds = {row["data"]: json.loads(row["protocol"])["folds"] for row in self.rows}
        found = []
        for data, part in self.frame.groupby("data", sort=False):
            wide = part.pivot_table(index=["repeat", "fold"], columns="method", values=metric)
            for method in wide.columns.drop(baseline, errors="ignore"):
                if baseline not in wide:
                    continue
                pair = wide[[method, baseline]].dropna()
                share = 1 / max(1, folds[data] - 1)
                t, p = corrected_t_test(pair[method], pair[baseline], test_share=share)
                difference = (pair[method] - pair[baseline]).mean()
                found.append((data, method, difference, t, p))
        return pd.DataFrame(found, columns=["data", "method", "difference", "t", "p"])

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

    def export(self, path: str | os.PathLike[str], metric: str = "accuracy") -> Path:
        """Write results, in the format of the suffix.

        ``.md`` and ``.tex`` (booktabs) hold the table "mean ± std"; ``.csv``, ``.parquet`` and
        ``.json`` one row a cell.

        Parameters
        ----------
        path : path
            Where to; the file appears whole or not at all.
        metric : str, default="accuracy"
            For the tables.

        Returns
        -------
        Path
        """
        return write_results(self, path, metric)

    def summary(self) -> str:
        """How many cells there are, how many failed, and with what."""
        done = len(self.rows) - len(self.failures)
        text = f"{done} cells done, {len(self.failures)} failed"
        kinds = dict.fromkeys(f"{item['method']}: {item['error']}" for item in self.failures)
        return "\n".join([text, *(f"- {kind}" for kind in list(kinds)[:10])])

    def __repr__(self) -> str:
        return f"Results({self.summary().splitlines()[0]})"


def _run_of(row: dict[str, Any]) -> tuple[str, ...]:
    """What sets one run of a method on a data set apart from another."""
    return tuple(
        row[name] for name in ("checksum", "estimator", "parameters", "protocol", "version")
    )
