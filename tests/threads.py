"""So many threads, however few cores there are, and however little there is to do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from apportion import threads


@contextmanager
def this_many_threads(count: int) -> Iterator[None]:
    """Share everything out among so many threads."""
    with (
        mock.patch.dict(os.environ, {"APPORTION_NUM_THREADS": str(count)}),
        mock.patch.multiple(threads, _OPERATIONS=1, _ROWS=1),
    ):
        yield
