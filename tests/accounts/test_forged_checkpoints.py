"""Files in a checkpoint that somebody else has made or may change: refused, by an error of ours."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.accounts.checkpoint import Checkpoint, remove_finished, steps_done
from apportion.accounts.ledgers import record_to_dict
from apportion.errors import CheckpointError
from apportion.privacy import Ledger, PrivacyTarget
from tests.accounts.test_checkpoint import RECORD, SUMS, begun, finished, opened

NAMES = ("key", "state", "releases", "lock")


# --- files that are not ours alone ---


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    (begun(tmp_path / "c") / name).chmod(mode)
    with pytest.raises(CheckpointError, match=f"{name} is open to others"):
        opened(tmp_path / "c")


def test_a_folder_around_them_may_be_open_to_a_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)
    begun(tmp_path / "c")
    (tmp_path / "c").chmod(0o770)
    opened(tmp_path / "c").close()


def link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


def second_name(path: Path) -> None:
    os.link(path, path.parent.parent / "second")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [link, second_name, pipe])
def test_links_and_pipes_are_refused(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    change(begun(tmp_path / "c") / name)
    with pytest.raises(CheckpointError, match=name):
        opened(tmp_path / "c")
    assert steps_done(tmp_path / "c") in (0, 1)  # and does not wait for a pipe


def test_a_link_that_waits_for_a_state_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "state").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="state"):
        opened(folder)
    assert not (tmp_path / "elsewhere").exists()


def test_nothing_but_a_key_of_ours_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    folder = tmp_path / "c"
    folder.mkdir()
    os.link(tmp_path / "thesis", folder / "key")
    with pytest.raises(CheckpointError, match="hard link"):
        opened(folder)
    assert (tmp_path / "thesis").read_text() == "years of work"


@pytest.mark.skipif(os.getuid() != 0, reason="gives files away")
@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    os.chown(begun(tmp_path / "c") / name, 65534, -1)
    with pytest.raises(CheckpointError, match="belongs to another user"):
        opened(tmp_path / "c")


# --- witnesses ---


def test_missing_witnesses_are_refused(tmp_path: Path) -> None:
    (begun(tmp_path / "c") / "releases").unlink()
    with pytest.raises(CheckpointError, match=r"releases is missing.*stays spent"):
        opened(tmp_path / "c")


def test_witnesses_that_were_emptied_are_refused(tmp_path: Path) -> None:
    os.truncate(begun(tmp_path / "c") / "releases", 0)
    with pytest.raises(CheckpointError, match=r"releases is damaged.*stays spent"):
        opened(tmp_path / "c")


def test_also_before_the_first_step(tmp_path: Path) -> None:
    with opened(tmp_path / "c") as checkpoint:
        checkpoint.witness(RECORD, 0, 0, SUMS)
    (tmp_path / "c" / "releases").unlink()
    with pytest.raises(CheckpointError, match="releases is missing"):
        opened(tmp_path / "c")


# --- states ---


def forged(folder: Path, values: bytes | None = None, **changes: Any) -> Path:
    """A state with other parts, and with digests that fit, as far as one can make them without the key."""
    line, _, old = (folder / "state").read_bytes().partition(b"\n")
    values = old if values is None else values
    header = {**json.loads(line), "values": hashlib.blake2b(values).hexdigest(), **changes}
    header.pop("mac")
    content = json.dumps(header, sort_keys=True).encode()
    header["mac"] = hashlib.blake2b(content).hexdigest()
    (folder / "state").write_bytes(json.dumps(header).encode() + b"\n" + values)
    return folder


def test_without_the_key_no_state_can_be_made(tmp_path: Path) -> None:
    every: list[dict[str, Any]] = [{}, {"done": 0}, {"ledger": []}, {"budget": "0" * 32}]
    for changes in every:
        forged(begun(tmp_path / "c"), **changes)
        with pytest.raises(CheckpointError, match="state is damaged"):
            opened(tmp_path / "c")
        (tmp_path / "c" / "state").unlink()
        (tmp_path / "c" / "releases").unlink()


@pytest.mark.parametrize(
    "changes",
    [
        {"done": -1}, {"done": 1.5}, {"done": True}, {"done": "1"}, {"done": None},
        {"finished": 1}, {"finished": None}, {"training": "x"}, {"training": 3}, {"budget": 7},
        {"given": None}, {"given": {}}, {"given": {"public": {}, "setting": {"processor": 3}}},
        {"given": {"public": [], "setting": {}}}, {"ledger": None}, {"ledger": [{}]},
        {"ledger": [3]}, {"ledger": {"a": 1}}, {"format": None}, {"format": "3"}, {"more": 1},
        {"version": 3},
    ],
    ids=repr,
)  # fmt: skip
def test_forged_states_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    forged(finished(tmp_path / "c"), **changes)
    with pytest.raises(CheckpointError):
        opened(tmp_path / "c")
    assert steps_done(tmp_path / "c") == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[]", b"3", b"null", b"NaN", b'{"format": 1e999}', b"[" * 100_000, b"\xff", b"9" * 9999],
    ids=lambda content: repr(content[:9]),
)  # fmt: skip
def test_states_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    (begun(tmp_path / "c") / "state").write_bytes(content)
    with pytest.raises(CheckpointError):
        opened(tmp_path / "c")
    assert steps_done(tmp_path / "c") == 0


def test_a_state_of_another_version_is_named(tmp_path: Path) -> None:
    forged(finished(tmp_path / "c"), format=9, version="3.1.4")
    with pytest.raises(CheckpointError, match=r"of format 9, not 4: .* with apportion 3\.1\.4"):
        opened(tmp_path / "c")
    for odd in ("see \x1b[2J", 3, None):
        forged(tmp_path / "c", version=odd)
        with pytest.raises(CheckpointError, match="with the version that wrote it"):
            opened(tmp_path / "c")


def test_a_forged_ledger_ends_in_an_error_of_ours(tmp_path: Path) -> None:
    record = {**record_to_dict(RECORD), "noise_scale": 1e-9}
    folder = forged(finished(tmp_path / "c"), ledger=[record])
    with (
        opened(folder) as checkpoint,
        pytest.raises(CheckpointError, match="state is damaged"),
    ):
        checkpoint.restore(Ledger(PrivacyTarget(1.0, 1e-5)))


DATA = ap.simulate_tasks(users=100, tasks=5, tasks_per_user=2)
RATINGS = ap.simulate_interactions(users=60, items=6, rows=240)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x93NUMPY", np.lib.format.magic(1, 0) + b"\x76\x00{'descr': '<f8', 'fortran_order'", b"PK\3\4x"],
)  # fmt: skip
def test_forged_values_end_in_an_error_of_ours(tmp_path: Path, content: bytes) -> None:
    for model, data in (
        (ap.MultiTaskRidge(5.0), DATA),
        (ap.MatrixFactorization(2, sweeps=1, epsilon=5.0), RATINGS),
    ):
        folder = tmp_path / type(model).__name__
        model.fit(data, checkpoint=folder)
        forged(folder, content)
        with (
            pytest.warns(UserWarning, match="is finished"),
            pytest.raises(CheckpointError, match="state is damaged"),
        ):
            model.fit(data, checkpoint=folder)
        remove_finished(folder)


def test_an_array_that_claims_to_be_huge_or_has_another_shape(tmp_path: Path) -> None:
    model = ap.MultiTaskRidge(5.0).fit(DATA, checkpoint=tmp_path / "c")
    arrays = [np.zeros((4, 3)), np.zeros(5), np.zeros((5, 3), dtype=np.int8), np.array(3.0)]
    contents = []
    for array in arrays:
        with (tmp_path / "array.npy").open("wb") as file:
            np.save(file, array)
        contents.append((tmp_path / "array.npy").read_bytes())
    header = contents[0].replace(b"(4, 3), }" + b" " * 9, b"(4000000000000, 3), }"[:18])
    for content in (*contents, header):
        forged(tmp_path / "c", content)
        with (
            pytest.warns(UserWarning, match="is finished"),
            pytest.raises(CheckpointError, match="state is damaged"),
        ):
            model.fit(DATA, checkpoint=tmp_path / "c")


def test_a_checkpoint_that_is_whole_is_resumed(tmp_path: Path) -> None:
    """So that the tests above do not pass for another reason."""
    with opened(begun(tmp_path / "c")) as checkpoint:
        assert isinstance(checkpoint, Checkpoint)
        assert checkpoint.done == 1
    opened(forged(finished(tmp_path / "d"))).close()
