"""The bytes that every kernel gives, to be compared with those of another machine.

    python -m tests.native.bytes ask CALLS OUT       makes calls, and keeps them with what they give here
    python -m tests.native.bytes answer CALLS OUT    the same calls on another machine

Calls are kept because a library's eigenvectors, which are among the arguments, may differ between machines.
"""

import hashlib
import json
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

from apportion.native import kernels
from tests.fuzz.kernel_calls import CALLS, WRITTEN, good_call

EACH = 12


def ask() -> list[tuple[str, dict[str, Any]]]:
    """Calls of every function."""
    return [(name, good_call(name, random.Random(seed))) for name in CALLS for seed in range(EACH)]


def answer(calls: list[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """A digest of what each function gives, and writes."""
    digests = {name: hashlib.sha256() for name in CALLS}
    for name, call in calls:
        call = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in call.items()}
        found = getattr(kernels, name)(**call)
        parts = list(found) if isinstance(found, tuple) else [found]
        for part in parts + [call[each] for each in sorted(WRITTEN.get(name, ()))]:
            some = np.asarray(-1 if part is None else part)
            digests[name].update(f"{some.dtype} {some.shape}".encode() + some.tobytes())
    return {name: digest.hexdigest() for name, digest in digests.items()}


def main(what: str, kept: str, out: str) -> None:
    """See above."""
    if what == "ask":
        Path(kept).write_bytes(pickle.dumps(ask()))
    calls = pickle.loads(Path(kept).read_bytes())
    found = answer(calls)
    Path(out).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
