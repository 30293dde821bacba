"""Files that commands write: checks before the work begins, and tables."""

import json
from pathlib import Path
from typing import Any

from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional
from pigmil._core.text import escape_formula, to_json_safe

TABLES = (".csv", ".tsv", ".parquet", ".json")
REPORTS = (".html", ".htm", ".md")


def check_targets(source: str, targets: dict[str, Path | None], suffixes: Any) -> None:
    """Raise an error for files that cannot be written or would overwrite the data.

    Parameters
    ----------
    source : str
        The data that the command reads.
    targets : dict of str to Path
        Files by option; None if not requested.
    suffixes : dict of str to sequence of str
        Allowed suffixes by option; all if an option is missing.
    """
    used: dict[Path, str] = {Path(source).resolve(): "the data"}
    for option, path in targets.items():
        if path is None:
            continue
        allowed = suffixes.get(option)
        if allowed and path.suffix.lower() not in allowed:
            raise ValueError(
                f"{option}: cannot write '{path}'; the suffix must be {', '.join(allowed)}."
            )
        if path.is_dir() or not path.absolute().parent.is_dir():
            what = "is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
            raise ValueError(f"{option}: cannot write '{path}': {what}.")
        if path.exists() and not path.is_file():
            raise ValueError(f"{option}: cannot write '{path}': it is not a regular file.")
        if path.resolve() in used:
            raise ValueError(
                f"{option}: '{path}' would overwrite {used[path.resolve()]}; choose another name."
            )
        used[path.resolve()] = option


def write_table(columns: dict[str, Any], path: Path, *, raw: bool = False) -> Path:
    """Write a table as .csv, .tsv, .parquet or .json (records).

    Parameters
    ----------
    columns : dict of str to array
        Values by column name.
    path : Path
        The file; it is replaced only when the table is complete.
    raw : bool, default=False
        Write text to .csv and .tsv unchanged, also where a spreadsheet would run it as a formula.
    """
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise ValueError(f"Cannot write '{path}': the suffix must be {', '.join(TABLES)}.")
    pa = import_optional("pyarrow", extra="io", purpose="Writing a table")
    ready = {name: _to_arrow(values) for name, values in columns.items()}
    if suffix in (".csv", ".tsv") and not raw:
        ready = {
            escape_formula(name): list(map(escape_formula, values))
            if isinstance(values, list)
            else values
            for name, values in ready.items()
        }
    table = pa.table(ready)
    with atomic_write(path) as temporary:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet").write_table(
                table, temporary
            )
        elif suffix == ".json":
            records = json.dumps(
                to_json_safe(table.to_pylist()), ensure_ascii=False, allow_nan=False
            )
            temporary.write_text(records + "\n", "utf-8")
        else:
            csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, temporary, csv.WriteOptions(delimiter=delimiter))
    return path


def _to_arrow(values: Any) -> Any:
    import numpy as np

    array = np.asarray(values)
    return [str(value) for value in array] if array.dtype.kind in "OU" else array
