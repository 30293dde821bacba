"""The memory that is available now."""

import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes of memory that can be used without swapping; None if unknown.

    The limit of a container counts where it is lower than what the machine has.
    """
    amounts = [amount for amount in (_machine(), _container()) if amount is not None]
    return min(amounts, default=None)


def _machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # Windows
        return None


def _container() -> int | None:
    """Return what is left of the limit of this control group; cached file pages count as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
        cached = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError, StopIteration):
        return None
    return max(0, limit - used + cached)
