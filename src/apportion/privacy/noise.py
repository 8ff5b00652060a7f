"""Noise under a secret key: a function of (key, stream, step, task), and of nothing else.

Guarantee
    The noise of a task depends on the 256-bit key, on the name of the stream (one per part of a
    release), on the step of that release and on the task's number: not on how tasks are cut into
    blocks, in which order these come, or on which machine. Computing a release again gives the same
    bytes, so a retried job never shows a second noisy view; two streams, two steps or two tasks never
    share a random number.

How
    BLAKE2b, keyed, maps (stream, step, tile of tasks) to an AES-128 key and a starting counter; AES in
    counter mode (randomgen) yields the bits, NumPy's ziggurat the normal variates. Both primitives
    are cryptographic: without the key the noise cannot be predicted.

Assumes
    The operating system's generator is sound. Noise is a 64-bit floating-point number; attacks on
    the low bits of such noise are known. Sampling from a grid belongs into ``standard_normal``, the one
    place where noise is drawn.
"""

import hashlib
import secrets
from typing import NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from randomgen import AESCounter

from apportion.privacy.checks import whole
from apportion.privacy.errors import ParameterError, ReleaseError

# Tasks whose noise is drawn from one AES stream. Part of the stream's definition: do not change.
TILE = 64


class NoiseSource:
    """A secret key and the noise that follows from it."""

    def __init__(self) -> None:
        """Draw a fresh 256-bit key from the operating system."""
        self._key = secrets.token_bytes(32)
        self._in_use = False
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
        if self._in_use:
            raise ReleaseError("this noise source has been used: two trainings need two keys")
        self._in_use = True

    def standard_normal(
        self, stream: str, step: int, first_task: int, tasks: int, width: int
    ) -> NDArray[np.float64]:
        """Independent N(0, 1) variates for ``tasks`` tasks from ``first_task`` on, [tasks, width]."""
        noise = np.empty((tasks, width))
        stop = first_task + tasks
        for tile in range(first_task // TILE, -(-stop // TILE)):
            start = tile * TILE
            low, high = max(start, first_task), min(start + TILE, stop)
            generator = self._generator(b"noise", stream, step, tile)
            if low > start:
                generator.standard_normal((low - start, width))  # of tasks before this block
            generator.standard_normal(out=noise[low - first_task : high - first_task])
        return noise

    def sampling_key(self, name: str) -> int:
        """A secret 64-bit number for choosing rows at random, unrelated to any noise."""
        return int.from_bytes(self._derive(b"sampling", name.encode())[:8], "little")

    def poisson_sample(self, stream: str, step: int, users: int, rate: float) -> NDArray[np.bool_]:
        """Each user with probability ``rate``, independently of all else, [users]."""
        return self._generator(b"poisson", stream, step, 0).random(users) < rate

    def _generator(self, purpose: bytes, stream: str, step: int, tile: int) -> np.random.Generator:
        place = step.to_bytes(8, "little") + tile.to_bytes(8, "little")
        derived = self._derive(purpose, place + stream.encode())
        key = int.from_bytes(derived[:16], "little")
        counter = int.from_bytes(derived[16:], "little")
        return np.random.Generator(AESCounter(key=key, counter=counter))

    def _derive(self, purpose: bytes, message: bytes) -> bytes:
        return hashlib.blake2b(message, key=self._key, person=purpose, digest_size=32).digest()

    def __repr__(self) -> str:
        return "NoiseSource(secret key)" if self.secret else "NoiseSource(fixed seed, NOT PRIVATE)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noise key is never copied or saved: whoever has it can remove the noise")
