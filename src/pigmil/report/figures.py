"""Figures of bags and detected instances."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, as_bags

NEGATIVE, UNKNOWN, POSITIVE, MARK = "#4c72b0", "#b8b8b8", "#dd8452", "#c0392b"


def project(bags: Bags) -> tuple[NDArray[np.float64], tuple[str, str]]:
    """Return two coordinates per instance: its two features, or principal components.

    Parameters
    ----------
    bags : Bags
        The bags to draw.

    Returns
    -------
    coordinates : array of shape (n_instances, 2)
    names : tuple of two str
        Names of the axes.
    """
    if bags.n_features == 1:
        flat = np.asarray(bags.instances.toarray() if bags.is_sparse else bags.instances)
        return np.column_stack([flat, bags.bag_index]), ("feature 0", "bag")
    if bags.n_features == 2 and not bags.is_sparse:
        names = bags.feature_names or ("feature 0", "feature 1")
        return np.asarray(bags.instances, dtype=np.float64), (names[0], names[1])
    reducer: Any = TruncatedSVD if bags.is_sparse else PCA
    model = reducer(2, random_state=0)
    with np.errstate(invalid="ignore"):  # constant features have no variance
        points = model.fit_transform(bags.instances)
        shares = 100 * model.explained_variance_ratio_
    percentages = ["" if np.isnan(share) else f" ({share:.0f} %)" for share in shares]
    return points, (f"component 1{percentages[0]}", f"component 2{percentages[1]}")


def plot_bags(
    X: Any,
    y: Any = None,
    *,
    detected: Any = None,
    instance_labels: Any = None,
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the instances of bags in two dimensions and circle the detected ones.

    Parameters
    ----------
    X : bags
        Anything :func:`pigmil.as_bags` takes.
    y : array of shape (n_bags,), optional
        Labels of the bags, if ``X`` does not carry them.
    detected : array of int, or fitted model, optional
        Flat indices of instances to mark, or a model with ``detected_instances_``.
    instance_labels : array of shape (n_instances,), optional
        Labels of the instances, if known and ``X`` does not carry them.
    title : str, optional
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.report import plot_bags
    >>> ax = plot_bags(make_ring(random_state=0), title="RING")
    >>> ax.get_title()
    'RING'
    """
    plt = import_optional("matplotlib.pyplot", extra="plot", purpose="Drawing bags")
    bags = as_bags(X, y=y)
    labels = bags.instance_labels if instance_labels is None else np.asarray(instance_labels)
    points, names = project(bags)
    if ax is None:
        _, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
    for mask, colour, marker, name in _kinds(bags, labels):
        ax.scatter(
            *points[mask].T, s=22, c=colour, marker=marker, alpha=0.75, linewidths=0, label=name
        )
    if detected is not None:
        chosen = np.asarray(getattr(detected, "detected_instances_", detected))
        ax.scatter(
            *points[chosen].T, s=90, facecolors="none", edgecolors=MARK, linewidths=1.4,
            label=f"detected ({len(chosen)})",
        )  # fmt: skip
    ax.set(xlabel=names[0], ylabel=names[1], title=title or "")
    ax.legend(
        frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2
    )
    return ax


def _kinds(bags: Bags, labels: Any) -> list[tuple[Any, str, str, str]]:
    """Return mask, colour, marker and name of each kind of instance."""
    if bags.y is None:
        return [(np.ones(bags.n_instances, dtype=bool), UNKNOWN, "o", "instances")]
    inside = np.repeat(bags.y == np.unique(bags.y)[-1], bags.sizes)
    kinds = [(~inside, NEGATIVE, "o", "in negative bags")]
    if labels is None:
        return [*kinds, (inside, POSITIVE, "^", "in positive bags")]
    positive = labels == np.unique(labels)[-1]
    return [
        *kinds,
        (inside & ~positive, UNKNOWN, "s", "negative, in positive bags"),
        (inside & positive, POSITIVE, "^", "positive"),
    ]
