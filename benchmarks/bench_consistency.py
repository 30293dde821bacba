"""Time and quality of the consistency routes, and of a whole updating.

Run ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/bench_consistency.py``: CPU time,
kernels compiled before.
Local search is compared with branch and bound in the same run, nested cores with local search.
"""

import time

import numpy as np

from pigmil.graph import _kernels, update_pool
from pigmil.graph.edges import edges_needed, missing_allowed


def random_graph(n, share, rng):
    upper = np.triu(rng.random((n, n)) < share, 1)
    return (upper | upper.T).astype(np.int8)


def block_graph(n, n_blocks, rng):
    block = rng.integers(n_blocks, size=n)
    return random_graph(n, np.where(block[:, None] == block, 0.85, 0.1), rng)


def geometric_graph(n, radius, rng):
    points = rng.normal(size=(n, 3))
    near = np.linalg.norm(points[:, None] - points, axis=2) < radius
    return (near & ~np.eye(n, dtype=bool)).astype(np.int8)


def graphs(n, seed=0):
    rng = np.random.default_rng(seed)
    for share in (0.2, 0.5, 0.7):
        yield f"random {share}", random_graph(n, share, rng)
    for n_blocks in (2, 5):
        yield f"{n_blocks} blocks", block_graph(n, n_blocks, rng)
    for radius in (1.5, 2.0):
        yield f"geometric {radius}", geometric_graph(n, radius, rng)


def timed(adjacency, method):
    needed = edges_needed(len(adjacency), 0.9)
    sizes = np.zeros(adjacency.shape, dtype=np.int64)
    start = time.process_time()
    if method == "exact":
        sizes = _kernels.exact_sizes(adjacency, missing_allowed(needed))[0]
    elif method == "search":
        _kernels.local_search(adjacency, needed, sizes)
    else:
        _kernels.nested_cores(adjacency, needed, sizes)
    return sizes[adjacency > 0], time.process_time() - start


def compare(n, fast, reference):
    print(f"\n{n} vertices: {fast} against {reference}")
    for name, adjacency in graphs(n):
        known, reference_time = timed(adjacency, reference)
        sizes, fast_time = timed(adjacency, fast)
        n_edges = len(sizes) // 2
        print(
            f"  {name:14s} {n_edges:6d} edges  equal {np.mean(sizes == known):6.1%}  "
            f"short {1 - sizes.sum() / known.sum():6.2%}  "
            f"{fast_time / n_edges * 1e6:6.2f} us an edge  {reference_time / fast_time:7.1f} x"
        )


def large(n, share):
    adjacency = random_graph(n, share, np.random.default_rng(0))
    sizes, seconds = timed(adjacency, "cores")
    print(f"  {n} vertices, {len(sizes) // 2} edges: {seconds:.2f} s")


def updating(n_bags, radius, n_candidates=3):
    """Candidates scattered in space, similar when near: ranks as the paper defines them."""
    rng = np.random.default_rng(0)
    bag = np.repeat(np.arange(n_bags), n_candidates)
    points = rng.normal(size=(len(bag), 3))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    np.fill_diagonal(distance, np.inf)
    rank = distance.argsort(axis=1).argsort(axis=1) + 1.0
    similarity = np.where(distance < radius, 1 / (rank * rank.T), 0.0)
    start = time.process_time()
    result = update_pool(
        similarity,
        -rng.exponential(size=len(bag)),
        rng.normal(1.0, 1.0, size=len(bag)),
        bag,
        np.arange(n_bags) * n_candidates,
        max_updates=10 * n_bags,
    )
    seconds = time.process_time() - start
    print(
        f"  {n_bags} bags: {seconds:.2f} s, {len(result.trace)} tries, {result.n_updates} updates, "
        f"{seconds / max(1, len(result.trace)) * 1e3:.2f} ms a try"
    )


def main():
    for method in ("exact", "search", "cores"):
        timed(random_graph(12, 0.5, np.random.default_rng(0)), method)
    compare(24, "search", "exact")
    compare(150, "cores", "search")
    print("\nnested cores on large graphs")
    large(557, 0.5)
    large(2000, 0.5)
    print("\nwhole updating, to the end")
    for n_bags, radius in ((20, 1.2), (47, 1.2), (100, 1.0), (173, 1.0)):
        updating(n_bags, radius)


if __name__ == "__main__":
    main()
