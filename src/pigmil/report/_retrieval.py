"""Summary of a retrieval: queries with the bags that resemble them."""

import os
from collections.abc import Sequence
from typing import Any

from pigmil._core.segments import segment_argmax
from pigmil._core.text import count, sanitize
from pigmil.bags import Bags
from pigmil.report._pictures import Thumbnails
from pigmil.report._ranking import column_title, info_columns, instance_fields, rounded
from pigmil.report._summary import provenance


def retrieval_summary(
    index: Any,
    bags: Bags,
    queries: Sequence[Any],
    *,
    k: int = 10,
    source: str,
    command: str | None = None,
    images: str | None = None,
    image_folder: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Summarise the bags that resemble each query by their detected instances.

    Parameters
    ----------
    index : InstanceIndex
        Fitted on ``bags``.
    bags : Bags
        The indexed bags; labels are shown if they have any.
    queries : sequence of ids
        Ids of the bags to ask with.
    k : int, default=10
        Number of bags for each query.
    source : str
        Name of the data, for the reader.
    command : str, optional
        The command that the user ran.
    images : str, optional
        Column of ``instance_info`` with pictures of the instances: arrays, or paths of files.
    image_folder : path, optional
        Folder of relative paths in that column.

    Returns
    -------
    dict
        Dicts, lists, strings, finite numbers, booleans and None only; see :func:`write_report`.
    """
    thumbnails = None if images is None else Thumbnails(bags, images, folder=image_folder)
    names, _ = info_columns(bags)
    names = [name for name in names if name != images]
    best = segment_argmax(index.instance_scores_, bags.offsets)
    owners = {bag: at for at, bag in enumerate(bags.ids.tolist())}

    def fields(bag: Any, row: int) -> dict[str, Any]:
        label = None if bags.y is None else sanitize(bags.y[owners[bag]])
        values = instance_fields(index, bags, row, names, thumbnails)
        return {"bag": sanitize(bag), "label": label, **values}

    answers = [
        {
            **fields(query, int(best[owners[query]])),
            "rows": [
                {
                    **fields(match.bag, match.instance),
                    "similarity": rounded(match.similarity)[0],
                    "distance": rounded(match.distance)[0],
                }
                for match in index.query(query, k=k)
            ],
        }
        for query in queries
    ]
    asked = "the query" if len(answers) == 1 else f"each of {len(answers)} queries"
    model = index.model[-1] if hasattr(index.model, "steps") else index.model
    sizes = f"{count(bags.n_bags, 'bag')}, {count(bags.n_instances, 'instance')}"
    facts = {
        "Model": model.card.name,
        "Indexed": sizes,
        "Weight of the score": f"{index.score_weight:g}",
        "Instances of a query": str(index.n_detected),
    }
    return {
        "kind": "retrieval",
        "title": f"Bags of {sanitize(source)} by detected instances",
        "headline": f"The {k} bags that are most similar to {asked}",
        "facts": [{"name": name, "value": value, "note": ""} for name, value in facts.items()],
        "columns": [column_title(bags, name) for name in names],
        "labelled": bags.y is not None,
        "pictured": thumbnails is not None,
        "queries": answers,
        "provenance": provenance(command, seed=None, checksums={}),
    }
