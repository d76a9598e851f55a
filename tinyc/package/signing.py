# SPDX-License-Identifier: Apache-2.0
"""Signatures of constants that devices take: Ed25519 (RFC 8032) by the package `cryptography`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.base.files import read_file
from tinyc.emit.blob import SIGNATURE, BlobFile, with_signature

_MAKE = "`openssl genpkey -algorithm ed25519 -out key.pem` makes one, without a password"
_PUBLIC = "`openssl pkey -in key.pem -pubout -out key.pub.pem` writes it"


def signed(blob: BlobFile, key_file: Path) -> BlobFile:
    """The blob with the signature of a private key, a PEM file without a password. Raises TinycError where it is none,
    or the package is not installed."""
    serialization: Any = load_extra("cryptography.hazmat.primitives.serialization", "sign", "signing")
    key = _key(key_file, lambda data: serialization.load_pem_private_key(data, None), "private", _MAKE)
    return with_signature(blob, key.sign(blob.message))


def is_signed_by(blob: BlobFile, key_file: Path) -> bool:
    """Whether the signature is that of the owner of a public key, a PEM file. Raises TinycError as `signed`."""
    serialization: Any = load_extra("cryptography.hazmat.primitives.serialization", "sign", "checking a signature")
    exceptions: Any = load_extra("cryptography.exceptions", "sign", "checking a signature")
    key = _key(key_file, serialization.load_pem_public_key, "public", _PUBLIC)
    try:
        key.verify(blob.data[-SIGNATURE:], blob.message)
    except exceptions.InvalidSignature:
        return False
    return True


def _key(file: Path, load: Any, kind: str, hint: str) -> Any:
    where = Loc(str(file))
    try:
        key = load(read_file(file))
    except OSError as error:
        raise TinycError(f"cannot read the {kind} key: {error.strerror}", where, hint) from error
    except (ValueError, TypeError) as error:
        raise TinycError(f"this is no {kind} key as PEM without a password", where, hint) from error
    if type(key).__name__ not in ("Ed25519PrivateKey", "Ed25519PublicKey"):
        raise TinycError("the key is for another algorithm than Ed25519", where, hint)
    return key
