# SPDX-License-Identifier: Apache-2.0
"""`tinyc package --as blob`: constants of a library as a file for devices, with a version and a signature."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_file, write_file
from tinyc.cli.output import Output
from tinyc.emit.blob import BlobFile, numbered, read_blob
from tinyc.package.signing import is_signed_by, signed
from tinyc.pipeline.weights import find_blob

_MOST = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ConstantsJob:
    """source: a folder of `tinyc build --weights-blob`, or a file; out: the file to write. sign, check: files of an
    Ed25519 private key to sign with, and of a public one to check by."""

    source: Path
    out: Path | None
    version: str | None
    sign: Path | None
    check: Path | None

    @property
    def keys(self) -> bool:
        """Whether a key is given."""
        return self.sign is not None or self.check is not None


def show_constants(out: Output, job: ConstantsJob) -> None:
    """Writes the constants, if they are to be written, and says what they are. TinycError, with exit code 1 where a
    signature is not the key's."""
    blob = _read(job.source)
    if job.version is not None:
        blob = numbered(blob, _number(job.version))
    if job.sign is not None:
        blob = signed(blob, job.sign)
    if job.check is not None and not is_signed_by(blob, job.check):
        what = "the signature is of another key, or of other bytes" if blob.signed else "there is no signature"
        raise TinycError(what, Loc(str(job.source)), "--sign KEY makes one that --check accepts", exit_code=1)
    if job.out is not None:
        _write(job.out, blob)
    elif job.version is not None or job.sign is not None:
        raise TinycError("a version or a signature makes another file", hint="say where it goes: -o FILE")
    out.json(_said(blob) | ({"file": str(job.out)} if job.out else {}))
    for name, value in _said(blob).items():
        out.result(f"{name:<10}{value:,}" if name == "bytes" else f"{name:<10}{value}")
    if job.out is not None:
        out.result(f"written: {job.out}")


def _number(word: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 11 and int(word) <= _MOST):
        raise TinycError(f"'{word}' is no version of constants", hint=f"give a number from 0 to {_MOST:,}")
    return int(word)


def _read(source: Path) -> BlobFile:
    if source.is_dir():
        return find_blob(source)[1]
    try:
        return read_blob(read_file(source), str(source))
    except OSError as error:
        hint = "give a .blob file, or the folder of a build with --weights-blob"
        raise TinycError(f"cannot read the constants: {error.strerror}", Loc(str(source)), hint) from error


def _write(out: Path, blob: BlobFile) -> None:
    try:
        write_file(out, blob.data)
    except OSError as error:
        raise TinycError(
            f"cannot write the constants: {error.strerror}", Loc(str(out)), "give another -o FILE"
        ) from error


def _said(blob: BlobFile) -> dict[str, Any]:
    return {
        "version": blob.version,
        "bytes": len(blob.data),
        "code": blob.code.hex(),
        "model": blob.model.hex(),
        "signed": blob.signed,
    }
