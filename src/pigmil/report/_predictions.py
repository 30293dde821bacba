"""Bag predictions of a method, and figures on how good they are."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import brier_score_loss, confusion_matrix, roc_auc_score

from pigmil._core.text import sanitize
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.evaluation._protocol import scaled_pipeline
from pigmil.evaluation._splits import bag_groups, bag_splits
from pigmil.report._text import rounded

FOLDS = 5
_NOT_REFITTED = (
    "Bags were not classified by models fitted on other bags, which takes several fits; `pigmil "
    "compare` does that, and figures on the training bags themselves would be too good."
)
SMALL = 3000  # by default a method is refitted on folds up to this number of instances


def bag_predictions(
    model: Any,
    bags: Bags,
    *,
    original: Bags | None,
    folds: int | None,
    seed: int,
    groups: Any = None,
) -> dict[str, Any]:
    """Classify each bag by a model that was fitted on other bags.

    Parameters
    ----------
    model : fitted method
        Fitted on ``bags``.
    bags, original : Bags
        The bags as fitted, and before standardisation if they were standardised; each fold is
        then standardised by its training bags.
    folds : int, optional
        Folds of the cross-validation, 0 for no predictions; by default five for small data.
    seed : int
        Seed of the folds.
    groups : str, array or tuple of these, optional
        Bags of a group stay in one fold, as in :func:`pigmil.diagnose`; so do identical bags.

    Returns
    -------
    dict
        ``why_not`` where there are no held-out predictions; otherwise ``how``, ``decision``,
        ``probability``, ``predicted``, ``classes``, ``confusion``, ``figures`` and
        ``calibration``.
    """
    if not model.card.classifies:
        return {"why_not": f"{model.card.name} detects instances and does not classify bags."}
    positive = np.asarray(bags.y == model.positive_label_)
    if folds is None:
        folds = FOLDS if bags.n_instances <= SMALL else 0
    folds = min(folds, int(np.bincount(positive, minlength=2).min()))
    if folds < 2:
        return {"why_not": _NOT_REFITTED}
    try:
        decision, probability = _cross_validate(model, bags, original, folds, seed, groups)
    except ValueError as error:
        return {"why_not": f"Held-out predictions failed: {sanitize(error, limit=300)}"}
    predicted = decision > 0
    figures = {"accuracy": float(np.mean(predicted == positive))}
    figures["area under the ROC curve"] = float(roc_auc_score(positive, decision))
    if probability is not None:
        figures["Brier score (0 is best)"] = float(brier_score_loss(positive, probability))
    return {
        "how": f"Held out: {folds} folds, each bag classified by a model fitted on other "
        + ("bags." if groups is None else "groups of bags."),
        "decision": rounded(decision),
        "probability": None if probability is None else rounded(probability),
        "predicted": predicted.tolist(),
        "classes": [sanitize(model.classes_[i]) for i in _order(model)],
        "confusion": confusion_matrix(positive, predicted, labels=[False, True]).tolist(),
        "figures": figures,
        "calibration": None if probability is None else calibration(positive, probability),
    }


def _order(model: Any) -> tuple[int, int]:
    """Return the positions of the negative and the positive class in ``classes_``."""
    return (0, 1) if model.positive_label_ == model.classes_[1] else (1, 0)


def _cross_validate(
    model: Any, bags: Bags, original: Bags | None, folds: int, seed: int, groups: Any
) -> tuple[FloatArray, FloatArray | None]:
    decision = np.empty(bags.n_bags)
    probability = np.empty(bags.n_bags) if hasattr(model, "predict_proba") else None
    number = bag_groups(bags, (groups, "duplicates"))
    if number is not None and number.max() + 1 == bags.n_bags:
        number = None
    source = bags if original is None else original
    for split in bag_splits(bags, repeats=1, folds=folds, random_state=seed, groups=number):
        other = clone(model)
        if "callback" in other.get_params():
            other.set_params(callback=None)
        if original is not None and original is not bags:
            other = scaled_pipeline(other, source)
        other.fit(source[split.train])
        fold_decision, fold_probability = _predict(other, source[split.test], _order(model))
        decision[split.test] = fold_decision
        if probability is not None and fold_probability is not None:
            probability[split.test] = fold_probability
    return decision, probability


def _predict(
    model: Any, bags: Bags, order: tuple[int, int]
) -> tuple[FloatArray, FloatArray | None]:
    """Return decision values and probabilities of the positive class."""
    negative, positive = order
    decision = np.asarray(model.decision_function(bags)) * (1 if positive > negative else -1)
    if not hasattr(model, "predict_proba"):
        return decision, None
    return decision, np.asarray(model.predict_proba(bags))[:, positive]


def calibration(positive: Any, probability: FloatArray) -> list[dict[str, Any]]:
    """Return mean probability and share of positive bags in groups of similar size.

    Parameters
    ----------
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    probability : array of shape (n_bags,)
        Predicted probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> calibration(np.array([False, True]), np.array([0.25, 0.75]))
    [{'probability': 0.5, 'share': 0.5, 'bags': 2}]
    """
    order = np.argsort(probability, kind="stable")
    groups = np.array_split(order, int(np.clip(len(order) // 10, 1, 10)))
    return [
        {
            "probability": float(f"{probability[part].mean():.6g}"),
            "share": float(f"{np.asarray(positive)[part].mean():.6g}"),
            "bags": len(part),
        }
        for part in groups
    ]
