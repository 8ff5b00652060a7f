"""The folder of a checkpoint: who may read it, what is refused, and that no noise meets two sums."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.accounts.checkpoint import Checkpoint, remove_finished, steps_done
from apportion.accounts.fingerprint import fingerprint
from apportion.errors import CheckpointError, ParameterError
from apportion.privacy import Curator, Ledger, NoiseSource, PrivacyTarget, Record, UserBound
from apportion.privacy.discrete import Scales
from tests.noise import noise_of

TARGET = PrivacyTarget(1.0, 1e-5)
RECORD = Record("sweep 1", "sums", (2, 1), 1.0, "because", 4.0)
SUMS = np.array([[1.0], [2.0]])
ROWS = np.arange(5)


def opened(
    folder: Path, epsilon: float = 1.0, processor: str = "fast", data: Any = ROWS, **more: Any
) -> Checkpoint:
    return Checkpoint(folder, {"epsilon": epsilon, **more}, {"processor": processor}, data)


def begun(folder: Path) -> Path:
    """A training that was killed after a witness and a step."""
    with opened(folder) as checkpoint:
        checkpoint.witness(RECORD, 0, 0, SUMS)
        ledger = Ledger(TARGET)
        ledger.append(RECORD)
        checkpoint.save(1, b"values\nof a step", ledger)
    return folder


def finished(folder: Path) -> Path:
    with opened(begun(folder)) as checkpoint:
        checkpoint.finish(b"result", Ledger(TARGET))
    return folder


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


# --- who may read it ---


@pytest.fixture
def _open_umask() -> Any:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = begun(tmp_path / "c")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {"key", "lock", "releases", "state"}
    assert modes(folder) == {0o600}
    finished(folder)
    assert modes(folder) == {0o600}


@pytest.mark.usefixtures("_open_umask")
def test_the_key_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, seen = os.write, []

    def watched(file: int, content: Any) -> int:
        if len(content) == 32:
            seen.append(stat.S_IMODE(os.fstat(file).st_mode))
        return write(file, content)

    monkeypatch.setattr(os, "write", watched)
    opened(tmp_path / "c").close()
    assert seen == [0o600]


def test_an_empty_folder_that_is_there_is_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir(mode=0o755)
    opened(folder).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    (begun(tmp_path / "c") / "key").chmod(mode)
    with pytest.raises(CheckpointError, match="mode 600"):
        opened(tmp_path / "c")


def test_a_key_that_is_a_link_is_refused(tmp_path: Path) -> None:
    key = begun(tmp_path / "c") / "key"
    key.rename(tmp_path / "elsewhere")
    key.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="key"):
        opened(tmp_path / "c")


def test_the_key_is_overwritten_and_removed_in_the_end(tmp_path: Path) -> None:
    folder = begun(tmp_path / "c")
    with (folder / "key").open("rb") as same:
        assert any(same.read())
        finished(folder)
        assert not (folder / "key").exists()
        same.seek(0)
        assert same.read() == bytes(32)


def test_what_can_be_read_depends_on_a_secret(tmp_path: Path) -> None:
    """The same data and sums look different each time, and a finished training has no trace of data."""
    one, two = (begun(tmp_path / name) for name in "ab")
    assert (one / "releases").read_bytes() != (two / "releases").read_bytes()
    private = [given(folder)["private"] for folder in (one, two)]
    assert private[0] != private[1]
    assert fingerprint(ROWS) not in private
    assert "private" not in given(finished(one))


def given(folder: Path) -> dict[str, Any]:
    line = (folder / "state").read_bytes().partition(b"\n")[0]
    found: dict[str, Any] = json.loads(line)["given"]
    return found


# --- going on ---

SCALES = Scales.of(np.full(2, 1e12))


def test_it_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path / "c") as checkpoint:
        assert (checkpoint.done, checkpoint.values, checkpoint.finished) == (0, b"", False)
        training = checkpoint.training
        noise = noise_of(checkpoint.noise(), "x", 0, 0, 2, SCALES)
    begun(tmp_path / "c")
    assert steps_done(tmp_path / "c") == 1
    with opened(tmp_path / "c") as checkpoint:
        assert (checkpoint.done, checkpoint.values) == (1, b"values\nof a step")
        assert checkpoint.training == training
        np.testing.assert_array_equal(noise_of(checkpoint.noise(), "x", 0, 0, 2, SCALES), noise)
        ledger = Ledger(TARGET)
        checkpoint.restore(ledger)
        assert list(ledger) == [RECORD]


def test_two_trainings_have_two_names_and_keys(tmp_path: Path) -> None:
    with opened(tmp_path / "a") as one, opened(tmp_path / "b") as two:
        assert one.training != two.training
    assert (tmp_path / "a/key").read_bytes() != (tmp_path / "b/key").read_bytes()


def test_records_from_before_the_steps_come_once(tmp_path: Path) -> None:
    counts = Record("counts", "users", (2, 1), 1.0, "because", 20.0)
    ledger = Ledger(TARGET)
    ledger.append(counts)
    with opened(tmp_path / "c") as checkpoint:
        checkpoint.witness(RECORD, 0, 0, SUMS)
        ledger.append(RECORD)
        checkpoint.save(1, b"", ledger)
    with opened(tmp_path / "c") as checkpoint:
        again = Ledger(TARGET)
        again.append(counts)
        checkpoint.restore(again)
        assert list(again) == [counts, RECORD]
        other = Ledger(TARGET)
        other.append(Record("counts", "users", (2, 1), 1.0, "because", 21.0))
        with pytest.raises(CheckpointError, match="another ledger"):
            checkpoint.restore(other)


def test_a_finished_training_stays(tmp_path: Path) -> None:
    folder = finished(tmp_path / "c")
    with opened(folder, data=np.arange(6)) as checkpoint:  # nobody can tell any more
        assert (checkpoint.finished, checkpoint.values) == (True, b"result")
    with pytest.raises(CheckpointError, match="another epsilon"):
        opened(folder, epsilon=2.0)
    remove_finished(folder)
    assert not folder.exists()


def test_a_training_that_is_not_finished_is_not_removed(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not finished"):
        remove_finished(begun(tmp_path / "c"))
    opened(tmp_path / "c").close()


def test_a_key_that_survived_the_end_is_destroyed(tmp_path: Path) -> None:
    """A process was killed between its last two acts."""
    folder = begun(tmp_path / "c")
    key = (folder / "key").read_bytes()
    finished(folder)
    (folder / "key").write_bytes(key)
    opened(folder).close()
    assert not (folder / "key").exists()


# --- what is refused ---


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"epsilon": 2.0}, "another epsilon"),
        ({"epsilon": 1}, "another epsilon"),
        ({"factors": 3}, "another factors"),
        ({"processor": "slow"}, "another processor: fast, not slow"),
        ({"data": np.arange(6)}, "other data"),
        ({"data": ROWS.astype(np.int32)}, "other data"),
    ],
)
def test_another_training_is_refused(tmp_path: Path, other: Any, message: str) -> None:
    begun(tmp_path / "c")
    with pytest.raises(CheckpointError, match=message):
        opened(tmp_path / "c", **other)
    opened(tmp_path / "c").close()  # nothing was lost, and nobody is locked out


@pytest.mark.parametrize(
    ("name", "message"), [("key", "stays spent"), ("state", "state is missing. .* stays spent")]
)
def test_a_missing_file_is_said(tmp_path: Path, name: str, message: str) -> None:
    (begun(tmp_path / "c") / name).unlink()
    with pytest.raises(CheckpointError, match=message):
        opened(tmp_path / "c")


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    path = begun(tmp_path / "c") / "state"
    content = path.read_bytes()
    damaged = [content[:cut] for cut in (0, 1, 63, 64, 65, 300, len(content) - 1)]
    for place in (0, 64, 100, 500, len(content) - 1):
        flipped = bytearray(content)
        flipped[place] ^= 1
        damaged.append(bytes(flipped))
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(CheckpointError, match=r"state is damaged. .* stays spent"):
            opened(tmp_path / "c")
        assert steps_done(tmp_path / "c") in (0, 1)
    path.write_bytes(content)
    opened(tmp_path / "c").close()


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_damaged_key_is_refused(tmp_path: Path, size: int) -> None:
    (begun(tmp_path / "c") / "key").write_bytes(bytes(size))
    with pytest.raises(CheckpointError, match="key is damaged"):
        opened(tmp_path / "c")


def test_another_key_is_refused(tmp_path: Path) -> None:
    (begun(tmp_path / "c") / "key").write_bytes(bytes(32))
    with pytest.raises(CheckpointError, match="key is another one"):
        opened(tmp_path / "c")


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match=r"thesis\.tex"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(CheckpointError, match=r"thesis\.tex"):
        opened(tmp_path / "thesis.tex")


def test_one_at_a_time(tmp_path: Path) -> None:
    with opened(tmp_path / "c"), pytest.raises(CheckpointError, match="another process"):
        opened(tmp_path / "c")
    opened(tmp_path / "c").close()


# --- witnesses ---


def test_the_same_sums_may_come_again(tmp_path: Path) -> None:
    with opened(begun(tmp_path / "c")) as checkpoint:
        checkpoint.witness(RECORD, 0, 0, SUMS.copy())
        checkpoint.witness(RECORD, 1, 0, SUMS + 1)  # other places have noise of their own
        checkpoint.witness(RECORD, 0, 64, SUMS + 1)
    assert len((tmp_path / "c/releases").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("changes", "sums"),
    [
        ({}, np.nextafter(SUMS, 9.0)),
        ({}, SUMS[:1]),
        ({}, SUMS.astype(np.int64)),
        ({"noise_scale": 4.5}, SUMS),  # twice the same sums with the same noise at two scales
        ({"sensitivity": 2.0}, SUMS),
        ({"steps": 2}, SUMS),
        ({"sampling_rate": 0.5}, SUMS),
    ],
)
def test_other_sums_never_meet_the_same_noise(
    tmp_path: Path, changes: dict[str, Any], sums: Any
) -> None:
    other = Record(**{**vars(RECORD), **changes})
    with (
        opened(begun(tmp_path / "c")) as checkpoint,
        pytest.raises(CheckpointError, match=r"'sweep 1' was computed otherwise.*no noise"),
    ):
        checkpoint.witness(other, 0, 0, sums)


class Spied(NoiseSource):
    """Notes what is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        asked.append(name)
        return super().__getattribute__(name)


asked: list[str] = []


def release_sums(curator: Curator) -> None:
    curator.release("totals", SUMS.astype(np.int64), UserBound(1.0, "because"), 0.1)


def select_ids(curator: Curator) -> None:
    curator.select("counts", np.array([7, 8]), np.array([90, 91]), 1, 0.1, 1e-6)


@pytest.mark.parametrize("release", [release_sums, select_ids])
def test_a_witness_comes_before_the_noise(release: Any) -> None:
    def refuse(record: Record, *_: Any) -> None:
        raise CheckpointError(record.name)

    target = PrivacyTarget(1.0, 1e-5, 1e-6)
    curator = Curator(target, Spied(), witness=refuse)
    asked.clear()
    with pytest.raises(CheckpointError):
        release(curator)
    assert asked == []
    release(Curator(target, Spied()))
    assert len(asked) > 1


def test_selected_ids_are_witnessed(tmp_path: Path) -> None:
    def select(ids: list[int], checkpoint: Checkpoint) -> None:
        target = PrivacyTarget(1.0, 1e-5, 1e-6)
        curator = Curator(target, checkpoint.noise(), witness=checkpoint.witness)
        curator.select("counts", np.array(ids), np.array([90, 91]), 1, 0.1, 1e-6)

    with opened(tmp_path / "c") as checkpoint:
        select([7, 8], checkpoint)
        select([7, 8], checkpoint)
        with pytest.raises(CheckpointError, match="otherwise"):
            select([8, 7], checkpoint)


def test_a_torn_witness_had_no_noise(tmp_path: Path) -> None:
    path = begun(tmp_path / "c") / "releases"
    whole = path.read_bytes()
    with opened(tmp_path / "c") as checkpoint:
        checkpoint.witness(RECORD, 1, 0, SUMS)
    both = path.read_bytes()
    for cut in (len(whole) + 1, len(both) - 5, len(both) - 1):
        path.write_bytes(both[:cut])
        with opened(tmp_path / "c") as checkpoint:
            checkpoint.witness(RECORD, 1, 0, SUMS + 1)
        assert path.read_bytes() != both
        assert len(path.read_bytes()) == len(both)


def test_damaged_witnesses_are_refused(tmp_path: Path) -> None:
    path = begun(tmp_path / "c") / "releases"
    path.write_bytes(b"\0" * 70 + b"\n" + path.read_bytes())
    with pytest.raises(CheckpointError, match="releases is damaged"):
        opened(tmp_path / "c")


# --- disks ---


@pytest.mark.parametrize("operation", ["write", "fsync"])
def test_a_full_disk_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(begun(tmp_path / "c")) as checkpoint:
        with monkeypatch.context() as patch:
            patch.setattr(os, operation, full)
            with pytest.raises(CheckpointError, match=r"No space left .* resumed"):
                checkpoint.witness(RECORD, 1, 0, SUMS)
            with pytest.raises(CheckpointError, match=r"No space left .* resumed"):
                checkpoint.save(2, b"more", Ledger(TARGET))
        checkpoint.witness(RECORD, 1, 0, SUMS + 1)  # which had no noise
    assert {path.name for path in (tmp_path / "c").iterdir()} == {
        "key", "lock", "releases", "state"
    }  # fmt: skip
    with opened(tmp_path / "c") as checkpoint:
        assert (checkpoint.done, checkpoint.values) == (1, b"values\nof a step")


# --- fingerprints ---


def test_values_that_differ_have_other_fingerprints() -> None:
    values: list[Any] = [
        None, True, 1, 1.0, "1", b"1", [1], [[1]], [], "", {"a": 1}, {"a": 2}, {1: "a"},
        np.array([1, 2]), np.array([[1], [2]]), np.array([1.0, 2.0]), np.array(["a", "bc"]),
        np.array(["a", "bc"], dtype=object), np.array(["ab", "c"], dtype=object),
        np.zeros(0), np.zeros((0, 1)), RECORD, lambda x: 2 * x, lambda x: 3 * x, UserBound(1.0, ""),
        *(scaled(factor) for factor in (1.0, 2.0)),
    ]  # fmt: skip
    assert len({fingerprint(value) for value in values}) == len(values)
    assert fingerprint(np.float64(1.0)) == fingerprint(1.0)
    strided = np.arange(10)[::2]
    assert fingerprint(strided) == fingerprint(strided.copy())
    long = np.arange(10_000.0)  # whose text leaves most out
    assert fingerprint(long) != fingerprint(np.where(long == 5000, 0, long))
    with pytest.raises(ParameterError, match="object"):
        fingerprint(object())


def scaled(factor: float) -> Any:
    return lambda x: factor * x
