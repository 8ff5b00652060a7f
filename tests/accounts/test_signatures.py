"""Signatures over model folders: who signed what, and what was changed since."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import apportion as ap
from apportion.accounts import signatures
from apportion.errors import DataError
from apportion.folders.kinds import ITEMS
from apportion.recommend.files import load
from apportion.recommend.loading import sign
from apportion.recommend.verify import verify
from tests.cli.test_recommend import run

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
OPEN = serialization.NoEncryption()
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo
DATA = ap.simulate_interactions(users=100, items=10, rows=800)
KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))


def simple(seed: int = 0) -> ap.MatrixFactorization:
    return ap.MatrixFactorization(factors=2, sweeps=1, epsilon=5.0, seed=seed).fit(DATA)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "model"
    simple().save(folder)
    sign(folder, KEY)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def signed(folder: Path, key: Ed25519PrivateKey = KEY) -> tuple[str, ...]:
    """What is wrong with the signature."""
    [check] = [each for each in verify(folder, key.public_key()) if "signed with" in each.what]
    return check.wrong


def test_what_was_signed_is_verified(folder: Path) -> None:
    assert signed(folder) == ()
    load(folder)
    assert not any("signed" in check.what for check in verify(folder))


def test_the_signature_is_of_the_files_by_plain_ed25519(folder: Path) -> None:
    """As docs/reference/formats.md says it, with nothing of ours."""
    import hashlib

    values = json.loads((folder / "signature.json").read_text())
    digests = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ITEMS.files
    }
    message = b"apportion: the files of a model, by name and SHA-256\n" + json.dumps(
        digests, sort_keys=True
    ).encode()  # fmt: skip
    KEY.public_key().verify(bytes.fromhex(values["signature"]), message)
    assert values["public_key"] == KEY.public_key().public_bytes_raw().hex()


def test_another_key_another_model_and_no_signature_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    assert "another key" in signed(folder, OTHER)[0]
    simple(seed=5).save(tmp_path / "other")
    assert signed(tmp_path / "other") == ("there is no signature.json",)
    shutil.copy(folder / "signature.json", tmp_path / "other")
    assert "other files" in signed(tmp_path / "other")[0]


def test_every_forged_part_is_noticed(folder: Path) -> None:
    path = folder / "signature.json"
    values = json.loads(path.read_text())
    files = {name: (folder / name).read_bytes() for name in ITEMS.files}
    forged = json.loads(signatures.sign(files, OTHER))
    changed = {
        "signature": forged["signature"],
        "public_key": forged["public_key"],
        "files": {**values["files"], "privacy.json": "0" * 64},
        "algorithm": "none",
        "format": 9,
    }
    for name, value in {**changed, "needs": None, "more": 1, "signature ": "x"}.items():
        path.write_text(json.dumps({**values, name: value}))
        if name != "needs":  # which only newer ones are asked for
            assert len(signed(folder)) == 1, name
    path.write_text(json.dumps({**values, **{n: forged[n] for n in ("signature",)}}))
    assert "not of this key" in signed(folder)[0]
    for content in (b"", b"[]", b"{}", b"\xff", b"null"):
        path.write_bytes(content)
        assert len(signed(folder)) == 1


def test_a_signature_of_a_newer_version_says_which(folder: Path) -> None:
    path = folder / "signature.json"
    values = json.loads(path.read_text()) | {"format": 2, "needs": "0.9.0"}
    path.write_text(json.dumps(values))
    assert "needs apportion 0.9.0 or later" in signed(folder)[0]


def test_a_signature_goes_with_its_model(folder: Path) -> None:
    simple(seed=5).save(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(ITEMS.files)


# --- keys ---


def test_keys_of_openssl_and_of_openssh(tmp_path: Path) -> None:
    public = KEY.public_key()
    ssh = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    forms = {
        "a": KEY.private_bytes(PEM, PKCS8, OPEN),
        "b": KEY.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, OPEN),
        "a.pub": public.public_bytes(PEM, SPKI),
        "b.pub": public.public_bytes(*ssh) + b" name@host\n",
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
    for name in "ab":
        private = signatures.read_private_key(tmp_path / name)
        read = signatures.read_public_key(tmp_path / f"{name}.pub")
        assert {private.public_key().public_bytes_raw(), read.public_bytes_raw()} == {
            public.public_bytes_raw()
        }


def test_files_that_are_no_keys(tmp_path: Path) -> None:
    of_another_kind = rsa.generate_private_key(65537, 1024)
    path = tmp_path / "key"
    for content, message in (
        (b"", "no private key"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", "no private key"),
        (of_another_kind.private_bytes(PEM, PKCS8, OPEN), "another kind"),
        (b"x" * 100_000, "too large"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            signatures.read_private_key(path)
    for content, message in (
        (b"ssh-rsa x", "no public key"),
        (KEY.private_bytes(PEM, PKCS8, OPEN), "a private key: give the public one"),
        (of_another_kind.public_key().public_bytes(PEM, SPKI), "another kind"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            signatures.read_public_key(path)
    for name in ("none", "", "a\0b", "x" * 300):
        for read in (signatures.read_private_key, signatures.read_public_key):
            with pytest.raises(DataError, match="cannot be read"):
                read(tmp_path / name)


# --- as a user runs it ---


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_sign_and_verify_on_the_command_line(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(saved, folder, ignore=shutil.ignore_patterns("signature.json"))
    key, public = tmp_path / "key.pem", tmp_path / "key.pub"
    for words in (
        ["genpkey", "-algorithm", "ed25519", "-out", key],
        ["pkey", "-in", key, "-pubout", "-out", public],
    ):
        subprocess.run(["openssl", *map(str, words)], check=True)
    assert "NOT VERIFIED" in run("report", folder, "--verify", "--key", public, code=1)
    assert "signed with the key" in run("report", folder, "--sign", key)
    assert "signed with the key" in run("report", folder, "--verify", "--key", public)
    for wrong in (["--key", public], ["--sign", key, "--verify"]):
        run("report", folder, *wrong, code=2)


def test_a_key_with_a_passphrase_is_asked_for(folder: Path, tmp_path: Path) -> None:
    locked = serialization.BestAvailableEncryption(b"secret")
    (tmp_path / "key").write_bytes(KEY.private_bytes(PEM, PKCS8, locked))
    (tmp_path / "pub").write_bytes(KEY.public_key().public_bytes(PEM, SPKI))
    words = ("report", folder, "--sign", tmp_path / "key")
    run(*words, answer="secret\n")
    run("report", folder, "--verify", "--key", tmp_path / "pub")
    with pytest.raises(DataError, match="or the passphrase is wrong"):
        run(*words, answer="other\n")
