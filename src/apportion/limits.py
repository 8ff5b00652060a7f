"""What a container allows: control groups limit processors and memory below what the machine has."""

import math
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def processors(root: Path = _ROOT) -> int | None:
    """How many processors' time this process may use, rounded up; None without a limit."""
    found = []
    for folder in _folders("cpu", root):
        try:
            if (folder / "cpu.max").is_file():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = (
                    (folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
                )
            if quota != "max" and float(quota) > 0:
                found.append(math.ceil(float(quota) / float(period)))
        except (OSError, ValueError, ArithmeticError):  # not there, or not to be read
            continue
    return max(1, min(found)) if found else None


def memory(root: Path = _ROOT) -> int | None:
    """How many bytes this process may use; None without a limit."""
    found = []
    for folder in _folders("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                text = (folder / name).read_text().strip()
                if text != "max" and 0 < int(text) < 2**62:  # the first version's word for none
                    found.append(int(text))
            except (OSError, ValueError):
                continue
    return min(found) if found else None


def _folders(controller: str, root: Path) -> Iterator[Path]:
    """Those of the groups that this process is in, inner ones first, for both versions of the system."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        names, _, group = rest.partition(":")
        if names and controller not in names.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if names else "")
        inner = top / group.lstrip("/")
        # In a container the group's own name may not be visible: its files are at the top then.
        yield from (each for each in (inner, *inner.parents) if each.is_relative_to(top))
