# SPDX-License-Identifier: Apache-2.0
"""`tinyc link`: several models in one firmware."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.package.link import LinkedModels, link_libraries

Folders = Annotated[
    list[Path], typer.Argument(metavar="FOLDER...", help="Output folders of `tinyc build`.", show_default=False)
]


def command(
    folders: Folders,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output folder.", show_default="build/<name>")] = None,
    name: Annotated[str, typer.Option(help="Name of what is linked.")] = "models",
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Link the libraries in FOLDERs for one firmware: one arena for all, and each kernel once."""
    with guarded(color, json, verbose) as out_to:
        if len(folders) < 2:
            raise TinycError("there is nothing to link", hint="give two output folders of `tinyc build`, or more")
        target = out or Path("build") / name
        linked = link_libraries(folders, name, target)
        out_to.json(linked.to_json() | {"folder": str(target)})
        _show(out_to, linked, target, name)


def _show(out: Output, linked: LinkedModels, target: Path, name: str) -> None:
    out.result(f"{', '.join(linked.models)} for {linked.board}, each run twice in the shared arena: all equal")
    saved = linked.separate_arena_bytes - linked.arena_bytes - linked.state_bytes
    kept = f", and {linked.state_bytes:,} bytes of states" if linked.state_bytes else ""
    out.result(f"arena  {linked.arena_bytes:,} bytes{kept}; {saved:,} less than arenas of their own")
    if linked.code_bytes is not None and linked.separate_code_bytes is not None:
        fewer = linked.separate_code_bytes - linked.code_bytes
        out.result(f"code   {linked.code_bytes:,} bytes; {fewer:,} less than each by itself")
        out.result(f"constants {linked.const_bytes:,} bytes")
    files = ", ".join(f"{unit}.c" for unit in (*linked.units, f"{name}_arena"))
    out.result(f"library: {target}/{name}.h; compile {files}")
