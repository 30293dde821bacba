"""Results of a comparison: tables, ranks, significance, and files for papers and machines."""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pigmil._core.optional import import_optional
from pigmil.evaluation.statistics import Comparison, compare_over_datasets, corrected_t_test
from pigmil.evaluation.store import Store

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
        self.failures = [
            {key: row[key] for key in ("data", "method", "repeat", "fold", "error")}
            for row in rows
            if row["status"] == "failed"
        ]

    @classmethod
    def from_store(cls, path: str | os.PathLike[str]) -> "Results":
        """Read everything that a store holds."""
        with Store(path) as store:
            findings = {row["data"]: row["found"] for row in store.audits()}
            return cls(store.rows(), findings=findings, path=Path(path))

    @property
    def frame(self) -> Any:
        """One row a finished cell, one column a metric, as a pandas DataFrame."""
        pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
        named = ("data", "method", "repeat", "fold")
        return pd.DataFrame(
            [
                {key: row[key] for key in named}
                | {key: value for key, value in row["metrics"].items() if key != "warnings"}
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
            Over all cells; ``"text"`` is "mean ± std" ready to print.

        Returns
        -------
        pandas.DataFrame
        """
        frame = self.frame
        if frame.empty or metric not in frame:
            have = sorted(set(frame.columns) - {"data", "method", "repeat", "fold"})
            raise ValueError(f"There are no results for {metric!r}; there are {', '.join(have)}.")
        scale = 100.0 if metric in _SHARES else 1.0
        order = dict.fromkeys(frame["data"]), dict.fromkeys(frame["method"])
        groups = frame.groupby(["data", "method"])[metric]
        tables = {
            "mean": groups.mean() * scale,
            "std": groups.std(ddof=0) * scale,
            "count": groups.count(),
        }
        if statistic == "text":
            mean, std = tables["mean"].unstack(), tables["std"].unstack()
            text = mean.round(1).astype(str) + " ± " + std.round(1).astype(str)
            return text.where(mean.notna(), "-").reindex(index=order[0], columns=order[1])
        return tables[statistic].unstack().reindex(index=order[0], columns=order[1])

    def ranks(self, metric: str = "accuracy") -> Any:
        """Average rank of each method over the data sets, 1 is best."""
        return self.significance(metric).ranks

    def significance(self, metric: str = "accuracy") -> Comparison:
        """Friedman, Nemenyi and Wilcoxon-Holm over the data sets."""
        return compare_over_datasets(self.table(metric))

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
        folds = json.loads(self.rows[0]["protocol"])["folds"] if self.rows else 10
        found = []
        for data, part in self.frame.groupby("data", sort=False):
            wide = part.pivot_table(index=["repeat", "fold"], columns="method", values=metric)
            for method in wide.columns.drop(baseline):
                pair = wide[[method, baseline]].dropna()
                t, p = corrected_t_test(
                    pair[method], pair[baseline], test_share=1 / max(1, folds - 1)
                )
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
        path = Path(path)
        writers: dict[str, Callable[[str], Any]] = {
            ".md": lambda to: Path(to).write_text(self._markdown(metric), encoding="utf-8"),
            ".tex": lambda to: Path(to).write_text(self._latex(metric), encoding="utf-8"),
            ".csv": lambda to: self.frame.to_csv(to, index=False),
            ".parquet": lambda to: self.frame.to_parquet(to, index=False),
            ".json": lambda to: Path(to).write_text(self._json(), encoding="utf-8"),
        }
        if path.suffix not in writers:
            raise ValueError(f"Cannot export to '{path.name}'; suffixes are {', '.join(writers)}.")
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        try:
            writers[path.suffix](name)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return path

    def _markdown(self, metric: str) -> str:
        text = self.table(metric, statistic="text")
        head = "| data set | " + " | ".join(map(_cell, text.columns)) + " |"
        rule = "|---" * (len(text.columns) + 1) + "|"
        body = [f"| {_cell(name)} | " + " | ".join(row) + " |" for name, row in text.iterrows()]
        failed = [
            f"- {_cell(item['method'])} on {_cell(item['data'])}, repeat {item['repeat']}, fold "
            f"{item['fold']}: {_cell(item['error'])}"
            for item in self.failures
        ]
        told = [
            f"- {_cell(name)}: {_cell(item['message'])}"
            for name, found in self.findings.items()
            for item in found
        ]
        parts = ["\n".join([head, rule, *body])]
        if failed:
            parts.append(f"{len(failed)} cells failed:\n\n" + "\n".join(failed))
        if told:
            parts.append("The audit of the data found:\n\n" + "\n".join(told))
        return "\n\n".join(parts) + "\n"

    def _latex(self, metric: str) -> str:
        mean, std = self.table(metric), self.table(metric, statistic="std")
        lines = [
            rf"\begin{{tabular}}{{l{'r' * len(mean.columns)}}}",
            r"\toprule",
            " & ".join(["data set", *map(_latex_text, mean.columns)]) + r" \\",
            r"\midrule",
        ]
        for name, row in mean.iterrows():
            best = row.max()
            cells = []
            for method, value in row.items():
                if value != value:
                    cells.append("--")
                    continue
                cell = rf"{value:.1f} $\pm$ {std.loc[name, method]:.1f}"
                cells.append(rf"\textbf{{{cell}}}" if value == best else cell)
            lines.append(" & ".join([_latex_text(name), *cells]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def _json(self) -> str:
        content = {"rows": self.rows, "failures": self.failures, "findings": self.findings}
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def summary(self) -> str:
        """How many cells there are, how many failed, and with what."""
        done = len(self.rows) - len(self.failures)
        text = f"{done} cells done, {len(self.failures)} failed"
        kinds = dict.fromkeys(f"{item['method']}: {item['error']}" for item in self.failures)
        return "\n".join([text, *(f"- {kind}" for kind in list(kinds)[:10])])

    def __repr__(self) -> str:
        return f"Results({self.summary().splitlines()[0]})"


def _cell(text: Any) -> str:
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _latex_text(text: Any) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    return "".join(special.get(sign, sign) for sign in str(text))
