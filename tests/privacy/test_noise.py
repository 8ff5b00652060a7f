"""Noise: cryptographic, normal, and a function of (key, stream, task) alone."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from randomgen import AESCounter
from scipy import stats

import apportion as ap
from apportion.privacy import Curator, PrivacyTarget
from apportion.privacy.noise import TILE, NoiseSource

SOURCE = NoiseSource.from_key(bytes(range(32)))
TASKS, WIDTH = 3 * TILE + 7, 2
WHOLE = SOURCE.standard_normal("sums", 0, 0, TASKS, WIDTH)


def test_the_generator_is_aes_128_in_counter_mode() -> None:
    # FIPS-197's cipher on the counters 0 and 1 (little endian) under the zero key.
    words = AESCounter(key=0, counter=0).random_raw(4)
    blocks = np.asarray(words, dtype="<u8").tobytes()
    assert blocks[:16].hex() == "66e94bd4ef8a2c3b884cfa59ca342b2e"
    assert blocks[16:].hex() == "47711816e91d6ff059bbbf2bf58e0fd3"


@given(st.lists(st.integers(0, TASKS), max_size=6))
def test_blocks_of_any_size_in_any_order_give_the_same_bytes(cuts: list[int]) -> None:
    edges = sorted({0, TASKS, *cuts})
    noise = np.empty_like(WHOLE)
    for start, stop in reversed(list(pairwise(edges))):
        noise[start:stop] = SOURCE.standard_normal("sums", 0, start, stop - start, WIDTH)
    np.testing.assert_array_equal(noise, WHOLE)


def test_same_key_same_bytes_other_key_other_bytes() -> None:
    again = NoiseSource.from_key(bytes(range(32))).standard_normal("sums", 0, 0, TASKS, WIDTH)
    other = NoiseSource.from_key(bytes(range(1, 33))).standard_normal("sums", 0, 0, TASKS, WIDTH)
    np.testing.assert_array_equal(again, WHOLE)
    assert not np.intersect1d(other, WHOLE).size


def test_fresh_keys_differ() -> None:
    first, second = (NoiseSource().standard_normal("sums", 0, 0, TILE, 1) for _ in range(2))
    assert not np.intersect1d(first, second).size


def test_nothing_repeats_between_streams_and_tasks() -> None:
    steps = [SOURCE.standard_normal("sums", step, 0, TASKS, WIDTH) for step in (1, 2)]
    streams = steps + [
        SOURCE.standard_normal(name, 0, 0, TASKS, WIDTH) for name in ("a", "b", "a.A", "a.b")
    ]
    everything = np.concatenate([WHOLE.ravel(), *(noise.ravel() for noise in streams)])
    assert len(np.unique(everything)) == len(everything)


def test_it_is_standard_normal_and_uncorrelated() -> None:
    noise = SOURCE.standard_normal("large", 0, 0, 2000, 50)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-4
    assert stats.kstest(noise[:, 0], "norm").pvalue > 1e-4
    # Correlations of 2000 pairs have standard deviation 0.022; 1225 pairs stay within 5.5 of them.
    correlation = np.corrcoef(noise.T)[np.triu_indices(50, 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(2000)
    assert (np.abs(noise) > 3.5).mean() == pytest.approx(2 * stats.norm.sf(3.5), rel=0.4)


def test_sampling_keys_are_secret_and_distinct() -> None:
    assert SOURCE.sampling_key("a") == NoiseSource.from_key(bytes(range(32))).sampling_key("a")
    assert (
        len({SOURCE.sampling_key("a"), SOURCE.sampling_key("b"), NoiseSource().sampling_key("a")})
        == 3
    )


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
    np.testing.assert_array_equal(
        first.standard_normal("s", 0, 0, 3, 1), second.standard_normal("s", 0, 0, 3, 1)
    )


@pytest.mark.parametrize("seed", [1.5, "1", True, -1])
def test_bad_seed(seed: int) -> None:
    with pytest.raises(ap.ParameterError, match="noise_seed must be a whole number"):
        NoiseSource.from_seed(seed)


def test_bad_key() -> None:
    with pytest.raises(ap.ParameterError, match="32 bytes"):
        NoiseSource.from_key(b"short")


def test_a_source_serves_one_training() -> None:
    source = NoiseSource()
    Curator(PrivacyTarget(1.0, 1e-5), source)
    with pytest.raises(ap.ReleaseError, match="two trainings need two keys"):
        Curator(PrivacyTarget(1.0, 1e-5), source)


def test_poisson_samples_are_fresh_in_each_step_and_of_the_asked_size() -> None:
    samples = np.array([SOURCE.poisson_sample("g", step, 20_000, 0.3) for step in range(5)])
    # Binomial counts: deviation 65 of 6000; overlaps of independent samples: 0.09 of the users.
    assert np.abs(samples.sum(axis=1) - 6000).max() < 5 * 65
    overlap = samples[:-1] & samples[1:]
    assert np.abs(overlap.mean(axis=1) - 0.09).max() < 0.01
    np.testing.assert_array_equal(samples[2], SOURCE.poisson_sample("g", 2, 20_000, 0.3))
