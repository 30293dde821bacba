"""Base of the neural methods: trained with torch, applied and saved as NumPy arrays."""

import warnings
from abc import abstractmethod
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pigmil._core import state
from pigmil._core._sklearn_compat import Interval
from pigmil._core.optional import import_optional
from pigmil._core.segments import segment_gather, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE
from pigmil.estimators._selection import content_order, min_error_threshold
from pigmil.estimators._standardise import centre_and_spread, standardised
from pigmil.estimators.base import MILClassifier

Shapes = list[tuple[int, ...]]
_BLOCK_BAGS = 256  # bags of one forward pass


class DeepMIL(MILClassifier):
    """Base of the neural methods: networks that differ in seed and held-out bags are averaged.

    A network is a list of arrays. A subclass gives their shapes after the hidden layers
    (``_head_shapes``), the forward pass from hidden features in torch (``_head``), and the same in
    NumPy (``_bag_logits``, ``_network_scores``).
    """

    _state: ClassVar[dict[str, state.Field]] = {
        "centre_": state.Floats(shape=("features",)),
        "spread_": state.Number(positive=True),
        "threshold_": state.Number(),
        "weights_": state.FloatList(),
        "n_iter_": state.Number(integer=True, low=1),
    }

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

    hidden_layer_sizes: Any
    dropout: float
    learning_rate: float
    weight_decay: float
    batch_size: int
    max_epochs: int
    patience: int
    validation_fraction: float
    n_networks: int
    random_state: Any

    @abstractmethod
    def _head_shapes(self, n_hidden: int) -> Shapes:
        """Return the shapes of the arrays after the hidden layers."""

    @abstractmethod
    def _head(self, torch: Any, hidden: Any, owners: Any, n_bags: int, head: list[Any]) -> Any:
        """Return the logits of each network, of shape (n_networks, n_bags), in torch.

        ``hidden`` has shape (n_networks, n_rows, n_hidden); ``owners`` is flat and counts the bags
        of the second network from ``n_bags`` on, and so forth.
        """

    @abstractmethod
    def _bag_logits(self, hidden: FloatArray, offsets: IntArray, head: list[Any]) -> FloatArray:
        """Return the logit of every bag by one network, in NumPy."""

    @abstractmethod
    def _network_scores(self, hidden: FloatArray, offsets: IntArray, head: list[Any]) -> FloatArray:
        """Return the score of every instance by one network, in NumPy."""

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

    def _check_state(self, sizes: state.Sizes) -> None:
        super()._check_state(sizes)
        expected = [(self.n_networks, *shape) for shape in self._shapes(sizes["features"])]
        if [array.shape for array in self.weights_] != expected:
            raise state.StateError("weights_ do not have the shapes of the layers")

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        torch = import_optional("torch", extra="deep", purpose=f"Training {type(self).__name__}")
        self.centre_, self.spread_ = centre_and_spread(bags.instances)
        shapes = self._shapes(bags.n_features)
        rng = check_random_state(self.random_state)
        # Bags in an order of their own, so that the seed decides, not the order they came in.
        order = np.asarray(content_order(bags))
        sorted_bags, targets = bags[order], positive[order]
        data = standardised(sorted_bags.instances, self.centre_, self.spread_)
        self.weights_, self.n_iter_ = self._train(torch, data, sorted_bags, targets, shapes, rng)
        if self.n_iter_ == self.max_epochs:
            warnings.warn(
                f"{type(self).__name__} was still improving on held-out bags after "
                f"max_epochs={self.max_epochs} epochs.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.threshold_ = 0.0
        scores = self._score_instances(bags)
        best = segment_reduce(np.maximum, scores, bags.offsets)
        self.threshold_ = min_error_threshold(best, self._score_bags(bags) > 0)
        self._set_detection(bags, positive, scores - self.threshold_)

    def _train(
        self,
        torch: Any,
        data: FloatArray,
        bags: Bags,
        targets: BoolArray,
        shapes: Shapes,
        rng: np.random.RandomState,
    ) -> tuple[list[FloatArray], int]:
        """Train all networks side by side; return their arrays at the epoch best on held-out bags.

        They share no weights, and the loss is the sum of theirs: each is trained as if alone.
        """
        splits = [_split(targets, self.validation_fraction, rng) for _ in range(self.n_networks)]
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        network = [
            torch.tensor(
                np.stack([_initial(shape, rng) for _ in splits]),
                dtype=torch.float32,
                requires_grad=True,
            )
            for shape in shapes
        ]
        optimizer = torch.optim.Adam(
            network, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        table = torch.as_tensor(np.asarray(data, dtype=np.float32))
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits

        def losses(chosen: IntArray, dropout: float) -> Any:
            """Return the mean loss of each network over its row of chosen bags."""
            rows, owners = _padded_rows(bags.offsets, chosen)
            hidden = table[torch.as_tensor(rows)]
            n_layers = 2 * len(self.hidden_layer_sizes)
            for weight, bias in zip(network[:n_layers:2], network[1:n_layers:2], strict=True):
                hidden = torch.relu(torch.baddbmm(bias[:, None], hidden, weight))
                if dropout:
                    kept = torch.rand(hidden.shape, generator=generator) >= dropout
                    hidden = hidden * kept / (1 - dropout)
            n_bags = chosen.shape[1] + 1  # the last holds the padding
            owners = owners + n_bags * np.arange(len(chosen))[:, None]
            places = torch.as_tensor(owners.ravel())
            logits = self._head(torch, hidden, places, n_bags, network[n_layers:])
            goal = torch.as_tensor(targets[chosen].astype(np.float32))
            return loss_of(logits[:, :-1], goal, reduction="none").mean(dim=1)

        train, held_out = (np.stack(parts) for parts in zip(*splits, strict=True))
        best_loss, best_epoch = np.full(len(splits), np.inf), np.zeros(len(splits), dtype=np.int64)
        best = [weight.detach().numpy().copy() for weight in network]
        for epoch in range(1, self.max_epochs + 1):
            shuffled = np.stack([rng.permutation(row) for row in train])
            for start in range(0, shuffled.shape[1], self.batch_size):
                optimizer.zero_grad()
                batch = shuffled[:, start : start + self.batch_size]
                losses(batch, float(self.dropout)).sum().backward()
                optimizer.step()
            with torch.no_grad():
                value = losses(held_out, 0.0).numpy()
            # A network that has stopped is trained on with the others, to no effect.
            better = (value < best_loss) & (epoch - best_epoch <= self.patience)
            best_loss[better], best_epoch[better] = value[better], epoch
            for kept, weight in zip(best, network, strict=True):
                kept[better] = weight.detach().numpy()[better]
            if (epoch - best_epoch >= self.patience).all():
                break
        return best, epoch

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags, self._bag_logits)

    def _score_instances(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags, self._network_scores) - self.threshold_

    def _mean_over_networks(self, bags: Bags, head_of: Any) -> FloatArray:
        """Return the mean over networks of a head, in blocks of bags."""
        n_layers = 2 * len(self.hidden_layer_sizes)
        values = []
        for start in range(0, bags.n_bags, _BLOCK_BAGS):
            part = bags[start : start + _BLOCK_BAGS]
            data = np.asarray(standardised(part.instances, self.centre_, self.spread_))
            total: Any = 0.0
            for number in range(self.n_networks):
                network = [array[number].astype(np.float64) for array in self.weights_]
                hidden = data.astype(np.float64)
                for weight, bias in zip(network[:n_layers:2], network[1:n_layers:2], strict=True):
                    hidden = np.maximum(hidden @ weight + bias, 0.0)
                total = total + head_of(hidden, part.offsets, network[n_layers:])
            values.append(total / self.n_networks)
        return np.concatenate(values)


def _split(
    targets: BoolArray, fraction: float, rng: np.random.RandomState
) -> tuple[IntArray, IntArray]:
    """Return training and held-out bags of both classes; all bags twice if a class has one."""
    train, held_out = [], []
    for label in (False, True):
        members = rng.permutation(np.flatnonzero(targets == label))
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        held_out.append(members[:count])
        train.append(members[count:])
    if min(map(len, held_out)) == 0:
        everything = np.arange(len(targets))
        return everything, everything
    return np.concatenate(train), np.concatenate(held_out)


def _padded_rows(offsets: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the instances of the bags in each row, and the place of their bag in the row.

    Rows are filled to equal length with instance 0 of a bag at a place of its own, the last.

    Examples
    --------
    >>> rows, places = _padded_rows(np.array([0, 1, 3]), np.array([[1], [0]]))
    >>> rows.tolist(), places.tolist()
    ([[1, 2], [0, 0]], [[0, 0], [0, 1]])
    """
    sizes = offsets[chosen + 1] - offsets[chosen]
    rows = np.zeros((len(chosen), sizes.sum(axis=1).max()), dtype=np.int64)
    places = np.full(rows.shape, chosen.shape[1])
    for number, bags in enumerate(chosen):
        inside = segment_gather(offsets, bags)
        rows[number, : len(inside)] = inside
        places[number, : len(inside)] = np.repeat(np.arange(len(bags)), sizes[number])
    return rows, places


def _initial(shape: tuple[int, ...], rng: np.random.RandomState) -> FloatArray:
    """Return weights as Glorot draws them, or zeros for a bias."""
    if len(shape) == 1:
        return np.zeros(shape)
    bound = np.sqrt(6 / (shape[0] + shape[1]))
    return rng.uniform(-bound, bound, size=shape)


def softmax_by_bag(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the softmax of values within each bag.

    Examples
    --------
    >>> softmax_by_bag(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    array([0.25, 0.75, 1.  ])
    """
    sizes = np.diff(offsets)
    powers = np.exp(values - np.repeat(segment_reduce(np.maximum, values, offsets), sizes))
    return powers / np.repeat(segment_reduce(np.add, powers, offsets), sizes)
