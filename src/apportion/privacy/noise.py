"""Noise under a secret key: a function of (key, stream, step, task), and of nothing else.

Guarantee
    The noise of a task depends on the 256-bit key, the name of the stream (one per part of a release), the
    step of that release and the task's number: not on blocks, their order or the machine. Computing a
    release again gives the same bytes, so a retried job never shows a second noisy view. Two streams, two
    steps or two tasks never share a random number.

How
    BLAKE2b, keyed, maps (stream, step, tile of tasks) to an AES-128 key and a starting counter; AES in
    counter mode yields words, ``discrete`` makes whole numbers of these.

Assumes
    The operating system's generator is sound, and AES-128 and keyed BLAKE2b are pseudo-random functions:
    the words are not independent and uniform as such, but who tells them apart breaks one of the two.
"""

import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from threading import Lock
from typing import NoReturn, Self

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from apportion.checks import whole
from apportion.errors import ParameterError, ReleaseError
from apportion.privacy.discrete import Scales, Source, Words, draw

# Tasks whose noise is drawn from one AES stream. Part of the stream's definition: do not change.
TILE = 64

_AT_ONCE = 2**15  # words
_ZEROS = memoryview(bytes(8 * _AT_ONCE))  # what AES is made to encrypt


class NoiseSource:
    """A secret key and the noise that follows from it."""

    def __init__(self) -> None:
        """Draw a fresh 256-bit key from the operating system."""
        self._key = secrets.token_bytes(32)
        self._unclaimed = Lock()
        self._process = os.getpid()
        self.secret = True

    @classmethod
    def from_key(cls, key: bytes) -> Self:
        """Continue with the key of an interrupted training; the caller vouches for its secrecy."""
        if not isinstance(key, bytes) or len(key) != 32:
            raise ParameterError("a noise key has 32 bytes")
        source = cls()
        source._key = key
        return source

    @classmethod
    def from_seed(cls, seed: int) -> Self:
        """Noise that anybody can repeat, for tests and studies: reports then say NOT PRIVATE."""
        text = str(whole("noise_seed", seed, at_least=0))
        source = cls.from_key(hashlib.blake2b(text.encode(), digest_size=32).digest())
        source.secret = False
        return source

    def claim(self) -> None:
        """Tie the source to one training: a second one would draw the same noise again."""
        if not self._unclaimed.acquire(blocking=False):
            raise ReleaseError("this noise source has been used: two trainings need two keys")

    def digest(self, purpose: str) -> str:
        """By which this key is known again, and nothing else is known of it."""
        return self._derive(b"digest", purpose.encode()).hex()

    def discrete_gaussian(
        self, stream: str, step: int, first_task: int, tasks: int, scales: Scales
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Independent whole numbers for ``tasks`` tasks from ``first_task`` on.

        Some tasks at a time: the first of them, counted from ``first_task``, and their numbers, [some,
        columns], in memory that the next ones will use again. A column's have the variance that ``scales``
        says.
        """
        stop = first_task + tasks
        for tile in range(first_task // TILE, -(-stop // TILE)):
            sources = [self._source(use, stream, step, tile) for use in (b"noise", b"doubt")]
            task = tile * TILE
            # Also of tasks before the first: a tile's noise is one stream.
            for drawn in draw(min(stop - task, TILE), scales, *sources):
                own = drawn[max(first_task - task, 0) :]
                if len(own):
                    yield max(task - first_task, 0), own
                task += len(drawn)

    def sampling_key(self, name: str) -> int:
        """A secret 64-bit number for choosing rows at random, unrelated to any noise."""
        return int.from_bytes(self._derive(b"sampling", name.encode())[:8], "little")

    def sample_key(self, stream: str, step: int) -> bytes:
        """A secret key for ``poisson_sample`` in one step, unrelated to any noise: it may travel."""
        return self._derive(b"poisson", step.to_bytes(8, "little") + stream.encode())[:16]

    def _source(self, purpose: bytes, stream: str, step: int, tile: int) -> Source:
        """Of random words that nothing else gets."""
        place = step.to_bytes(8, "little") + tile.to_bytes(8, "little")
        derived = self._derive(purpose, place + stream.encode())
        cipher = Cipher(algorithms.AES(derived[:16]), modes.CTR(derived[16:])).encryptor()

        def fill(words: Words) -> None:
            for first in range(0, len(words), _AT_ONCE):
                some = words[first : first + _AT_ONCE]
                # Into memory that is there already: four times as fast as into memory of its own.
                cipher.update_into(_ZEROS[: some.nbytes], some.view(np.uint8).data)
                if sys.byteorder == "big":
                    some.byteswap(inplace=True)

        return fill

    def _derive(self, purpose: bytes, message: bytes) -> bytes:
        if os.getpid() != self._process:
            raise ReleaseError("a forked process would draw the same noise again: it trains anew")
        return hashlib.blake2b(message, key=self._key, person=purpose, digest_size=32).digest()

    def __repr__(self) -> str:
        return "NoiseSource(secret key)" if self.secret else "NoiseSource(fixed seed, NOT PRIVATE)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise key is never copied or saved: whoever has it can remove the noise")


def poisson_sample(user_key: NDArray[np.uint64], key: bytes, rate: float) -> NDArray[np.bool_]:
    """Each user with probability ``rate`` (2^-64 less, at most), independently, [users].

    A user's lot is AES of the user's own key: it does not depend on who else is there, or where.
    """
    blocks = np.zeros((len(user_key), 2), dtype="<u8")
    blocks[:, 0] = user_key
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # no block comes twice
    lots = np.frombuffer(cipher.update(blocks.tobytes()), dtype="<u8")[::2]
    return np.asarray(lots < np.uint64(min(int(rate * 2.0**64), 2**64 - 1)))
