"""Which items a model knows: a public list, or one that is chosen from private counts."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.allocation.counts import Counts, PrivateCounts, check_counts
from apportion.checks import LEAST_SHARE, number, whole
from apportion.data import Interactions
from apportion.data.ids import id_keys, match_ids
from apportion.errors import DataError
from apportion.privacy import Curator

Array = NDArray[np.float64]

_NOT_PUBLIC = (
    "the list of items must be public, or a user who is alone with an item is given away by the item's "
    'existence; build the data with items=[ids], with items="public" to declare the ids found in the '
    'data public, or choose them privately: MatrixFactorization(catalogue="private")'
)


class ItemCatalogue(ABC):
    """Chooses the items of a model.

    Attributes
        share: the portion of the budget (of mu^2) that choosing costs.
        delta_share: the portion of delta that choosing uses up.
        counts: where numbers of users per item come from, if they come with the choice.
    """

    share: float = 0.0
    delta_share: float = 0.0
    counts: Counts | None = None

    @abstractmethod
    def choose(
        self, data: Interactions, curator: Curator
    ) -> tuple[Interactions, NDArray[np.float64] | None]:
        """The interactions with the chosen items, and released numbers of users per item, if any."""

    def check(self, data: Interactions) -> None:
        """Refuse data whose catalogue should be public and is not; before anything is released."""
        if not data.catalogue_is_public:
            raise DataError(_NOT_PUBLIC)

    def warnings(self, data: Interactions) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        if not data.catalogue_from_data:
            return ()
        return ("the catalogue was read from the data: which items exist is not covered",)


@dataclass(frozen=True)
class PublicCatalogue(ItemCatalogue):
    """All items of the data's public catalogue."""

    def choose(
        self, data: Interactions, curator: Curator
    ) -> tuple[Interactions, NDArray[np.float64] | None]:
        """All of the data."""
        del curator
        return data, None


@dataclass(frozen=True)
class MostFrequent(ItemCatalogue):
    """The most frequent share of a public catalogue, by private counts.

    The counts also serve the allocation, which then releases none of its own.

    Args:
        items: the portion of the catalogue to keep.
        counts: where the numbers of users per item come from.
    """

    items: float = 0.2
    counts: Counts = field(default_factory=PrivateCounts)

    def __post_init__(self) -> None:
        number("items", self.items, above=0, at_most=1)
        check_counts(self.counts)

    @property
    def share(self) -> float:  # type: ignore[override]
        """What the counts cost."""
        return self.counts.share

    def choose(
        self, data: Interactions, curator: Curator
    ) -> tuple[Interactions, NDArray[np.float64] | None]:
        """See ``ItemCatalogue.choose``."""
        private = math.isfinite(curator.target.epsilon)
        graph = data.graph
        sizes = self.counts.estimate(graph, curator) if private else graph.task_sizes()
        kept = math.ceil(self.items * data.items)
        places = np.sort(np.argsort(-sizes, kind="stable")[:kept])
        return data.of_items(places), sizes[places]


@dataclass(frozen=True)
class PrivateCatalogue(ItemCatalogue):
    """The items of the data whose noisy count passes a threshold: no public list is needed.

    Guarantee and sensitivity: ``Curator.select``. Each user counts for at most ``cap`` of its items,
    chosen at random. The counts also serve the allocation, which then releases none of its own.
    (Data whose items were declared ``"public"`` is taken at its word: the report has a warning.)

    Args:
        share: portion of the whole budget (of mu^2) that the counts may cost.
        delta_share: portion of delta for the case that an item of one user alone passes.
        cap: about the usual number of items per user.
    """

    share: float = 0.1
    delta_share: float = 0.1
    cap: int = 50

    def __post_init__(self) -> None:
        number("share", self.share, at_least=LEAST_SHARE, below=1)
        number("delta_share", self.delta_share, at_least=LEAST_SHARE, below=1)
        whole("cap", self.cap, at_least=1, at_most=2**50)

    @property
    def counts(self) -> Counts:  # type: ignore[override]
        """What the released counts are, but for the threshold."""
        return PrivateCounts(share=self.share, cap=self.cap, method="sample")

    def choose(
        self, data: Interactions, curator: Curator
    ) -> tuple[Interactions, NDArray[np.float64] | None]:
        """See ``ItemCatalogue.choose``."""
        target = curator.target
        if math.isinf(target.epsilon):
            return data, None
        # By the ids of the items: their positions depend on who else is in the data.
        graph = replace(data.graph, task_key=id_keys(data.item_ids))
        counted = graph.sample(self.cap, curator.noise.sampling_key("catalogue"))
        counts = np.bincount(graph.task[counted], minlength=data.items).astype(np.float64)
        mu = target.mu * math.sqrt(self.share)
        ids, sizes = curator.select(
            "counts", data.item_ids, counts, self.cap, mu, target.selection_delta
        )
        if len(ids) == 0:
            raise DataError(
                "no item has enough users to be in a private catalogue at this epsilon and delta. Finding "
                f"that out has cost {self.share:.0%} of the budget. Raise epsilon, delta or the catalogue's "
                "share, or give a public catalogue"
            )
        chosen = data.of_items(match_ids(ids, data.item_ids))
        if chosen.item_ids.dtype.kind in "iu":  # 64 bits signed or not: by the released ids alone
            chosen.item_ids = np.array(chosen.item_ids.tolist())
        return chosen, np.maximum(sizes, 1.0)

    def check(self, data: Interactions) -> None:
        """No list is needed."""


def find_catalogue(catalogue: Any) -> ItemCatalogue | None:
    """A catalogue by its name, or itself; None if it is neither."""
    if isinstance(catalogue, ItemCatalogue):
        return catalogue
    names = {"public": PublicCatalogue(), "private": PrivateCatalogue()}
    return names.get(catalogue) if isinstance(catalogue, str) else None
