"""Model folders that are damaged, forged or odd: read right or refused, and never the end of the process."""

import json
import os
import random
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.folders import sealed
from apportion.folders.kinds import ITEMS, REPORT, SETTINGS
from apportion.recommend.verify import verify
from tests.fuzz.harness import USER, Fuzz, examples, mutated, seeds, tree
from tests.fuzz.values import json as any_json

FILES, TENSORS = ITEMS.files, ITEMS.file


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
        digests = {n: sealed.digest((folder / n).read_bytes()) for n in FILES if n != SETTINGS}
        whole = sealed.sealed({**values, "sha256": digests})
        (folder / SETTINGS).write_text(json.dumps(whole))
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
    names = (*ITEMS.tensors, "other")
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
            kind = ap.Recommender if how == "link" else ap.DataError
            assert isinstance(fuzz.case(lambda: ap.load(folder)), kind), (name, how)


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


# Small folders that would cost much


def quickly(call: Any, within: float = 1.0) -> Any:
    """The error that a call ends in, which must not take long, nor much memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ap.DataError) as caught:
            call()
        assert time.process_time() - start < within
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()
    return str(caught.value)


@pytest.mark.parametrize("name", [SETTINGS, REPORT])
def test_sparse_files(folder: Path, name: str) -> None:
    os.truncate(folder / name, 2 * 2**30)
    assert "too large" in quickly(lambda: ap.load(folder))


def test_tensors_larger_than_the_memory(folder: Path) -> None:
    os.truncate(folder / TENSORS, 2**42)
    assert "does not fit into the memory" in quickly(lambda: ap.load(folder))


def test_a_model_of_one_item_and_many_factors(folder: Path) -> None:
    for shape in ((1, 15_000), (1, 2049), (0, 2**40)):
        tensors = {"ids": np.zeros(shape[0], np.int64)}
        if shape[0]:
            tensors["items"] = np.ones(shape, np.float32)
            forge(folder, TENSORS, safetensors.numpy.save(tensors))
        else:
            entries = {
                "items": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]},
                "ids": {"dtype": "I64", "shape": [0], "data_offsets": [0, 0]},
            }
            forge(folder, TENSORS, header(**entries))
        assert "factors; there are at most 2048" in quickly(lambda: ap.load(folder))
    with pytest.raises(ap.ParameterError, match="factors must be a whole number"):
        ap.MatrixFactorization(factors=2049).plan()


def test_tensors_with_a_long_description(folder: Path) -> None:
    entry = {"dtype": "F32", "shape": [0, 2], "data_offsets": [0, 0]}
    forge(folder, TENSORS, header(**{f"x{n}": entry for n in range(200_000)}))
    assert "header is too long" in quickly(lambda: ap.load(folder))


@pytest.mark.parametrize("steps", [1, 10**6, 10**9])
def test_releases_to_sampled_users(folder: Path, steps: int) -> None:
    values = json.loads((folder / REPORT).read_text())
    values["ledger"]["records"][0] |= {"steps": steps, "sampling_rate": 0.01, "noise_scale": 1.0}
    forge(folder, REPORT, json.dumps(values).encode())
    assert "sampled users" in quickly(lambda: ap.load(folder))


@pytest.mark.parametrize("rate", [0.01, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("noise", [1e-100, 0.3, 1.0, 10.0])
def test_a_report_of_many_sampled_steps(folder: Path, rate: float, noise: float) -> None:
    values = json.loads((folder / REPORT).read_text())
    record = {**values["ledger"]["records"][0], "sampling_rate": rate, "delta": 0.0}
    values["ledger"]["records"] = [
        {**record, "steps": 10**9, "sensitivity": 1.0, "noise_scale": noise}
    ]
    told = quickly(lambda: ap.PrivacyReport.from_json(json.dumps(values)))
    small = "less than 0.3 times the sensitivity"
    assert (small if noise < 0.3 else "would pass the target") in told
    values["ledger"]["records"] = [
        {**record, "name": str(n), "noise_scale": 1e9} for n in range(500)
    ]
    assert "more than 20" in quickly(lambda: ap.PrivacyReport.from_json(json.dumps(values)))


def test_a_report_of_many_releases(folder: Path) -> None:
    values = json.loads((folder / REPORT).read_text())
    record = {**values["ledger"]["records"][0], "noise_scale": 1e12, "delta": 0.0}
    values["ledger"]["records"] = [{**record, "name": str(n)} for n in range(2500)]
    forge(folder, REPORT, json.dumps(values).encode())
    start = time.process_time()
    ap.load(folder)
    assert time.process_time() - start < 1
