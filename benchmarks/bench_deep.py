"""ABMIL and MI-Net: accuracy beside the published figures, and detection; needs the extra ``deep``.

PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_deep.py musk1
PIGMIL_DATA=... OMP_NUM_THREADS=1 python benchmarks/bench_deep.py recipe --runs 5
OMP_NUM_THREADS=1 python benchmarks/bench_deep.py mnist mnist_bags_9.parquet
OMP_NUM_THREADS=1 python benchmarks/bench_deep.py detect FOLDER

``musk1``: 10 stratified folds, features standardized in the fold, default parameters.
``recipe``: Musk-1 as in the published code of MI-Net, written anew: 10 random folds, features
standardized over all bags, one network and one bag per step, SGD with Nesterov momentum 0.9, rate
5e-4 / (1 + 1e-4 steps), L2 penalty of the weights 0.005, dropout of the last hidden layer, 50
passes, no early stopping. The published code of ABMIL has no settings for Musk-1 and is trained the
same way here.
``mnist``: bags of MNIST digits that are positive if they hold a 9; every third bag is held out. The
settings are those of the published code (one layer of 500, attention of size 128, no dropout,
weight decay 1e-4, one bag per step), with pixels in place of its convolutions.
``mnist-recipe``: the published network with gated attention on the same bags (Adam, 20 passes, one
bag per step, no early stopping), with its convolutions and with one layer of pixels in their place.
``detect``: average precision and top-1 hit rate in the positive bags of all Parquet files of a
folder, for the three scores of ABMIL and for mi-Net, measured as by ``bench_soft.py``: fitted to
all bags with the defaults, features standardized. Results are kept in a file and not computed
again.
"""

import argparse
import json
import time
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline

from pigmil import ABMIL, BagScaler, MINet, metrics
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
            f"MNIST {name:28}accuracy {accuracy:.3f}, AUC "
            f"{roc_auc_score(test.y, model.decision_function(test)):.3f}, instance AUC "
            f"{roc_auc_score(test.instance_labels[inside], scores[inside]):.3f}; "
            f"{time.process_time() - start:.0f} CPU s",
            flush=True,
        )


def recipe(chosen, runs):
    bags = load_dataset("musk1")
    scaled = (bags.instances - bags.instances.mean(axis=0)) / (bags.instances.std(axis=0) + 1e-6)
    bags = bags.with_instances(scaled)
    positive = bags.y == 1
    for name in chosen or MUSK1:
        start = time.process_time()
        accuracies = []
        for run in range(runs):
            right = []
            folds = KFold(10, shuffle=True, random_state=run).split(positive)
            for number, (train, test) in enumerate(folds):
                logit = train_as_published(name, bags[train], positive[train], number)
                called = np.array([logit(bag) > 0 for bag in bags[test]])
                right += (called == positive[test]).tolist()
            accuracies.append(np.mean(right))
        print(
            f"Musk-1 {name:14}by the published recipe {np.mean(accuracies):.3f}, runs "
            f"{np.round(accuracies, 3).tolist()}, published {MUSK1[name][1]:.3f}; "
            f"{time.process_time() - start:.0f} CPU s",
            flush=True,
        )


def train_as_published(name, bags, positive, seed, epochs=50):
    """Return a function that gives the logit of a bag."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    rng = np.random.RandomState(seed)

    def draw(rows, columns):
        bound = (6 / (rows + columns)) ** 0.5
        weights = (torch.rand(rows, columns, generator=generator) * 2 - 1) * bound
        return weights.requires_grad_()

    sizes = (bags.n_features, 256, 128, 64)
    weights = [draw(*pair) for pair in (*pairwise(sizes), (64, 1))]
    biases = [torch.zeros(weight.shape[1], requires_grad=True) for weight in weights]
    if name.startswith("ABMIL"):
        for _ in range(2 if "gated" in name else 1):
            weights.append(draw(64, 64))
            biases.append(torch.zeros(64, requires_grad=True))
        weights.append(draw(64, 1))

    def forward(bag, dropout=0.0):
        hidden = bag
        for weight, bias in zip(weights[:3], biases[:3], strict=True):
            hidden = torch.relu(hidden @ weight + bias)
        if dropout:
            hidden = hidden * (torch.rand(hidden.shape, generator=generator) >= dropout)
            hidden = hidden / (1 - dropout)
        if name == "mi-Net":
            return (hidden @ weights[3] + biases[3]).max()
        if name == "MI-Net":
            return (hidden.max(dim=0).values @ weights[3] + biases[3])[0]
        gate = torch.tanh(hidden @ weights[4] + biases[4])
        if "gated" in name:
            gate = gate * torch.sigmoid(hidden @ weights[5] + biases[5])
        attention = torch.softmax((gate @ weights[-1])[:, 0], dim=0)
        return (attention @ hidden @ weights[3] + biases[3])[0]

    # A penalty of 0.005 |w|^2 has the gradient 0.01 w.
    groups = [{"params": weights, "weight_decay": 0.01}, {"params": biases}]
    optimizer = torch.optim.SGD(groups, lr=5e-4, momentum=0.9, nesterov=True)
    parts = [torch.tensor(bag, dtype=torch.float32) for bag in bags]
    goals = torch.tensor(positive.astype(np.float32))
    steps = 0
    for _ in range(epochs):
        for number in rng.permutation(len(parts)):
            for group in optimizer.param_groups:
                group["lr"] = 5e-4 / (1 + 1e-4 * steps)
            steps += 1
            optimizer.zero_grad()
            logit = forward(parts[number], dropout=0.5)
            torch.nn.functional.binary_cross_entropy_with_logits(logit, goals[number]).backward()
            optimizer.step()

    def logit_of(bag):
        with torch.no_grad():
            return float(forward(torch.tensor(bag, dtype=torch.float32)))

    return logit_of


def mnist_recipe(path, seed):
    """Train the published network, with its convolutions and with one layer in their place."""
    import torch
    from bench_soft import load
    from torch import nn

    bags = load(path)
    parts = [torch.tensor((bag - 0.1307) / 0.3081, dtype=torch.float32) for bag in bags]
    goals = torch.tensor((bags.y == 1).astype(np.float32))
    test = np.arange(len(bags)) % 3 == 2
    convolutions = (
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
    )  # fmt: skip
    for layers in (), convolutions:
        start = time.process_time()
        torch.manual_seed(seed)
        rng = np.random.RandomState(seed)
        features = nn.Sequential(*layers, nn.Linear(800 if layers else 784, 500), nn.ReLU())
        tanh, gate, last = nn.Linear(500, 128), nn.Linear(500, 128), nn.Linear(128, 1)
        network = nn.ModuleList([features, tanh, gate, last, nn.Linear(500, 1)])

        def forward(bag, network=network):
            features, tanh, gate, last, classifier = network
            hidden = features(bag)
            raw = last(torch.tanh(tanh(hidden)) * torch.sigmoid(gate(hidden)))
            return classifier(torch.softmax(raw[:, 0], dim=0) @ hidden)[0]

        optimizer = torch.optim.Adam(network.parameters(), lr=5e-4, weight_decay=1e-4)
        for _ in range(20):
            for number in rng.permutation(np.flatnonzero(~test)):
                optimizer.zero_grad()
                loss = nn.functional.binary_cross_entropy_with_logits
                loss(forward(parts[number]), goals[number]).backward()
                optimizer.step()
        with torch.no_grad():
            called = np.array([float(forward(parts[at])) > 0 for at in np.flatnonzero(test)])
        accuracy = np.mean(called == (bags.y[test] == 1))
        print(
            f"MNIST, published recipe, gated, {'convolutions' if layers else 'one layer'}: "
            f"accuracy {accuracy:.3f}; {time.process_time() - start:.0f} CPU s",
            flush=True,
        )


def detect(folder, chosen, sets, store):
    from bench_soft import load

    results = json.loads(store.read_text()) if store.exists() else {}
    methods = {"ABMIL": ABMIL(random_state=0), "mi-Net": MINet(level="instance", random_state=0)}
    names = sets or sorted(path.stem for path in folder.glob("*.parquet"))
    known = {name: load(folder / f"{name}.parquet") for name in names}
    columns = {"ABMIL": ("ABMIL", "ABMIL attention", "ABMIL both"), "mi-Net": ("mi-Net",)}
    for name in chosen or methods:
        print(f"{'AP / top-1, %':20}" + "".join(f"{column:>16}" for column in columns[name]))
        for data in sorted(known, key=lambda data: known[data].instances.size):
            bags = known[data]
            if f"{name} {data}" not in results:
                scaled = BagScaler().fit_transform(bags)
                start = time.process_time()
                model = methods[name].fit(scaled, bags.y)
                seconds = time.process_time() - start
                for column in columns[name]:
                    if name == "ABMIL":
                        model.set_params(score_by=column[6:] or "logit")
                    scores = model.decision_function_instances(scaled)
                    results[f"{column} {data}"] = measures(scores, bags, seconds)
                store.write_text(json.dumps(results, indent=1))
            row = [results[f"{column} {data}"] for column in columns[name]]
            cells = "".join(f"{cell['ap']:8.1f} /{cell['top1']:6.1f}" for cell in row)
            print(f"{data:20}{cells}{row[0]['seconds']:8.1f} CPU s", flush=True)
        for column in columns[name]:
            rows = [results[f"{column} {data}"] for data in known]
            means = [np.mean([row[what] for row in rows]) for what in ("ap", "top1", "seconds")]
            print(
                f"{column:16}{len(rows)} sets: AP {means[0]:.1f}, top-1 {means[1]:.1f}, "
                f"{means[2]:.1f} CPU s"
            )


def measures(scores, bags, seconds):
    inside = np.repeat(bags.y == 1, bags.sizes)
    labels = bags.instance_labels
    return {
        "ap": 100 * metrics.instance_average_precision(scores[inside], labels[inside]),
        "top1": 100 * metrics.hit_at_k(scores, bags, bags.y, labels),
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["musk1", "recipe", "mnist", "mnist-recipe", "detect"])
    parser.add_argument("file", type=Path, nargs="?", help="bags of digits, or a folder for detect")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--sets", nargs="+", help="of detect; all files of the folder if not given")
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="of recipe")
    parser.add_argument("--store", type=Path, default=Path("bench_deep.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "musk1":
        musk1(arguments.methods, arguments.networks)
    elif arguments.what == "recipe":
        recipe(arguments.methods, arguments.runs)
    elif arguments.what == "mnist-recipe":
        mnist_recipe(arguments.file, seed=1)
    elif arguments.what == "detect":
        detect(arguments.file, arguments.methods, arguments.sets, arguments.store)
    else:
        mnist(arguments.file, arguments.methods, arguments.networks)


if __name__ == "__main__":
    main()
