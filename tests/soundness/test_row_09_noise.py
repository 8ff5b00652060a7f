"""Row 9: noise is secret, never repeated, and a fixed seed makes no promise."""

import math

import numpy as np

import apportion as ap
from tests.soundness.harness import Array, Tape, recording

DATA = ap.simulate_tasks(users=200, tasks=150, tasks_per_user=10)


def noise(model: ap.MultiTaskRidge) -> Array:
    tape = Tape()
    with recording(tape):
        model.fit(DATA)
    drawn = []
    for record in model.privacy.ledger:
        for first, released in tape.released[record.name].items():
            raw = tape.raw[record.name][first].copy()
            if record.name.endswith(".A"):
                rows, columns = np.triu_indices(DATA.dimension)
                raw[:, rows != columns] /= np.sqrt(2)
            drawn.append((released - raw).ravel() / record.noise_scale)
    return np.concatenate(drawn)


def test_no_noise_is_used_twice_within_a_model_or_between_models() -> None:
    # Equal variates would show as equal up to the rounding of the sums they were added to.
    both = np.sort(np.concatenate([noise(ap.MultiTaskRidge()), noise(ap.MultiTaskRidge())]))
    assert np.diff(both).min() > 1e-11


def test_a_fixed_seed_is_not_private() -> None:
    report = ap.MultiTaskRidge(noise_seed=3).fit(DATA).privacy
    assert not report.private
    assert report.epsilon == math.inf
    assert "NOT PRIVATE" in str(report)


def test_the_default_is_secret() -> None:
    first, second = (ap.MultiTaskRidge().fit(DATA) for _ in range(2))
    assert first.privacy.private
    assert not np.allclose(first.coef_, second.coef_)


def test_the_key_is_not_kept_with_the_model() -> None:
    import pickle

    pickle.dumps(ap.MultiTaskRidge().fit(DATA))  # would raise if a NoiseSource were inside
