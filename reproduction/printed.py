"""The numbers printed in the paper, to compare with ours."""

import math

SYNTHETIC = ("BASIC", "RHOMBUS", "RING")

# Table I: share of detected instances that are truly positive, in per cent.
TABLE_I: dict[str, dict[str, float]] = {
    method: dict(zip(SYNTHETIC, values, strict=True))
    for method, values in {
        "PIGMIL": (95.0, 95.0, 100.0),
        "DD": (30.0, 95.0, 95.0),
        "MILD": (0.0, 95.0, 100.0),
        "mi-Sim": (60.0, 75.0, 95.0),
        "KDE_min": (80.0, 85.0, 100.0),
        "KDE": (80.0, 90.0, 0.0),
        "KDE_max": (80.0, 95.0, 0.0),
    }.items()
}

# Name to load a set by, and its name in Table II, in the order of its rows.
REAL: dict[str, str] = {
    "musk1": "Musk-1",
    "musk2": "Musk-2",
    "elephant": "Elephant",
    "fox": "Fox",
    "tiger": "Tiger",
    "ucsb_breast": "UCSB Breast",
    "eastwest": "Eastwest",
    "westeast": "Westeast",
    "mutagenesis_atoms": "Atom",
    "mutagenesis_bonds": "Bond",
    "mutagenesis_chains": "Chain",
}

_BLANK = (math.nan, math.nan)  # printed as "xx ± yy"

# Table II: accuracy on bags in per cent, mean and standard deviation over 5 x 10 folds.
TABLE_II: dict[str, dict[str, tuple[float, float]]] = {
    method: dict(zip(REAL, values, strict=True))
    for method, values in {
        "PIGMIL": (
            (83.4, 12.0), (87.2, 9.9), (80.0, 8.8), (58.5, 9.1), (79.0, 8.8), (61.6, 9.6),
            (61.0, 21.7), (52.0, 19.0), (80.8, 8.2), (81.5, 7.5), (77.1, 9.5),
        ),
        "APR": (
            (76.9, 13.8), (74.4, 14.1), (75.2, 8.4), (55.7, 10.6), (59.8, 9.7), (50.5, 12.8),
            (75.0, 23.9), (40.0, 17.7), (66.5, 0.4), (66.6, 2.6), (66.4, 1.1),
        ),
        "MILD": (
            (79.5, 13.54), (75.6, 16.4), (79.4, 9.9), (57.6, 12.0), (73.5, 9.6), (48.4, 14.6),
            (44.0, 27.9), (44.0, 24.0), (64.7, 9.3), (66.6, 12.4), (65.2, 10.0),
        ),
        "mi-Sim": (
            (82.4, 12.8), (75.2, 18.2), (78.3, 8.6), (52.8, 9.2), (75.5, 9.1), (57.5, 19.5),
            (59.0, 22.7), (55.0, 23.9), (72.4, 5.5), _BLANK, _BLANK,
        ),
        "Citation-kNN": (
            (82.7, 14.8), (83.1, 11.1), (76.1, 8.7), (58.3, 12.3), (69.8, 10.6), (69.1, 20.6),
            (59.7, 29.8), (61.4, 25.5), (78.3, 9.4), (79.0, 10.3), (71.0, 9.5),
        ),
        "MI-Kernel": (
            (54.8, 14.4), (77.3, 16.5), (67.1, 8.8), (56.5, 7.8), (65.9, 4.9), (55.5, 7.1),
            (48.7, 23.3), (51.6, 25.8), (84.5, 10.4), (72.2, 6.4), (84.8, 6.6),
        ),
        "MILES": (
            (72.0, 13.7), (88.2, 10.8), (82.0, 7.3), (63.8, 10.6), (74.5, 8.4), (55.4, 6.7),
            (49.6, 26.5), (44.1, 25.4), (65.2, 10.0), (62.2, 25.6), (66.3, 10.9),
        ),
        "miGraph": (
            (85.5, 12.6), (72.9, 13.9), (78.8, 8.3), (53.3, 10.1), (74.2, 9.5), (50.5, 21.5),
            (57.5, 25.0), (50.7, 23.9), (80.4, 8.8), (78.7, 8.6), (84.7, 7.1),
        ),
        "Clustering MIL": (
            (65.6, 15.7), (59.0, 13.0), (71.4, 10.3), (53.9, 9.5), (57.1, 11.6), (57.4, 21.5),
            (61.0, 20.9), _BLANK, (58.6, 13.9), (61.1, 12.3), (66.4, 10.5),
        ),
        "MInD": (
            (48.4, 13.8), (75.6, 21.8), (54.0, 4.3), (58.0, 9.8), (54.8, 4.2), (55.6, 7.2),
            (54.0, 20.3), (59.8, 14.8), (64.0, 9.3), (69.2, 14.6), (72.1, 15.7),
        ),
    }.items()
}  # fmt: skip
