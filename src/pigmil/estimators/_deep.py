"""Base of the neural methods: trained with torch, applied and saved as NumPy arrays."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pigmil._core._sklearn_compat import Interval
from pigmil._core.errors import import_optional
from pigmil._core.segments import segment_blocks
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._linear import centre_and_spread, standardised
from pigmil.estimators._parameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, with_parameters
from pigmil.estimators._selection import content_order, inner_folds
from pigmil.estimators.base import MILClassifier

Shapes = list[tuple[int, ...]]
_BLOCK_ROWS = 1 << 13  # instances of one forward pass, or those of one bag
# A mean loss of held-out bags at which their labels are right with a confidence of 99.9 %: from
# here on they do not show whether a network gets better.
_LEARNT = 0.001


@with_parameters
class DeepMIL(MILClassifier):
    """Base of the neural methods: networks that differ in seed and held-out bags are averaged.

    A network is a list of arrays. A subclass gives their shapes after the hidden layers
    (``_head_shapes``) and the pass from hidden features on (``_head``), which is the same code in
    torch and in NumPy.
    """

    hidden_layer_sizes: Any = field(default=(256, 128, 64), kw_only=False)
    dropout: float = 0.5
    learning_rate: float = 5e-4
    weight_decay: float = 5e-3
    batch_size: int = 4
    max_epochs: int = 200
    patience: int = 50
    validation_fraction: float = 0.2
    n_networks: int = 5
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "hidden_layer_sizes": [tuple, list],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
        "batch_size": AT_LEAST_ONE,
        "max_epochs": AT_LEAST_ONE,
        "patience": AT_LEAST_ONE,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_networks": AT_LEAST_ONE,
    }

    @abstractmethod
    def _head_shapes(self, n_hidden: int) -> Shapes:
        """Return the shapes of the arrays after the hidden layers."""

    @abstractmethod
    def _head(self, xp: Any, hidden: Any, head: list[Any], inside: Any) -> tuple[Any, Any]:
        """Return the logits of some bags, and the scores of their instances.

        ``hidden`` are the hidden features of the instances, ``head`` the arrays that follow, and
        ``inside`` marks the instances (columns) of each bag (row); all of the library ``xp``,
        torch or NumPy.
        """

    def _hidden(
        self, rows: Any, arrays: list[Any], drop: Callable[[Any], Any] = lambda rows: rows
    ) -> tuple[Any, list[Any]]:
        """Return the hidden features of rows, and the arrays that follow, in torch or NumPy."""
        for _ in self.hidden_layer_sizes:
            weight, bias, *arrays = arrays
            rows = drop(rows @ weight + bias)
            rows = rows * (rows > 0)
        return rows, arrays

    def _shapes(self, n_features: int) -> Shapes:
        sizes = [n_features, *(int(size) for size in self.hidden_layer_sizes)]
        if min(sizes) < 1 or len(sizes) < 2:
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r} must be one or more positive "
                "integers."
            )
        shapes: Shapes = []
        for before, after in pairwise(sizes):
            shapes += [(before, after), (after,)]
        return shapes + self._head_shapes(sizes[-1])

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        torch = import_optional("torch", extra="deep", purpose=f"Training {type(self).__name__}")
        shapes = self._shapes(bags.n_features)
        self.centre_, self.spread_ = centre_and_spread(bags.instances)
        rng = check_random_state(self.random_state)
        # Bags in an order of their own, so that the seed decides, not the order they came in.
        order = np.asarray(content_order(bags))
        own, targets = bags[order], positive[order]
        data = standardised(own.instances, self.centre_, self.spread_).astype(np.float32)
        parts = torch.as_tensor(data).split(own.sizes.tolist())
        n_folds = max(2, round(1 / self.validation_fraction))
        folds = inner_folds(own, targets, n_folds, rng.permutation(own.n_bags))
        trained = []
        # Dropout draws from the generator that all of torch shares.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.randint(2**31 - 1)))
            for number in range(self.n_networks):
                # Where a class has one bag, all bags are trained on and watched.
                split = np.arange(own.n_bags), np.arange(own.n_bags)
                if folds:
                    held_out = folds[number % len(folds)]
                    split = np.flatnonzero(~held_out), np.flatnonzero(held_out)
                trained.append(self._train(torch, parts, targets, *split, shapes, rng))
        networks, epochs = zip(*trained, strict=True)
        self.weights_ = [np.stack(arrays) for arrays in zip(*networks, strict=True)]
        self.n_iter_ = max(epochs)
        if self.n_iter_ == self.max_epochs:
            warnings.warn(
                f"{type(self).__name__} was still improving on held-out bags after "
                f"max_epochs={self.max_epochs} epochs.",
                ConvergenceWarning,
                stacklevel=2,
            )
        logits, scores = self._mean_over_networks(bags)
        self._set_threshold(bags, positive, scores, logits > 0)

    def _train(
        self,
        torch: Any,
        parts: Any,
        targets: BoolArray,
        train: IntArray,
        held_out: IntArray,
        shapes: Shapes,
        rng: np.random.RandomState,
    ) -> tuple[list[FloatArray], int]:
        """Train one network; return its arrays after the epoch best on held-out bags.

        ``parts`` are the instances of every bag. The number of epochs is returned too.
        """
        network = [
            torch.tensor(initial_weights(shape, rng), dtype=torch.float32, requires_grad=True)
            for shape in shapes
        ]
        optimizer = torch.optim.Adam(
            network, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        goals = torch.as_tensor(targets.astype(np.float32))
        functions = torch.nn.functional

        def batch_loss(chosen: IntArray, dropout: float) -> Any:
            """Return the mean loss of some bags."""
            own = [parts[bag] for bag in chosen]
            owners = np.repeat(np.arange(len(own)), [len(part) for part in own])
            inside = torch.as_tensor(owners == np.arange(len(own))[:, None])
            hidden, head = self._hidden(
                torch.cat(own), network, lambda rows: functions.dropout(rows, dropout)
            )
            logits, _ = self._head(torch, hidden, head, inside)
            return functions.binary_cross_entropy_with_logits(logits, goals[chosen])

        def batches(chosen: IntArray) -> list[IntArray]:
            return np.split(chosen, range(self.batch_size, len(chosen), self.batch_size))

        best, best_loss, best_epoch = network, np.inf, 0
        for epoch in range(1, self.max_epochs + 1):
            for batch in batches(rng.permutation(train)):
                optimizer.zero_grad()
                batch_loss(batch, float(self.dropout)).backward()
                optimizer.step()
            with torch.no_grad():
                total = sum(float(batch_loss(own, 0.0)) * len(own) for own in batches(held_out))
            held_out_loss = total / len(held_out)
            if held_out_loss < best_loss:
                best_loss, best_epoch = held_out_loss, epoch
                best = [array.detach().clone() for array in network]
            if epoch - best_epoch >= self.patience or best_loss < _LEARNT:
                break
        return [array.detach().numpy() for array in best], epoch

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags)[0]

    def _score_instances(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags)[1] - self.threshold_

    def _mean_over_networks(self, bags: Bags) -> tuple[FloatArray, FloatArray]:
        """Return the logit of every bag and the score of every instance, means over networks."""
        networks = list(zip(*self.weights_, strict=True))
        logits, scores = np.zeros(bags.n_bags), np.zeros(bags.n_instances)
        for first, last in segment_blocks(bags.offsets, _BLOCK_ROWS):
            start, stop = bags.offsets[first], bags.offsets[last]
            rows = standardised(bags.instances[start:stop], self.centre_, self.spread_)
            for network in networks:
                hidden, head = self._hidden(rows, [array.astype(np.float64) for array in network])
                # A loop over bags, because every bag has its own number of instances.
                by_bag = np.split(hidden, bags.offsets[first + 1 : last] - start)
                found = [
                    self._head(np, part, head, np.ones((1, len(part)), np.bool_)) for part in by_bag
                ]
                logits[first:last] += [logit[0] for logit, _ in found]
                scores[start:stop] += np.concatenate([values for _, values in found])
        return logits / len(networks), scores / len(networks)


def initial_weights(shape: tuple[int, ...], rng: np.random.RandomState) -> FloatArray:
    """Return weights as Glorot draws them, or zeros for a bias."""
    if len(shape) == 1:
        return np.zeros(shape)
    bound = np.sqrt(6 / sum(shape))
    return rng.uniform(-bound, bound, size=shape)
