"""What may be published of a trained recommender."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts import PrivacyReport
from apportion.recommend.fold_in import FoldIn

Array = NDArray[np.float64]
Scores = NDArray[np.float32]
Ids = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ItemModel:
    """A released item model: what may be published.

    Attributes
        items: the factors of the items, [items, factors].
        intercepts: how much better than usual each item is rated, [items], or None.
        item_ids: their ids, [items].
        counts: numbers of users per item, released with noise and denoised, [items], or None.
        titles: of the items, [items] of strings, or None.
        fold_in: how a user's vector is made.
        privacy: the guarantee.
        training: the settings of the training as plain values, from which its releases follow; empty if
            nothing is known of it.
    """

    items: Scores
    item_ids: Ids
    counts: Array | None
    titles: Ids | None
    fold_in: FoldIn
    privacy: PrivacyReport
    intercepts: Scores | None = None
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def knows_tastes(self) -> bool:
        """Whether it tells items apart by who likes them, and not only by how many do or how well."""
        choice = self.training.get("choice")
        chosen = isinstance(choice, dict) and choice.get("sweeps") == 0
        return not chosen and bool(self.items.any())

    @property
    def tastes(self) -> str:
        """How tastes are known: by factors; or not at all, what is known is popular or well rated."""
        if self.knows_tastes:
            return f"{self.items.shape[1]} factors"
        return "averages alone" if self.fold_in.feedback == "explicit" else "popularity alone"

    def __repr__(self) -> str:
        facts = f"{len(self.items)} items, {self.tastes}, {self.fold_in.feedback}"
        return f"{type(self).__name__}({facts}: {self.privacy.verdict})"
