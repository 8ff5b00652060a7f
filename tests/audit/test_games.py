"""The tests between two kinds of trainings, on values whose distribution is known."""

import numpy as np
import pytest

from apportion.audit.games import dependence, distinguish, repeats


def played(
    mu: float, runs: int, noise: np.ndarray | None = None, seed: int = 0, known: bool = True
) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    shift = np.array([0.6, 0.0, -0.8, 0.0])
    mixing = np.eye(4) if noise is None else noise
    out, inside = (rng.normal(size=(runs, 4)) @ mixing + at * mu * shift for at in (0, 1))
    outcome = distinguish(out, inside, shift if known else 0 * shift, 1e-3, 1e-5, 0.0)
    return outcome.mu_estimate, outcome.mu_lower


@pytest.mark.parametrize("known", [True, False])
def test_a_gaussian_shift_is_found_to_its_size(known: bool) -> None:
    estimate, lower = played(2.0, 20_000, known=known)
    assert estimate == pytest.approx(2.0, rel=0.05)
    assert 1.8 < lower < 2.0


def test_no_shift_is_no_evidence() -> None:
    assert played(0.0, 2_000)[1] < 0.2


def test_noise_used_twice_gives_everything_away() -> None:
    # The first two values have the same noise, and the user is in one of them.
    same = np.eye(4)
    same[:, 1] = same[:, 0]
    assert played(1.0, 400, same)[1] > 2.0
    assert played(1.0, 400)[1] < 1.0


def test_values_without_noise_give_everything_away() -> None:
    assert played(1.0, 400, np.zeros((4, 4)))[1] > 2.0


def test_dependence_of_noise() -> None:
    rng = np.random.default_rng(0)
    chances = [
        dependence([rng.normal(size=(50, 10)), 5 + rng.normal(size=(50, 10))]) for _ in range(200)
    ]
    assert np.mean(np.array(chances) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)
    values = rng.normal(size=(100, 10))
    values[:, 3] = 0.8 * values[:, 7] + 0.6 * values[:, 3]
    assert dependence([values]) < 1e-9
    assert dependence([values[:, :1]]) == 1.0


def test_noise_that_repeats() -> None:
    rng = np.random.default_rng(0)
    inside = rng.random(300) < 0.5
    for seed in range(20):
        noise = np.random.default_rng(seed).normal(size=(300, 3)) + 2.0 * inside[:, None]
        assert repeats(noise, inside) > 1e-4
    for apart in (2, 64, 149):
        again = noise - 2.0 * inside[:, None]
        again[apart:] = np.resize(again[:apart], again[apart:].shape)
        assert repeats(again + 2.0 * inside[:, None], inside) < 1e-12
