# SPDX-License-Identifier: Apache-2.0
"""`tinyc schema`: what a command prints with --json, as a JSON Schema."""

from __future__ import annotations

import importlib
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded

Name = Annotated[
    str | None,
    typer.Argument(metavar="[COMMAND]", help="Whose --json; without it all are listed.", show_default=False),
]


def command(name: Name = None, json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """Print the JSON Schema of what COMMAND prints with --json; without COMMAND list those that have one."""
    with guarded(color, json, verbose) as out:
        objects = importlib.import_module("tinyc.cli.json_objects")  # which knows every command
        shapes = objects.shapes()
        if name is None:
            out.json({"commands": list(shapes)})
            out.result("\n".join(shapes))
        elif name not in shapes:
            raise TinycError(f"'{name}' prints no JSON", hint=f"there are: {', '.join(shapes)}")
        else:
            out.document(objects.schema_of(name))
