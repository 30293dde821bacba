"""Footers of Parquet files, also damaged ones."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pigmil import Bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io._parquet_footer import values_per_row_group


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_counts_are_those_of_pyarrow(rows, compression, tmp_path):
    path = tmp_path / "a.parquet"
    lists = pa.array([list(range(at % 5)) for at in range(rows)])
    table = pa.table({"bag": np.arange(rows), "x": lists, "name": ["é"] * rows, "y": [None] * rows})
    pq.write_table(table, path, row_group_size=100, compression=compression)
    metadata = pq.ParquetFile(path).metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    expected = [sum(one.column(at).num_values for at in range(4)) for one in groups]
    assert values_per_row_group(path) == expected


def test_a_footer_that_is_not_there(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(30) + b"PAR1")
    with pytest.raises(BagFormatError, match="cannot be read as parquet"):
        values_per_row_group(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + bytes(30) + b"PARE")
    with pytest.raises(BagFormatError, match="no footer, or an encrypted one"):
        values_per_row_group(tmp_path / "a.parquet")


SCRIPT = """
import struct, sys
from pigmil import read_bags
from pigmil._core.errors import BagFormatError

content = open(sys.argv[1], "rb").read()
length = struct.unpack("<I", content[-8:-4])[0]
refused = 0
for place in range(len(content) - 8 - length, len(content) - 8):
    with open(sys.argv[2], "wb") as file:
        changed = (content[place] + 16) % 256  # one more entry, where it is the start of a list
        file.write(content[:place] + bytes([changed]) + content[place + 1 :])
    try:
        read_bags(sys.argv[2], format="parquet_list")
    except BagFormatError:
        refused += 1
print(refused)
"""


def test_a_damaged_footer_does_not_end_the_process(tmp_path):
    """Change every byte; asked for a column with a histogram of another length, pyarrow aborts."""
    path = tmp_path / "a.parquet"
    write_bags(Bags(np.ones((6, 1)), [0, 2, 5, 6], y=[1, 0, 1]), path, format="parquet_list")
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, str(path), str(tmp_path / "damaged.parquet")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
