"""What notebooks show of data: what is public, and nothing that was counted."""

from collections.abc import Mapping
from typing import Any


def data_card(title: str, known: Mapping[str, object], ask: str) -> str:
    """The public facts of data; ``ask`` says how to get the exact ones."""
    from apportion.pages import card, facts  # only where something is shown

    note = f"public facts only; numbers of users and rows are private ({ask})"
    return card(title, facts(known), verdict=note, tone="dim")


def catalog_fact(data: Any) -> str:
    """How many tasks or items there are, if that is public."""
    if not data.catalog_is_public:
        return "not public"
    declared = ", found in the data and declared public" if data.catalog_from_data else ", public"
    return f"{len(getattr(data, 'item_ids', getattr(data, 'task_ids', ())))}{declared}"
