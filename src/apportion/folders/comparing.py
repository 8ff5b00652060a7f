"""What is compared of a model folder of any kind when it is verified."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from apportion.accounts import PrivacyReport, signatures
from apportion.accounts.declared import Declared
from apportion.checks import whole
from apportion.errors import DataError
from apportion.folders.files import read_signature
from apportion.folders.kinds import REPORT, SETTINGS
from apportion.folders.sealed import digest
from apportion.plain import from_plain
from apportion.privacy import Part, Record, UserBound

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# Floating-point numbers that were computed in another order.
CLOSE = 1e-8
_DECLARED = (Declared, Part, UserBound)

Rule = TypeVar("Rule")


@dataclass(frozen=True)
class Check:
    """One thing that was compared: what, and what is wrong with it (nothing, if it is right)."""

    what: str
    wrong: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.wrong


def check_files(
    folder: Path,
    files: Mapping[str, bytes],
    report: PrivacyReport,
    key: "Ed25519PublicKey | None",
) -> list[Check]:
    """What holds of every folder: checksums, what the report states, and its signature, if asked for."""
    stated = tuple(_stated(json.loads(files[REPORT]), report))
    checks = [
        Check("the files are those that were saved together"),
        Check("epsilon, mu and delta follow from the ledger", stated),
    ]
    trail = report.trail
    if trail is not None and trail.digest:
        [tensors] = (content for name, content in files.items() if name not in (SETTINGS, REPORT))
        other = f"its trail names another model, {trail.digest[:16]}..."
        wrong_model = () if digest(tensors) == trail.digest else (other,)
        checks.append(Check("the report is that of this model", wrong_model))
    if key is not None:
        signature = read_signature(folder)
        unsigned = f"there is no {signatures.FILE}"
        wrong = unsigned if signature is None else signatures.check(files, signature, key)
        what = f"the folder is signed with the key {signatures.name_of(key)[:16]}..."
        checks.append(Check(what, () if wrong is None else (wrong,)))
    return checks


def rules_of(training: Mapping[str, Any], known: Mapping[int, Rule]) -> Rule:
    """Those of these rules by which a training was declared.

    Others are a ``DataError`` that names the version that knows them.
    """
    number = whole("rules", training["rules"], at_least=1)
    if number not in known:
        raise DataError(
            f"the releases were declared by rules {number}, and this version of apportion knows rules up to "
            f"{max(known)}: to verify them takes apportion {training.get('needs')} or later"
        )
    return known[number]


def declared_in(training: Mapping[str, Any]) -> list[Declared]:
    """The declaration of the releases that a model folder keeps."""
    found = from_plain(training["releases"], _DECLARED)
    if not isinstance(found, tuple) or not all(isinstance(one, Declared) for one in found):
        raise DataError("the declaration of the releases is none")
    if not all(math.isfinite(one.share) and one.share > 0 for one in found):
        raise DataError("a declared release costs nothing, or without end")
    return list(found)


def compare_all(expected: Sequence[Record], found: Sequence[Record]) -> Iterator[str]:
    """Records that are declared, one by one, beside those in the ledger."""
    if [record.name for record in expected] != [record.name for record in found]:
        yield "the ledger has other releases, or in another order"
        return
    for mine, record in zip(expected, found, strict=True):
        yield from _compare(mine, record)


def differences(where: str, right: Any, stated: Any) -> Iterator[str]:
    """Where plain values differ, but for the last digits of numbers."""
    if isinstance(right, dict) and isinstance(stated, dict) and set(right) == set(stated):
        for name, value in right.items():
            yield from differences(f"{where}, {name}", value, stated[name])
    elif isinstance(right, list) and isinstance(stated, list) and len(right) == len(stated):
        for value, other in zip(right, stated, strict=True):
            yield from differences(where, value, other)
    elif isinstance(right, float) and isinstance(stated, (int, float)):
        if not close(stated, right, CLOSE):
            yield f"{where} is declared as {stated:.6g}, not {right:.6g}"
    elif type(right) is not type(stated) or right != stated:
        yield f"{where} is declared as {stated!r}, not {right!r}"


def close(found: Any, expected: float, tolerance: float) -> bool:
    """Whether two numbers are the same but for rounding."""
    return math.isclose(found, expected, rel_tol=tolerance)


def _stated(stated: Mapping[str, Any], report: PrivacyReport) -> Iterator[str]:
    computed = json.loads(report.to_json())
    for name in ("private", "epsilon", "delta", "mu", "unit"):
        mine, theirs = computed[name], stated.get(name)
        numbers = isinstance(mine, float) and type(theirs) in (int, float)
        same = type(mine) is type(theirs) and mine == theirs
        if not (close(theirs, mine, 1e-9) if numbers else same):
            yield f"{name} is said to be {theirs}, but the ledger gives {mine}"


def _compare(expected: Record, record: Record) -> Iterator[str]:
    sampled = expected.sampling_rate < 1  # what such steps cost has no share of mu^2
    for name in ("what", "because", "shape", "steps", "sampling_rate", "delta", "grid"):
        mine, theirs = getattr(expected, name), getattr(record, name)
        if tuple(theirs) != tuple(mine) if name == "shape" else theirs != mine:
            yield f"{record.name} has {name} {theirs}, not {mine}"
    for name in ("sensitivity",) if sampled else ("sensitivity", "mu"):
        mine, theirs = getattr(expected, name), getattr(record, name)
        if not close(theirs, mine, CLOSE):
            yield f"{record.name} has {name} {theirs:.6g}, not {mine:.6g}"
