"""
Retrieve pictures by the region that matters
============================================

Each picture shows eight handwritten digits, its regions; a picture is positive if one of them is
an eight. The model learns from the labels of pictures only. A query is then a picture: its best
region is compared with all regions of the other pictures, as in Figure 1 of the PIGMIL paper.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from pigmil import Bags, BagScaler, SoftPIGMIL
from pigmil.retrieval import InstanceIndex

digits = load_digits()
rng = np.random.default_rng(0)
eights, others = np.flatnonzero(digits.target == 8), np.flatnonzero(digits.target != 8)
rows = rng.choice(others, (160, 8), replace=False)
rows[:80, 0] = rng.choice(eights, 80, replace=False)
rows = rng.permuted(rows, axis=1)
positive = np.arange(160) < 80
order = rng.permutation(160)

# %%
# Learn from 32 pictures, index the others
# ----------------------------------------
train, rest = order[:32], order[32:]
bags = Bags.from_list(list(digits.data[rows[train]]), y=positive[train].astype(int))
model = make_pipeline(BagScaler(), SoftPIGMIL(random_state=0)).fit(bags, bags.y)
pictures, relevant = rows[rest], positive[rest]
index = InstanceIndex(model).fit(Bags.from_list(list(digits.data[pictures]), ids=range(len(rest))))
answers = [index.query(query, k=5) for query in np.flatnonzero(relevant)]
right = np.array([[relevant[match.bag] for match in matches] for matches in answers])
print(f"{right.mean():.0%} of the first five pictures have an eight, {relevant.mean():.0%} of all")


# %%
# Queries and answers
# -------------------
# On the left is a query with its best region framed. On its right are the five most similar
# pictures, with the region that matched: green where the picture has an eight, red where not.
def show(ax, picture, region, color):
    """Draw the eight regions of a picture in two rows and frame one."""
    tiles = digits.images[pictures[picture]].reshape(2, 4, 8, 8)
    ax.imshow(tiles.transpose(0, 2, 1, 3).reshape(16, 32), cmap="gray_r")
    corner = (8 * (region % 4) - 0.5, 8 * (region // 4) - 0.5)
    ax.add_patch(plt.Rectangle(corner, 8, 8, fill=False, edgecolor=color, linewidth=2.5))
    ax.set(xticks=[], yticks=[])


one_wrong = np.flatnonzero(right.sum(axis=1) == 4)[:2]
chosen = [*one_wrong, *np.flatnonzero(right.all(axis=1))[:2]]
fig, axes = plt.subplots(len(chosen), 6, figsize=(10, 3.4), layout="constrained")
for line, number in zip(axes, chosen, strict=True):
    matches = answers[number]
    query = np.flatnonzero(relevant)[number]
    show(line[0], query, matches[0].query_instance, "#2c5f9e")
    for ax, match in zip(line[1:], matches, strict=True):
        color = "#2e8b57" if relevant[match.bag] else "#c0392b"
        show(ax, match.bag, match.instance % 8, color)
axes[0, 0].set_title("query")
for place, ax in enumerate(axes[0, 1:], start=1):
    ax.set_title(f"answer {place}")

# %%
# Why one is wrong
# ----------------
# In both queries with a wrong answer the framed region is no eight but a false positive, and
# brings a picture with the same digit: the squirrel of the paper's Figure 1.
for number in one_wrong:
    query = np.flatnonzero(relevant)[number]
    for match in answers[number]:
        if not relevant[match.bag]:
            asked = digits.target[pictures[query, match.query_instance]]
            found = digits.target[pictures[match.bag, match.instance % 8]]
            print(f"asked with a {asked}, found a {found} at distance {match.distance:.2f}, "
                  f"score {match.score:.2f}")  # fmt: skip

# %%
# A false positive as query
# -------------------------
# Ask with a random region that is no eight, by distance alone: the answers share that region.
by_distance = InstanceIndex(model, score_weight=0.0).fit(
    Bags.from_list(list(digits.data[pictures]), ids=range(len(rest)))
)
precision = {"detected region": [], "region without an eight": []}
for query in np.flatnonzero(relevant):
    wrong = rng.choice(pictures[query][digits.target[pictures[query]] != 8])
    found = {
        "detected region": by_distance.query(query, k=5),
        "region without an eight": by_distance.query(digits.data[[wrong]], k=6),
    }
    for way, matches in found.items():
        others = [relevant[match.bag] for match in matches if match.bag != query]
        precision[way].append(np.mean(others))
for way, values in precision.items():
    print(f"{way}: {np.mean(values):.0%} of the answers have an eight")
