"""Data sets, thinned copies of them, and simulated shapes.

A set whose file is not in the folder is skipped. ``unseen`` sets played no part in any decision about the
defaults; the report keeps them apart.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

import apportion as ap

Range = tuple[float, float]


@dataclass(frozen=True)
class DataSet:
    """Where rows come from.

    Attributes
        name: in results and reports.
        feedback: ratings are predicted, events are ranked.
        make: the rows, given the folder of files and a seed; ``FileNotFoundError`` if there is no file.
        unseen: whether nothing was decided by looking at it.
        short: whether it belongs to the short form.
    """

    name: str
    feedback: Literal["explicit", "implicit"]
    make: Callable[[Path, int], ap.Interactions]
    unseen: bool = False
    short: bool = False

    def load(self, folder: Path, seed: int) -> ap.Interactions | None:
        """The rows, or None if they are not at hand."""
        try:
            return self.make(folder, seed)
        except FileNotFoundError:
            return None


def ratings(file: str, rating_range: Range) -> Callable[[Path, int], ap.Interactions]:
    """The ratings of an archive of arrays ``user``, ``item`` and ``rating``."""

    def make(folder: Path, seed: int) -> ap.Interactions:
        del seed
        with np.load(folder / file, allow_pickle=False) as rows:
            user, item, rating = rows["user"], rows["item"], rows["rating"]
        return ap.Interactions(user, item, rating, items="public", rating_range=rating_range)

    return make


def events(
    file: str, portion: float = 1.0, rated: float | None = None
) -> Callable[[Path, int], ap.Interactions]:
    """The events of an archive of arrays ``user`` and ``item``: of this portion of the items, by popularity.

    With ``rated`` those rated at least so high.
    """

    def make(folder: Path, seed: int) -> ap.Interactions:
        del seed
        with np.load(folder / file, allow_pickle=False) as rows:
            user, item = rows["user"], rows["item"]
            if rated is not None:
                liked = rows["rating"] >= rated
                user, item = user[liked], item[liked]
        data = ap.Interactions(user, item, items="public")
        if portion == 1:
            return data
        common = np.argsort(-data.graph.task_sizes(), kind="stable")
        return data.of_items(np.sort(common[: int(data.items * portion)]))

    return make


def thinned(
    make: Callable[[Path, int], ap.Interactions], rows: int
) -> Callable[[Path, int], ap.Interactions]:
    """So many rows of every user, chosen at random."""

    def thin(folder: Path, seed: int) -> ap.Interactions:
        data = make(folder, seed)
        rng = np.random.default_rng([seed, rows])
        user = data.user_of_row
        lot = rng.permutation(len(user))
        order = np.lexsort((lot, user))
        rank = np.empty(len(user), dtype=np.int64)
        rank[order] = np.arange(len(user)) - data.by_user.start[user[order]]
        return data.take(rank < rows)

    return thin


def of_some_users(
    make: Callable[[Path, int], ap.Interactions], portion: float
) -> Callable[[Path, int], ap.Interactions]:
    """All rows of this portion of the users."""

    def choose(folder: Path, seed: int) -> ap.Interactions:
        return make(folder, seed).split_users((portion, 1 - portion), seed)[0]

    return choose


@dataclass(frozen=True)
class Simulated:
    """Ratings of a known shape: variances of what they are made of, in squared units of the range.

    Who rates what is as in ``ap.simulate_interactions``; a rating is a mean plus a user's own level, an
    item's, an agreement of tastes (of eight dimensions that fade) and noise, cut off at the range.
    """

    users: int
    items: int
    rows: int
    rating_range: Range = (1.0, 5.0)
    mean: float = 0.6
    of_user: float = 0.16
    of_item: float = 0.16
    of_taste: float = 0.18
    of_noise: float = 0.7
    popular_tenth: float = 0.5
    active_tenth: float = 0.4

    def __call__(self, folder: Path, seed: int) -> ap.Interactions:
        del folder
        data = ap.simulate_interactions(
            users=self.users, items=self.items, rows=self.rows, rating_range=None,
            popular_tenth=self.popular_tenth, active_tenth=self.active_tenth, seed=seed,
        )  # fmt: skip
        rng = np.random.default_rng([seed, self.users, self.items])
        user, item = data.user_of_row, data.by_user.other
        fade = np.arange(1.0, 9.0) ** -0.5
        fade *= np.sqrt(self.of_taste) / np.linalg.norm(fade)
        tastes = rng.normal(size=(self.users, 8)), rng.normal(size=(self.items, 8)) * fade
        rating = np.einsum("ij,ij->i", tastes[0][user], tastes[1][item])
        rating += np.sqrt(self.of_user) * rng.normal(size=self.users)[user]
        rating += np.sqrt(self.of_item) * rng.normal(size=self.items)[item]
        rating += np.sqrt(self.of_noise) * rng.normal(size=len(item))
        low, high = self.rating_range
        rating += low + self.mean * (high - low)
        return ap.Interactions(
            data.user_ids[user], data.item_ids[item], rating, items=data.item_ids,
            rating_range=self.rating_range, outside="clip",
        )  # fmt: skip


@dataclass(frozen=True)
class Communities:
    """Events of users who belong to two communities each, as in a social graph: little is popular with all.

    A user chooses ``own`` of its items among those of its communities, the others anywhere; item k, in an
    order at random, is chosen in proportion to k^-``skew``.
    """

    users: int
    items: int
    communities: int
    per_user: float
    own: float = 0.8
    skew: float = 0.4

    def __call__(self, folder: Path, seed: int) -> ap.Interactions:
        del folder
        rng = np.random.default_rng([seed, self.users, self.items, self.communities])
        liked = np.arange(1.0, self.items + 1) ** -self.skew
        place = rng.integers(self.communities, size=self.items)
        number = np.maximum(3, rng.geometric(1 / self.per_user, size=self.users))
        user = np.repeat(np.arange(self.users), number)
        first, second = rng.integers(self.communities, size=(2, self.users))
        among = np.where(rng.random(len(user)) < 0.7, first[user], second[user])
        among[rng.random(len(user)) >= self.own] = -1
        item = np.empty(len(user), dtype=np.int64)
        for community in range(-1, self.communities):
            rows = np.flatnonzero(among == community)
            mine = np.arange(self.items) if community < 0 else np.flatnonzero(place == community)
            if len(mine):
                chance = liked[mine] / liked[mine].sum()
                item[rows] = rng.choice(mine, size=len(rows), p=chance)
            else:
                item[rows] = rng.integers(self.items, size=len(rows))
        pairs = np.unique(np.stack([user, item], axis=1), axis=0)
        return ap.Interactions(pairs[:, 0], pairs[:, 1], items=np.arange(self.items))


ML_1M = ratings("ml-1m.npz", (1, 5))
ML_100K = ratings("ml-100k.npz", (1, 5))
JESTER = ratings("jester-1.npz", (-10, 10))
# Ratings from 1 to 10 of which a user has seven; many users with few, a long tail of items.
SPARSE = Simulated(
    16_000, 5_600, 112_000, (1, 10), 0.7, of_user=0.9, of_item=0.3, of_taste=0.2, of_noise=1.8,
    popular_tenth=0.6, active_tenth=0.5,
)  # fmt: skip
WIDE = Simulated(
    60_000, 159_000, 350_000, (1, 10), 0.7, of_user=0.9, of_item=0.3, of_taste=0.2, of_noise=2.2,
    popular_tenth=0.75, active_tenth=0.6,
)  # fmt: skip
TASTES = Simulated(5_000, 1_000, 200_000, of_user=0.02, of_item=0.02, of_taste=0.5)
MIDDLE = Simulated(
    3_000, 200, 45_000, (1, 10), 0.7, of_user=0.8, of_item=0.5, of_taste=0.6, of_noise=2.0
)
LONG = Simulated(
    8_000, 2_000, 240_000, (0, 100), 0.6, of_user=60.0, of_item=120.0, of_taste=100.0, of_noise=300.0,
    popular_tenth=0.55,
)  # fmt: skip
SOME_BOOKS = of_some_users(events("amazon-book.npz", 0.2), 0.33)
HALF_RATED = of_some_users(events("ml-1m.npz"), 0.5)
FEW_JOKES = of_some_users(thinned(JESTER, 20), 0.2)
SEVEN = Simulated(
    10_000, 3_000, 70_000, (1, 10), 0.65, of_user=0.8, of_item=0.4, of_taste=0.3, of_noise=1.7,
    popular_tenth=0.5, active_tenth=0.4,
)  # fmt: skip

SETS = {
    each.name: each
    for each in (
        DataSet("ml-1m", "explicit", ML_1M, short=True),
        DataSet("ml-1m, 10 a user", "explicit", thinned(ML_1M, 10), short=True),
        DataSet("ml-1m, 5 a user", "explicit", thinned(ML_1M, 5), short=True),
        DataSet("ml-1m, a tenth of the users", "explicit", of_some_users(ML_1M, 0.1), short=True),
        DataSet("ml-100k", "explicit", ML_100K, short=True),
        DataSet("jester", "explicit", JESTER, short=True),
        DataSet("jester, 5 a user", "explicit", thinned(JESTER, 5), short=True),
        DataSet("simulated, sparse 1-10", "explicit", SPARSE, short=True),
        DataSet("simulated, 159,000 items", "explicit", WIDE),
        DataSet("simulated, 1,000 x 50", "explicit", Simulated(1_000, 50, 12_000)),
        DataSet("simulated, tastes alone", "explicit", TASTES, short=True),
        DataSet("simulated, 3,000 x 200, 1-10", "explicit", MIDDLE, short=True),
        DataSet("simulated, 200 x 20", "explicit", Simulated(200, 20, 2_000)),
        DataSet("simulated, 100,000 x 500", "explicit", Simulated(100_000, 500, 2_000_000), True),
        DataSet("ml-1m, 20 a user", "explicit", thinned(ML_1M, 20), True, True),
        DataSet("ml-1m, a third of the users", "explicit", of_some_users(ML_1M, 0.33), True, True),
        DataSet("ml-100k, 30 a user", "explicit", thinned(ML_100K, 30), True, True),
        DataSet("jester, 10 a user", "explicit", thinned(JESTER, 10), True, True),
        DataSet("simulated, 8,000 x 2,000, 0-100", "explicit", LONG, True, True),
        DataSet("ml-1m, rated 4 or 5", "implicit", events("ml-1m.npz", rated=4.0), short=True),
        DataSet("gowalla", "implicit", events("gowalla.npz", 0.2), short=True),
        DataSet("amazon-book", "implicit", events("amazon-book.npz", 0.2)),
        DataSet("pinterest", "implicit", events("pinterest.npz")),
        DataSet(
            "gowalla, 5 a user", "implicit", thinned(events("gowalla.npz", 0.2), 5), short=True
        ),
        DataSet("gowalla, half of the items", "implicit", events("gowalla.npz", 0.5), True),
        DataSet("amazon-book, a third of the users", "implicit", SOME_BOOKS, short=True),
        DataSet("pinterest, 10 a user", "implicit", thinned(events("pinterest.npz"), 10)),
        DataSet("ml-1m, all rated, half of the users", "implicit", HALF_RATED, short=True),
        DataSet("pinterest, 5 a user", "implicit", thinned(events("pinterest.npz"), 5)),
        DataSet("communities, 10,000 x 2,000", "implicit", Communities(10_000, 2_000, 40, 19, 0.7)),
        DataSet(
            "communities, 20,000 x 4,000", "implicit", Communities(20_000, 4_000, 120, 12), True
        ),
        DataSet("ml-100k, rated 4 or 5", "implicit", events("ml-100k.npz", rated=4.0), short=True),
        DataSet("jester, 20 a user, a fifth of the users", "explicit", FEW_JOKES, True, True),
        DataSet("simulated, 7 a user, 1-10", "explicit", SEVEN, True, True),
    )
}
