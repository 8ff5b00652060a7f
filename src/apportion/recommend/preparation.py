"""What a recommender's training releases once, before its sweeps."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.accounts.formats import PREPARATION
from apportion.accounts.ledgers import ledger_from_dict, ledger_to_dict
from apportion.checks import number
from apportion.data import Interactions
from apportion.data.ids import match_ids, read_ids
from apportion.data.memory import check_memory
from apportion.errors import BudgetExceededError, DataError, ParameterError
from apportion.json_text import parse_json
from apportion.privacy import Ledger
from apportion.recommend.offsets import Offset

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Preparation:
    """What was released before anything is fitted: enough for a forecast, and to go on from.

    All of it may be published, at the cost in its ledger, but for what was declared public. A training that
    goes on from it takes the ledger over; each such training spends the rest of the budget anew.

    Attributes
        item_ids: of the catalog, [items].
        sizes: numbers of users per item, with their noise, [items], or None.
        sums: of the users' weights per item, [items].
        users: about their number.
        offset: what all users' ratings have in common.
        ledger: of these releases.
        secret_noise: whether nobody knows the noise.
        training: what a training must have in common with this, by name.
        warnings: what a reader of the privacy report should know.
        paid: the name of these releases in a ``Budget``, if one has paid for them.
    """

    item_ids: NDArray[Any]
    sizes: Array | None
    sums: Array
    users: float
    offset: Offset
    ledger: Ledger
    secret_noise: bool
    training: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    paid: str | None = None

    def __repr__(self) -> str:
        return f"Preparation({len(self.item_ids)} items, {len(list(self.ledger))} releases)"

    def check(self, training: Mapping[str, str]) -> None:
        """Refuse to resume a training of another kind, before anything more is released."""
        for name, value in training.items():
            if self.training.get(name) != value:
                raise ParameterError(
                    f"the preparation was made with another {name}: {self.training.get(name)}, not {value}"
                )

    def check_ledger(self, planned: Mapping[str, float]) -> None:
        """Refuse a ledger that is not of the planned releases, given what each of them costs (its mu).

        What is missing there would be spent again.
        """
        records = list(self.ledger)
        if [record.name for record in records] != list(planned) or not all(
            math.isclose(record.mu, planned[record.name], rel_tol=1e-9) for record in records
        ):
            raise ParameterError(
                "the preparation's ledger is not that of these settings: it was made with other shares of "
                "the budget, or changed since"
            )

    def check_items(self, data: Interactions) -> None:
        """Refuse data with another public catalog than this was made for."""
        if (data.item_ids.dtype.kind == "O") != (self.item_ids.dtype.kind == "O"):
            raise DataError("the preparation was made for other items")
        # Which items the data has is private unless its list is: those that it lacks have no rows then.
        if data.catalog_is_public and (match_ids(self.item_ids, data.item_ids) < 0).any():
            raise DataError(
                "the preparation was made for other items: the data does not have all of them"
            )

    def to_json(self) -> str:
        """Everything, as JSON text."""
        values = {
            **PREPARATION.stamp,
            "training": dict(self.training),
            "users": self.users,
            "offset": asdict(self.offset),
            "secret_noise": self.secret_noise,
            "paid": self.paid,
            "warnings": list(self.warnings),
            "ledger": ledger_to_dict(self.ledger),
            "item_ids": [
                {"bytes": item.hex()} if isinstance(item, bytes) else item
                for item in self.item_ids.tolist()
            ],
            "sizes": None if self.sizes is None else self.sizes.tolist(),
            "sums": self.sums.tolist(),
        }
        return json.dumps(values, indent=1, allow_nan=False)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file; whatever is wrong with its contents is a ``DataError``."""
        try:
            check_memory(f"what {path} holds", 16 * path.stat().st_size)
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            raise DataError(f"{path} is not a preparation: it is not text") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read ({type(error).__name__})") from None
        return cls.from_json(text)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of ``to_json``; whatever is wrong is a ``DataError``."""
        try:
            values = parse_json(text)
            values = PREPARATION.read("this", values)
            ids = read_ids(
                "item_ids",
                [
                    bytes.fromhex(item["bytes"]) if isinstance(item, dict) else item
                    for item in values["item_ids"]
                ],
            )
            if len(set(ids.tolist())) < len(ids):
                raise DataError("not a preparation: it has an item twice")
            sizes, warnings, paid = values["sizes"], values["warnings"], values.get("paid")
            if not (paid is None or isinstance(paid, str)):
                raise DataError("not a preparation: paid must be a text")
            if not isinstance(warnings, list):
                raise DataError("not a preparation: warnings must be a list")
            return cls(
                item_ids=ids,
                sizes=None if sizes is None else _numbers("sizes", sizes, len(ids)),
                sums=_numbers("sums", values["sums"], len(ids)),
                users=number("users", values["users"], at_least=1, at_most=1e15),
                offset=_offset(values["offset"]),
                ledger=ledger_from_dict(values["ledger"]),
                secret_noise=values["secret_noise"] is True,
                training={str(name): str(value) for name, value in values["training"].items()},
                warnings=tuple(str(warning) for warning in warnings),
                paid=paid,
            )
        except (ParameterError, BudgetExceededError) as error:
            raise DataError(f"not a preparation: {error}") from None
        except DataError as error:
            raise DataError(
                str(error) if "preparation" in str(error) else f"not a preparation: {error}"
            ) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise DataError(f"not a preparation ({type(error).__name__})") from None


def _offset(values: Any) -> Offset:
    within = values["within"]
    return Offset(
        mean=number("mean", values["mean"], at_least=-1e300, at_most=1e300),
        shrinkage=number("shrinkage", values["shrinkage"], at_least=0, at_most=1e15),
        within=None if within is None else number("within", within, at_least=0, at_most=1e300),
    )


def _numbers(name: str, values: Any, length: int, at_least: float = -1e300) -> Array:
    if not isinstance(values, list) or len(values) != length:
        raise DataError(f"not a preparation: {name} must be {length} numbers")
    return np.array([number(name, value, at_least=at_least, at_most=1e300) for value in values])
