# SPDX-License-Identifier: Apache-2.0
"""`tinyc package`: a proved library as a package of a build system or a language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.package.kinds import KINDS, complete_kinds, kinds_of
from tinyc.package.make import DEFAULT_VERSION, write_packages

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The output folder of `tinyc build`.", show_default=False)
]
As = Annotated[
    str,
    typer.Option(
        "--as",
        metavar="KIND,...",
        help=f"What to make: {', '.join(kind.name for kind in KINDS)}.",
        autocompletion=complete_kinds,
    ),
]


def command(
    folder: Folder,
    kinds: As,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Output folder, of one kind.", show_default="FOLDER-KIND")
    ] = None,
    package_version: Annotated[str, typer.Option(help="Version of the package: three numbers.")] = DEFAULT_VERSION,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Make packages for build systems and languages of the library in FOLDER, an output of `tinyc build`."""
    with guarded(color, json, verbose) as out_to:
        wanted = kinds_of(kinds)
        if out is not None and len(wanted) != 1:
            raise TinycError("-o takes one kind of package", hint="leave it out: each gets a folder of its own")
        places = write_packages(folder, wanted, package_version, out)
        out_to.json({"packages": [str(place) for place in places]})
        show_packages(out_to, places)


def show_packages(out: Output, places: Sequence[Path]) -> None:
    """Where the packages are."""
    for place in places:
        out.result(f"package: {place} (README.md says how it is used)")
