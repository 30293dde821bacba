"""
Bag accuracy does not measure detection
=======================================

A method can classify every bag correctly for the wrong reason. On BASIC the negatives of positive
bags form a separate cluster: a method that finds *this* cluster classifies all bags correctly and
detects only wrong instances.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from pigmil import all_estimators
from pigmil.datasets import make_basic
from pigmil.estimators import get_estimator
from pigmil.metrics import detection_accuracy

seeds = range(3)
points = {}
for card in all_estimators(detects=True, classifies=True):
    pairs = []
    for seed in seeds:
        bags = make_basic(random_state=seed)
        model = get_estimator(card.name)()
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        if card.name == "PIGMIL":
            model.set_params(C=10.0, embedding_decay=1.0)  # tuning aside, for speed
        bag = cross_val_score(model, bags, bags.y, cv=3).mean()
        detected = model.fit(bags).detected_instances_
        pairs.append((bag, detection_accuracy(detected, bags.instance_labels)))
    points[card.name] = 100 * np.mean(pairs, axis=0)

order = sorted(points, key=lambda name: points[name][1])
fig, ax = plt.subplots(figsize=(7.5, 5.2), layout="constrained")
for row, name in enumerate(order):
    ax.plot(points[name], [row, row], color="0.8", linewidth=2, zorder=1)
bag, instance = np.array([points[name] for name in order]).T
ax.scatter(bag, range(len(order)), s=60, c="#4c72b0", marker="s", label="bags classified correctly")
ax.scatter(instance, range(len(order)), s=60, c="#c0392b", label="detections correct")
ax.set_yticks(range(len(order)), order)
ax.set(title="BASIC: two different questions", xlabel="%", xlim=(-4, 104))
ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncol=2, frameon=False)

# %%
# The squares (3-fold cross-validation) lie close together near the right edge, while the dots range
# from 0 to 100 %. Report both: bag metrics with scikit-learn, and :mod:`pigmil.metrics` if instance
# labels are known. If they are not, look at the detected instances.
