# SPDX-License-Identifier: Apache-2.0
"""`tinyc pack`: constants of a library as a file for devices, with a version and a signature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_file, write_file
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded
from tinyc.emit.blob import BlobFile, numbered, read_blob
from tinyc.package.signing import is_signed_by, signed
from tinyc.pipeline.weights import find_blob

_MOST = 2**32 - 1

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE",
        help="The output folder of `tinyc build --weights-blob`, or a .blob file.",
        show_default=False,
    ),
]


def command(
    source: Source,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The file to write.", show_default="none")] = None,
    version: Annotated[
        int | None, typer.Option(min=0, max=_MOST, help="A number for the constants.", show_default="as it is")
    ] = None,
    sign: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Sign with an Ed25519 private key (PEM).", show_default="none")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Check the signature by a public key (PEM).", show_default="none"),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Give the constants of a library a version and a signature, or say what a file of constants is."""
    with guarded(color, json, verbose) as out_to:
        blob = _read(source)
        if version is not None:
            blob = numbered(blob, version)
        if sign is not None:
            blob = signed(blob, sign)
        if check is not None and not is_signed_by(blob, check):
            what = "the signature is of another key, or of other bytes" if blob.signed else "there is no signature"
            raise TinycError(what, Loc(str(source)), "--sign KEY makes one that --check accepts", exit_code=1)
        if out is not None:
            _write(out, blob)
        elif version is not None or sign is not None:
            raise TinycError("a version or a signature makes another file", hint="say where it goes: -o FILE")
        out_to.json(_said(blob) | ({"file": str(out)} if out else {}))
        for name, value in _said(blob).items():
            out_to.result(f"{name:<10}{value:,}" if name == "bytes" else f"{name:<10}{value}")
        if out is not None:
            out_to.result(f"written: {out}")


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
