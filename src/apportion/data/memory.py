"""Sizes that no memory holds are refused before anything is allocated."""

import os

from apportion.errors import DataError
from apportion.limits import memory

# Positions of users, items and tasks are below this.
MOST = 2**31 - 1


def check_memory(what: str, size: int) -> None:
    """Refuse what takes more bytes than the machine has, or the container may use: to try would end it."""
    if size > _memory():
        raise DataError(f"{what} does not fit into the memory of this machine")


def _memory() -> int:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not every system tells
        size = 2**40
    return min(size, memory() or size)
