"""One thread for torch: networks as small as these only wait for a second one."""

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
