"""The path of a one-sweep ``fit`` through the package: files, functions, and calls from room to room.

    python -m benchmarks.trace

A room is a folder of the package; files at its top, which everyone uses, are none. A jump is a call from a
function of one room to one of another; calls through other packages or files at the top count from the last
of ours. Calls between the same two functions count once for ``distinct`` jumps.
"""

import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import apportion as ap

PACKAGE = Path(ap.__file__).parent
Function = tuple[str, str]


class Followed:
    """Functions that are entered, and from which of ours."""

    def __init__(self) -> None:
        self.functions: set[Function] = set()
        self.jumps: Counter[tuple[Function, Function]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        own = _ours(frame.f_code)
        if event != "call" or own is None:
            return
        self.functions.add(own)
        caller, before = frame.f_back, None
        while caller is not None and (before is None or not _room(before)):
            before, caller = _ours(caller.f_code), caller.f_back
        if before is not None and _room(before) and _room(own) and _room(before) != _room(own):
            self.jumps[before, own] += 1


def _ours(code: CodeType) -> Function | None:
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE):
        return None
    return str(path.relative_to(PACKAGE)), code.co_qualname


def _room(function: Function) -> str:
    """Its name; empty for a file at the top."""
    return Path(function[0]).parts[0] if "/" in function[0] else ""


def main() -> None:
    """Trace the second of two trainings: in the first modules are loaded and tables are made."""
    data = ap.simulate_interactions(users=500, items=100, rows=10_000)
    for last in (False, True):
        model = ap.MatrixFactorization(8, sweeps=1, epsilon=1.0, noise_seed=1)
        path = Followed()
        if last:
            sys.setprofile(path)
        model.fit(data)
        sys.setprofile(None)
    files = {file for file, _ in path.functions}
    print(f"{len(files)} files, {len(path.functions)} functions")
    print(f"{sum(path.jumps.values())} jumps between rooms, {len(path.jumps)} distinct")
    between = Counter[tuple[str, str]]()
    for (before, own), times in path.jumps.items():
        between[_room(before), _room(own)] += times
    for (before_room, room), times in between.most_common():
        print(f"  {before_room} -> {room}: {times}")


if __name__ == "__main__":
    main()
