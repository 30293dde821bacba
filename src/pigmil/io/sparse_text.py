"""Index:value pairs of instances, for the formats that write them."""

from collections.abc import Iterator

import scipy.sparse as sp

from pigmil.bags import Bags


def sparse_rows(bags: Bags, step: int = 1 << 14) -> Iterator[tuple[int, list[str]]]:
    """Yield each row and its ``index:value`` pairs, indices from 1, without zeros."""
    for start in range(0, bags.n_instances, step):
        block = sp.csr_array(bags.instances[start : start + step])
        cuts, indices, data = block.indptr.tolist(), block.indices.tolist(), block.data.tolist()
        for row in range(block.shape[0]):
            part = slice(cuts[row], cuts[row + 1])
            pairs = zip(indices[part], data[part], strict=True)
            yield start + row, [f"{index + 1}:{value!r}" for index, value in pairs if value != 0]
