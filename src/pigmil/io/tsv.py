"""Tab-separated text: as comma-separated text, with tabs."""

from functools import partial

from pigmil.io import delimited

read = partial(delimited.read, delimiter="\t")
write = partial(delimited.write, delimiter="\t")
