"""Sizes that no memory holds are refused before anything is allocated."""

import os

from apportion.errors import DataError

# Positions of users, items and tasks are below this.
MOST = 2**31 - 1


def check_memory(what: str, size: int) -> None:
    """Refuse what takes more bytes than this machine has memory: to try would end the process."""
    if size > _memory():
        raise DataError(f"{what} does not fit into the memory of this machine")


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not every system tells
        return 2**40
