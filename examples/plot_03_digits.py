"""
Arrays: find the nines in bags of digits
========================================

Each bag holds eight images of handwritten digits and is positive if one of them is a nine. The
methods see the label of the bag only. The :doc:`guide for arrays </guide/arrays>` goes through it
step by step.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from pigmil import Bags, BagScaler, SoftPIGMIL, instance_scores
from pigmil.evaluation import compare

digits = load_digits()
rng = np.random.default_rng(0)
nines, others = np.flatnonzero(digits.target == 9), np.flatnonzero(digits.target != 9)
rows = rng.choice(others, (80, 8), replace=False)
rows[:40, 0] = rng.choice(nines, 40, replace=False)
rows = rng.permuted(rows, axis=1)
bags = Bags.from_list(list(digits.data[rows]), y=[1] * 40 + [0] * 40)

# %%
# Fit on 60 bags, look at 20 others
# ---------------------------------
# In each of ten positive bags that were not used for fitting, the best image is framed.
test = np.r_[30:50]
train = np.setdiff1d(np.arange(80), test)
model = make_pipeline(BagScaler(), SoftPIGMIL(random_state=0)).fit(bags[train], bags.y[train])
new = bags[test]
best = instance_scores(model, new).reshape(20, 8).argmax(axis=1)
fig, axes = plt.subplots(5, 8, figsize=(6.4, 4.2), layout="constrained")
for (bag, place), ax in np.ndenumerate(axes):
    ax.imshow(new[bag][place].reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
    framed = place == best[bag]
    for side in ax.spines.values():
        side.set(color="#c0392b" if framed else "#d9dce1", linewidth=3 if framed else 1)
found = digits.target[rows[test[:10], best[:10]]]
print(f"{(found == 9).sum()} of 10 framed images are nines: {found.tolist()}")

# %%
# Compare methods
# ---------------
# Methods as rows; the interval is a bootstrap over bags.
results = compare(
    ["SoftPIGMIL", "MISVM", "MILES", "MI-Kernel"],
    {"digits": bags},
    repeats=1,
    folds=5,
    tune=False,
    store=Path(tempfile.mkdtemp()) / "digits.sqlite",
)
table = results.intervals("auc").sort_values("mean")
fig, ax = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
ax.hlines(table["method"], table["low"], table["high"], color="#5a6270")
ax.plot(table["mean"], table["method"], "o", color="#c0392b", markersize=9)
ax.axvline(50, color="#d9dce1", linestyle=":")
ax.set(xlabel="area under the ROC curve of held-out bags, %")

# %%
# Beyond chance, by the corrected resampled t-test with Holm's correction:
print(*results.best_methods("auc"), sep="\n")
