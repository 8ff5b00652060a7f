"""Model folders that are damaged, forged or odd: read right or refused, and never the end of the process."""

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.recommend import contents
from apportion.recommend.contents import FILES, REPORT, SETTINGS, TENSORS
from apportion.recommend.verify import verify
from tests.fuzz.harness import USER, Fuzz, examples, mutated, seeds, tree
from tests.fuzz.values import json as any_json


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = ap.simulate_interactions(users=60, items=6, rows=240)
    model = ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0, delta=1e-5).fit(data)
    model.save(tmp_path_factory.mktemp("fuzz") / "model", titles={1: "one", 2: "two"})
    return tmp_path_factory.getbasetemp() / "fuzz0" / "model"


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def forge(folder: Path, name: str, content: bytes) -> None:
    """Replace a file; checksums fit, as those of a forger would."""
    (folder / name).write_bytes(content)
    try:
        values = json.loads((folder / SETTINGS).read_bytes())
        digests = {n: contents._digest((folder / n).read_bytes()) for n in FILES if n != SETTINGS}
        sealed = contents._sealed({**values, "sha256": digests})
        (folder / SETTINGS).write_text(json.dumps(sealed))
    except (ValueError, TypeError, RecursionError):
        return


def use(folder: Path) -> ap.Recommender:
    """Load a model and do with it what can be done."""
    model = ap.load(folder)
    verify(folder)
    str(model), str(model.privacy), model.privacy.to_json()
    with np.errstate(all="ignore"):  # forged numbers may be as large as numbers are
        if len(model.item_ids) > 1:
            history = [model.item_ids[0]]
            explicit = model.released.fold_in.feedback == "explicit"
            low, high = model.released.fold_in.rating_range or (1.0, 2.0)
            model.recommend({history[0]: (low + high) / 2} if explicit else history, k=3)
            model.similar_items(model.item_ids[1], k=3)
    return model


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("sealed", [False, True])
def test_bytes_changed(fuzz: Fuzz, saved: Path, folder: Path, name: str, sealed: bool) -> None:
    before = (saved / name).read_bytes()
    for source in seeds(150):
        content = mutated(before, source)
        if sealed:
            shutil.copytree(saved, folder, dirs_exist_ok=True)
            forge(folder, name, content)
        else:
            (folder / name).write_bytes(content)
        found = fuzz.case(lambda: use(folder))
        if isinstance(found, ap.ApportionError):
            assert isinstance(found, ap.DataError)
            assert str(folder) in str(found)
        elif not sealed and name != SETTINGS:
            assert content == before, "damage was not noticed"


@pytest.mark.parametrize("name", FILES)
def test_cut_off_anywhere(fuzz: Fuzz, saved: Path, folder: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    for size in range(0, len(content) - 1, max(1, len(content) // 60)):
        (folder / name).write_bytes(content[:size])
        assert isinstance(fuzz.case(lambda: use(folder)), ap.DataError)


@pytest.mark.parametrize("name", [SETTINGS, REPORT])
@given(value=any_json, path=st.randoms(use_true_random=False))
@examples(80)
def test_values_of_json_replaced(
    fuzz: Fuzz, saved: Path, tmp_path: Path, name: str, value: Any, path: random.Random
) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "model", dirs_exist_ok=True))
    values = json.loads((saved / name).read_text())
    place: Any = values
    while True:  # walk down to some value and put another one there
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = path.choice(keys)
        if not isinstance(place[key], (dict, list)) or not place[key] or path.random() < 0.2:
            break
        place = place[key]
    place[key] = value
    forge(folder, name, json.dumps(values).encode("utf-8", "surrogatepass"))
    fuzz.case(lambda: use(folder))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 50_000,
        "1" * 10_000,
        '{"kind": 1, "kind": 2}',
        "NaN",
        "",
        "\0",
        "{}",
        "[]",
    ],
    ids=[
        "deep list",
        "deep object",
        "long number",
        "repeated",
        "NaN",
        "empty",
        "NUL",
        "object",
        "list",
    ],
)
@pytest.mark.parametrize("name", [SETTINGS, REPORT])
def test_odd_json(fuzz: Fuzz, folder: Path, name: str, text: str) -> None:
    forge(folder, name, text.encode())
    assert isinstance(fuzz.case(lambda: use(folder)), ap.DataError)


def header(**tensors: Any) -> bytes:
    text = json.dumps(tensors).encode()
    return len(text).to_bytes(8, "little") + text


def test_tensors_that_claim_more_than_the_file_holds(fuzz: Fuzz, folder: Path) -> None:
    for size in (2**20, 2**31, 2**40, 2**62, 2**63, 2**64, -1):
        for shape in ([size, 2], [2, size], [size, size], [size]):
            for end in (0, 8, size, 2**63):
                entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}
                forge(folder, TENSORS, header(items=entry) + bytes(64))
                assert isinstance(fuzz.case(lambda: use(folder)), ap.DataError)
    for length in (0, 2**32, 2**63, 2**64 - 1):
        forge(folder, TENSORS, length.to_bytes(8, "little") + b"{}")
        assert isinstance(fuzz.case(lambda: use(folder)), ap.DataError)


def test_tensors_of_any_type_and_shape(fuzz: Fuzz, saved: Path, folder: Path) -> None:
    own = safetensors.numpy.load((saved / TENSORS).read_bytes())
    kinds = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int64, np.uint64, np.bool_)
    names = (*contents._TENSORS, "other")
    for source in seeds(300):
        tensors = dict(own)
        for _ in range(source.choice((1, 1, 2, 4))):
            name = source.choice(names)
            if source.random() < 0.3:
                tensors.pop(name, None)
                continue
            shape = [source.choice((0, 1, 2, 6)) for _ in range(source.randrange(4))]
            like = own.get(name)
            if like is not None and source.random() < 0.5:
                shape = list(like.shape)
            bits = np.frombuffer(source.randbytes(8 * int(np.prod(shape, dtype=int))), np.uint8)
            kind = np.dtype(source.choice(kinds) if like is None else like.dtype)
            values = bits[: int(np.prod(shape, dtype=int)) * kind.itemsize]
            values = values % 2 if kind == np.bool_ else values
            tensors[name] = np.ascontiguousarray(values).view(kind).reshape(shape)
        forge(folder, TENSORS, safetensors.numpy.save(tensors))
        found = fuzz.case(lambda: use(folder))
        assert isinstance(found, (ap.DataError, ap.Recommender))


def test_files_of_other_kinds(fuzz: Fuzz, saved: Path, folder: Path) -> None:
    def replaced(name: str, how: str) -> None:
        path = folder / name
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "link":
            path.symlink_to(saved / name)
        elif how == "link to a device":
            path.symlink_to("/dev/zero")
        elif how == "dangling link":
            path.symlink_to("nowhere")
        elif how == "link to itself":
            path.symlink_to(name)
        elif how == "pipe":
            os.mkfifo(path)

    kinds = (
        "missing",
        "folder",
        "link",
        "link to a device",
        "dangling link",
        "link to itself",
        "pipe",
    )
    for name in FILES:
        for how in kinds:
            shutil.rmtree(folder)
            shutil.copytree(saved, folder)
            replaced(name, how)
            assert isinstance(fuzz.case(lambda: ap.load(folder)), ap.DataError), (name, how)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\0b", "x" * 300, "\ud800"])
def test_odd_places(fuzz: Fuzz, tmp_path: Path, name: str) -> None:
    found = fuzz.case(lambda: ap.load(tmp_path / name))
    assert isinstance(found, ap.DataError)


def test_saving_what_cannot_be_saved_leaves_nothing(
    fuzz: Fuzz, saved: Path, tmp_path: Path
) -> None:
    model = ap.load(saved)
    before = tree(tmp_path)
    for titles in (
        {1: "\ud800"},
        {"a": "b"},
        {1: 2},
        5,
        "x",
        {1: ["x"]},
        {object(): "x"},
        {(1,): USER},
    ):
        fuzz.case(lambda: model.save(tmp_path / "new", titles))
        assert tree(tmp_path) == before
