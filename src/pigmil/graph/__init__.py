"""The graph of the paper, piece by piece, as pure functions."""
