"""Retrieval by the detected instance, by other instances and by whole bags (Figure 1)."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from pigmil import PIGMIL, Bags, BagScaler, SoftPIGMIL
from pigmil.distances import bag_distances
from pigmil.retrieval import InstanceIndex
from reproduction.claims import Check, Claim, bound_of, decide
from reproduction.detection import Runner
from reproduction.printed import REAL
from reproduction.sections import markdown_table, verdicts

ANIMALS = ("elephant", "fox", "tiger")
# The bag classifier of PIGMIL has no part in its scores: nothing of it is searched.
METHODS = {
    "SoftPIGMIL": SoftPIGMIL(random_state=0),
    "PIGMIL": PIGMIL(C=1.0, embedding_decay=1.0, prototypes="pool", random_state=0),
}
DETECTED, RANDOM, ALONE = "detected instance", "random instance", "score alone"
TRUE, FALSE = "true positive", "false positive"
MEASURES = ("precision", "average_precision")
WEIGHT = 0.3  # of the score, the default of InstanceIndex
FIRST = 10  # bags of which the precision is reported
_HAUSDORFF = {"min-min": "minimal Hausdorff", "symmetric mean-min": "average Hausdorff"}


def half_and_rest(sets: Mapping[str, Bags], name: str, seed: int) -> tuple[Bags, Bags, Any]:
    """Return half of a set, the bags to index, and which of these are relevant.

    Indexed are the other half of the set and the positive bags of the other half of the other
    sets, without those that are also in the set itself.
    """
    held_out = {}
    for at, (other, bags) in enumerate(sets.items()):
        order = np.random.default_rng([seed, at]).permutation(bags.n_bags)
        held_out[other] = bags[np.sort(order[bags.n_bags // 2 :])]
        if other == name:
            train = bags[np.sort(order[: bags.n_bags // 2])]
    own = held_out.pop(name)
    # Sets share pictures (114 of Tiger's are in Fox): none is indexed twice or was learned from.
    seen = {_content(instances) for bags in (train, own) for instances in bags}
    arrays = [np.asarray(instances) for instances in own]
    for bags in held_out.values():
        for instances in bags[bags.y == bags.y.max()]:
            if _content(instances) not in seen:
                seen.add(_content(instances))
                arrays.append(np.asarray(instances))
    relevant = np.zeros(len(arrays), dtype=bool)
    relevant[: own.n_bags] = own.y == own.y.max()
    labels = own.instance_labels if len(sets) == 1 else None
    return train, Bags.from_list(arrays, ids=range(len(arrays)), instance_labels=labels), relevant


def _content(instances: Any) -> bytes:
    return np.sort(np.asarray(instances, dtype=np.float32), axis=0).tobytes()


def quality(relevant: Any) -> tuple[float, float]:
    """Return the precision of the first ten and the average precision of a ranking, in per cent.

    Examples
    --------
    >>> quality([True, False, True, False])
    (50.0, 83.33333333333333)
    """
    found = np.asarray(relevant, dtype=bool)
    precision = np.cumsum(found) / np.arange(1, len(found) + 1)
    return 100 * float(found[:FIRST].mean()), 100 * float(precision[found].mean())


def retrieve(sets: Mapping[str, Bags], name: str, method: str, seed: int) -> dict[str, Any]:
    """Fit a method to half of a set and rank the other bags for every positive bag of the rest.

    Returns
    -------
    dict
        Name of the ranking to the mean over queries of what :func:`quality` returns. With labels
        of instances also by a true and by a false positive of the query.
    """
    train, bags, relevant = half_and_rest(sets, name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(BagScaler(), clone(METHODS[method])).fit(train, train.y)
    rng, scaled = np.random.default_rng(seed), BagScaler().fit_transform(bags)
    whole = bag_distances(scaled, scaled, tuple(_HAUSDORFF))
    by_distance, weighted = (InstanceIndex(model, score_weight=x).fit(bags) for x in (0, WEIGHT))
    best = np.maximum.reduceat(by_distance.instance_scores_, bags.offsets[:-1])
    found: dict[str, list[tuple[float, float]]] = {}
    for query in np.flatnonzero(relevant):
        rankings = {DETECTED: _order(by_distance, query)}
        rankings[f"detected, {WEIGHT:g} x score"] = _order(weighted, query)
        for kind, row in _instances_to_ask_with(bags, int(query), rng).items():
            rankings[kind] = _order(by_distance, np.asarray(bags.instances[[row]]))
        for kind, distances in zip(_HAUSDORFF.values(), whole, strict=True):
            rankings[kind] = np.argsort(distances[query], kind="stable")
        rankings[ALONE] = np.argsort(-best, kind="stable")
        for kind, order in rankings.items():
            found.setdefault(kind, []).append(quality(relevant[order[order != query]]))
    chance = 100 * (relevant.sum() - 1) / (len(relevant) - 1)
    means = {kind: np.mean(values, axis=0).tolist() for kind, values in found.items()}
    return {"chance": [chance, chance], **means}


def _instances_to_ask_with(bags: Bags, query: int, rng: np.random.Generator) -> dict[str, int]:
    rows = np.arange(bags.offsets[query], bags.offsets[query + 1])
    chosen = {RANDOM: rng.choice(rows)}
    if bags.instance_labels is not None:
        true = bags.instance_labels[rows] == 1
        if true.any() and not true.all():
            chosen |= {TRUE: rng.choice(rows[true]), FALSE: rng.choice(rows[~true])}
    return chosen


def _order(index: InstanceIndex, query: Any) -> Any:
    return np.array([match.bag for match in index.query(query, k=len(index.bag_ids_))])


def retrieval(groups: Sequence[Mapping[str, Bags]], run: Runner, *, splits: int = 5) -> Any:
    """Compare retrieval by the detected instance with other ways, over random halves.

    Parameters
    ----------
    groups : sequence of mappings of name to Bags
        The sets of a group are indexed together: positive bags of one are other pictures to the
        others. A set with labels of instances is a group of its own.
    run : Runner
        Runs the fits.
    splits : int, default=5
        Random halves of each set.

    Returns
    -------
    pandas.DataFrame
        ``data``, ``method``, ``seed``, ``by``, ``precision`` of the first ten bags and
        ``average_precision``, in per cent, means over the queries of a split.
    """
    keys = [(sets, name, method, seed) for sets in groups for name in sets for method in METHODS
            for seed in range(splits)]  # fmt: skip
    results = run(retrieve, [(f"{key[1]} {key[2]}", key) for key in keys])
    rows = [
        (*key[1:], by, *values)
        for key, found in zip(keys, results, strict=True)
        if "error" not in found
        for by, values in found.items()
    ]
    return pd.DataFrame(rows, columns=["data", "method", "seed", "by", *MEASURES])


def retrieval_claims(cells: Any) -> list[Claim]:
    """Return the claim of the caption of Figure 1, by the precision of the first ten bags.

    True and false positives are compared by distance alone, which is the same for every method:
    a set with labels of instances is one check.
    """
    labelled = cells["data"].isin(cells.loc[cells["by"] == TRUE, "data"])
    cells = cells.assign(method=cells["method"].mask(labelled, ""))
    groups = cells.groupby(["data", "method"], sort=False)
    bound, checks = bound_of(len(groups)), []
    for (data, method), part in groups:
        wide = part.pivot_table(index="seed", columns="by", values="precision", sort=False)
        right, wrong = (DETECTED, RANDOM) if method else (TRUE, FALSE)
        ahead, error = _mean_and_error(wide[right] - wide[wrong])
        numbers = f"{right} {ahead:+.1f} ± {error:.1f} points against {wrong}"
        verdict = decide(ahead, error, bound=bound)
        checks.append(Check("", f"{method} {REAL.get(data, data)}".strip(), verdict, numbers))
    return [Claim("Figure 1", "a false positive as query brings the squirrel", tuple(checks))]


def _mean_and_error(values: Any) -> tuple[float, float]:
    """Return a mean over splits; both halves overlap over splits (Nadeau and Bengio 2003)."""
    return float(values.mean()), float(values.std() * np.sqrt(1 / len(values) + 1))


def retrieval_section(cells: Any, claims: Sequence[Claim]) -> str:
    """Return the section on retrieval."""
    blocks = [
        "## Figure 1: retrieval by the detected instance",
        "A model of half of a set; every positive bag of the other half is a query. Indexed are "
        "the bags of that half and, for the three animals, the positive bags of the other two, "
        "without pictures that both sets have. Precision of the first ten bags / mean average "
        f"precision, %, over {cells['seed'].nunique()} splits; ± is the standard error of the "
        "precision, corrected for their overlap. *Score alone* ignores the query. The weight of "
        "the score was checked on sets akin to the labelled ones, not on the animals.",
    ]
    for method, part in cells.groupby("method", sort=False):
        found = part.groupby(["by", "data"], sort=False)[[*MEASURES]]
        text = found.apply(_cell).unstack("data").fillna("").rename(columns=REAL)
        blocks += [f"`{method}()`:", markdown_table(text, corner="by")]
    blocks += ["![Precision by the way to ask](figure_retrieval.png)", "[Numbers](retrieval.csv)"]
    return "\n\n".join([*blocks, *verdicts(claims, "Figure 1")])


def _cell(rows: Any) -> str:
    (mean, error), (average, _) = (_mean_and_error(rows[name]) for name in MEASURES)
    return f"{mean:.0f} ± {error:.0f} / {average:.0f}"
