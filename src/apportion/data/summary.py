"""What interactions look like, as a whole: exact figures, for whoever has the data, and for nobody else."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from apportion.data.interactions import Interactions

NOTE = (
    "exact statistics of private data: they are in no ledger. Keep them to yourself, and choose no setting "
    "of a private training by them"
)
_TAIL = 20


@dataclass(frozen=True)
class Summary:
    """Exact statistics of interactions; not public.

    Attributes
        users, items, rows: how many. Items are those of the catalog.
        density: the share of all pairs of a user and an item that are there.
        rows_per_user: of users with rows, the least, the quartiles and the most.
        users_per_item: likewise of all items.
        top_share: the share of all rows that the most popular tenth of the items has.
        rare_items: items with less than 20 users.
        mean_rating: of all ratings, or None.
        times: the first and the last time, or None.
    """

    users: int
    items: int
    rows: int
    density: float
    rows_per_user: tuple[float, ...]
    users_per_item: tuple[float, ...]
    top_share: float
    rare_items: int
    mean_rating: float | None
    times: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, with the warning."""
        return {**asdict(self), "note": NOTE}

    def facts(self) -> dict[str, str]:
        """By name, as text."""
        found = {
            "users": f"{self.users:,}",
            "items": f"{self.items:,}",
            "rows": f"{self.rows:,}",
            "density": f"{self.density:.3%}",
            "rows per user": _spread(self.rows_per_user),
            "users per item": _spread(self.users_per_item),
            "skew": f"the most popular tenth of the items has {self.top_share:.0%} of the rows",
            "rare items": f"{self.rare_items:,} with fewer than {_TAIL} users",
        }
        if self.mean_rating is not None:
            found["mean rating"] = f"{self.mean_rating:.3f}"
        if self.times is not None:
            found["times"] = f"{self.times[0]:.15g} to {self.times[1]:.15g}"
        return found

    def __str__(self) -> str:
        facts = self.facts()
        wide = max(map(len, facts))
        return "\n".join([*(f"{name:<{wide}}  {value}" for name, value in facts.items()), NOTE])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from apportion.pages import card, facts

        return card("Summary", facts(self.facts()), verdict=NOTE, tone="warn")


def summarize(data: Interactions) -> Summary:
    """See ``Interactions.summary``."""
    rows, sizes = len(data.by_user.other), np.sort(data.graph.task_sizes())
    of_user = np.diff(data.by_user.start)
    rating, tenth = data.by_user.rating, max(1, round(data.items / 10))
    some = rows > 0
    return Summary(
        users=int(np.count_nonzero(of_user)),
        items=data.items,
        rows=rows,
        density=rows / max(1, data.items * int(np.count_nonzero(of_user))),
        rows_per_user=_quartiles(of_user[of_user > 0]),
        users_per_item=_quartiles(sizes),
        top_share=float(sizes[-tenth:].sum() / rows) if some else 0.0,
        rare_items=int(np.count_nonzero(sizes < _TAIL)),
        mean_rating=None if rating is None or not some else float(rating.mean(dtype=np.float64)),
        times=None
        if data.time is None or not some
        else (float(data.time.min()), float(data.time.max())),
    )


def _quartiles(sizes: Any) -> tuple[float, ...]:
    if not len(sizes):
        return (0.0,) * 5
    return tuple(np.quantile(sizes, [0, 0.25, 0.5, 0.75, 1]).tolist())


def _spread(quartiles: tuple[float, ...]) -> str:
    least, low, middle, high, most = quartiles
    return f"{middle:,.0f} (half of them {low:,.0f} to {high:,.0f}; {least:,.0f} to {most:,.0f})"
