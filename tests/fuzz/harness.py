"""A case of fuzzing: an odd input ends in an error of ours or in a result, and tells no secret.

The short form is part of every run of the tests. APPORTION_FUZZ=50 runs fifty times as many cases.
"""

import os
import random
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import apportion as ap

TIMES = int(os.environ.get("APPORTION_FUZZ", "1"))
# Planted in data: no message may hold them.
USER, RATING, OUTSIDE = "SECRET-USER-7391", 4.73913, 739134.5  # the latter in no range
SECRETS = (USER, str(RATING), str(OUTSIDE))


def examples(short: int) -> settings:
    """Settings of hypothesis: as many examples, the same in every run."""
    return settings(
        max_examples=short * TIMES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def seeds(short: int) -> Iterator[random.Random]:
    """As many sources of harmless randomness, the same in every run."""
    return (random.Random(seed) for seed in range(short * TIMES))


class Fuzz:
    """Counts cases and judges how they end."""

    def __init__(self) -> None:
        self.cases = 0

    def case(self, call: Callable[[], Any], also: tuple[type[BaseException], ...] = ()) -> Any:
        """The result, or the error if it is one of ours (or of ``also``); any other one is raised."""
        self.cases += 1
        expected: tuple[type[BaseException], ...] = (ap.ApportionError, *also)
        try:
            return call()
        except expected as error:
            told = "".join(traceback.format_exception(error))
            messages = "".join(str(each) for each in chain(error))
            assert messages.strip(), "an error without a message"
            check_secrets(messages)
            check_secrets("".join(line for line in told.splitlines() if "Error:" in line))
            return error


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error, all that it came from, and their notes."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        yield from (Exception(note) for note in getattr(error, "__notes__", ()))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def check_secrets(text: str) -> None:
    """Fail if a text tells what was planted."""
    for secret in SECRETS:
        assert secret not in text, f"a private value is told: {text}"


def tree(folder: Path) -> dict[str, bytes | str]:
    """Everything in a folder: files by their content, links and folders by their kind."""
    return {
        str(path.relative_to(folder)): (
            "link" if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def fuzz(record_property: Callable[[str, object], None]) -> Iterator[Fuzz]:
    """Counts the cases of a test."""
    counter = Fuzz()
    yield counter
    record_property("fuzz_cases", counter.cases)


def mutated(content: bytes, source: random.Random) -> bytes:
    """Bytes cut off, flipped, repeated, inserted or made into large numbers."""
    changed = bytearray(content)
    for _ in range(source.choice((1, 1, 1, 2, 4, 16))):
        place = source.randrange(len(changed) + 1)
        what = source.randrange(7)
        if what == 0:
            del changed[place:]
        elif what == 1:
            changed[place : place + 1] = bytes([source.choice((0, 1, 0x7F, 0x80, 0xFF))])
        elif what == 2:
            changed[place : place + 1] = source.randbytes(1)
        elif what == 3:
            changed[place:place] = source.randbytes(source.randrange(1, 12))
        elif what == 4:
            changed[place : place + 8] = source.choice(
                (2**31 - 1, 2**31, 2**40, 2**62, 2**64 - 1)
            ).to_bytes(8, "little")
        elif what == 5:
            changed[place : place + 1] = b"\xfe\xff\xff\xff\x0f"  # a large number, as in Parquet
        else:
            end = source.randrange(place, min(len(changed), place + 64) + 1)
            changed[place:place] = changed[place:end]
    return bytes(changed)
