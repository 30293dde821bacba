"""Bag accuracy of ABMIL and MI-Net, and the published figures; needs the extra ``deep``.

PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_deep.py musk1
OMP_NUM_THREADS=1 python benchmarks/bench_deep.py mnist mnist_bags_9.parquet

``musk1``: 10 stratified folds, features standardized in the fold, default parameters. ``mnist``:
bags of MNIST digits that are positive if they hold a 9; every third bag is held out. There the
settings are those of the published code (one layer of 500, attention of size 128, no dropout,
weight decay 1e-4, one bag per step), with pixels in place of its convolutions.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from pigmil import ABMIL, BagScaler, MINet
from pigmil.datasets import load_dataset

# Accuracy on Musk-1, 10 folds: Ilse et al. 2018 and Wang et al. 2018.
MUSK1 = {
    "ABMIL, gated": (ABMIL(random_state=0), 0.900),
    "ABMIL": (ABMIL(gated=False, random_state=0), 0.892),
    "MI-Net": (MINet(random_state=0), 0.887),
    "mi-Net": (MINet(level="instance", random_state=0), 0.889),
}
AS_PUBLISHED = {
    "hidden_layer_sizes": (500,),
    "dropout": 0.0,
    "weight_decay": 1e-4,
    "batch_size": 1,
    "max_epochs": 40,
    "patience": 10,
    "random_state": 0,
}
MNIST = {
    "ABMIL, gated": ABMIL(attention_size=128, **AS_PUBLISHED),
    "ABMIL": ABMIL(attention_size=128, gated=False, **AS_PUBLISHED),
    "mi-Net": MINet(level="instance", **AS_PUBLISHED),
}


def musk1(chosen, networks):
    bags = load_dataset("musk1")
    for name in chosen or MUSK1:
        method, published = MUSK1[name]
        method.set_params(n_networks=networks)
        start = time.process_time()
        right = []
        for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(
            np.zeros(len(bags)), bags.y
        ):
            model = make_pipeline(BagScaler(), method).fit(bags[train], bags.y[train])
            right += (model.predict(bags[test]) == bags.y[test]).tolist()
        accuracy = np.mean(right)
        error = np.sqrt(accuracy * (1 - accuracy) / len(bags))
        print(
            f"Musk-1 {name:14}{accuracy:.3f} (standard error {error:.3f}), published "
            f"{published:.3f}; {time.process_time() - start:.0f} CPU s",
            flush=True,
        )


def mnist(path, chosen, networks):
    from bench_soft import load

    bags = load(path)
    held_out = np.arange(len(bags)) % 3 == 2
    train, test = bags[~held_out], bags[held_out]
    inside = np.repeat(test.y == 1, test.sizes)
    for name in chosen or MNIST:
        start = time.process_time()
        model = MNIST[name].set_params(n_networks=networks).fit(train, train.y)
        accuracy = np.mean(model.predict(test) == test.y)
        scores = model.decision_function_instances(test)
        print(
            f"MNIST {name:14}accuracy {accuracy:.3f}, AUC "
            f"{roc_auc_score(test.y, model.decision_function(test)):.3f}, instance AUC "
            f"{roc_auc_score(test.instance_labels[inside], scores[inside]):.3f}; "
            f"{time.process_time() - start:.0f} CPU s",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["musk1", "mnist"])
    parser.add_argument("file", type=Path, nargs="?", help="bags of digits, for mnist")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--networks", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "musk1":
        musk1(arguments.methods, arguments.networks)
    else:
        mnist(arguments.file, arguments.methods, arguments.networks)


if __name__ == "__main__":
    main()
