"""Average precision of SoftPIGMIL with and without averages over neighbouring tiles.

python benchmarks/bench_smoothing.py            # five draws of each kind of slide
python benchmarks/bench_smoothing.py --draws 1

Slides are planted: Gaussian tiles on a grid with holes; in every second slide a share of the tiles
is shifted along one direction, either next to each other or scattered. Average precision, in
percent, is that of the tiles of positive slides, with the scores of the fit.
"""

import argparse
import itertools
import time

import numpy as np
from sklearn.metrics import average_precision_score

from pigmil import Bags, SoftPIGMIL


def planted(
    seed: int, shift: float, share: float, *, contiguous: bool, n_bags: int, side: int, width: int
) -> Bags:
    """Return slides of which every second one has a tumour."""
    rng = np.random.default_rng(seed)
    grid = np.array([(x, y) for x in range(side) for y in range(side)])
    n_tiles = int(0.8 * len(grid))
    direction = rng.normal(size=width)
    direction *= shift / np.linalg.norm(direction)
    bags, coords, labels = [], [], np.zeros((n_bags, n_tiles), dtype=int)
    for at in range(n_bags):
        place = grid[np.sort(rng.choice(len(grid), n_tiles, replace=False))]
        distance = ((place - rng.choice(place)) ** 2).sum(axis=1)
        order = np.argsort(distance) if contiguous else rng.permutation(n_tiles)
        labels[at, order[: int(share * n_tiles) * (at % 2)]] = 1
        bags.append(rng.normal(size=(n_tiles, width)) + labels[at][:, None] * direction)
        coords.append(256 * place)
    return Bags.from_list(
        bags,
        y=np.arange(n_bags) % 2,
        instance_labels=labels.ravel(),
        instance_info={"coords": np.concatenate(coords)},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--slides", type=int, default=30)
    parser.add_argument("--side", type=int, default=12, help="tiles along one side of the grid")
    parser.add_argument("--features", type=int, default=8)
    arguments = parser.parse_args()
    print(
        "| tiles | shift | share | AP without | AP with | smallest gain | width: share | seconds |"
    )
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for contiguous, shift, share in itertools.product((True, False), (2.0, 3.0), (0.06, 0.12)):
        found, chosen, start = [], [], time.process_time()
        for seed in range(arguments.draws):
            bags = planted(
                seed, shift, share, contiguous=contiguous, n_bags=arguments.slides,
                side=arguments.side, width=arguments.features,
            )  # fmt: skip
            inside = np.repeat(bags.y == 1, bags.sizes)
            models = [SoftPIGMIL(random_state=0, smooth=smooth) for smooth in (None, "coords")]
            scores = [model.fit(bags).instance_scores_[inside] for model in models]
            truth = bags.instance_labels[inside]
            found.append([100 * average_precision_score(truth, values) for values in scores])
            chosen.append(models[1].smoothing_)
        without, with_neighbours = np.mean(found, axis=0)
        print(
            f"| {'contiguous' if contiguous else 'scattered'} | {shift:g} | {share:.0%} | "
            f"{without:.1f} | {with_neighbours:.1f} | {min(np.diff(found)[:, 0]):.1f} | "
            f"{', '.join(f'{width:g}: {share:.2f}' for width, share in chosen)} | "
            f"{time.process_time() - start:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
