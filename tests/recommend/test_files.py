"""Model folders: what is saved comes back bit by bit; damage is found and named; nothing is half done."""

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.accounts import PrivacyReport
from apportion.accounts.formats import MODEL
from apportion.data import simulate_interactions
from apportion.data.ids import plain_ids
from apportion.errors import DataError, NotFittedError
from apportion.folders import kinds, sealed
from apportion.folders.files import check_target
from apportion.folders.kinds import REPORT, SETTINGS
from apportion.privacy import PrivacyTarget
from apportion.privacy.ledger import Ledger, Record
from apportion.recommend import MatrixFactorization, Offsets, contents
from apportion.recommend.files import load, save
from apportion.recommend.fold_in import FoldIn
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender
from tests.reports import undated

FILES, TENSORS = kinds.ITEMS.files, kinds.ITEMS.file


def make_model(
    item_ids: Any = range(1, 31),
    feedback: str = "explicit",
    titles: list[str] | None = None,
    counts: bool = True,
    seed: int = 0,
    intercepts: bool = False,
) -> Recommender:
    """A model of random factors with a report of one release."""
    ids = item_ids if isinstance(item_ids, np.ndarray) else np.array(list(item_ids))
    random = np.random.default_rng(seed)
    ledger = Ledger(PrivacyTarget(1.0, 1e-5))
    ledger.append(Record("counts", "users per item", (len(ids),), 1.0, "one unit each", 4.0))
    explicit = feedback == "explicit"
    step = FoldIn(
        feedback=feedback,
        regularization=0.1,
        exponent=1.0 / 3,
        unobserved_weight=0.0 if explicit else 0.1,
        mean=3.3 if explicit else 0.0,
        rating_range=(1.0, 5.0) if explicit else None,
    )
    return Recommender(
        ItemModel(
            items=random.normal(size=(len(ids), 4)).astype(np.float32),
            item_ids=ids,
            counts=random.normal(100, 10, len(ids)) if counts else None,
            titles=None if titles is None else np.array(titles, dtype=object),
            fold_in=step,
            privacy=PrivacyReport(ledger, public_inputs={"items": len(ids)}, warnings=("mind",)),
            intercepts=random.normal(size=len(ids)).astype(np.float32) if intercepts else None,
            training={"settings": {"kind": "Settings", "bound": 1.0 / 3}, "choice": None},
        )
    )


def texts(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


IDS = {
    "int64": np.array([5, -3, 2**62, 0]),
    "int32": np.array([5, -3, 7, 0], dtype=np.int32),
    "uint64": np.array([5, 2**64 - 1, 2**63, 0], dtype=np.uint64),
    "string": texts(["Ünï", "日本", "", "a\0"]),
    "bytes": texts([b"\xff\x00", b"", b"a", b"b"]),
}


def same(one: Recommender, other: Recommender) -> None:
    a, b = one.released, other.released
    assert a.items.tobytes() == b.items.tobytes()
    assert a.item_ids.tolist() == b.item_ids.tolist()
    assert (a.counts is None) == (b.counts is None)
    if a.counts is not None and b.counts is not None:
        assert a.counts.tobytes() == b.counts.tobytes()
    assert (a.intercepts is None) == (b.intercepts is None)
    if a.intercepts is not None and b.intercepts is not None:
        assert a.intercepts.tobytes() == b.intercepts.tobytes()
        assert a.intercepts.dtype == b.intercepts.dtype == np.float32
    assert a.fold_in == b.fold_in
    assert a.training == b.training
    assert undated(a.privacy) == undated(b.privacy)


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("intercepts", [False, True])
def test_round_trip(tmp_path: Path, kind: str, feedback: str, intercepts: bool) -> None:
    model = make_model(IDS[kind], feedback, counts=feedback == "explicit", intercepts=intercepts)
    model.save(tmp_path / "new" / "model")
    loaded = load(str(tmp_path / "new" / "model"))
    same(model, loaded)
    assert loaded.released.titles is None
    history = dict(zip(IDS[kind].tolist()[:2], (5.0, 1.0), strict=True))
    ours, theirs = model.recommend(history, k=3), loaded.recommend(history, k=3)
    assert ours[0].tolist() == theirs[0].tolist()
    assert ours[1].tobytes() == theirs[1].tobytes()
    every = IDS[kind].tolist()
    assert model.predict(history, every).tobytes() == loaded.predict(history, every).tobytes()
    similar = [each.similar_items(every[0])[1].tobytes() for each in (model, loaded)]
    assert similar[0] == similar[1]


@pytest.mark.parametrize("intercepts", [False, True])
def test_an_empty_catalog(tmp_path: Path, intercepts: bool) -> None:
    model = make_model(np.zeros(0, dtype=np.int64), intercepts=intercepts)
    model.save(tmp_path / "m")
    same(model, load(tmp_path / "m"))


@pytest.mark.parametrize("written", [1, 2])
def test_a_folder_of_an_older_format(tmp_path: Path, written: int) -> None:
    # Those had a Parquet file, which no reader is safe with if it is forged.
    make_model().save(tmp_path / "m")
    values = json.loads((tmp_path / "m" / SETTINGS).read_text())
    reseal(tmp_path / "m", {**values, "format": written})
    with pytest.raises(DataError, match=rf"format {written}, from before the first"):
        load(tmp_path / "m")


def test_a_trained_model_comes_back(tmp_path: Path) -> None:
    data = simulate_interactions(users=60, items=20, rows=600)
    model = MatrixFactorization(2, 1, epsilon=5.0, offsets=Offsets(intercept_share=0.5)).fit(data)
    assert model.released.intercepts is not None
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    same(model, loaded)
    pairs = [each.predict_many(data, data).tobytes() for each in (model, loaded)]
    assert pairs[0] == pairs[1]
    assert model.recommend_many(data, k=3).equals(loaded.recommend_many(data, k=3))


def as_id(text: str) -> str:
    return str(plain_ids(texts([text]))[0])


@given(
    # Two ids that differ in the space around them, or in how letters are composed, are one.
    ids=st.lists(st.text(), unique_by=as_id, max_size=20)
    | st.lists(st.binary(), unique=True, max_size=20)
    | st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=20),
    titles=st.dictionaries(st.integers(0, 19), st.text()),
    values=st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=80),
    step=st.tuples(st.floats(0, 1e30), st.floats(0, 2), st.floats(0, 1e30), st.floats(-1e30, 1e30)),
)
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_round_trip_of_anything(
    tmp_path: Path,
    ids: list[Any],
    titles: Mapping[int, str],
    values: list[float],
    step: tuple[float, ...],
) -> None:
    regularization, exponent, unobserved, mean = step
    model = make_model(texts(ids) if ids else np.zeros(0, np.int64))
    released = replace(
        model.released,
        item_ids=texts(ids) if ids else np.zeros(0, np.int64),
        items=np.resize(np.array([*values, 0.0], dtype=np.float32), (len(ids), 4)),
        fold_in=FoldIn("implicit", regularization, exponent, unobserved, "none", mean),
    )
    model = Recommender(released)
    named = {ids[place]: title for place, title in titles.items() if place < len(ids)}
    model.save(tmp_path / "model", titles=named)
    loaded = load(tmp_path / "model")
    same(model, loaded)
    assert loaded.released.titles is not None
    assert loaded.released.titles.tolist() == [named.get(item, "") for item in ids]


def frame(kind: Callable[[Any], Any]) -> Any:
    return kind({"item": [9, 2, 1], "title": ["nine", "two", None]})


@pytest.mark.parametrize(
    "titles",
    [
        {9: "nine", 2: "two"},
        {9: "nine", np.int64(2): "two", 1: None, 3: float("nan")},
        frame(pl.DataFrame),
        frame(pd.DataFrame),
        frame(pa.table),
    ],
    ids=["mapping", "mapping with gaps", "polars", "pandas", "pyarrow"],
)
def test_titles(tmp_path: Path, titles: Any) -> None:
    # One that is of no item is left out, and not in silence.
    with pytest.warns(UserWarning, match=r"1 of [234] titles are of items that the model does not"):
        make_model([1, 2, 3]).save(tmp_path / "m", titles)
    released = load(tmp_path / "m").released
    assert released.titles is not None
    assert released.titles.tolist() == ["", "two", ""]


def test_titles_are_kept(tmp_path: Path) -> None:
    model = make_model([1, 2, 3], titles=["one", "two", "three"])
    model.save(tmp_path / "a")
    model.save(tmp_path / "b", {3: "drei"})
    for name, expected in (("a", ["one", "two", "three"]), ("b", ["one", "two", "drei"])):
        titles = load(tmp_path / name).released.titles
        assert titles is not None
        assert titles.tolist() == expected


@pytest.mark.parametrize(
    ("titles", "message"),
    [
        ({"1": "one"}, "both name items by text or both by numbers"),
        ({1: 5}, "title: row 0 is not text"),
        (pl.DataFrame({"item": [1]}), "no column 'title'"),
        (["one", "two"], "table"),
        ({1: "\ud800"}, "not valid Unicode"),
    ],
)
def test_titles_that_cannot_be_used(tmp_path: Path, titles: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make_model([1, 2, 3]).save(tmp_path / "m", titles)
    assert list(tmp_path.iterdir()) == []


def test_nothing_secret_and_nothing_executable_is_in_the_folder(tmp_path: Path) -> None:
    make_model().save(tmp_path / "m", {1: "one"})
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == sorted(FILES)
    for name in FILES:
        content = (tmp_path / "m" / name).read_bytes()
        assert b"secret_key" not in content
        assert b"pickle" not in content
    values = json.loads((tmp_path / "m" / SETTINGS).read_text())
    assert not [name for name in _names(values) if "key" in name or "seed" in name]


def _names(values: Any) -> list[str]:
    if not isinstance(values, dict):
        return []
    return [*values, *(name for value in values.values() for name in _names(value))]


def test_an_untrained_model_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        object.__new__(Recommender).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["items", "intercepts", "counts"])
def test_a_model_with_nan_is_not_saved(tmp_path: Path, what: str) -> None:
    model = make_model(intercepts=True)
    getattr(model.released, what)[3] = np.nan
    with pytest.raises(DataError, match=f"{what} holds values that are not finite"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# --- where it is saved ---


def test_a_model_is_replaced(tmp_path: Path) -> None:
    first, second = make_model(seed=1), make_model(range(7), seed=2)
    first.save(tmp_path / "m")
    second.save(tmp_path / "m")
    same(second, load(tmp_path / "m"))
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    make_model().save(tmp_path / "m")
    load(tmp_path / "m")


def test_a_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    make_model().save(tmp_path / "link")
    load(tmp_path / "real")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("notes.txt", b"mine"),
        (SETTINGS, b"{}"),
        (SETTINGS, b"garbage"),
        (SETTINGS, b'{"kind": "other"}'),
        (".hidden", b""),
    ],
)
def test_foreign_folders_are_not_touched(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / name).write_bytes(content)
    with pytest.raises(DataError, match="is not empty and holds no model"):
        make_model().save(tmp_path / "m")
    assert [path.name for path in tmp_path.rglob("*")] == ["m", name]
    assert (tmp_path / "m" / name).read_bytes() == content


def test_foreign_files_beside_a_model_stay(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    make_model().save(folder)
    (folder / "README.md").write_text("mine")
    (folder / ".git" / "deep").mkdir(parents=True)
    (folder / ".git" / "deep" / "config").write_text("theirs")
    (folder / "link").symlink_to("README.md")
    folder.chmod(0o755)
    second = make_model(seed=1)
    second.save(folder)
    same(second, load(folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*FILES, "README.md", ".git", "link"]
    )
    assert (folder / "README.md").read_text() == "mine"
    assert (folder / ".git" / "deep" / "config").read_text() == "theirs"
    assert (folder / "link").is_symlink()
    assert folder.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """The system writes no file beyond this size, as a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_save_that_fails_leaves_foreign_files_where_they_are(tmp_path: Path) -> None:
    first = make_model()
    first.save(tmp_path / "m")
    (tmp_path / "m" / "README.md").write_text("mine")
    with small_files(100), pytest.raises(OSError, match="File too large"):
        make_model(seed=1).save(tmp_path / "m")
    same(first, load(tmp_path / "m"))
    assert (tmp_path / "m" / "README.md").read_text() == "mine"


def test_a_folder_of_links_is_loaded_and_saved_into(tmp_path: Path) -> None:
    """As model hubs and DVC keep them: the files are elsewhere, under other names."""
    first, folder = make_model(), tmp_path / "m"
    first.save(folder)
    (tmp_path / "blobs").mkdir()
    for number, name in enumerate(FILES):
        blob = (folder / name).rename(tmp_path / "blobs" / str(number))
        (folder / name).symlink_to(Path("..") / "blobs" / blob.name)
    same(first, load(folder))
    before = [path.read_bytes() for path in sorted((tmp_path / "blobs").iterdir())]
    make_model(seed=1).save(folder)
    assert not any(path.is_symlink() for path in folder.iterdir())
    assert [path.read_bytes() for path in sorted((tmp_path / "blobs").iterdir())] == before


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "m").write_text("mine")
    with pytest.raises(NotADirectoryError):
        make_model().save(tmp_path / "m")
    assert (tmp_path / "m").read_text() == "mine"


def test_the_working_folder_is_not_pulled_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="name a folder in it"):
        make_model().save(".")


def test_check_target_says_whether_a_model_is_there(tmp_path: Path) -> None:
    assert not check_target(tmp_path / "a" / "b")
    make_model().save(tmp_path / "a" / "b")
    assert check_target(tmp_path / "a" / "b")


class FaultError(Exception):
    pass


def failing(method: Any, when: Callable[..., bool]) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        if when(*arguments, **options):
            raise FaultError
        return method(*arguments, **options)

    return call


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("step", ["write", "move the old one", "move the new one"])
def test_a_failure_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, exists: bool
) -> None:
    old = make_model(seed=1)
    if exists:
        old.save(tmp_path / "m")
    if step == "write":
        calls = iter([False, False, True])
        monkeypatch.setattr(os, "fsync", failing(os.fsync, lambda _: next(calls)))
    elif step == "move the old one":
        fails = failing(Path.rename, lambda _, target: target.name == "old")
        monkeypatch.setattr(Path, "rename", fails)
    else:
        fails = failing(Path.rename, lambda source, _: source.name == "new")
        monkeypatch.setattr(Path, "rename", fails)
    if step == "move the old one" and not exists:
        make_model(seed=2).save(tmp_path / "m")
        return
    with pytest.raises(FaultError):
        make_model(seed=2).save(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"] * exists
    if exists:
        same(old, load(tmp_path / "m"))


def test_the_old_model_survives_even_if_it_cannot_be_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_model(seed=1)
    old.save(tmp_path / "m")
    fails = failing(Path.rename, lambda source, _: source.name in ("new", "old"))
    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(FaultError):
        make_model(seed=2).save(tmp_path / "m")
    [kept] = tmp_path.glob(".writing-*/old")
    same(old, load(kept))


def test_a_full_disk(tmp_path: Path) -> None:
    with small_files(100), pytest.raises(OSError, match="File too large"):
        make_model().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# --- damage ---


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "m"
    make_model(titles=[f"title {n}" for n in range(30)], intercepts=True).save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "m"))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files(folder: Path, name: str, share: float) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(len(content) * share)])
    with pytest.raises(DataError, match=name):
        load(folder)


@given(
    name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255)
)
@settings(max_examples=200, deadline=None)
def test_flipped_bytes(saved: Path, name: str, place: float, flip: int) -> None:
    content = {each: (saved / each).read_bytes() for each in FILES}
    damaged = bytearray(content[name])
    damaged[int(place * len(damaged))] ^= flip
    content[name] = bytes(damaged)
    try:
        model = contents.unpack(Path("m"), content)
    except DataError as found:
        error = str(found)
    else:  # white space in JSON text is the only thing that may change
        same(Recommender(model), load(saved))
        error = SETTINGS
    assert name in error


@given(name=st.sampled_from(FILES), content=st.binary() | st.text().map(str.encode))
@settings(max_examples=100, deadline=None)
def test_garbage(saved: Path, name: str, content: bytes) -> None:
    files = {each: (saved / each).read_bytes() for each in FILES}
    with pytest.raises(DataError, match=name):
        contents.unpack(Path("m"), {**files, name: content})


@pytest.mark.parametrize("name", FILES)
def test_missing_linked_and_odd_files(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    with pytest.raises(DataError, match=rf"{name} is missing"):
        load(folder)
    (folder / name).symlink_to(folder.parent / "elsewhere")
    load(folder)
    for target, message in (("nowhere", "is missing"), ("/dev/zero", "is not a file")):
        (folder / name).unlink()
        (folder / name).symlink_to(target)
        with pytest.raises(DataError, match=rf"{name} {message}"):
            load(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    with pytest.raises(DataError, match=rf"{name} is not a file"):
        load(folder)


@pytest.mark.parametrize("name", [TENSORS, REPORT])
def test_files_of_another_model(folder: Path, tmp_path: Path, name: str) -> None:
    make_model(range(5)).save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, folder / name)
    with pytest.raises(DataError, match=rf"{name} is damaged, or belongs to another model"):
        load(folder)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no model folder"):
        load(tmp_path / "m")


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file, with a checksum that fits."""
    (folder / name).write_bytes(content)
    values = json.loads((folder / SETTINGS).read_text())
    reseal(folder, values)


def reseal(folder: Path, values: dict[str, Any]) -> None:
    digests = {n: sealed.digest((folder / n).read_bytes()) for n in FILES if n != SETTINGS}
    whole = sealed.sealed({**values, "sha256": digests})
    (folder / SETTINGS).write_text(json.dumps(whole))


NEWER = MODEL.number + 1


def changed(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda settings: settings.update(values)


def step(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda settings: settings["fold_in"].update(values)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(format=NEWER, needs="3.1"), "it needs apportion 3.1 or later"),
        (changed(format=NEWER, needs="3.1", more=1), "it needs apportion 3.1 or later"),
        (changed(format=NEWER, needs="see \x1b[2J"), "it needs apportion a newer version"),
        (changed(format=0), "no valid format"),
        (changed(format="1"), "no valid format"),
        (changed(format=True), "no valid format"),
        (changed(kind="a ridge model"), "does not describe"),
        (changed(more=1), "unknown field 'more'"),
        (changed(fold_in=[1]), "fold_in is not a JSON object"),
        (lambda settings: settings.pop("version"), "has no field 'version'"),
        (changed(training=[1]), "training is not a JSON object"),
        (lambda settings: settings.pop("training"), "has no field 'training'"),
        (step(more=1), "unknown field 'more' in fold_in"),
        (lambda settings: settings["fold_in"].pop("mean"), "no field 'mean' in fold_in"),
        (step(feedback="both"), "feedback must be one of"),
        (step(feedback=[]), "feedback must be one of"),
        (step(center=None), "center must be one of"),
        (step(regularization=-1.0), "regularization must be a number"),
        (step(regularization=float("nan")), "it holds NaN"),
        (step(mean=float("inf")), "it holds Infinity"),
        (step(exponent="1"), "exponent must be a number"),
        (step(unobserved_weight=True), "unobserved_weight must be a number"),
        (step(rating_range=[5.0, 1.0]), "rating_range must go up"),
        (step(rating_range=5.0), "rating_range must be two numbers"),
        (step(rating_range=[1.0, 2.0, 3.0]), "rating_range must be two numbers"),
    ],
)
def test_forged_settings(
    folder: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    values = json.loads((folder / SETTINGS).read_text())
    change(values)
    reseal(folder, values)
    with pytest.raises(DataError, match=rf"{SETTINGS}.*{message}"):
        load(folder)


@pytest.mark.parametrize("content", [b"[]", b"null", b'"x"', b"[" * 50_000, b"\xff\xfe"])
def test_settings_that_are_no_object(folder: Path, content: bytes) -> None:
    (folder / SETTINGS).write_bytes(content)
    with pytest.raises(DataError, match=rf"{SETTINGS} (cannot be used: |is not a JSON)"):
        load(folder)


def test_a_newer_version_may_have_other_files(folder: Path) -> None:
    values = json.loads((folder / SETTINGS).read_text())
    newer = {**values, "format": NEWER, "needs": "0.9.1"}
    (folder / SETTINGS).write_text(json.dumps(newer))
    (folder / TENSORS).unlink()
    with pytest.raises(DataError, match=r"needs apportion 0\.9\.1"):
        load(folder)


ITEMS = np.ones((30, 4), dtype=np.float32)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "no tensor 'items'"),
        ({"items": ITEMS, "users": ITEMS}, "unknown tensor 'users'"),
        ({"items": ITEMS.astype(np.float64)}, "items must be float32, not float64"),
        ({"items": ITEMS.astype(np.float16)}, "items must be float32, not float16"),
        ({"items": ITEMS, "counts": ITEMS[:, 0]}, "counts must be float64, not float32"),
        ({"items": ITEMS[:, 0]}, "items must have 2 dimensions"),
        ({"items": ITEMS, "counts": np.ones(29)}, "has 30 items, but 29 counts"),
        ({"items": ITEMS, "counts": np.ones((30, 1))}, "counts must have 1 dimensions"),
        ({"items": ITEMS * np.float32("nan")}, "items holds values that are not finite"),
        (
            {"items": ITEMS, "counts": np.full(30, np.inf)},
            "counts holds values that are not finite",
        ),
        ({"items": ITEMS, "intercepts": ITEMS[:29, 0]}, "has 30 items, but 29 intercepts"),
        ({"items": ITEMS, "intercepts": ITEMS[:0, 0]}, "has 30 items, but 0 intercepts"),
        ({"items": ITEMS, "intercepts": np.ones(30)}, "intercepts must be float32, not float64"),
        ({"items": ITEMS, "intercepts": ITEMS}, "intercepts must have 1 dimensions, not 2"),
        (
            {"items": ITEMS, "intercepts": np.array(ITEMS[0, 0])},
            "intercepts must have 1 dimensions",
        ),
        (
            {"items": ITEMS, "intercepts": ITEMS[:, 0] * np.float32("nan")},
            "intercepts holds values that are not finite",
        ),
        (
            {"items": ITEMS, "intercepts": ITEMS[:, 0] * np.float32("inf")},
            "intercepts holds values that are not finite",
        ),
        ({"intercepts": ITEMS[:, 0]}, "no tensor 'items'"),
    ],
)
def test_forged_tensors(folder: Path, tensors: dict[str, Any], message: str) -> None:
    forge(folder, TENSORS, safetensors.numpy.save(tensors))
    with pytest.raises(DataError, match=message) as error:
        load(folder)
    assert TENSORS in str(error.value)


def test_tensors_of_a_type_that_numpy_does_not_know(folder: Path) -> None:
    header = b'{"items":{"dtype":"BF16","shape":[30,4],"data_offsets":[0,240]}}'
    forge(folder, TENSORS, len(header).to_bytes(8, "little") + header + bytes(240))
    with pytest.raises(DataError, match=rf"{TENSORS} is not a readable safetensors file"):
        load(folder)


BYTES, SIZES = np.frombuffer(b"a" * 30, np.uint8), np.ones(30, np.int64)
NAMED = {"items": ITEMS, "ids": np.arange(30)}


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"items": ITEMS}, "must have one tensor of ids, not 0"),
        ({**NAMED, "unsigned_ids": np.arange(30, dtype=np.uint64)}, "one tensor of ids, not 2"),
        ({"items": ITEMS, "ids": np.arange(30) % 29}, "the same id twice"),
        ({"items": ITEMS, "ids": np.arange(30.0)}, "ids must be int64, not float64"),
        ({"items": ITEMS, "ids": np.arange(29)}, "has 30 items, but 29 ids"),
        ({"items": ITEMS, "text_ids": BYTES}, "text_ids has no valid sizes"),
        ({"items": ITEMS, "text_ids": BYTES, "text_ids.sizes": SIZES}, "the same id twice"),
        (
            {"items": ITEMS, "byte_ids": BYTES, "byte_ids.sizes": SIZES[:29]},
            "but 29 byte_ids.sizes",
        ),
        ({**NAMED, "titles": BYTES, "titles.sizes": -SIZES}, "titles has no valid sizes"),
        ({**NAMED, "titles": BYTES, "titles.sizes": SIZES * 2**62}, "titles has no valid sizes"),
        ({**NAMED, "titles": BYTES, "titles.sizes": SIZES * 2}, "their sizes do not agree"),
        ({**NAMED, "titles": BYTES[:29], "titles.sizes": SIZES}, "their sizes do not agree"),
        ({**NAMED, "titles": BYTES + 128, "titles.sizes": SIZES}, "titles of row 0 is not text"),
        ({**NAMED, "titles": BYTES[:, None], "titles.sizes": SIZES}, "must have 1 dimensions"),
        ({**NAMED, "titles.sizes": SIZES}, "'titles.sizes' that belongs to none"),
    ],
)
def test_forged_names(folder: Path, tensors: dict[str, Any], message: str) -> None:
    forge(folder, TENSORS, safetensors.numpy.save(tensors))
    with pytest.raises(DataError, match=rf"{TENSORS}.*{message}"):
        load(folder)


@pytest.mark.parametrize("name", [TENSORS, REPORT])
@given(content=st.binary() | st.text().map(str.encode))
@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_forged_garbage(folder: Path, name: str, content: bytes) -> None:
    forge(folder, name, content)
    with pytest.raises(DataError, match=name):
        load(folder)


@pytest.mark.parametrize("name", [TENSORS, REPORT])
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_forged_flips_are_read_or_refused(
    folder: Path, saved: Path, name: str, place: float, flip: int
) -> None:
    damaged = bytearray((saved / name).read_bytes())
    damaged[int(place * len(damaged))] ^= flip
    forge(folder, name, bytes(damaged))
    error = name
    try:
        load(folder)
    except DataError as found:
        error = str(found)
    assert name in error


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda report: report.update(format=9), "format 9"),
        (lambda report: report.pop("ledger"), "ledger"),
        (
            lambda report: report["ledger"]["records"][0].update(noise_scale=0.01),
            "its noise is less",
        ),
        (lambda report: report["ledger"]["records"][0].update(shape=[float("inf")]), "Infinity"),
        (lambda report: report["ledger"]["records"][0].update(sensitivity=-1), "sensitivity"),
    ],
)
def test_forged_reports(
    folder: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    report = json.loads((folder / REPORT).read_text())
    change(report)
    forge(folder, REPORT, json.dumps(report).encode())
    with pytest.raises(DataError, match=rf"{REPORT} cannot be used.*{message}"):
        load(folder)


def test_a_report_cannot_claim_more_than_its_ledger_shows(folder: Path) -> None:
    report = json.loads((folder / REPORT).read_text())
    forge(folder, REPORT, json.dumps({**report, "epsilon": 0.01, "private": True}).encode())
    assert load(folder).privacy.epsilon > 0.5


def test_save_is_the_same_function(tmp_path: Path) -> None:
    save(make_model(), tmp_path / "m")
    load(tmp_path / "m")
