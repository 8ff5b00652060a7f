"""The state of a checkpoint: a line of JSON, then the values as the training wrote them."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apportion.accounts.durable import NotOursError, read_own
from apportion.accounts.formats import is_version
from apportion.accounts.ledgers import record_from_dict, record_to_dict
from apportion.errors import ApportionError, CheckpointError
from apportion.json_text import parse_json
from apportion.privacy.ledger import Record

# Changes also whenever a key gives other noise: a training that went on would show its sums twice.
FORMAT = 4
STATE = "state"
_PARTS = {
    "format", "version", "training", "budget", "finished", "done", "given", "ledger", "values", "mac"
}  # fmt: skip
SPENT = (
    "What it has released stays spent: count its whole budget. For a new training remove the folder"
)


@contextmanager
def typed(folder: Path) -> Iterator[None]:
    """Errors of the file system as ours."""
    try:
        yield
    except ApportionError:
        raise
    except NotOursError as error:
        raise CheckpointError(f"{error.path} {error}: nothing is read from it") from None
    except OSError as error:
        raise CheckpointError(
            f"cannot write or read {error.filename or folder}: {error.strerror}. Once this is mended "
            "the training can be resumed from where it was"
        ) from error


def digest(header: Mapping[str, Any], key: bytes) -> str:
    """Of everything else in a header; under the key while there is one."""
    plain = {**header, "ledger": [_plain(record) for record in header["ledger"]]}
    plain.pop("mac", None)
    content = json.dumps(plain, sort_keys=True).encode()
    return hashlib.blake2b(content, key=key).hexdigest()


def read_state(folder: Path) -> tuple[dict[str, Any], bytes]:
    """The header of a state, each part of the kind that it must be, and its values."""
    path = folder / STATE
    line, _, values = read_own(path).partition(b"\n")
    try:
        header = parse_json(line)
        _check_format(path, header)
        header["ledger"] = tuple(record_from_dict(record) for record in header["ledger"])
        _check(header, values)
    except CheckpointError:
        raise
    except (
        ApportionError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
    ) as error:
        raise CheckpointError(f"{path} is damaged. {SPENT}") from error
    return header, values


def _check_format(path: Path, header: Any) -> None:
    found = header["format"]
    if type(found) is int and found != FORMAT:
        raise CheckpointError(
            f"{path} is of format {found}, not {FORMAT}: resume it with {_writer(header)}"
        )


def _writer(header: Mapping[str, Any]) -> str:
    version = header.get("version")  # which format 3 did not say
    known = isinstance(version, str) and is_version(version)
    return f"apportion {version}, which wrote it" if known else "the version that wrote it"


def _check(header: Any, values: bytes) -> None:
    """Whatever is not as it was written is a ValueError."""
    given = header["given"]
    names = {"public", "setting"} | (set() if header["finished"] else {"private"})
    whole = (
        set(header) == _PARTS
        and header["format"] == FORMAT
        and type(header["version"]) is str
        and _is_token(header["training"])
        and (header["budget"] is None or _is_token(header["budget"]))
        and type(header["finished"]) is bool
        and type(header["done"]) is int
        and header["done"] >= 0
        and set(given) == names
        and all(_is_texts(given[name]) for name in ("public", "setting"))
        and type(given.get("private", "")) is str
        and header["values"] == hashlib.blake2b(values).hexdigest()
    )
    if not whole:
        raise ValueError("not a state")


def _is_token(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{32}", value) is not None


def _is_texts(value: object) -> bool:
    return isinstance(value, dict) and all(type(text) is str for text in value.values())


def _plain(record: Record | dict[str, Any]) -> dict[str, Any]:
    return record_to_dict(record) if isinstance(record, Record) else record
