"""What each parameter of PIGMIL may be."""

from numbers import Integral, Real
from typing import Any

from pigmil._core._sklearn_compat import Interval, StrOptions

_POSITIVE = Interval(Real, 0, None, closed="neither")
_NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
_COUNT = Interval(Integral, 0, None, closed="left")
_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")

RANGES: dict[str, Any] = {
    "working_score": [StrOptions({"supported", "density_ratio", "kde_min"})],
    "decay": [_POSITIVE],
    "kde_reading": [StrOptions({"nearest", "literal"})],
    "length_unit": [StrOptions({"auto", "median"}), _POSITIVE],
    "working_set_fraction": [Interval(Real, 0, 1, closed="right")],
    "t_test": [StrOptions({"one_sample", "welch", "pooled"}), None],
    "t_threshold": [Real],
    "similarity": [StrOptions({"svm", "lda", "rbf"})],
    "exemplar_C": [_POSITIVE],
    "confidence_bias": ["boolean"],
    "quasi_clique_density": [Interval(Real, 0, 1, closed="right")],
    "gamma_far": [_POSITIVE],
    "gamma_near": [_POSITIVE],
    "alpha": [StrOptions({"log-ratio"}), _NOT_NEGATIVE],
    "beta": [StrOptions({"log-ratio"}), _NOT_NEGATIVE],
    "alpha_on": [StrOptions({"consistency", "similarity"})],
    "discrimination_pair": [StrOptions({"min", "max"})],
    "normalise": [StrOptions({"max", "row", "symmetric", "spectral", "sum"})],
    "damping": [Interval(Real, 0, 1, closed="both")],
    "walk_iterations": [_COUNT],
    "walk_start": [StrOptions({"ones", "random"})],
    "objective": [StrOptions({"ranking_scores", "edge_sum"})],
    "max_updates": [_COUNT],
    "max_candidates": [_AT_LEAST_ONE],
    "n_instances_per_bag": [_AT_LEAST_ONE],
    "prototypes": [
        StrOptions({"pool", "pool+hard_negatives", "working_sets+hard_negatives", "all"})
    ],
    "max_prototypes": [_AT_LEAST_ONE],
    "embedding_scaling": ["boolean"],
    "score_column": ["boolean", StrOptions({"cv"})],
    "embedding_decay": [StrOptions({"cv"}), _POSITIVE],
    "C": [StrOptions({"cv"}), _POSITIVE],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
    "callback": [callable, None],
    "pos_label": [None, object],
}
