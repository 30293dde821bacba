"""
Molecules: rank the conformers that make a molecule active
==========================================================

A molecule is active if one of its conformers fits the target. The assay labels molecules, not
conformers. The :doc:`guide for molecules </guide/molecules>` shows the same on the command line.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from pigmil import BagImputer, BagScaler, SoftPIGMIL, as_bags, select_instances

# %%
# A table with text labels and missing values
# -------------------------------------------
# Conformer ``c2`` of an active molecule has a short distance and a wide angle. One value in
# thirty was not computed.
rng = np.random.default_rng(1)
rows = []
for molecule in range(40):
    active = molecule % 2 == 1
    for conformer in range(6):
        fits = active and conformer == 2
        distance, angle, dipole = rng.normal([6, 90, 2], [1, 15, 0.5]) + fits * np.array(
            [-3, 50, 0]
        )
        rows.append(
            {
                "molecule": f"mol{molecule}", "activity": "active" if active else "inactive",
                "smiles": "C" * (1 + molecule // 2) + "N", "conformer": f"c{conformer}",
                "distance": distance if rng.random() > 1 / 30 else np.nan, "angle": angle,
                "dipole": dipole,
            }
        )  # fmt: skip
table = pd.DataFrame(rows)
print(table.head(7).round(2).to_string(index=False))

# %%
# Text columns stay with the conformers as information; missing values are filled with medians of
# the training molecules, inside every fold.
bags = as_bags(
    table, bag="molecule", label="activity", info=["smiles", "conformer"], missing="keep"
)
method = make_pipeline(BagImputer(), BagScaler(), SoftPIGMIL(pos_label="active", random_state=0))
selection = select_instances(method, bags, fdr=0.1)

# %%
# Ranked conformers
# -----------------
# ``p_value`` compares a conformer with those of held-out inactive molecules; ``called`` are the
# conformers of which at most 10 % are false on average.
calls = selection.to_frame()
calls["conformer"] = bags.instance_info["conformer"][selection.instances]
calls["smiles"] = bags.instance_info["smiles"][selection.instances]
print(calls.sort_values("score", ascending=False).head(8).to_string(index=False))

# %%
# In a picture: the called conformers are those with a short distance and a wide angle.
called = np.zeros(bags.n_instances, dtype=bool)
called[selection.called] = True
active = np.repeat(bags.y == "active", bags.sizes)
fig, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
for rows, colour, label in (
    (~active, "#b8c0cc", "conformers of inactive molecules"),
    (active & ~called, "#4c78a8", "conformers of active molecules"),
    (called, "#c0392b", "called at a false discovery rate of 10 %"),
):
    ax.scatter(*bags.instances[rows, :2].T, s=28, c=colour, label=label, edgecolors="white", lw=0.5)
ax.set(xlabel="distance", ylabel="angle")
ax.legend(loc="upper right", fontsize=9)
