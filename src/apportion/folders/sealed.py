"""The settings of a model folder: which kind of model it is, and checksums of all its files.

Checksums find damage, not forgery: whoever can write a folder can write another one. So what is read
must be safe to read whatever it holds: JSON of a limited size, and tensors whose sizes are those of the
file; to use a model takes no more time and memory than its tensors do.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apportion.accounts import PrivacyReport, signatures
from apportion.errors import DataError
from apportion.folders.kinds import KINDS, REPORT, SETTINGS, Kind
from apportion.json_text import parse_json
from apportion.version import __version__

# Bytes of the settings, and of a report, besides what it may say of items.
_MOST_SETTINGS, _MOST_REPORT = 2**20, 2**20


def largest(name: str, tensors: int) -> int | None:
    """How many bytes this file may have beside so many of tensors; None if only memory is the limit."""
    limits = {SETTINGS: _MOST_SETTINGS, signatures.FILE: _MOST_SETTINGS}
    return (limits | {REPORT: _MOST_REPORT + 4 * tensors}).get(name)


def seal(
    kind: Kind, settings: Mapping[str, Any], tensors: bytes, report: PrivacyReport
) -> dict[str, bytes]:
    """The bytes of all files by name: these settings, tensors and report, whose trail names the tensors."""
    if report.trail is not None:
        report = replace(report, trail=replace(report.trail, digest=digest(tensors)))
    contents = {kind.file: tensors, REPORT: report.to_json().encode()}
    whole = {
        "kind": kind.name,
        **kind.format.stamp,
        "version": __version__,
        **settings,
        "sha256": {name: digest(content) for name, content in contents.items()},
    }
    return {SETTINGS: json.dumps(sealed(whole), indent=2).encode(), **contents}


def digest(content: bytes) -> str:
    """A checksum."""
    return hashlib.sha256(content).hexdigest()


def sealed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a checksum of themselves: of the values, however they are written."""
    own = digest(json.dumps(settings, sort_keys=True).encode())
    return {**settings, "sha256": {SETTINGS: own, **settings["sha256"]}}


def kind_of(path: Path, content: bytes) -> Kind:
    """Which kind of model these settings describe."""
    name = parse_object(path, content).get("kind")
    for kind in KINDS:
        if name == kind.name:
            return kind
    raise DataError(f"{path} does not describe {' or '.join(kind.what for kind in KINDS)}")


def is_ours(path: Path, content: bytes) -> bool:
    """Whether these are the settings of some version, be they readable or not."""
    return parse_object(path, content).get("kind") in [kind.name for kind in KINDS]


def read_settings(path: Path, content: bytes, kind: Kind) -> dict[str, Any]:
    """The fields of this kind's settings, and the checksums of the other files (``sha256``)."""
    settings = parse_object(path, content)
    if settings.get("kind") != kind.name:
        other = next((each for each in KINDS if each.name == settings.get("kind")), None)
        found = "" if other is None else f", but {other.what}, which {other.command} takes"
        raise DataError(f"{path} does not describe {kind.what}{found}")
    kind.format.check(path, settings.get("format"), settings.get("needs"))
    _check_seal(path, settings, kind)
    settings = kind.format.read(path, settings)
    check_fields(path, "", settings, {"kind", "version", "sha256", *kind.fields})
    if not isinstance(settings["training"], dict):
        raise DataError(f"{path}: training is not a JSON object")
    return settings


def check_contents(
    folder: Path, contents: Mapping[str, bytes], settings: Mapping[str, Any], kind: Kind
) -> None:
    """Compare the files with their checksums in the settings."""
    for name in kind.files[1:]:
        most = largest(name, len(contents[kind.file]))
        if most is not None and len(contents[name]) > most:
            raise DataError(f"{folder / name} is too large: more than {most} bytes")
        if digest(contents[name]) != settings["sha256"][name]:
            raise DataError(f"{folder / name} is damaged, or belongs to another model")


def parse_object(path: Path, content: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        values = parse_json(content)
    except DataError as error:
        raise DataError(f"{path} cannot be used: {error}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a JSON object")
    return values


def parse_report(path: Path, content: bytes, *, sampled: bool) -> PrivacyReport:
    """The privacy report; ``sampled`` says whether releases to sampled users may be in it."""
    if not sampled and _samples(parse_object(path, content)):  # before anything is computed from it
        raise DataError(f"{path} has releases to sampled users, of which no such model is made")
    try:
        return PrivacyReport.from_json(content.decode())
    except (DataError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise DataError(f"{path} cannot be used: {error}") from None


def _samples(report: Mapping[str, Any]) -> bool:
    try:
        return any(record["sampling_rate"] != 1 for record in report["ledger"]["records"])
    except (KeyError, TypeError):  # no report at all, as its reader will say
        return False


def _check_seal(path: Path, settings: Mapping[str, Any], kind: Kind) -> None:
    """Compare the settings, as they were written, with their checksum of themselves."""
    sums = settings.get("sha256")
    check_fields(path, "sha256", sums, set(kind.files))
    assert isinstance(sums, dict)
    digests = {name: sums[name] for name in kind.files if name != SETTINGS}
    if sealed({**settings, "sha256": digests}) != settings:
        raise DataError(f"{path} is damaged: its checksum is wrong")


def check_fields(path: Path, of: str, values: Any, names: set[str]) -> None:
    """Refuse an object with other fields than these."""
    if not isinstance(values, dict):
        raise DataError(f"{path}: {of} is not a JSON object")
    for kind, odd in (("an unknown", set(values) - names), ("no", names - set(values))):
        if odd:
            within = f" in {of}" if of else ""
            raise DataError(f"{path} has {kind} field {min(odd)!r}{within}")
