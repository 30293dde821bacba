"""
Slides: from a folder of features to a heat map
===============================================

A cohort is a folder with one file of features per slide, and a table of labels. Only slides are
labelled; the tiles that make a slide a tumour slide are to be found. The
:doc:`guide for slides </guide/slides>` explains each step, also on the command line.
"""

import tempfile
from pathlib import Path

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from pigmil import BagScaler, SoftPIGMIL, read_bags, select_instances
from pigmil.report import plot_heatmap

# %%
# The cohort
# ----------
# Twenty slides of 192 tiles as CLAM writes them. Every second one has a planted tumour, a disc of
# tiles in which three of twelve features are shifted.
rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
(folder / "h5_files").mkdir()
grid = 256 * np.array([(x, y) for y in range(12) for x in range(16)])
planted = {}
for number in range(20):
    name = f"slide_{number}"
    features = rng.normal(size=(len(grid), 12)).astype(np.float32)
    centre = 256 * np.array([3 + number % 10, 3 + number % 7])
    planted[name] = (np.hypot(*(grid - centre).T) < 520) & (number % 2 == 1)
    features[planted[name], :3] += 3
    with h5py.File(folder / "h5_files" / f"{name}.h5", "w") as file:
        file["features"] = features
        file.create_dataset("coords", data=grid).attrs["patch_size"] = 256
table = pd.DataFrame({
    "slide_id": list(planted),
    "label": ["tumour" if number % 2 else "normal" for number in range(20)],
    "case_id": [f"case_{number // 2}" for number in range(20)],
})  # fmt: skip
bags = read_bags(folder, labels=table)
print(bags)

# %%
# Fit, and ask how far to trust the result
# ----------------------------------------
# SoftPIGMIL holds out every slide once in its fit; selection and verdict use these scores, and no
# tile label is needed. An alarm would be a true remark on this cohort: a tumour slide has many
# tumour tiles, so that others explain its label where the best ones are left out.
method = make_pipeline(BagScaler(), SoftPIGMIL(pos_label="tumour", random_state=0))
model = method.fit(bags, bags.y)
selection = select_instances(model, bags)
print(selection.diagnosis)

# %%
# Heat maps
# ---------
# One tile is one square; the side of a tile comes from the attributes of the file.
fig, ax = plt.subplots(figsize=(5, 3.6), layout="constrained")
plot_heatmap(bags, model, "slide_1", ax=ax)

# %%
# Two more tumour slides and a normal one, in the same colour scale.
fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
for name, ax in zip(("slide_3", "slide_7", "slide_4"), axes, strict=True):
    plot_heatmap(bags, model, name, ax=ax)
    ax.set_title(f"{name} ({bags.y[list(bags.ids).index(name)]})")

# %%
# The tiles were planted, so the answer can be checked: the share of the called tiles of tumour
# slides that were planted.
called = selection.called
truth = np.concatenate([planted[name] for name in bags.ids])
print(f"{len(called)} tiles called, {truth[called].mean():.0%} of them planted")
print(f"{truth.sum()} tiles planted, {truth[called].sum() / truth.sum():.0%} of them called")
