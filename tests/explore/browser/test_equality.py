"""The page's scripts compute what Python computes, on the same histories."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from apportion.explore import Explorer, compact
from apportion.folders.kinds import ITEMS
from apportion.recommend.recommender import Recommender
from tests.explore.browser.conftest import Watched
from tests.explore.models import changed, film_model, page_of, wider
from tests.recommend.test_files import make_model, texts

HISTORIES, K = 100, 20
RTOL = 1e-6

EXPLICIT = make_model(range(1, 81), intercepts=True)
IMPLICIT = make_model(range(1, 81), feedback="implicit")
MODELS = {
    "ratings, own means": changed(
        EXPLICIT, {"shrinkage": 4.5, "regularization": 2.0}, items=wider(1, 80, 24)
    ),
    "ratings, one mean": changed(
        make_model(texts([f"film {i}" for i in range(80)])),
        {"center": "global", "exponent": 1.0},
        items=wider(2, 80, 8),
    ),
    "ratings of any size": changed(
        EXPLICIT, {"center": "none", "rating_range": None, "exponent": 0.0, "mean": 0.0}
    ),
    "events": changed(
        IMPLICIT, {"regularization": 0.02, "unobserved_weight": 0.3}, items=wider(3, 80, 32)
    ),
    "events, none unobserved": changed(
        make_model(
            np.array([2**64 - 1 - i for i in range(80)], np.uint64),
            feedback="implicit",
            counts=False,
        ),
        {"unobserved_weight": 0.0},
    ),
}
# What the page's own modules say of histories: lists of [place, rating], place -1 if unknown.
SCRIPT = """
async ([histories, k]) => {
  const [{ makeEngine }, { readModel }, { readFile }] = await Promise.all(
    ["engine", "model", "files"].map((name) => import(new URL(`app/${name}.js`, document.baseURI))));
  const files = await Promise.all(["model/model.json", "model/items.safetensors"].map(readFile));
  const model = readModel(...files);
  const engine = makeEngine(model);
  const places = model.ids.map((id, place) => place);
  const read = (rows) => rows.map(([place, rating]) => ({ place, rating }));
  return {
    ids: model.ids,
    found: histories.map(read).map((history) => ({
      vector: [...engine.recommend(history, k).vector],
      scores: engine.predict(history, [...places, -1]),
      best: engine.recommend(history, k).items,
    })),
    near: places.slice(0, 20).map((place) => engine.neighbors(place, 10)),
  };
}
"""


def histories(model: Recommender, seed: int) -> list[list[tuple[int, float]]]:
    """Of all lengths, none too, with items that the model does not know."""
    random = np.random.default_rng(seed)
    low, high = model.released.fold_in.rating_range or (-2.0, 2.0)
    found = []
    for turn in range(HISTORIES):
        size = 0 if turn == 0 else int(random.integers(1, 50))
        places = random.permutation(len(model.item_ids))[:size]
        strange = random.random(size) < (0.1 if turn % 2 else 0.0)
        ratings = random.uniform(low, high, size) if turn % 3 else np.full(size, high)
        found.append(
            [
                (-1 if odd else int(place), float(rating))
                for place, rating, odd in zip(places, ratings, strange, strict=True)
            ]
        )
    found[1] = [(-1, high)]  # nothing but what is not known
    return found


def as_python(model: Recommender, history: list[tuple[int, float]]) -> Any:
    """The same history by ids; ids that the model does not know for those at -1."""
    ids = model.item_ids.tolist()
    strangers = iter(
        [f"strange {n}" for n in range(99)] if isinstance(ids[0], str) else range(10**6, 10**6 + 99)
    )
    named = [(ids[place] if place >= 0 else next(strangers), rating) for place, rating in history]
    explicit = model.released.fold_in.feedback == "explicit"
    return dict(named) if explicit else [name for name, _ in named]


@pytest.mark.parametrize("name", MODELS)
def test_vectors_scores_and_lists_are_those_of_python(
    name: str, watched: Watched, served: Callable[[Explorer], str]
) -> None:
    model = MODELS[name]
    wanted = histories(model, seed=len(name))
    page = watched.open(served(page_of(model)))
    result = page.evaluate(SCRIPT, [wanted, K])
    assert result["ids"] == [str(each) for each in model.item_ids.tolist()]
    for history, found in zip(wanted, result["found"], strict=True):
        given = as_python(model, history)
        vector = model.fold_in(given, unknown="ignore")
        close(found["vector"], vector)
        scores = model.predict(given, model.item_ids, unknown="ignore")
        close(found["scores"][:-1], scores)
        ids, best = model.recommend(given, K, unknown="ignore")
        places = [each["place"] for each in found["best"]]
        assert len(places) == len(ids)
        assert len(set(places)) == len(places)
        assert not set(places) & {place for place, _ in history}
        # Python ranks in float32: where two scores are that close, their order is free.
        np.testing.assert_allclose([each["score"] for each in found["best"]], best, 2e-5, 2e-5)
        if vector.any():
            close([each["score"] for each in found["best"]], scores[places])
            seen = [place for place, _ in history if place >= 0]
            left = np.delete(scores, seen)
            close(sorted(scores[places]), np.sort(left)[-len(places) :])
        else:
            assert ids.tolist() == model.item_ids[places].tolist()
    for place, near in enumerate(result["near"]):
        _, like = model.similar_items(model.item_ids[place], 10)
        np.testing.assert_allclose([each["score"] for each in near], like, 2e-6, 2e-6)


def close(found: Any, expected: Any) -> None:
    """Equal, but for a millionth of the largest."""
    scale = max(1e-12, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=RTOL * scale)


@pytest.mark.parametrize("largest", [200, 60_000, 2**31 - 1, 2**53 + 1])
@pytest.mark.parametrize("longest", [200, 300, 70_000])
def test_ids_and_titles_of_any_size_are_read(
    largest: int, longest: int, watched: Watched, served: Callable[[Explorer], str]
) -> None:
    ids = np.array([-largest, *range(1, 12)]) if longest == 300 else np.array([*range(11), largest])
    titles = ["", "é \u65e5\u672c", *("x" * (longest - place) for place in range(10))]
    model = make_model(ids, titles=titles)
    page = watched.open(served(page_of(model)))
    found = page.evaluate(
        """async () => {
          const [{ readModel }, { readFile }] = await Promise.all(
            ["model", "files"].map((name) => import(new URL(`app/${name}.js`, document.baseURI))));
          const names = ["model/model.json", "model/items.safetensors"];
          const { ids, titles, popularity, vectors } = readModel(...await Promise.all(names.map(readFile)));
          return { ids, titles, popularity: [...popularity], vectors: [...vectors] };
        }"""
    )
    assert found["ids"] == [str(each) for each in ids.tolist()]
    assert found["titles"] == [title or str(ids[0]) for title in titles]
    assert found["vectors"] == model.items.ravel().tolist()
    np.testing.assert_allclose(found["popularity"], model.released.counts, rtol=1e-7)


def test_a_direction_that_nothing_determines_is_left_out(
    watched: Watched, served: Callable[[Explorer], str]
) -> None:
    model = changed(film_model(), {"regularization": 0.0, "center": "none"})
    page = watched.open(served(page_of(model)))
    wanted = [[(3, 4.0)], [(3, 4.0), (5, 2.0)], [(place, 3.5) for place in range(9)]]
    result = page.evaluate(SCRIPT, [wanted, K])
    for history, found in zip(wanted, result["found"], strict=True):
        given = as_python(model, history)
        expected = model.predict(given, model.item_ids[[place for place, _ in history]])
        close([found["scores"][place] for place, _ in history], expected)


@pytest.mark.parametrize("kind", ["float16", "int8"])
def test_rounded_vectors_are_read_as_they_were_written(
    kind: Any, watched: Watched, served: Callable[[Explorer], str]
) -> None:
    model = MODELS["ratings, own means"]
    files, _ = compact(model.released, kind)
    tensors = safetensors.numpy.load(files[ITEMS.file])
    items = tensors["items"].astype(np.float32)
    if kind == "int8":
        items *= tensors["items.scales"][:, None]
    rounded = changed(model, {}, items=items)
    wanted = histories(model, seed=7)[:10]
    page = watched.open(served(Explorer("Films", model.privacy, files)))
    result = page.evaluate(SCRIPT, [wanted, K])
    for history, found in zip(wanted, result["found"], strict=True):
        given = as_python(model, history)
        close(found["vector"], rounded.fold_in(given, unknown="ignore"))
