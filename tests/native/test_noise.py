"""The compiled sampler gives the noise that the twin defines, and that earlier versions gave, to the bit."""

import hashlib
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from apportion.native import kernels
from apportion.privacy import NoiseSource, discrete
from apportion.privacy.discrete import Scales, blocks
from apportion.twins.noise import DOUBTFUL, exponential, fill_noise
from tests.machines import nothing_compiled
from tests.noise import noise_of

compiled = pytest.mark.skipif(kernels is None, reason="no compiled kernels")
VARIANCES = [1.0, 2.5, 1024.0, 1025.0, 1e6 + 0.1, 1e14, 2.0**100]


def scales_of(*variances: float, columns: int = 5) -> Scales:
    return Scales.of(np.resize(np.array(variances), columns))


def filled(
    fill: Any, scales: Scales, rows: int, words: Any, doubt: float = discrete._DOUBT
) -> list:
    """Every stop on the way, each number in doubt being kept if its size is odd; and the noise."""
    out, table, stops = np.zeros(rows * len(scales.order), np.int64), blocks(), []
    at, used = 0, 0
    while True:
        stop = fill(
            out, at, words, used, scales.order, scales.ends, scales.variance, scales.block,
            scales.shift, scales.low, table.log, table.cut, table.other, doubt,
        )  # fmt: skip
        stops.append(stop)
        at, used, state, size, *_ = stop
        if state != DOUBTFUL:
            done = at // len(scales.order)  # of the next row only some columns count
            return [stops, out.reshape(-1, len(scales.order))[:done].tolist()]
        at += size % 2


@compiled
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("rows", [0, 1, 2, 63, 64, 65, 1000])
def test_is_the_twin(isa: str, variance: float, rows: int) -> None:
    words = np.random.default_rng(rows).integers(0, 2**64, 12 * rows + 7, dtype=np.uint64)
    scales = scales_of(variance, variance / 2 + 1, columns=5)
    assert filled(kernels.fill_noise, scales, rows, words) == filled(
        fill_noise, scales, rows, words
    )


@compiled
def test_columns_at_their_cut_are_the_twins(isa: str) -> None:
    # One in 2^30 words is there: the first that belongs to the other block, and the last that does not.
    cut = blocks().cut
    block = np.tile(np.arange(1024, dtype=np.uint64), 2)
    first = np.concatenate([cut, cut - 1]) % 2**30 << 10 | block
    words = np.random.default_rng(5).integers(0, 2**64, 2 * len(first), dtype=np.uint64)
    words[::2] = first | words[::2] >> 40 << 40
    scales = scales_of(1e6, columns=1)
    assert filled(kernels.fill_noise, scales, 2048, words) == filled(
        fill_noise, scales, 2048, words
    )


@compiled
@pytest.mark.parametrize("doubt", [0.0, 1e-3, 0.3])
def test_doubts_are_the_twins(isa: str, doubt: float) -> None:
    words = np.random.default_rng(3).integers(0, 2**64, 20_000, dtype=np.uint64)
    scales = scales_of(7.0, 1e6, columns=3)
    # Nothing may be kept at once that the greater doubt is to hand back.
    scales = Scales(*(np.zeros_like(v) if k == "low" else v for k, v in vars(scales).items()))
    mine, reference = (
        filled(f, scales, 2000, words, doubt) for f in (kernels.fill_noise, fill_noise)
    )
    assert mine == reference
    assert (len(mine[0]) > 2) == (doubt > 0)


def chance_of(fill: Any, log: np.ndarray, k: int, digits: int) -> str:
    """What becomes of a number of block k, of one number, whose 31 digits of u are these."""
    table, scales, out = blocks(), scales_of(2.0**100, columns=1), np.zeros(1, np.int64)
    words = np.array([k, digits, 0], dtype=np.uint64)  # the third is never enough
    ones, none = np.ones(1, np.uint64), np.zeros(1, np.uint64)
    never, all_ = np.zeros_like(scales.low), np.full(1024, 2**30, np.uint64)
    at, *_, state, _, _, _, _ = fill(
        out, 0, words, 0, scales.order, scales.ends, scales.variance, ones, none,
        never, log, all_, table.other, 0.0,
    )  # fmt: skip
    return {DOUBTFUL: "doubtful"}.get(state, "kept" if at else "dropped")


def check_chances(fill: Any) -> None:
    """31 digits decide, and so show, each chance to 2^-31: nothing that moves one may be wrong by that."""
    log = np.concatenate([[0.0], np.linspace(-15.0, -0.001, 1023)])
    for k in range(1, 1024):
        with localcontext(Context(prec=50)):
            exact = (Decimal(float(log[k])) - Decimal(k * k) / 2 / 2**100).exp() * 2**31
        digits, rest = divmod(exact, 1)
        if Decimal("0.001") < rest < Decimal("0.999"):
            found = [chance_of(fill, log, k, int(digits) + more) for more in (-1, 0, 1)]
            assert found == ["kept", "doubtful", "dropped"], (k, exact)


@compiled
def test_chances_are_exact_to_all_digits(isa: str) -> None:
    check_chances(kernels.fill_noise)


def test_chances_of_the_twin_are_exact_to_all_digits() -> None:
    check_chances(fill_noise)


@compiled
def test_words_that_end_too_early(isa: str) -> None:
    words = np.random.default_rng(4).integers(0, 2**64, 100, dtype=np.uint64)
    for count in range(20):
        both = [
            filled(f, scales_of(1e3), 4, words[:count]) for f in (kernels.fill_noise, fill_noise)
        ]
        assert both[0] == both[1]


# SHA-256 of the noise of the seed 7 by the sampler of numba, tile by tile.
GOLDEN = {
    "1.0": "1a1b3dac15753e583310328b71d67853",
    "2.5 1.0 2.5": "eb910a58f1edf0ff9dc7fb99a6b0a8fc",
    "1024.0 1025.0 1e6": "bbc67be92c2b499f46b723a0b4ad2d1a",
    "1e14 5e13 1e14 5e13 5e13": "7440957e7b86bb2ff2ebc9201f4a344c",
    "2e30": "1c353bb0ac493c63006a546091514862",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_noise_of_a_key_never_changes(name: str) -> None:
    variances = np.array([float(each) for each in name.split()])
    noise = noise_of(NoiseSource.from_seed(7), "golden", 3, 5, 200, Scales.of(variances))
    assert hashlib.sha256(noise.astype("<i8").tobytes()).hexdigest()[:32] == GOLDEN[name]


@pytest.mark.parametrize("name", GOLDEN)
def test_the_twin_gives_it_too(name: str) -> None:
    with nothing_compiled():
        test_noise_of_a_key_never_changes(name)


def test_exponential_is_exact_enough() -> None:
    from mpmath import mp, mpf

    x = np.concatenate([np.linspace(-700, 1, 4001), -np.logspace(-20, 2, 300)])
    with mp.workprec(120):
        errors = [
            abs(mpf(float(e)) / mp.exp(mpf(float(v))) - 1)
            for v, e in zip(x, exponential(x), strict=True)
        ]
    assert max(errors) < 2.0**-50
    assert exponential(np.array([-1e300]))[0] > 0


@compiled
@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (1, -1), (1, 11), (3, 101), (3, -1),
        (4, np.array([0, 1, 2, 3, 5])), (4, np.array([0, 1, 2, 3, -1])), (4, np.zeros(0, np.int64)),
        (5, np.array([4])), (5, np.array([6])), (5, np.zeros(0, np.int64)),
        (6, np.zeros(2)), (7, np.zeros(1, np.uint64)), (7, np.array([2**27], np.uint64)),
        (8, np.array([25], np.uint64)), (9, np.zeros((1, 1023), np.int64)), (10, np.zeros(1023)),
        (11, np.zeros(1025, np.uint64)), (12, np.full(1024, 1024, np.uint16)),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(place: int, wrong: Any) -> None:
    scales, table = scales_of(9.0), blocks()
    call: list[Any] = [
        np.zeros(10, np.int64), 0, np.arange(100, dtype=np.uint64), 0, scales.order, scales.ends,
        scales.variance, scales.block, scales.shift, scales.low, table.log, table.cut, table.other, 0.1,
    ]  # fmt: skip
    kernels.fill_noise(*call)
    call[place] = wrong
    with pytest.raises(ValueError, match=r"must|is 1 to"):
        kernels.fill_noise(*call)


def test_parts_of_a_release_are_the_whole() -> None:
    scales, source = scales_of(1e5, 2e5), NoiseSource.from_seed(1)
    whole = noise_of(source, "x", 0, 0, 150, scales)
    cuts = [0, 3, 64, 100, 150]
    parts = [noise_of(source, "x", 0, a, b - a, scales) for a, b in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
