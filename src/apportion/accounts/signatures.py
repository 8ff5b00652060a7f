"""Signatures (Ed25519) over the files of a model folder: who stands by a model and its privacy report.

Guarantee
    Whoever has the public key, got another way than the model, can tell whether the holder of the private key
    signed exactly these files under these names. It says nothing of whether the report is true: that is
    the signer's word.

Keys are files in the forms of OpenSSL (``openssl genpkey -algorithm ed25519``) and of OpenSSH
(``ssh-keygen -t ed25519``).
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from apportion.accounts.formats import SIGNATURE
from apportion.errors import DataError, ParameterError
from apportion.json_text import parse_json

FILE = "signature.json"
# What is signed begins with this, so that a signature of something else cannot be taken for one of ours.
_PURPOSE = b"apportion: the files of a model, by name and SHA-256\n"
_MOST_BYTES = 2**16
_FIELDS = {"format", "needs", "algorithm", "public_key", "files", "signature"}


def sign(files: Mapping[str, bytes], key: Ed25519PrivateKey) -> bytes:
    """The content of ``signature.json`` for these files."""
    digests = _digests(files)
    values = {
        **SIGNATURE.stamp,
        "algorithm": "Ed25519",
        "public_key": name_of(key.public_key()),
        "files": digests,
        "signature": key.sign(_message(digests)).hex(),
    }
    return json.dumps(values, indent=2).encode()


def check(files: Mapping[str, bytes], content: bytes, key: Ed25519PublicKey) -> str | None:
    """What is wrong with a signature of these files by this key; nothing if it is right."""
    try:
        values = parse_json(content)
        SIGNATURE.check(FILE, values["format"], values.get("needs"))
        signature, digests = bytes.fromhex(values["signature"]), values["files"]
        if set(values) != _FIELDS or values["algorithm"] != "Ed25519":
            return f"{FILE} is damaged"
        if digests != _digests(files):
            return "other files were signed than are there"
        if values["public_key"] != name_of(key):
            return f"signed with another key, {str(values['public_key'])[:16]}..."
        key.verify(signature, _message(digests))
    except InvalidSignature:
        return "the signature is not of this key, or not of these files"
    except DataError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, AttributeError):
        return f"{FILE} is damaged"
    return None


def name_of(key: Ed25519PublicKey) -> str:
    """The public key itself, as 64 hexadecimal digits."""
    return key.public_bytes_raw().hex()


def read_private_key(path: str | Path, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """A private key from a file of OpenSSL or OpenSSH."""
    content = _read(Path(path))
    key: Any
    try:
        if b"BEGIN OPENSSH" in content:
            key = serialization.load_ssh_private_key(content, passphrase)
        else:
            key = serialization.load_pem_private_key(content, passphrase)
    except TypeError:
        wanted = (
            "has a passphrase" if passphrase is None else "has no passphrase, and one was given"
        )
        raise PassphraseError(f"the key {path} {wanted}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise DataError(
            f"{path} is no private key, or the passphrase is wrong; make one with "
            "openssl genpkey -algorithm ed25519, or ssh-keygen -t ed25519"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DataError(f"{path} is a key of another kind: it must be Ed25519")
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """A public key from a file of OpenSSL or OpenSSH."""
    content = _read(Path(path))
    key: Any
    try:
        if content.startswith(b"ssh-"):
            key = serialization.load_ssh_public_key(content)
        else:
            key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        what = (
            "a private key: give the public one" if b"PRIVATE KEY" in content else "no public key"
        )
        raise DataError(
            f"{path} is {what} (openssl pkey -in KEY -pubout; or the .pub file of ssh-keygen)"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise DataError(f"{path} is a key of another kind: it must be Ed25519")
    return key


class PassphraseError(ParameterError):
    """A key needs a passphrase, or has none."""


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no name of a file"
        raise DataError(f"the key {path} cannot be read: {why}") from None
    if len(content) > _MOST_BYTES:
        raise DataError(f"{path} is no key: it is too large")
    return content


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}


def _message(digests: Mapping[str, str]) -> bytes:
    return _PURPOSE + json.dumps(digests, sort_keys=True).encode()
