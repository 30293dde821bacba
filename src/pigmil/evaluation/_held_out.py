"""Scores of bags by a model that was fitted without them; kept on disk if asked for."""

import json
import warnings
from pathlib import Path
from typing import Any

from sklearn.base import clone

from pigmil._core.errors import BagsError, PositiveLabelWarning
from pigmil._core.files import atomic_write
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import is_lazy
from pigmil.metrics import instance_scores
from pigmil.scale import predict_to_parquet, written_scores

_NOTE = "fit.json"


def fit_quietly(estimator: Any, bags: Any, y: Any) -> Any:
    """Fit a clone, without its callback and without the warning about text labels."""
    model = clone(estimator)
    callbacks = [name for name in model.get_params() if name.split("__")[-1] == "callback"]
    model.set_params(**dict.fromkeys(callbacks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositiveLabelWarning)
        return model.fit(bags, y)


def score_held_out(
    estimator: Any,
    bags: Any,
    y: Any,
    train: IntArray,
    test: IntArray,
    *,
    folder: Path | None = None,
) -> FloatArray:
    """Fit a clone on some bags and score the instances of others.

    Parameters
    ----------
    estimator : estimator
        A method, or a pipeline or search around one.
    bags : Bags or LazyBags
        All bags. Those on disk are loaded for the fit if the method does not fit on them.
    y : array of shape (n_bags,)
        Their labels.
    train, test : array of int
        Positions of the bags to fit on and to score.
    folder : path, optional
        Where to keep the scores, for bags on disk. Nothing is fitted if they are there already.
    """
    seen, unseen = bags[train], bags[test]
    if folder is not None:
        if not is_lazy(bags):
            raise ValueError(
                "folder= keeps the scores of bags on disk; open them with Bags.scan, or leave it "
                "out."
            )
        _check_note(folder, estimator, seen.ids, y[train], unseen.ids)
        found = written_scores(unseen, folder)
        if found is not None:
            return found
    if is_lazy(bags) and not _fits_on_disk(estimator):
        seen = seen.load(info=False)
    model = fit_quietly(estimator, seen, y[train])
    if folder is None:
        return instance_scores(model, unseen)
    predict_to_parquet(model, unseen, folder)
    found = written_scores(unseen, folder)
    assert found is not None
    return found


def _fits_on_disk(estimator: Any) -> bool:
    """Return whether a method takes bags on disk; wrappers that are not known are tried."""
    steps = getattr(estimator, "steps", None)
    return bool(getattr(steps[-1][1] if steps else estimator, "_fits_lazy_bags", True))


def _check_note(folder: Path, estimator: Any, ids: Any, y: Any, scored: Any) -> None:
    """Note what the scores in a folder come from, or compare with the note of an earlier call."""
    parameters = {name: repr(value) for name, value in estimator.get_params().items()}
    note = {
        "estimator": type(estimator).__name__,
        "parameters": {name: text for name, text in parameters.items() if "callback" not in name},
        "fitted_on": [str(one) for one in ids],
        "labels": [str(one) for one in y],
        "scored": [str(one) for one in scored],
    }
    file = folder / _NOTE
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            temporary.write_text(json.dumps(note), encoding="utf-8")
        return
    try:
        earlier = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        earlier = None
    if earlier != note:
        raise BagsError(
            f"{folder} holds the scores of another estimator or of a fit on other bags; give "
            "another folder, or delete this one."
        )
