"""Small models for the explorer, and their pages."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from apportion.explore import Explorer, exact
from apportion.recommend.model import ItemModel
from apportion.recommend.recommender import Recommender
from tests.recommend.test_files import make_model, texts

HOSTILE = [
    "<script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    '"></bdi><h1>taken</h1>',
    "</script><script>document.title='taken'</script>",
    "\u202egnikat \u0007 {{privacy}}",
    "javascript:alert(1)//' onclick='x",
]


def film_model(**settings: Any) -> Recommender:
    """Items with titles; what differs as in ``make_model``."""
    titles = [f"Film {chr(65 + place % 26)}{place:02}" for place in range(60)]
    return make_model(range(100, 160), titles=titles, **settings)


def hostile_model(intercepts: bool = True) -> Recommender:
    """Titles and ids that try to be markup."""
    titles = [*HOSTILE, *(f"Fine {place}" for place in range(20))]
    ids = texts([f"<b onmouseover=x>{place}" for place in range(len(titles))])
    return make_model(ids, titles=titles, intercepts=intercepts)


def changed(model: Recommender, fold_in: dict[str, Any], **released: Any) -> Recommender:
    """The model with other settings of its fold-in, or other arrays."""
    known: ItemModel = model.released
    step = replace(known.fold_in, **fold_in)
    return Recommender(replace(known, fold_in=step, **released))


def page_of(model: Recommender, title: str = "Films", **more: Any) -> Explorer:
    """What its explorer is made of."""
    return Explorer(title, model.privacy, exact(model.released), **more)


def wider(seed: int, items: int, factors: int) -> np.ndarray:
    """Factors of items."""
    return np.random.default_rng(seed).normal(size=(items, factors)).astype(np.float32)


def place_of(folder: Path) -> str:
    """The address of a page on disk."""
    return folder.resolve().as_uri()
