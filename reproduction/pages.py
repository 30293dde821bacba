"""The page of a reproduction: what matches, what does not, and why."""

import json
import platform
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pigmil import __version__
from pigmil.report import Cell, Table
from reproduction.claims import FAILS, HOLDS, OPEN, Check, Claim
from reproduction.detection import CONFIGURATIONS, DISPLAY_NAMES
from reproduction.sections import bullets

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "joblib", "pandas", "matplotlib")


def environment(command: str, *, seconds: float, n_jobs: int | None) -> dict[str, Any]:
    """Return the versions and the machine behind the numbers."""
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "seconds": round(seconds, 1),
        "n_jobs": n_jobs or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "pigmil": __version__,
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def strict_json(value: Any) -> str:
    """Return JSON text; NaN is refused."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def page(parts: Sequence[dict[str, Any]]) -> str:
    """Return the whole page in Markdown, from the parts that have been computed.

    Parameters
    ----------
    parts : sequence of dict
        Each with ``part``, ``facts`` (of :func:`environment`), ``summary``, ``sections``,
        ``left_out`` and ``claims``, as in the file ``<part>.json``.
    """
    claims = [claim_from_dict(claim) for part in parts for claim in part["claims"]]
    blocks = [
        "# The results of the PIGMIL paper, computed again",
        "A bag is a set of instances, and a positive bag holds at least one positive instance, but "
        "nobody says which. PIGMIL looks for these instances and then classifies bags by them. Its "
        "paper reports that it finds nearly all of them on three small synthetic sets, where the "
        "truth is known, that it classifies bags better than most other methods on eleven real "
        "sets, and how it reacts to noise and to its settings. This page repeats the experiments.",
        bullets([part["summary"] for part in parts if part["summary"]]),
        *_claim_table(claims),
        "Three configurations are shown everywhere: `PIGMIL.paper()` follows the paper literally, "
        "`PIGMIL.faithful()` is the same algorithm with the fewest repairs that make it work, and "
        "`PIGMIL()` is the default of this library.",
        "How it was made:\n\n"
        + bullets(
            f"`{part['facts']['command']}` on {part['facts']['date']} with pigmil "
            f"{part['facts']['pigmil']}, Python {part['facts']['python']}, in "
            f"{part['facts'].get('table2_processor_seconds', part['facts']['seconds']):.0f} s. "
            + " ".join(part["left_out"])
            for part in parts
        ),
    ]
    for part in parts:
        blocks += part["sections"]
    return "\n\n".join(block.strip() for block in blocks if block) + "\n"


def claim_to_dict(claim: Claim) -> dict[str, Any]:
    """Return a claim as plain values, with its verdict."""
    return {**asdict(claim), "verdict": claim.verdict}


def claim_from_dict(values: dict[str, Any]) -> Claim:
    """Return the claim that :func:`claim_to_dict` wrote."""
    checks = tuple(Check(**check) for check in values["checks"])
    return Claim(values["about"], values["text"], checks)


def _claim_table(claims: Sequence[Claim]) -> list[str]:
    if not claims:
        return []
    counts = Counter(claim.verdict for claim in claims)
    columns = ["about", "claim", "verdict", *DISPLAY_NAMES.values()]
    rows = [
        [
            *(claim.about, claim.text, Cell(claim.verdict, bold=True)),
            *(_cell_verdict(claim, name) for name in CONFIGURATIONS),
        ]
        for claim in claims
    ]
    return [
        f"**Of {len(claims)} claims of the paper {counts[HOLDS]} can be confirmed, {counts[FAILS]} "
        f"refuted and {counts[OPEN]} not decided.** A claim is checked with every configuration "
        "and reading of the paper. A check holds if the difference it is about is positive by "
        "more than two standard errors over draws, or 2.3 to 2.7 where a claim has several "
        "checks; it does not hold if a difference of a point or more is excluded by as many. "
        "Otherwise, or where everything is at 100 % already, it cannot be decided. More than half "
        "of all checks decide a claim; the columns count them, with – where a claim is not about a "
        "configuration.",
        Table(columns, rows, left=range(len(columns))).markdown(),
    ]


def _cell_verdict(claim: Claim, name: str) -> str:
    if not any(check.configuration for check in claim.checks):
        return "–"
    counts = Counter(check.verdict for check in claim.checks if check.configuration == name)
    if len(counts) <= 1:
        return next(iter(counts), "not run")
    return ", ".join(f"{verdict}: {n}" for verdict, n in counts.items())
