# SPDX-License-Identifier: Apache-2.0
"""`tinyc package`: what goes out: a proved library for a build system or a language, several for one firmware, or
constants for devices."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.cli.constants import ConstantsJob, show_constants
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.package.kinds import KINDS, complete_kinds, kinds_of
from tinyc.package.link import LinkedModels, link_libraries
from tinyc.package.make import DEFAULT_VERSION, write_packages

CONSTANTS = "blob"  # a kind that is no folder
BLOB_SUFFIX = ".blob"

Sources = Annotated[
    list[Path],
    typer.Argument(metavar="FOLDER...", help="Output folders of `tinyc build`; or one .blob file.", show_default=False),
]
As = Annotated[
    str | None,
    typer.Option(
        "--as",
        metavar="KIND,...",
        help=f"What to make: {', '.join(kind.name for kind in KINDS)}; or {CONSTANTS}: the constants alone.",
        autocompletion=complete_kinds,
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Output folder of one kind, or the .blob file.", show_default="FOLDER-KIND"),
]
Name = Annotated[str | None, typer.Option(help="Name of several libraries as one.", show_default="models")]
Version = Annotated[
    str | None,
    typer.Option(
        "--version",
        help="Of a package three numbers, of constants one.",
        show_default=f"{DEFAULT_VERSION}, or as it is",
    ),
]
Sign = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="Sign constants with an Ed25519 private key (PEM).", show_default="none"),
]
Check = Annotated[
    Path | None,
    typer.Option(metavar="KEY", help="Check the signature by a public key (PEM).", show_default="none"),
]


def command(
    sources: Sources,
    kinds: As = None,
    out: Out = None,
    name: Name = None,
    version: Version = None,
    sign: Sign = None,
    check: Check = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Make packages for build systems and languages of the library in FOLDER; link several for one firmware.

    Several FOLDERs become one library: one arena for all, and each kernel once. `--as blob` gives the constants of
    `tinyc build --weights-blob` a version and a signature; a .blob file alone is described.
    """
    with guarded(color, json, verbose) as out_to:
        job = PackageJob(sources, kinds, out, name, version, ConstantsJob(sources[0], out, version, sign, check))
        job.check()
        if job.is_linking:
            target = out or Path("build") / job.linked_name
            linked = link_libraries(sources, job.linked_name, target)
            out_to.json(linked.to_json() | {"folder": str(target)})
            _show_linked(out_to, linked, target, job.linked_name)
        elif job.is_constants:
            show_constants(out_to, job.constants)
        else:
            places = write_packages(sources[0], kinds_of(kinds or ""), version or DEFAULT_VERSION, out)
            out_to.json({"packages": [str(place) for place in places]})
            show_packages(out_to, places)


@dataclass(frozen=True, slots=True)
class PackageJob:
    """What a command line asks for, by its options."""

    sources: Sequence[Path]
    kinds: str | None
    out: Path | None
    name: str | None
    version: str | None
    constants: ConstantsJob

    @property
    def is_linking(self) -> bool:
        return len(self.sources) > 1

    @property
    def is_constants(self) -> bool:
        return self.kinds == CONSTANTS or (self.kinds is None and self.sources[0].suffix == BLOB_SUFFIX)

    @property
    def linked_name(self) -> str:
        return self.name or "models"

    def check(self) -> None:
        """Raises TinycError for options that do not go together."""
        if self.is_linking and (self.kinds or self.version or self.constants.keys):
            raise TinycError(
                "several libraries are linked, and not made a package of", hint="give one folder, or -o and --name only"
            )
        if self.name is not None and not self.is_linking:
            raise TinycError("--name is of several libraries", hint="give two folders of builds, or more")
        if self.is_linking or self.is_constants:
            return
        if self.constants.keys:
            raise TinycError("--sign and --check are of constants", hint=f"give --as {CONSTANTS}, or a .blob file")
        if self.kinds is None:
            kinds = ", ".join(kind.name for kind in KINDS)
            hint = f"--as {kinds} or {CONSTANTS}; two folders are linked"
            raise TinycError("nothing says what to make of the library", hint=hint)
        if CONSTANTS in [word.strip() for word in self.kinds.split(",")]:
            hint = f"give --as {CONSTANTS} in a call of its own"
            raise TinycError(f"{CONSTANTS} is of constants alone, and no package", hint=hint)
        if self.out is not None and len(kinds_of(self.kinds)) != 1:
            raise TinycError("-o takes one kind of package", hint="leave it out: each gets a folder of its own")


def show_packages(out: Output, places: Sequence[Path]) -> None:
    """Where the packages are."""
    for place in places:
        out.result(f"package: {place} (README.md says how it is used)")


def _show_linked(out: Output, linked: LinkedModels, target: Path, name: str) -> None:
    out.result(f"{', '.join(linked.models)} for {linked.board}, each run twice in the shared arena: all equal")
    saved = linked.separate_arena_bytes - linked.arena_bytes - linked.state_bytes
    states = f", and {linked.state_bytes:,} bytes of states" if linked.state_bytes else ""
    out.result(f"arena  {linked.arena_bytes:,} bytes{states}; {saved:,} less than arenas of their own")
    if linked.code_bytes is not None and linked.separate_code_bytes is not None:
        fewer = linked.separate_code_bytes - linked.code_bytes
        out.result(f"code   {linked.code_bytes:,} bytes; {fewer:,} less than each by itself")
        out.result(f"constants {linked.const_bytes:,} bytes")
    files = ", ".join(f"{unit}.c" for unit in (*linked.units, f"{name}_arena"))
    out.result(f"library: {target}/{name}.h; compile {files}")
