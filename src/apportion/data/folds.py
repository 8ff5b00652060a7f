"""Folds for cross-validation that no user is split by."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.checks import whole
from apportion.data.graph import mix
from apportion.data.ids import Integers, id_keys, number_ids, read_ids
from apportion.errors import DataError, ParameterError


class UserKFold:
    """Cross-validation by user: all rows of a user are in one fold, as new users will come.

    Rows of one user are alike, so folds of rows judge a model on people that it has learned from. A user's
    fold follows from the seed and the user's own id: it stays the same when others come or leave, so folds
    are only about equal in size.

    Args:
        n_splits: the number of folds.
        seed: for choosing; harmless.

    >>> import math
    >>> import apportion as ap
    >>> data = ap.simulate_tasks(users=300, tasks=5, tasks_per_user=2)
    >>> for train, test in ap.UserKFold(3).split(data):
    ...     model = ap.MultiTaskRidge(epsilon=math.inf).fit(data.take(train))
    ...     assert model.score(data.take(test)) > 0.5
    """

    def __init__(self, n_splits: int = 5, *, seed: int = 0) -> None:
        self.n_splits = whole("n_splits", n_splits, at_least=2)
        self.seed = whole("seed", seed, at_least=0)

    def __repr__(self) -> str:
        return f"UserKFold({self.n_splits}, seed={self.seed})"

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[Integers, Integers]]:
        """Row numbers for training and for testing, fold by fold.

        Args:
            X: a ``TaskData``, or anything if ``groups`` are given.
            y: not used; labels are part of the data.
            groups: the users' ids, [rows]; for data that does not know its users.
        """
        del y
        fold = mix(_keys(X, groups) ^ np.uint64(self.seed % 2**64)) % np.uint64(self.n_splits)
        if len(np.unique(fold)) < self.n_splits:
            raise DataError(f"too few users for {self.n_splits} folds")
        for number in range(self.n_splits):
            inside = fold == np.uint64(number)
            yield np.flatnonzero(~inside), np.flatnonzero(inside)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """The number of folds."""
        del X, y, groups
        return self.n_splits


def _keys(X: Any, groups: Any) -> NDArray[np.uint64]:
    """A number for the user of each row, [rows]."""
    if groups is not None:
        distinct, codes = number_ids(read_ids("groups", groups))
        return np.asarray(id_keys(distinct)[codes])
    if not hasattr(X, "user_key") or not hasattr(X, "user"):
        raise ParameterError("UserKFold splits a TaskData, or anything with groups=[ids of users]")
    return np.asarray(X.user_key[X.user])
