"""
Which instances make the bags positive?
=======================================

Bags are labelled, instances are not. PIGMIL is fitted on the three synthetic sets of the paper with
bag labels only, and detects one instance in each of its working bags.
"""

# %%
# Each set has 20 positive and 20 negative bags of eight instances in two dimensions. Half of the
# instances of a positive bag are positive. The true labels colour the figure; the method does not
# use them.
import matplotlib.pyplot as plt
import numpy as np

from pigmil import PIGMIL
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.metrics import detection_accuracy
from pigmil.report import plot_bags

sets = {
    "BASIC": make_basic(random_state=0),
    "RHOMBUS": make_rhombus(random_state=0),
    "RING": make_ring(random_state=0),
}
models = {name: PIGMIL(random_state=0).fit(bags) for name, bags in sets.items()}

fig, axes = plt.subplots(1, 3, figsize=(12.5, 4.8), layout="constrained")
for ax, (name, bags) in zip(axes, sets.items(), strict=True):
    right = detection_accuracy(models[name].detected_instances_, bags.instance_labels)
    plot_bags(
        bags, detected=models[name], ax=ax, title=f"{name}: {right:.0%} of detections correct"
    )

# %%
# Every instance has a score, including new instances: the logarithm of the ratio between the
# density of detected instances and the density of negative bags around it. As a map it shows the
# region that the model considers positive.
bags, model = sets["RING"], models["RING"]
side = np.linspace(-3, 3, 121)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 1, 2)  # one instance per bag
scores = model.decision_function_instances(grid).reshape(121, 121)

fig, ax = plt.subplots(figsize=(6.4, 5), layout="constrained")
filled = ax.contourf(
    side, side, scores, levels=np.arange(-4, 4.1, 0.5), cmap="RdBu_r", extend="both"
)
ax.contour(side, side, scores, levels=[0], colors="black", linewidths=1)
truth = bags.instance_labels == 1
ax.scatter(*bags.instances[~truth].T, s=7, c="0.15", label="negative")
ax.scatter(*bags.instances[truth].T, s=14, c="white", edgecolors="black", label="positive")
ax.set(title="RING: instance score; black line: 0", xlabel="feature 0", ylabel="feature 1")
ax.legend(loc="upper right", framealpha=0.9, fontsize="small")
fig.colorbar(filled, label="score (log ratio)")

# %%
# The detected instances as a table, best first:
order = model.detected_instances_[np.argsort(-model.instance_scores_[model.detected_instances_])]
for row in order[:5]:
    bag = bags.ids[bags.bag_index[row]]
    print(f"bag {bag}, instance {row}: score {model.instance_scores_[row]:.2f}")
