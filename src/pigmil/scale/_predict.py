"""Scores of lazy bags, block by block, in memory or in Parquet files."""

import copy
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, import_optional
from pigmil._core.files import atomic_write
from pigmil.bags import Bags
from pigmil.bags._lazy import LazyBags
from pigmil.io._defence import check_readable, parsing
from pigmil.scale._engine import map_blocks

_PLAN = b"pigmil"  # metadata of each file, so that the folder holds nothing but Parquet files


def stream(model: Any, method: str, bags: LazyBags) -> NDArray[Any]:
    """Call a method of a fitted model on every block and join the results.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : str
        Name of a method that returns one entry per bag or per instance.
    bags : LazyBags
        The bags.
    """
    call = getattr(without_training_scores(model), method)
    reads_coords = getattr(model, "smooth", None) is not None
    return np.concatenate(list(map_blocks(call, bags, info=reads_coords)))


def without_training_scores(model: Any) -> Any:
    """Return a shallow copy to be sent to workers, without what was kept of training instances."""
    light = copy.copy(model)
    for name in ("instance_scores_", "held_out_", "trace_"):
        if name in vars(light):
            delattr(light, name)
    if hasattr(light, "steps"):
        light.steps = [(name, without_training_scores(step)) for name, step in light.steps]
    return light


def predict_to_parquet(
    model: Any,
    bags: LazyBags,
    folder: str | os.PathLike[str],
    *,
    columns: Mapping[str, NDArray[Any]] | None = None,
) -> list[Path]:
    """Write the scores of every block, and go on where a stopped call was.

    Each block becomes ``part-00000.parquet`` and so on, with one row per instance: ``bag``,
    ``instance`` (its position in the bag), ``score``, and further data on the instance such as
    coordinates; if the model classifies bags, also ``bag_score`` and ``predicted``. For a model
    that does not score instances there is one row per bag. With more than two classes there is a
    column for each, ``score_LABEL``. Files are written atomically; those that are there
    already are kept, so the same call after an interruption computes the rest. On a cluster the
    workers write, to a folder that they share. The folder holds nothing else, so that pandas,
    Arrow and polars read it as one table.

    Parameters
    ----------
    model : estimator or pipeline
        Fitted.
    bags : LazyBags
        The bags.
    folder : path
        Made if it does not exist. Of an earlier call, it must belong to the same bags and model.
    columns : mapping of str to array of shape (n_instances,), optional
        Further columns, such as the calls of :func:`pigmil.select_instances`.

    Returns
    -------
    list of Path
        The files, in the order of the bags.
    """
    folder, columns, parts = Path(folder).absolute(), columns or {}, bags.partitions()
    folder.mkdir(parents=True, exist_ok=True)
    plan = _plan(model, bags, columns)
    for file in sorted(folder.glob("part-*.parquet")):
        _check_file(file, plan)
    for leftover in folder.glob(".part-*.parquet"):  # of a write that was killed
        leftover.unlink()
    files = [folder / f"part-{at:05d}.parquet" for at in range(len(parts))]
    missing = [at for at, file in enumerate(files) if not file.exists()]
    if missing:
        write = partial(_write_part, without_training_scores(model), json.dumps(plan))
        ends = np.cumsum([part.n_instances for part in parts])[:-1]
        cut = {name: np.split(values, ends) for name, values in columns.items()}
        todo = [
            (parts[at], files[at], {name: pieces[at] for name, pieces in cut.items()})
            for at in missing
        ]
        for _ in map_blocks(write, *zip(*todo, strict=True), info=True):
            pass
    return files


def _plan(model: Any, bags: LazyBags, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what files of scores belong to; it is written into each of them."""
    ids = [str(bag_id) for bag_id in bags.ids.tolist()]
    sizes = [part.n_bags for part in bags.partitions()]
    known = [np.ravel(one) for one in _scores(model, bags[:1].load()).values()]
    known += [np.atleast_1d(np.nansum(values)) for values in columns.values()]
    return {
        "bags": hashlib.sha256(json.dumps([ids, sizes]).encode()).hexdigest(),
        "known_scores": np.concatenate(known).tolist(),
    }


def _check_file(file: Path, plan: dict[str, Any]) -> None:
    """Refuse a file of an earlier call with other bags or another model."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing Parquet")
    check_readable(file)
    with parsing(file, "parquet"):
        earlier = json.loads((parquet.read_schema(file).metadata or {}).get(_PLAN, b"{}"))
    scores, expected = (np.array(found.get("known_scores", ())) for found in (earlier, plan))
    same_scores = scores.shape == expected.shape and np.allclose(
        scores, expected, rtol=1e-6, atol=1e-12
    )
    other = "another model" if earlier.get("bags") == plan["bags"] else "other bags"
    if other == "other bags" or not same_scores:
        raise BagsError(
            f"{file.parent} holds the scores of {other} ({file.name}); give another folder, or "
            "delete this one."
        )


def _scores(model: Any, block: Bags) -> dict[str, NDArray[Any]]:
    """Return what a model says about a block: scores of instances if it has them, and of bags."""
    method, seen = model, block
    if hasattr(model, "steps"):
        method, seen = model[-1], model[:-1].transform(block) if len(model) > 1 else block
    found = {}
    if hasattr(method, "decision_function_instances"):
        found["score"] = method.decision_function_instances(seen)
    if hasattr(method, "decision_function"):
        found["bag_score"] = method.decision_function(seen)
    return found


def _write_part(
    model: Any, plan: str, block: Bags, file: Path, more: Mapping[str, NDArray[Any]]
) -> None:
    pyarrow = import_optional("pyarrow", extra="io", purpose="Writing Parquet")
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing Parquet")
    method = model[-1] if hasattr(model, "steps") else model
    scores = _scores(model, block)
    by_instance = "score" in scores
    index = block.bag_index if by_instance else np.arange(block.n_bags)
    columns: dict[str, Any] = {"bag": block.ids[index]}
    if by_instance:
        columns["instance"] = np.arange(block.n_instances) - block.offsets[index]
        columns |= _columns("score", scores["score"], method.classes_)
    if "bag_score" in scores:
        columns |= _columns("bag_score", scores["bag_score"][index], method.classes_)
        columns["predicted"] = method._labels_of(scores["bag_score"])[index]
    if by_instance:
        columns |= more
    if by_instance and block.instance_labels is not None:
        columns["instance_label"] = block.instance_labels
    for name, values in block.instance_info.items() if by_instance else ():
        name = f"info_{name}" if name in columns else name  # never in place of a score
        if values.ndim <= 2:
            columns |= _columns(name, values, range(values.shape[-1]))
    with atomic_write(file) as temporary:
        table = pyarrow.table(columns).replace_schema_metadata({_PLAN: plan})
        parquet.write_table(table, temporary)


def _columns(name: str, values: NDArray[Any], titles: Iterable[Any]) -> dict[str, NDArray[Any]]:
    """Return an array as a column, or each of its columns with a title of its own."""
    if values.ndim == 1:
        return {name: values}
    return {f"{name}_{title}": each for title, each in zip(titles, values.T, strict=True)}
