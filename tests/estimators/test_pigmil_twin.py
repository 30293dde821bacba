"""Algorithm 3 from end to end against a slow twin that shares no code with the library.

The twin is plain Python on lists, written from the paper (numbers in brackets are its equations)
and from the docstring of PIGMIL. It knows no tolerance: a replacement needs a greater objective.
"""

import math
from itertools import combinations

import numpy as np
import pytest
from sklearn.svm import SVC

from pigmil import PIGMIL
from pigmil.datasets import make_basic, make_rhombus, make_ring

DECAYS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)


def log_mean_exp(values):
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values) / len(values))


class Twin:
    """PIGMIL on a list of bags (lists of points) with labels, for a fixed decay."""

    def __init__(self, bags, positive, unit, decay, *, supported, kernel, bias, start):
        self.bags, self.positive = bags, positive
        self.unit, self.decay = unit, decay
        self.supported, self.kernel, self.bias, self.start = supported, kernel, bias, start

    def distance(self, a, b):
        return math.dist(a, b) / self.unit

    def log_density(self, x, label, without):
        """Logarithm of (1) over the bags of a class, by the nearest instance of each."""
        nearest = [
            min(self.distance(x, other) for other in bag)
            for j, bag in enumerate(self.bags)
            if self.positive[j] == label and j != without
        ]
        return log_mean_exp([-self.decay * d for d in nearest])

    def share_of_copies(self, x, label, without):
        holds = [
            any(x == other for other in bag)
            for j, bag in enumerate(self.bags)
            if self.positive[j] == label and j != without
        ]
        return sum(holds) / len(holds)

    def working_score(self, j, x):
        n = self.log_density(x, False, j)
        if not self.supported:
            return math.exp(n)
        p = self.log_density(x, True, j)
        score = n + 10 * max(0.0, 0.7 - (p - n))
        in_negative = self.share_of_copies(x, False, j)
        if in_negative > 0:
            score += 1000 * max(0.0, 1 - self.share_of_copies(x, True, j) / in_negative)
        return score

    def initialise(self):
        """Lines 1 to 3: working sets, working bags and the first pool, as (bag, position)."""
        sets, values, best = {}, {}, {}
        for j in [j for j, label in enumerate(self.positive) if label]:
            scored = sorted((self.working_score(j, x), i) for i, x in enumerate(self.bags[j]))
            size = -(-len(scored) * 4 // 10)
            sets[j] = sorted(i for _, i in scored[:size])
            values[j] = [value for value, _ in scored[:size]]
            best[j] = scored[0][1]
        self.working_sets = sets
        self.working_bags = []
        for j, mine in values.items():
            rest = [v for other, those in values.items() if other != j for v in those]
            mean = sum(mine) / len(mine)
            variance = sum((v - mean) ** 2 for v in mine) / (len(mine) - 1)
            t = (mean - sum(rest) / len(rest)) / math.sqrt(variance / len(mine))
            if t <= 1.5:
                self.working_bags.append(j)
        return [(j, best[j]) for j in self.working_bags]

    def confidences(self, candidates):
        points = [self.bags[j][i] for j, i in candidates]
        negatives = [x for j, bag in enumerate(self.bags) if not self.positive[j] for x in bag]
        table = []
        for (j, _), x in zip(candidates, points, strict=True):
            if self.kernel:
                row = [
                    -self.decay * self.distance(x, z) - self.log_density(z, False, None)
                    for z in points
                ]
            else:
                svm = SVC(kernel="linear", C=1.0, tol=1e-10, class_weight={1: len(negatives)})
                svm.fit([x, *negatives], [1] + [0] * len(negatives))
                w = svm.coef_[0]
                b = 1 - w @ x if self.bias else 0.0
                row = [float(w @ z) + b for z in points]
                if self.bias:
                    row[candidates.index((j, _))] = 1.0
            table.append(row)
        return table

    def prepare(self):
        """Similarity (3), discrimination (5), (6) and self-confidence of all candidates."""
        self.candidates = [(j, i) for j in self.working_bags for i in self.working_sets[j]]
        m = range(len(self.candidates))
        confidence = self.confidences(self.candidates)

        def rank(i, j):
            return 1 + sum(confidence[i][k] > confidence[i][j] for k in m if k != i)

        self.s = [[0.0] * len(m) for _ in m]
        for i, j in combinations(m, 2):
            if confidence[i][j] > 0 and confidence[j][i] > 0:
                self.s[i][j] = self.s[j][i] = 1 / (rank(i, j) * rank(j, i))
        self.own = [confidence[i][i] for i in m]
        self.d = []
        for j, i in self.candidates:
            terms = []
            for k, bag in enumerate(self.bags):
                for z in bag if not self.positive[k] else []:
                    delta = self.distance(self.bags[j][i], z)
                    if delta >= 1:
                        terms.append(-math.exp(-(delta - 1)))
                    else:
                        terms.append(math.log(delta) - 1 if delta > 0 else -math.inf)
            self.d.append(sum(terms) / len(terms))

    def consistency(self, pool):
        """Size of the largest quasi-clique through every edge (4), by trying every vertex set."""
        n, sizes = len(pool), {}
        edges = {(a, b) for a, b in combinations(range(n), 2) if self.s[pool[a]][pool[b]] > 0}
        for size in range(2, n + 1):
            needed = 9 * (size * (size - 1) // 2) // 10
            for chosen in combinations(range(n), size):
                inside = [pair for pair in combinations(chosen, 2) if pair in edges]
                if len(inside) >= needed:
                    sizes.update(dict.fromkeys(inside, size))
        return sizes

    def rank(self, pool):
        """Algorithm 1: weights of Definition 9, divided by their maximum, then 11 products (8)."""
        n = len(pool)
        e = [[0.0] * n for _ in range(n)]
        for (a, b), c in self.consistency(pool).items():
            s, d = self.s[pool[a]][pool[b]], min(self.d[pool[a]], self.d[pool[b]])
            if d > -math.inf:
                alpha = max(10, math.log(c / s))
                beta = max(10, math.log((alpha * s + c) / -d))
                e[a][b] = e[b][a] = max(0.0, s + alpha * c + beta * d)
        top = max(map(max, e)) or 1.0
        r = self.start(n)
        for _ in range(11):
            r = [
                0.2 * self.own[pool[a]] + 0.8 * sum(e[a][b] / top * r[b] for b in range(n))
                for a in range(n)
            ]
        return r

    def update(self, first):
        """Algorithm 2; returns the pool and the tries as (bag, position, candidate, accepted)."""
        pool = [self.candidates.index(member) for member in first]
        scores, tries, updates, position = self.rank(pool), [], 0, 0
        while updates < 20 and position < len(pool):
            vertex = sorted(range(len(pool)), key=lambda v: (scores[v], v))[position]
            bag = self.candidates[pool[vertex]][0]
            best, best_value = None, sum(scores)
            examined = []
            for k, (j, _) in enumerate(self.candidates):
                if j == bag and k != pool[vertex]:
                    examined.append(k)
                    ranks = self.rank([*pool[:vertex], k, *pool[vertex + 1 :]])
                    if sum(ranks) > best_value:
                        best, best_value, best_ranks = k, sum(ranks), ranks
            tries += [(vertex, self.candidates[k], k == best) for k in examined]
            if best is None:
                position += 1
                continue
            pool[vertex] = best
            updates += 1
            scores = best_ranks
            order = sorted(range(len(pool)), key=lambda v: (scores[v], v))
            position = 1 if order[0] == vertex else 0
        return [self.candidates[k] for k in pool], tries


def area(values, labels):
    pairs = [(v, w) for v, a in zip(values, labels, strict=True) if a
             for w, b in zip(values, labels, strict=True) if not b]  # fmt: skip
    return sum((v > w) + (v == w) / 2 for v, w in pairs) / len(pairs)


def chosen_decay(bags, positive, unit):
    """Of the decays within two standard errors of the best on held-out bags, the nearest to 8."""
    counts = {True: 0, False: 0}
    fold = []
    for label in positive:
        fold.append(counts[label])
        counts[label] += 1
    n = min(counts.values())
    folds = min(5, n)
    mean = []
    for decay in DECAYS:
        areas = []
        for number in range(folds):
            train = [j for j in range(len(bags)) if fold[j] % folds != number]
            twin = Twin([bags[j] for j in train], [positive[j] for j in train], unit, decay,
                        supported=True, kernel=True, bias=True, start=None)  # fmt: skip
            pool = [twin.bags[j][i] for j, i in twin.initialise()]
            test = [j for j in range(len(bags)) if fold[j] % folds == number]
            best = [
                max(
                    log_mean_exp([-decay * twin.distance(x, t) for t in pool])
                    - twin.log_density(x, False, None)
                    for x in bags[j]
                )
                for j in test
            ]
            areas.append(area(best, [positive[j] for j in test]))
        mean.append(sum(areas) / folds)
    top = (max(mean) * n + 0.5) / (n + 1)
    least = max(mean) - 2 * math.sqrt(top * (1 - top) / n)
    close = [d for d, a in zip(DECAYS, mean, strict=True) if a >= least]
    return min(close, key=lambda d: abs(math.log(d / 8)))


def small(make, seed):
    return make(random_state=seed, n_positive_bags=7, n_negative_bags=6)


@pytest.mark.parametrize("make", [make_basic, make_rhombus, make_ring])
@pytest.mark.parametrize("name", ["paper", "faithful", "ours"])
def test_the_whole_of_algorithm_3(name, make):
    bags = small(make, 2)
    configuration = {"paper": PIGMIL.paper, "faithful": PIGMIL.faithful, "ours": PIGMIL}[name]
    model = configuration(random_state=0).fit(bags)

    lists = [[tuple(map(float, x)) for x in bag] for bag in bags]
    positive = [bool(label == 1) for label in bags.y]
    points = [x for bag in lists for x in bag]
    variances = [
        sum((x[k] - sum(z[k] for z in points) / len(points)) ** 2 for x in points) / len(points)
        for k in range(2)
    ]
    unit = 1.0 if name == "paper" else math.sqrt(sum(variances) / 2)
    decay = chosen_decay(lists, positive, unit) if name == "ours" else 1.0
    random = np.random.RandomState(0)

    def start(n):  # drawn at every walk
        return random.uniform(size=n).tolist() if name == "paper" else [1.0] * n

    twin = Twin(lists, positive, unit, decay, supported=name == "ours", kernel=name == "ours",
                bias=name != "paper", start=start)  # fmt: skip
    first = twin.initialise()
    twin.prepare()
    pool, tries = twin.update(first)

    def flat(members):
        return [int(bags.offsets[j]) + i for j, i in members]

    assert model.decay_ == decay
    assert model.initial_pool_.tolist() == flat(first)
    assert model.pool_.tolist() == flat(pool)
    trace = model.trace_
    assert len(tries) > 0
    assert trace.vertex.tolist() == [vertex for vertex, _, _ in tries]
    assert trace.instance.tolist() == flat([member for _, member, _ in tries])
    assert trace.accepted.tolist() == [accepted for _, _, accepted in tries]

    prototypes = [lists[j][i] for j, i in pool]
    if name == "ours":  # two of each positive bag, and of each negative bag the nearest to these
        scores = np.split(model.instance_scores_, bags.offsets[1:-1])
        best = [sorted(np.argsort(-scores[j])[:2]) for j in range(len(lists))]
        chosen = [lists[j][i] for j in range(len(lists)) if positive[j] for i in best[j]]
        prototypes = chosen + [
            min(bag, key=lambda x: min(math.dist(x, t) for t in chosen))
            for bag, label in zip(lists, positive, strict=True)
            if not label
        ]
    assert [tuple(x) for x in bags.instances[model.prototypes_].tolist()] == prototypes
    unseen, width = small(make, 3), model.classifier_.decay / unit**2
    train, test = (
        np.array([
            [
                max(math.exp(-width * math.dist(x, t) ** 2) for x in bag)
                for t in prototypes
            ]
            for bag in part
        ])
        for part in (bags, unseen)
    )  # fmt: skip
    if name == "ours":
        mean, spread = train.mean(axis=0), train.std(axis=0) * math.sqrt(len(prototypes))
        train, test = (train - mean) / spread, (test - mean) / spread

        def best_score(bag, own):  # by the pool members and the negatives of other bags
            others = [lists[j][i] for j, i in pool if j != own]
            return max(
                log_mean_exp([-decay * twin.distance(x, t) for t in others])
                - twin.log_density(x, False, own)
                for x in bag
            )

        known = np.array([best_score(bag, j) for j, bag in enumerate(lists)])
        new = np.array([best_score(bag, None) for bag in unseen])
        train = np.column_stack([train, (known - known.mean()) / known.std()])
        test = np.column_stack([test, (new - known.mean()) / known.std()])
    svm = SVC(kernel="linear", C=model.classifier_.C, tol=1e-8).fit(train, bags.y)
    np.testing.assert_allclose(
        model.decision_function(unseen), svm.decision_function(test), atol=2e-2
    )
    assert model.predict(unseen).tolist() == svm.predict(test).tolist()
