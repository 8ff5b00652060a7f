"""Discrete Gaussian numbers: their distribution, and that nothing of it is rounded."""

import decimal
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, islice, repeat
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

import apportion as ap
from apportion.privacy import discrete
from apportion.privacy.discrete import Scales, Source, Words, blocks
from tests.noise import draw

Numbers = np.ndarray[Any, np.dtype[np.int64]]

# The least variance, squares of whole multiples of 32 (where blocks begin as early as they may), whatever.
VARIANCES = [1.0, 2.5, 9.0, 10.0, 1024.0, 1025.0, 2.0**18, 1e6 + 0.1, 1e14, 2.0**100, 1.8e31]
# Of every statistical test here: how often it fails by chance, if all is right.
BY_CHANCE = 1e-6


def source(seed: int) -> Source:
    generator = np.random.PCG64(seed)

    def fill(words: Words) -> None:
        words[:] = generator.random_raw(len(words))

    return fill


def numbers(count: int, variance: float, seed: int = 0) -> Numbers:
    out = np.empty((count, 1), dtype=np.int64)
    draw(out, Scales.of(np.array([variance])), source(seed), source(99))
    return out[:, 0]


def agree(observed: Any, chances: Any) -> None:
    """Counts of cases and their chances, by chi-square; the last case may be the rest."""
    expected = np.asarray(chances, dtype=np.float64) * np.sum(observed)
    assert expected.min() > 5
    statistic = float(np.sum((observed - expected) ** 2 / expected))
    assert statistic < stats.chi2.isf(BY_CHANCE, len(expected) - 1)


def pmf(variance: float) -> tuple[Numbers, Any]:
    """All whole numbers that matter, and their probabilities."""
    reach = math.ceil(12 * math.sqrt(variance))
    i = np.arange(-reach, reach + 1)
    weight = np.exp(-(i**2) / (2 * variance))
    return i, weight / weight.sum()


# The distribution


@pytest.mark.parametrize("variance", [1.0, 2.5, 10.0, 100.0])
def test_small_variances_have_the_exact_probabilities(variance: float) -> None:
    # Zero twice, or one sign more often, or a wrong chance of being kept: all would show.
    drawn = numbers(200_000, variance)
    i, chance = pmf(variance)
    usual = chance * len(drawn) > 10
    counts = np.array([np.count_nonzero(drawn == number) for number in i[usual]])
    rest = len(drawn) - counts.sum()
    if chance[~usual].sum() * len(drawn) > 5:
        agree([*counts, rest], [*chance[usual], chance[~usual].sum()])
    else:
        agree(counts, chance[usual] / chance[usual].sum())
        assert rest < 50


@pytest.mark.parametrize("variance", [2.0**18, 1e6 + 0.1, 1e14, 2.0**100, 1.8e31])
def test_large_variances_agree_with_the_normal_distribution_and_use_every_number(
    variance: float,
) -> None:
    drawn = numbers(200_000, variance, seed=1)
    # From half a number to half a number; a bin is 0.025 deviations, so blocks (a 32nd) show.
    edges = np.arange(-3.0, 3.0, 0.025)
    cuts = np.rint(edges * math.sqrt(variance)) + 0.5
    binned = np.bincount(np.searchsorted(cuts, drawn.astype(np.float64)), minlength=len(cuts) + 1)
    cdf = stats.norm.cdf(np.array([-np.inf, *cuts, np.inf]) / math.sqrt(variance))
    agree(binned, np.diff(cdf))
    # Its last digits are uniform: no place in a block comes more often.
    agree(np.bincount(drawn & 63, minlength=64), np.full(64, 1 / 64))
    standard = drawn / math.sqrt(variance)
    assert np.sum(standard**2) < stats.chi2.isf(BY_CHANCE, len(drawn))
    assert np.sum(standard**2) > stats.chi2.ppf(BY_CHANCE, len(drawn))
    assert abs(np.count_nonzero(drawn > 0) - len(drawn) / 2) < 5 * math.sqrt(len(drawn)) / 2


@pytest.mark.parametrize("scale", [1.0, 3.0, 10.0])
def test_it_agrees_with_opendp(scale: float) -> None:
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=scale)([0] * 20_000))
    ours = numbers(20_000, scale**2, seed=2)
    edges = np.unique(
        np.round(np.array([-2.2, -1.5, -1, -0.6, -0.2, 0.2, 0.6, 1, 1.5, 2.2]) * scale)
    )
    table = [
        np.bincount(np.searchsorted(edges, drawn), minlength=len(edges) + 1)
        for drawn in (ours, theirs)
    ]
    assert stats.chi2_contingency(table).pvalue > BY_CHANCE


def test_columns_have_their_own_variances() -> None:
    out = np.empty((4000, 5), dtype=np.int64)
    variances = np.array([1e8, 50.0, 1e8, 50.0, 2.0**90])
    draw(out, Scales.of(variances), source(3), source(99))
    ratio = (out.astype(np.float64) ** 2).sum(axis=0) / variances
    assert (ratio < stats.chi2.isf(BY_CHANCE, 4000)).all()
    assert (ratio > stats.chi2.ppf(BY_CHANCE, 4000)).all()
    correlation = np.corrcoef((out / np.sqrt(variances)).T)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < 5.5 / math.sqrt(4000)


# Tails, by words that choose a block far out


def forced(block: int, seed: int) -> Source:
    """Random words, but the first of every two chooses this block."""
    random = source(seed)

    def fill(words: Words) -> None:
        random(words)
        words[::2] = block  # the column of this block, and the least of what is below its cut

    return fill


@pytest.mark.parametrize("block", [0, 3, 96, 192, 256])
def test_within_a_block_numbers_have_the_exact_probabilities(block: int) -> None:
    # 256 blocks are 8 deviations.
    variance = 2.0**18
    out = np.empty((20_000, 1), dtype=np.int64)
    scales = Scales.of(np.array([variance]))
    assert (scales.block[0], scales.shift[0]) == (16, 0)
    draw(out, scales, forced(block, seed=4), source(99))
    inside = np.arange(16 * block, 16 * (block + 1))
    signed = np.unique(np.concatenate([inside, -inside]))
    assert np.isin(out, signed).all()
    weight = np.exp((inside[0] ** 2 - signed.astype(np.float64) ** 2) / (2 * variance))
    counts = np.array([np.count_nonzero(out == number) for number in signed])
    agree(counts, weight / weight.sum())


def test_numbers_of_thirty_deviations_come_if_their_words_do() -> None:
    # The chance of block 960 is 2^-39, that of being kept 2^-614: 31 digits of u, and ten words more.
    scales, out = Scales.of(np.array([2.0**18])), np.zeros((1, 1), dtype=np.int64)
    for last, number in [(0, 15360), (2**64 - 1, 5)]:
        settling = [0] * 9 + [last]
        # A number of block 960 whose u begins with zeros; then the number 5, of block 0, kept at once.
        supply = [960, 0, 0, 5 << 60]
        draw(out, scales, scripted(supply), scripted(settling))
        assert out[0, 0] == number


def scripted(supply: list[int]) -> Source:
    """These words, and then zeros."""
    left = chain(supply, repeat(0))

    def fill(words: Words) -> None:
        words[:] = list(islice(left, len(words)))

    return fill


# Exactness


def test_a_word_chooses_the_block_that_the_table_says() -> None:
    table, scales = blocks(), Scales.of(np.array([2.0**18]))
    out = np.zeros((1, 1), dtype=np.int64)
    mixed = [column for column in range(120) if table.cut[column] < 2**30]
    assert len(mixed) > 20
    for column in mixed:
        cut, other = int(table.cut[column]), int(table.other[column])
        for rest, block in [(cut - 1, column), (cut, other)]:
            # All that is above these 40 bits has no say.
            first = (2**24 - 1) << 40 | rest << 10 | column
            draw(out, scales, scripted([first, 0]), source(99))
            assert out[0, 0] == 16 * block


def chance(number: int, block: int, variance: float) -> Any:
    """The chance that a number of a block is kept, to many digits."""
    table = blocks()
    odds = mpmath.mpf(table.ceiling) * 2**40 / table.chances[block]
    return odds * mpmath.exp(-(mpmath.mpf(number) ** 2) / (2 * mpmath.mpf(variance)))


@pytest.fixture
def many_digits() -> Iterator[None]:
    with mpmath.workprec(1200):
        yield


def test_the_table_is_exact() -> None:
    table = blocks()
    assert sum(table.chances) == 2**40
    assert min(table.chances) > 0
    found = [0] * len(table.chances)
    for column, (cut, other) in enumerate(
        zip(table.cut.tolist(), table.other.tolist(), strict=True)
    ):
        assert 0 < cut <= 2**30
        found[column] += cut
        found[other] += 2**30 - cut
    assert found == list(table.chances)


@pytest.mark.usefixtures("many_digits")
def test_no_chance_of_being_kept_is_above_one_for_any_variance() -> None:
    # For all at once: a number of block k is at least k sqrt(v) / 32.
    table = blocks()
    for k, n in enumerate(table.chances):
        assert mpmath.mpf(table.ceiling) * 2**40 * mpmath.exp(-mpmath.mpf(k * k) / 2048) <= n


@pytest.mark.parametrize("variance", VARIANCES)
def test_blocks_are_as_wide_as_they_must_be(variance: float) -> None:
    scales = Scales.of(np.array([variance]))
    width = int(scales.block[0]) << int(scales.shift[0])
    assert Fraction(32 * width) ** 2 >= Fraction(variance)
    assert Fraction(32 * (width - 1)) ** 2 < Fraction(variance) * Fraction(1 + 2.0**-24)
    assert int(scales.block[0]) < 2**32


@pytest.mark.usefixtures("many_digits")
@pytest.mark.parametrize("variance", VARIANCES)
def test_what_is_kept_at_once_would_always_be_kept(variance: float) -> None:
    scales = Scales.of(np.array([variance]))
    width = int(scales.block[0]) << int(scales.shift[0])
    for block in range(0, 1024, 13):
        last = chance(width * (block + 1) - 1, block, variance)
        first = chance(width * block, block, variance)
        assert first <= 1
        assert int(scales.low[0, block]) <= last * 2**31
    # It is most of them, or there would be no use in it.
    assert variance < 1e4 or scales.low[0, :96].min() > 0.7 * 2**31


@pytest.mark.usefixtures("many_digits")
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("words", [1, 3])
def test_settling_is_exact_to_the_last_word(variance: float, words: int) -> None:
    scales = Scales.of(np.array([variance]))
    width = int(scales.block[0]) << int(scales.shift[0])
    rng = np.random.default_rng(6)
    for block in [0, 1, 32, 80, 127]:
        number = width * block + int(rng.integers(width))
        exact = chance(number, block, variance)
        digits = int(mpmath.floor(exact * mpmath.mpf(2) ** (31 + 64 * words)))
        if not digits < 2 ** (31 + 64 * words):
            continue  # it is one
        for apart, kept in [(-3, True), (3, False)]:
            u = digits + apart
            known, rest = u >> 64 * words, u & (2 ** (64 * words) - 1)
            # The digits of the chance itself, word by word, up to the last, and something after it.
            following = [rest >> 64 * (words - 1 - at) & (2**64 - 1) for at in range(words)] + [
                2**63
            ] * 2
            settled = discrete._settle(number, block, variance, known, 31, scripted(following))
            assert settled == kept


@pytest.mark.usefixtures("many_digits")
@pytest.mark.parametrize("variance", VARIANCES)
def test_floating_point_errs_by_far_less_than_is_doubted(variance: float) -> None:
    scales = Scales.of(np.array([variance]))
    width = int(scales.block[0]) << int(scales.shift[0])
    for block in range(0, 1024, 5):
        number = width * (block + 1) - 1
        if number > 37 * math.sqrt(variance):
            break  # the chance is below the least of all numbers
        size = float(number)
        near = math.exp(blocks().log[block] + -0.5 / variance * size * size)
        assert abs(near / chance(number, block, variance) - 1) < 2.0**-41 < discrete._DOUBT / 16


@pytest.mark.parametrize("variance", [1.0, 10.0, 1e6 + 0.1, 2.0**100])
def test_settling_decides_as_floating_point_does(
    monkeypatch: pytest.MonkeyPatch, variance: float
) -> None:
    def drawn(doubt: float) -> tuple[Numbers, int]:
        monkeypatch.setattr(discrete, "_DOUBT", doubt)
        settling, settled = source(8), 0

        def settle(words: Words) -> None:
            nonlocal settled
            settled += 1
            settling(words)

        out = np.empty((1500, 2), dtype=np.int64)
        draw(out, Scales.of(np.array([variance, 40.0])), source(7), settle)
        return out, settled

    usual, none = drawn(discrete._DOUBT)
    careful, many = drawn(2.0**-2)
    assert (none, many > 300) == (0, True)
    np.testing.assert_array_equal(careful, usual)


def test_words_are_used_once_and_in_order_however_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawn(at_once: int) -> Numbers:
        monkeypatch.setattr(discrete, "_AT_ONCE", at_once)
        out = np.empty((500, 2), dtype=np.int64)
        draw(out, Scales.of(np.array([1e24, 20.0])), source(9), source(99))
        return out

    whole = drawn(2**14)
    for at_once in (2, 6, 64):
        np.testing.assert_array_equal(drawn(at_once), whole)


@pytest.mark.parametrize("width", [3, 625_001, 2**26 - 5])
def test_every_place_in_a_block_has_as_many_words(width: int) -> None:
    # A word h chooses the place h w // 2^32. Those with h w % 2^32 < 2^32 % w are too many, and others not.
    variance = 1024.0 * width**2
    scales, out = Scales.of(np.array([variance])), np.zeros((1, 1), dtype=np.int64)
    assert (scales.block[0], scales.shift[0]) == (width, 0)
    limit = 2**32 % width
    for rest, used in [(0, False), (limit - 1, False), (limit, True), (2**32 - 1, True)]:
        h = rest * pow(width, -1, 2**32) % 2**32
        after = (2**32 - 1) << 32  # the last place of a block, with all digits zero
        draw(out, scales, scripted([0, h << 32, 0, after]), source(99))
        assert out[0, 0] == (h * width // 2**32 if used else width - 1)


@pytest.mark.parametrize("doubt", [discrete._DOUBT, 2.0**-4])
def test_fewer_numbers_are_the_first_of_more(monkeypatch: pytest.MonkeyPatch, doubt: float) -> None:
    # Also where many are in doubt: what settles these must not come out of the others' words.
    monkeypatch.setattr(discrete, "_DOUBT", doubt)
    for few in (1, 100, 1700):
        np.testing.assert_array_equal(numbers(few, 1e14), numbers(20_000, 1e14)[:few])


def test_a_program_s_own_decimal_settings_change_nothing() -> None:
    blocks.cache_clear()
    usual = blocks().chances
    blocks.cache_clear()
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP) as context:
        context.traps[decimal.Inexact] = context.traps[decimal.FloatOperation] = True
        assert blocks().chances == usual
        scales = Scales.of(np.array([1e14]))
        assert discrete._settle(0, 5, 1e14, 2**31 - 1, 31, source(0)) in (True, False)
    assert scales.block[0] == Scales.of(np.array([1e14])).block[0] == 312_500


@pytest.mark.parametrize("variance", [0.99, 2.0**104, math.nan])
def test_variances_out_of_range_are_refused(variance: float) -> None:
    with pytest.raises(ap.ReleaseError, match="variance"):
        Scales.of(np.array([variance]))


def test_what_is_kept_for_later_noise_cannot_be_written_to() -> None:
    # Scales and blocks are made once for many releases: whoever shrank a variance would shrink all noise.
    scales, table = Scales.of(np.array([4.0, 9.0])), blocks()
    kept = [
        getattr(scales, name) for name in ("variance", "order", "ends", "block", "shift", "low")
    ]
    for array in (*kept, table.log, table.cut, table.other):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
