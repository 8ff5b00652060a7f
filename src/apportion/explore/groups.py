"""Groups of items, such as genres, for the colors of the map: public facts."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from apportion.errors import DataError, printable
from apportion.recommend.model import Ids

MOST = 8  # colors that are told apart


def groups_of(named: Mapping[Any, str], item_ids: Ids) -> dict[str, Any]:
    """The names of the largest groups, and that of every item; -1 for a smaller group or none.

    >>> import numpy as np
    >>> groups_of({3: "drama", 5: "comedy", 7: "drama"}, np.array([5, 7, 3, 4]))
    {'names': ['drama', 'comedy'], 'of': [1, 0, 0, -1]}
    """
    of_item = [printable(named.get(item, "")) for item in item_ids.tolist()]
    sizes = Counter(text for text in of_item if text)
    if not sizes:
        raise DataError("no item of the model has a group")
    names = [name for name, _ in sizes.most_common(MOST)]
    places = {name: place for place, name in enumerate(names)}
    return {"names": names, "of": [places.get(text, -1) for text in of_item]}
