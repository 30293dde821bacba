"""Messages of the library in terms of the command line."""

import ast
import re
import shlex
from dataclasses import fields

from pigmil.cli._inputs import ReadOptions

# Parameters in messages of the library -> options.
_OPTIONS = {
    **{
        field.name: f"--{field.name.replace('_', '-')}"
        for field in fields(ReadOptions)
        if field.name not in ("read", "labels")
    },
    "bag_labels": "--labels",
    "lossy": "--lossy",
    "groups": "--group",
    "pos_label": "--positive",
    "time_limit": "--time-limit",
    # What only some formats have is passed on by name.
    **{
        name: f"--read {name}="
        for name in (
            "header", "nominal", "names", "n_features", "columns", "zero_based", "trusted", "layer",
            "obsm", "memory_map", "dtype", "ids", "labels",
        )
    },
    "number_ids": "--write number_ids=",
}  # fmt: skip
_SENTENCES = {
    "or read it with missing='keep' and impute.": "or pass --impute median.",
    "Pass labels={old: new, ...}.": "Name the positive label with --positive.",
    "groups='duplicates'": "--group-duplicates",
    " (or pass folder=)": "",
    "pass the full names of its classes as trusted=[...]": "load it in Python: load_model has a "
    "parameter for the names of its classes",
    "pass extent=(width, height).": "give them in the columns level0_width and level0_height of "
    "--labels.",
    "pass scale=, the": "pass --scale, the",
    "; give them all with labels=.": "; give them all with --labels.",
    ", or choose the features with features=[...].": ".",
}
_PARAMETER = re.compile(
    r"(?<![\w.])(?<!--read )(?<!--write )(?<!--set )([a-z_]+)="
    r"(\[\.\.\.\]|\[(?:'[^']*'|\"[^\"]*\"|, )+\]|True\b|False\b|'[^']*'|\"[^\"]*\"|-?\d+)?"
)


def as_options(message: str, **names: str) -> str:
    """Replace the Python parameters that a message names by options of the command line.

    Parameters of methods stay: they are those of ``--set name=value``. Applied twice it changes
    nothing more.

    Parameters
    ----------
    message : str
        Message of an error.
    **names : str
        Options, without dashes, of parameters for which this command has another name.

    Examples
    --------
    >>> as_options("Say with bag= what it is, or pass lossy=True or header=False.")
    'Say with --bag what it is, or pass --lossy or --read header=False.'
    >>> as_options("Keep them with info=['smiles', 'name'].")
    'Keep them with --info smiles --info name.'
    """
    for sentence, replacement in _SENTENCES.items():
        message = message.replace(sentence, replacement)

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or ""
        if value[:1] in "'\"" and value:
            value = shlex.quote(ast.literal_eval(value))
        flag = f"--{names[name]}" if name in names else _OPTIONS.get(name)
        if flag is None:
            return match[0]
        if flag.endswith("="):
            return flag + (value or "VALUE")
        if value.startswith("[") and value != "[...]":
            return " ".join(f"{flag} {shlex.quote(one)}" for one in ast.literal_eval(value))
        return flag if value in ("", "True", "[...]") else f"{flag} {value}"

    return _PARAMETER.sub(option, message)
