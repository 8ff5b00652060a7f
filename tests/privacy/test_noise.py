"""Noise: cryptographic, discrete Gaussian, and a function of (key, stream, step, task) alone."""

import copy
import hashlib
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import apportion as ap
from apportion.accounts import state
from apportion.privacy import Curator, Part, PrivacyTarget, UserBound
from apportion.privacy.discrete import Scales, Source, Words, draw
from apportion.privacy.noise import TILE, NoiseSource, poisson_sample
from tests.noise import noise_of

SOURCE = NoiseSource.from_key(bytes(range(32)))
TASKS, WIDTH = 3 * TILE + 7, 2
# So large that two numbers are the same by chance once in 10^10 times.
SCALES = Scales.of(np.array([2.0**100, 2.0**99]))
WHOLE = noise_of(SOURCE, "sums", 0, 0, TASKS, SCALES)


def filled(source: Source, count: int) -> Words:
    words = np.empty(count, dtype="<u8")
    source(words)
    return words


def test_the_generator_is_aes_128_in_counter_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    # FIPS-197, appendix C.1: this key encrypts the counter that begins here to just that.
    key, counter = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    monkeypatch.setattr(NoiseSource, "_derive", lambda *_: key + counter)
    source = NoiseSource()._source(b"noise", "sums", 0, 0)
    first, more = filled(source, 2).tobytes(), filled(source, 4).tobytes()
    assert first.hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    # The next blocks are those of the next numbers, big-endian, by the plain cipher.
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    start = int.from_bytes(counter, "big")
    assert more == b"".join(cipher.update((start + k).to_bytes(16, "big")) for k in (1, 2))


def test_every_purpose_stream_step_and_tile_has_its_own_words() -> None:
    places = [
        (purpose, stream, step, tile)
        for purpose in (b"noise", b"poisson")
        for stream in ("a", "b", "ab", "")
        for step in (0, 1, 256)
        for tile in (0, 1, 256)
    ]
    words = np.concatenate([filled(SOURCE._source(*place), 8) for place in places])
    assert len(np.unique(words)) == 8 * len(places)


@given(st.lists(st.integers(0, TASKS), max_size=6))
def test_blocks_of_any_size_in_any_order_give_the_same_bytes(cuts: list[int]) -> None:
    edges = sorted({0, TASKS, *cuts})
    noise = np.empty_like(WHOLE)
    for start, stop in reversed(list(pairwise(edges))):
        noise[start:stop] = noise_of(SOURCE, "sums", 0, start, stop - start, SCALES)
    np.testing.assert_array_equal(noise, WHOLE)


def test_same_key_same_bytes_other_key_other_bytes() -> None:
    again = noise_of(NoiseSource.from_key(bytes(range(32))), "sums", 0, 0, TASKS, SCALES)
    other = noise_of(NoiseSource.from_key(bytes(range(1, 33))), "sums", 0, 0, TASKS, SCALES)
    np.testing.assert_array_equal(again, WHOLE)
    assert not np.intersect1d(np.abs(other), np.abs(WHOLE)).size


def test_the_bytes_of_a_key_never_change() -> None:
    # A training that is resumed by a later version must show the same noise, and no second view: where
    # these numbers change, so must the format of checkpoints.
    assert state.FORMAT == 4
    assert WHOLE[:2].tolist() == [
        [-977824567212470, -509697475992316],
        [733678951004895, -1524559101303627],
    ]


def test_fresh_keys_differ() -> None:
    first, second = (noise_of(NoiseSource(), "sums", 0, 0, TILE, SCALES) for _ in range(2))
    assert not np.intersect1d(first, second).size


def test_nothing_repeats_between_streams_steps_tasks_and_columns() -> None:
    steps = [noise_of(SOURCE, "sums", step, 0, TASKS, SCALES) for step in (1, 2)]
    streams = steps + [
        noise_of(SOURCE, name, 0, 0, TASKS, SCALES) for name in ("a", "b", "a.A", "a.b")
    ]
    everything = np.abs(np.concatenate([WHOLE.ravel(), *(noise.ravel() for noise in streams)]))
    assert len(np.unique(everything)) == len(everything)


def test_nothing_repeats_however_far_tasks_and_steps_are_apart() -> None:
    # A counter that is cut off somewhere, at a byte or at a size, would come round again.
    far = [0, 1, *(2**power + more for power in range(6, 44) for more in (0, 1))]
    tasks = [noise_of(SOURCE, "sums", 0, TILE * tile, 1, SCALES) for tile in far]
    steps = [noise_of(SOURCE, "sums", step, 0, 1, SCALES) for step in far[1:]]
    everything = np.abs(np.concatenate([*tasks, *steps])).ravel()
    assert len(np.unique(everything)) == len(everything)


def test_tasks_columns_steps_and_releases_are_independent() -> None:
    tasks, columns = 2000, 20
    scales = Scales.of(np.full(columns, 1e14))
    places = [("sums", 0), ("sums", 1), ("other", 0)]
    noise = np.concatenate(
        [noise_of(SOURCE, name, step, 0, tasks, scales) / 1e7 for name, step in places],
        axis=1,
    )
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-5
    # Correlations of 2000 pairs have standard deviation 0.022; all 1770, and as many of the squares,
    # and of tasks with those after them, stay within 5.5 of it.
    upper = np.triu_indices(noise.shape[1], 1)
    for values in (noise, noise**2, np.abs(noise)):
        assert np.abs(np.corrcoef(values.T)[upper]).max() < 5.5 / np.sqrt(tasks)
    for shift in (1, TILE):
        products = np.mean(noise[shift:] * noise[:-shift], axis=0)
        assert np.abs(products).max() < 5.5 / np.sqrt(tasks - shift)


def test_sampling_keys_are_secret_and_distinct() -> None:
    assert SOURCE.sampling_key("a") == NoiseSource.from_key(bytes(range(32))).sampling_key("a")
    assert (
        len({SOURCE.sampling_key("a"), SOURCE.sampling_key("b"), NoiseSource().sampling_key("a")})
        == 3
    )


@pytest.mark.parametrize(("tasks", "columns"), [(5, 50_000), (4, 70_000), (3, 140_000)])
def test_tasks_so_wide_that_few_are_drawn_at_once(tasks: int, columns: int) -> None:
    # 2^17 numbers at once: two tasks, one, and one that is wider still. None is left out.
    wide, one = Scales.of(np.full(columns, 2.0**60)), Scales.of(np.array([2.0**60]))

    def words() -> tuple[Source, Source]:
        return SOURCE._source(b"noise", "wide", 0, 0), SOURCE._source(b"doubt", "wide", 0, 0)

    rows = np.concatenate([some.copy() for some in draw(tasks, wide, *words())])
    numbers = np.concatenate([some.copy() for some in draw(tasks * columns, one, *words())])
    np.testing.assert_array_equal(rows.ravel(), numbers.ravel())
    found = [
        (at, some.copy()) for at, some in SOURCE.discrete_gaussian("wide", 0, 1, tasks - 1, wide)
    ]
    ends = np.cumsum([len(some) for _, some in found])
    assert [at for at, _ in found] == [0, *ends[:-1]]
    np.testing.assert_array_equal(np.concatenate([some for _, some in found]), rows[1:])


def test_keys_of_samples_never_change() -> None:
    # By the definition: keyed BLAKE2b of the step in eight bytes and the stream, cut short.
    key = bytes(range(32))
    for stream, step in (("sums", 0), ("a", 5), ("", 2**40)):
        message = step.to_bytes(8, "little") + stream.encode()
        derived = hashlib.blake2b(message, key=key, person=b"poisson", digest_size=32).digest()
        assert SOURCE.sample_key(stream, step) == derived[:16]
    derived = hashlib.blake2b(b"rows", key=key, person=b"sampling", digest_size=32).digest()
    assert SOURCE.sampling_key("rows") == int.from_bytes(derived[:8], "little") < 2**64


def test_a_users_lot_is_aes_of_its_own_key() -> None:
    users = np.array([0, 1, 2**64 - 1, 12345], dtype=np.uint64)
    key = bytes(range(16))
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = [cipher.update(int(user).to_bytes(8, "little") + bytes(8)) for user in users]
    lots = [int.from_bytes(block[:8], "little") for block in blocks]
    for lot in lots:
        # The next number that a rate can name, above the lot and below.
        above, below = np.nextafter(lot / 2**64, 1), np.nextafter(lot / 2**64, 0)
        for rate in (above, below):
            expected = [each < int(rate * 2.0**64) for each in lots]
            assert poisson_sample(users, key, float(rate)).tolist() == expected
    assert poisson_sample(users, key, 1.0).all()


def test_a_fresh_key_has_256_bits() -> None:
    assert len(NoiseSource()._key) == 32


def test_what_was_made_in_another_process_derives_nothing() -> None:
    source = NoiseSource()
    source._process += 1  # as a forked process sees it
    for use in (source.digest, source.sampling_key):
        with pytest.raises(ap.ReleaseError, match="forked process"):
            use("x")


def test_the_key_does_not_leak() -> None:
    assert "secret" in repr(SOURCE)
    assert bytes(range(32)).hex() not in repr(SOURCE)
    with pytest.raises(TypeError, match="never copied or saved"):
        pickle.dumps(SOURCE)
    with pytest.raises(TypeError, match="never copied or saved"):
        copy.deepcopy(SOURCE)


def test_a_seed_is_repeatable_and_not_secret() -> None:
    first, second = NoiseSource.from_seed(7), NoiseSource.from_seed(7)
    assert not first.secret
    assert NoiseSource().secret
    drawn = [noise_of(source, "s", 0, 0, 3, SCALES) for source in (first, second)]
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("seed", [1.5, "1", True, -1])
def test_bad_seed(seed: int) -> None:
    with pytest.raises(ap.ParameterError, match="noise_seed must be a whole number"):
        NoiseSource.from_seed(seed)


def test_a_key_is_bytes_and_the_smallest_seed_is_zero() -> None:
    with pytest.raises(ap.ParameterError, match="32 bytes"):
        NoiseSource.from_key(bytearray(32))
    assert not NoiseSource.from_seed(0).secret


def test_bad_key() -> None:
    with pytest.raises(ap.ParameterError, match="32 bytes"):
        NoiseSource.from_key(b"short")


def test_a_source_serves_one_training() -> None:
    source = NoiseSource()
    Curator(PrivacyTarget(1.0, 1e-5), source)
    with pytest.raises(ap.ReleaseError, match="two trainings need two keys"):
        Curator(PrivacyTarget(1.0, 1e-5), source)


def test_of_many_threads_one_claims_a_source() -> None:
    for _ in range(50):
        source, ready = NoiseSource(), threading.Barrier(4)

        def claim(_: int, source: Any = source, ready: Any = ready) -> bool:
            ready.wait()
            try:
                source.claim()
            except ap.ReleaseError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(claim, range(4))) == 1


def test_a_forked_process_draws_no_noise() -> None:
    source = NoiseSource()
    source.sample_key("g", 0)
    child = os.fork()  # it has all of its parent's memory
    if child == 0:
        with suppress(BaseException):
            _refused(source)
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    source.sample_key("g", 1)  # the parent goes on


def _refused(source: NoiseSource) -> None:
    for use in (
        lambda: noise_of(source, "s", 0, 0, 3, SCALES),
        lambda: source.sample_key("g", 0),
        lambda: source.sampling_key("g"),
    ):
        with pytest.raises(ap.ReleaseError, match="forked process"):
            use()


def test_a_digest_knows_a_key_again() -> None:
    one, other = NoiseSource.from_key(bytes(32)), NoiseSource.from_key(bytes(range(32)))
    assert one.digest("x") == NoiseSource.from_key(bytes(32)).digest("x")
    assert len({one.digest("x"), one.digest("y"), other.digest("x")}) == 3


class TestPoissonSample:
    """Who takes part in a step: each user by itself."""

    KEYS = np.random.default_rng(0).integers(0, 2**64, 20_000, dtype=np.uint64)

    @pytest.mark.parametrize("rate", [1e-3, 0.3, 0.97])
    def test_the_rate(self, rate: float) -> None:
        # Numbers of users are binomial: outside these limits with probability 1e-6 in each step and side.
        users = len(self.KEYS)
        low, high = (stats.binom.ppf(q, users, rate) for q in (1e-6, 1 - 1e-6))
        for step in range(20):
            taken = poisson_sample(self.KEYS, SOURCE.sample_key("g", step), rate)
            assert taken.shape == (users,)
            assert low <= taken.sum() <= high

    def test_neighboring_ids_are_as_good_as_any(self) -> None:
        taken = poisson_sample(np.arange(20_000, dtype=np.uint64), bytes(16), 0.5)
        low, high = (stats.binom.ppf(q, 19_999, 0.5) for q in (1e-6, 1 - 1e-6))
        assert low <= (taken[1:] == taken[:-1]).sum() <= high

    def test_a_user_s_lot_is_independent_of_who_else_is_there(self) -> None:
        key = SOURCE.sample_key("g", 3)
        everybody = poisson_sample(self.KEYS, key, 0.3)
        order = np.random.default_rng(1).permutation(len(self.KEYS))
        np.testing.assert_array_equal(poisson_sample(self.KEYS[order], key, 0.3), everybody[order])
        for user in range(50):
            alone = poisson_sample(self.KEYS[user : user + 1], key, 0.3)
            assert alone.tolist() == [everybody[user]]
        assert poisson_sample(self.KEYS[:0], key, 0.3).shape == (0,)

    def test_steps_and_streams_are_independent(self) -> None:
        samples = [
            poisson_sample(self.KEYS, SOURCE.sample_key(stream, step), 0.3)
            for stream in ("g", "h")
            for step in range(3)
        ]
        # Users in two samples are binomial of rate 0.09, outside with probability 1e-6 in each pair and side.
        low, high = (stats.binom.ppf(q, len(self.KEYS), 0.09) for q in (1e-6, 1 - 1e-6))
        for first, second in combinations(samples, 2):
            assert low <= (first & second).sum() <= high
        again = poisson_sample(self.KEYS, SOURCE.sample_key("g", 2), 0.3)
        np.testing.assert_array_equal(samples[2], again)

    def test_a_larger_rate_takes_all_that_a_smaller_one_takes(self) -> None:
        few, most, all_ = (poisson_sample(self.KEYS, bytes(16), rate) for rate in (0.1, 0.9, 1.0))
        assert not (few & ~most).any()
        assert all_.all()

    def test_open_releases_have_a_key_for_each_step(self) -> None:
        desk = Curator(PrivacyTarget(1.0, 1e-5), NoiseSource.from_seed(5))
        part = Part("g", "gradients", UserBound(1.0, "x"))
        release = desk.open("g", [part], 2, 0.1, steps=2, sampling_rate=0.5)
        first = release.sample_key()
        assert release.sample_key() == first
        release.feed(0, np.zeros((2, 1), dtype=np.int64))
        release.next_step()
        second = release.sample_key()
        assert second != first
        assert {len(first), len(second)} == {16}
