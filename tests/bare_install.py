"""The core install, without any extra: run by a bare interpreter, not by pytest."""

import sys
import tempfile
from pathlib import Path

import numpy as np

import pigmil

OPTIONAL = ("pandas", "polars", "pyarrow", "h5py", "pooch", "skops", "typer", "rich", "matplotlib",
            "plotly", "jinja2", "dask")  # fmt: skip


def main() -> None:
    from pigmil.datasets import make_ring
    from pigmil.estimators import all_estimators, get_estimator

    bags = make_ring(random_state=0)
    for card in all_estimators():
        model = get_estimator(card.name)().fit(bags)
        if card.detects:
            assert np.isfinite(model.decision_function_instances(bags)).all(), card.name
        if card.classifies:
            # Linear methods cannot do better than chance on RING.
            assert (model.predict(bags) == bags.y).mean() >= 0.5, card.name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.npz"
        pigmil.write_bags(bags, path)
        assert pigmil.read_bags(path).equals(bags)
        refusal = ""
        try:
            pigmil.write_bags(bags, Path(folder) / "ring.parquet")
        except ImportError as error:
            refusal = str(error)
        assert "Install it with: pip install " in refusal, refusal
    present = [name for name in OPTIONAL if name in sys.modules]
    assert not present, f"a core install imported {present}"
    print(f"bare install: {len(all_estimators())} methods fitted, npz round trip, no extra loaded")
    print("bare: 1 passed, 0 failed")


if __name__ == "__main__":
    main()
