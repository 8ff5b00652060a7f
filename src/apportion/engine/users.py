"""Users' vectors outside a session: for serving, where a user's history is the user's own to show."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.native import kernels
from apportion.threads import thread_count
from apportion.twins import users as twin

Array = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]


class UserSolver:
    """Users' systems of equations against the same items: what depends on items alone is made once.

    Args:
        items: [items, d]
        shared: what is added to every user's matrix, [d, d].
    """

    def __init__(self, items: NDArray[Any], shared: Array) -> None:
        items = np.ascontiguousarray(items)
        # Released values beyond all numbers say nothing: nobody has a vector then.
        self._says_something = bool(np.isfinite(items).all() and np.isfinite(shared).all())
        self._items, self._shared = items, np.ascontiguousarray(shared, dtype=np.float64)
        self._turns = bool(self._says_something and shared.any())
        if self._turns:
            whole = np.asarray(items, dtype=np.float64)
            self._turned, *self._directions = turned_items(whole, self._shared)

    def solve(
        self, start: Integers, item: Integers, label: Array, ridge: Array, *, exact: bool = False
    ) -> Array:
        """For each user, argmin over v of sum (y - u_i . v)^2 + v' (shared + ridge I) v, [users, d].

        The sum is over the user's rows ``start[j]:start[j + 1]`` of ``item`` and ``label``. A user's vector
        has the same bits whoever else is there. Without labels it is zero. It is right to about 1e-5, which
        is enough to rank items; an exact one is solved in float64, more slowly.
        """
        used, item = np.unique(item, return_inverse=True)
        if not self._says_something:
            return np.zeros((len(start) - 1, self._items.shape[1]))
        items = self._items[used].astype(np.float64)
        system = (
            np.ascontiguousarray(start, dtype=np.int64),
            np.ascontiguousarray(item, dtype=np.int32),
            np.ascontiguousarray(label, dtype=np.float64),
            items,
            np.ascontiguousarray(ridge, dtype=np.float64),
            self._shared,
        )
        with np.errstate(all="ignore"):
            if kernels is None:
                return np.asarray(twin.solve_users(*system))
            turned = (self._turned[used], *self._directions) if self._turns else None
            if turned is None:
                turned = turned_items(items, self._shared)
            threads = thread_count()
            return np.asarray(
                kernels.solve_users(*system, *turned, None, False, threads, exact=exact)
            )


def turned_items(items: Array, shared: Array) -> tuple[Array, Array, Array]:
    """Items in the directions in which ``shared`` is diagonal, its diagonal there, and these directions.

    What the compiled kernel asks for besides: of released values, by LAPACK. Shapes [items, d], [d] and
    [d, d], the last [0, 0] where nothing is shared.
    """
    d = items.shape[1]
    if not shared.any():
        return items, np.zeros(d), np.zeros((0, 0))
    eigenvalues, turn = np.linalg.eigh(shared)
    return np.ascontiguousarray(items @ turn), eigenvalues, np.ascontiguousarray(turn)
