"""Which items a model knows: a public list, or one that is chosen from private counts."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.declared import Declared
from apportion.allocation.counts import Counts, PrivateCounts, check_counts
from apportion.checks import LEAST_SHARE, number, whole
from apportion.data import Interactions
from apportion.engine import Session, queries
from apportion.engine.feed import exact
from apportion.errors import DataError, ParameterError
from apportion.privacy import Curator, Part, UserBound

Array = NDArray[np.float64]

_NOT_PUBLIC = (
    "the list of items must be public, or a user who is alone with an item is given away by the item's "
    'existence; build the data with items=[ids], with items="public" to declare the ids found in the '
    'data public, or choose them privately: MatrixFactorization(catalog="private")'
)


class ItemCatalog(ABC):
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
        self, item_ids: NDArray[Any], session: Session, curator: Curator
    ) -> tuple[NDArray[Any], Array | None]:
        """Keep the chosen items in the session; their ids, and released users per item, if any."""

    def declared(self) -> Declared | None:
        """The release that ``choose`` makes, if it makes one."""
        return None

    def check(self, data: Interactions) -> None:
        """Refuse data whose catalog should be public and is not; before anything is released."""
        if not data.catalog_is_public:
            raise DataError(_NOT_PUBLIC)

    def warnings(self, data: Interactions) -> tuple[str, ...]:
        """What a reader of the privacy report should know."""
        if not data.catalog_from_data:
            return ()
        return ("the catalog was read from the data: which items exist is not covered",)


@dataclass(frozen=True)
class PublicCatalog(ItemCatalog):
    """All items of the data's public catalog."""

    def choose(
        self, item_ids: NDArray[Any], session: Session, curator: Curator
    ) -> tuple[NDArray[Any], Array | None]:
        """All of them."""
        del session, curator
        return item_ids, None


@dataclass(frozen=True)
class MostFrequent(ItemCatalog):
    """The most frequent share of a public catalog, by private counts.

    The counts also serve the allocation, which then releases none of its own.

    Args:
        items: the portion of the catalog to keep.
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

    def declared(self) -> Declared | None:
        """See ``ItemCatalog.declared``."""
        return self.counts.declared()

    def choose(
        self, item_ids: NDArray[Any], session: Session, curator: Curator
    ) -> tuple[NDArray[Any], Array | None]:
        """See ``ItemCatalog.choose``."""
        if math.isfinite(curator.target.epsilon):
            sizes = self.counts.release(session, curator)
        else:
            [counts] = exact(session, queries.Counts(1))
            sizes = counts[:, 0]
        kept = math.ceil(self.items * len(item_ids))
        places = np.sort(np.argsort(-sizes, kind="stable")[:kept])
        session.choose(item_ids[places])
        return item_ids[places], sizes[places]


@dataclass(frozen=True)
class PrivateCatalog(ItemCatalog):
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

    def declared(self) -> Declared:
        """See ``ItemCatalog.declared``."""
        because = f"a user adds at most 1 to each of at most {self.cap} counts"
        bound = UserBound(math.sqrt(self.cap), because)
        part = Part("counts", "users per item, those above a threshold", bound)
        return Declared("counts", (part,), self.share, selects=True)

    def choose(
        self, item_ids: NDArray[Any], session: Session, curator: Curator
    ) -> tuple[NDArray[Any], Array | None]:
        """See ``ItemCatalog.choose``."""
        target = curator.target
        if math.isinf(target.epsilon):
            return item_ids, None
        ids, sizes = curator.select(
            "counts",
            *session.candidates(self.cap, curator.noise.sampling_key("catalog")),
            self.cap,
            self.declared().mu(target),
            target.selection_delta,
        )
        if len(ids) == 0:
            raise DataError(
                "no item has enough users to be in a private catalog at this epsilon and delta. Finding "
                f"that out has cost {self.share:.0%} of the budget. Raise epsilon, delta or the catalog's "
                "share, or give a public catalog"
            )
        if ids.dtype.kind in "iu":  # 64 bits signed or not: by the released ids alone
            ids = np.array(ids.tolist())
        session.choose(ids)
        return ids, np.maximum(sizes, 1.0)

    def check(self, data: Interactions) -> None:
        """No list is needed."""


def find_catalog(catalog: Any) -> ItemCatalog:
    """A catalog by its name, or itself."""
    if isinstance(catalog, ItemCatalog):
        return catalog
    names: dict[str, ItemCatalog] = {"public": PublicCatalog(), "private": PrivateCatalog()}
    if not isinstance(catalog, str) or catalog not in names:
        raise ParameterError(
            'catalog must be "public", "private", a PrivateCatalog or a MostFrequent, '
            f"got {catalog!r}"
        )
    return names[catalog]
