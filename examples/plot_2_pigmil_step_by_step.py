"""
PIGMIL, step by step
====================

This example draws every step of the method on one data set. Each step is a public function of
:mod:`pigmil.graph` and can be called, tested and replaced separately.

The data set is RHOMBUS. The working score is the one-sided score of the paper, whose first pool
contains errors here that the updating can correct. (The first pool of the default score has none.)
In all figures orange triangles are positive instances, grey squares are negatives of positive bags
and blue dots are instances of negative bags.
"""

import matplotlib.pyplot as plt
import numpy as np

from pigmil import PIGMIL
from pigmil.datasets import make_rhombus
from pigmil.graph import influence, working_score, working_sets
from pigmil.report import plot_trace

bags = make_rhombus(random_state=1)
truth = bags.instance_labels == 1
points = bags.instances
positive, negative = bags[bags.y == 1], bags[bags.y == -1]
model = PIGMIL(working_score="kde_min", decay=1.0, random_state=0).fit(bags)


def background(ax, title):
    in_positive = np.repeat(bags.y == 1, bags.sizes)
    ax.scatter(*points[~in_positive].T, s=9, c="#4c72b0", alpha=0.35, linewidths=0)
    ax.scatter(*points[in_positive & ~truth].T, s=16, c="0.6", marker="s", linewidths=0)
    ax.scatter(*points[truth].T, s=20, c="#dd8452", marker="^", linewidths=0)
    ax.set(title=title, xticks=[], yticks=[], xlim=(-3, 3), ylim=(-2.4, 2.4))


# %%
# 1. Working score
# ----------------
# The working score measures the density of negative bags around an instance. KDE_min of the paper
# uses the nearest instance of each negative bag. A low score is good: far from negatives.
side = np.linspace(-3, 3, 101)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, kind, gamma in zip(axes, ("kde_min", "supported"), (1.0, 2.0), strict=True):
    others = None if kind == "kde_min" else positive
    field = working_score(grid, negative, others, gamma=gamma).reshape(101, 101)
    background(
        ax, f'working_score="{kind}"' + (" (the paper)" if kind == "kde_min" else " (default)")
    )
    shown = ax.contourf(side, side, field, levels=12, cmap="viridis", alpha=0.55, zorder=0)
    fig.colorbar(shown, ax=ax, label="working score, lower is better")

# %%
# The default score also requires similar instances in other positive bags: the corners of the
# figure, far from everything, no longer have a good score.
#
# 2. Working sets, working bags, pool
# -----------------------------------
# The best 40 % of each positive bag are its working set. A bag whose working set is significantly
# worse than the others' is set aside (its t value is above 1.5). The best instance of each working
# bag enters the pool.
ws = working_score(positive.instances, negative, None, gamma=1.0)
assert working_sets(ws, positive.offsets).sum() == sum(map(len, model.working_sets_))
kept = model.working_bags_.working

fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
background(axes[0], f"working sets and first pool ({truth[model.initial_pool_].mean():.0%} right)")
members = np.concatenate([model.working_sets_[bag] for bag in np.flatnonzero(kept)])
axes[0].scatter(
    *points[members].T,
    s=46,
    facecolors="none",
    edgecolors="0.25",
    linewidths=0.7,
    label="working sets",
)
axes[0].scatter(
    *points[model.initial_pool_].T,
    s=100,
    facecolors="none",
    edgecolors="#c0392b",
    linewidths=1.6,
    label="first pool",
)
axes[0].legend(loc="lower right", fontsize="small")
axes[1].bar(np.arange(len(kept)), model.working_bags_.t, color=np.where(kept, "#55a868", "#c44e52"))
axes[1].axhline(1.5, color="black", linewidth=1, linestyle="--")
axes[1].set(
    title=f"t value of each positive bag: {kept.sum()} of {len(kept)} work",
    xlabel="positive bag",
    ylabel="t",
)

# %%
# 3. Similarity, consistency, discrimination
# ------------------------------------------
# Similarity: are the exemplars of a pair of pool members confident in each other? Consistency: how
# large is the dense group that contains both? Discrimination: how close are negatives to a member?
csdg = model.csdg_
order = np.argsort(-csdg.scores)
fig, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
with np.errstate(divide="ignore"):
    log_s = np.where(csdg.similarity > 0, np.log10(csdg.similarity), np.nan)
for ax, matrix, name in (
    (axes[0], log_s, "similarity S (log10)"),
    (axes[1], np.where(csdg.similarity > 0, csdg.consistency, np.nan), "consistency C"),
):
    shown = ax.imshow(matrix[np.ix_(order, order)], cmap="viridis")
    ax.set(title=name, xlabel="pool, best rank first")
    fig.colorbar(shown, ax=ax, shrink=0.8)
distance = np.linspace(0.02, 4, 300)
axes[2].plot(distance, influence(distance), color="#c0392b")
axes[2].axvline(1, color="0.7", linewidth=1)
axes[2].set(title="influence of one negative, d(Δ)", xlabel="distance Δ", ylim=(-5, 0.2))
axes[2].annotate("far: limited", (2.2, -0.9), color="0.3")
axes[2].annotate("near: unbounded", (0.25, -4.3), color="0.3")

# %%
# 4. The graph and its ranks
# --------------------------
# Edges join members of the pool with positive similarity; their weight combines the three terms. A
# random walk on the graph gives every vertex a ranking score. It is low for vertices with few or
# weak edges to well-connected vertices. The walk does not always converge and scores can be very
# large; only their order and their sum are used.


def draw_graph(ax, graph, title):
    background(ax, title)
    top = graph.weights.max() or 1.0
    for i, j in zip(*np.nonzero(np.triu(graph.weights)), strict=True):
        ends = points[graph.vertices[[i, j]]]
        ax.plot(*ends.T, color="0.2", linewidth=1.6 * graph.weights[i, j] / top, alpha=0.25)
    rank = np.log10(np.maximum(graph.scores, 1e-3))
    return ax.scatter(
        *points[graph.vertices].T, s=90, c=rank, cmap="plasma", edgecolors="black", zorder=3
    )


fig, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
fig.colorbar(draw_graph(ax, csdg, "CSDG of the final pool"), label="ranking score (log10)")

# %%
# 5. Updating
# -----------
# Starting with the lowest ranking score, every other member of the working set of the vertex is
# tried in its place. The best one replaces it if the sum of the ranking scores increases.
# ``trace_`` records every attempt, and its ``replay`` returns the pools.
trace = model.trace_
pools = [model.initial_pool_, *trace.replay(model.initial_pool_)]
shares = [truth[pool].mean() for pool in pools]
fig, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
plot_trace(model, ax=axes[0])
axes[1].step(np.arange(len(pools)), shares, where="post", color="#55a868")
axes[1].set(
    title="true positives in the pool",
    xlabel="replacements",
    ylabel="share of the pool that is positive",
    ylim=(0, 1.03),
)

# %%
# The first and the last pool:
fig, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for ax, pool, name in ((axes[0], pools[0], "before"), (axes[1], pools[-1], "after")):
    background(ax, f"{name}: {truth[pool].mean():.0%} of the pool is positive")
    ax.scatter(*points[pool].T, s=110, facecolors="none", edgecolors="#c0392b", linewidths=1.6)

# %%
# 6. Classification
# -----------------
# A bag is represented by its similarities to prototypes, and a linear SVM separates these vectors.
# With the pool as prototypes the vectors are easy to read: positive bags are similar to most of the
# pool.
from pigmil.distances import embed_bags

vectors = embed_bags(bags, points[model.detected_instances_], gamma=1.0)
fig, ax = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
shown = ax.imshow(vectors, aspect="auto", cmap="magma", vmin=0, vmax=1)
ax.axhline((bags.y == 1).sum() - 0.5, color="white", linewidth=1.5)
ax.set(
    title="one row per bag: positive bags above the line, negative below",
    xlabel="member of the pool",
    ylabel="bag",
)
fig.colorbar(shown, label="similarity of the nearest instance")
