"""Digests of all data sets as the library reads them, to compare two versions.

python benchmarks/check_reading.py --write before.json    # with the one version
python benchmarks/check_reading.py --compare before.json  # with the other

Reads every ``.parquet`` file below ``PIGMIL_DATA`` and the files in ``original``. A digest covers
instances (type, values, sparsity), offsets, ids, labels of bags and instances, names of features
and all info.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path

import numpy as np

import pigmil
from pigmil import datasets


def digest_of(values) -> str:
    """Return a short digest of an array: numbers by their bytes, text by its characters."""
    if values is None:
        return "none"
    array = np.asarray(values)
    if array.dtype.kind in "OUS":
        content = json.dumps(array.astype(str).tolist()).encode()
        return "text " + hashlib.sha256(content).hexdigest()[:16]
    content = np.ascontiguousarray(array).tobytes()
    return f"{array.dtype} {hashlib.sha256(content).hexdigest()[:16]}"


def digests(path: Path) -> dict:
    original = path.parent.name == "original"
    # Versions before read_original read these files by read_bags.
    read = getattr(datasets, "read_original", pigmil.read_bags) if original else pigmil.read_bags
    bags = read(path)
    parts = {"instances": bags.instances}
    if bags.is_sparse:
        matrix = bags.instances
        parts = {
            "data": matrix.data,
            "indices": matrix.indices.astype(np.int64),
            "indptr": matrix.indptr.astype(np.int64),
        }
    names = ("offsets", "ids", "y", "instance_labels", "feature_names")
    parts |= {name: getattr(bags, name) for name in names}
    for kind in ("instance_info", "bag_info"):
        info = getattr(bags, kind)
        parts |= {f"{kind}[{name}]": info[name] for name in sorted(info)}
    found = {"shape": [*bags.shape, bags.n_instances]}
    return found | {name: digest_of(values) for name, values in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    options = parser.parse_args()
    folder = Path(os.environ["PIGMIL_DATA"])
    files = sorted(folder.rglob("*.parquet"))
    files += [path for path in sorted((folder / "original").iterdir()) if path.suffix != ".names"]
    found = {str(path.relative_to(folder)): digests(path) for path in files}
    if options.write:
        options.write.write_text(json.dumps(found, indent=1))
    if options.compare:
        expected = json.loads(options.compare.read_text())
        differing = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
        for name in sorted(differing):
            parts = {*found.get(name, {}), *expected.get(name, {})}
            unequal = [
                part
                for part in sorted(parts)
                if found.get(name, {}).get(part) != expected.get(name, {}).get(part)
            ]
            print(f"{name}: differs in {', '.join(unequal)}")
        print(f"{len(found) - len(differing)} of {len(expected)} files are read as before")
        raise SystemExit(bool(differing))
    print(f"{len(found)} files read")


if __name__ == "__main__":
    main()
