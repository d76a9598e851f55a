# SPDX-License-Identifier: Apache-2.0
"""What parameters of commands take as it is, typer's converters would leave as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from typer.core import TyperArgument, TyperOption

from tinyc.cli.app import COMMANDS, load_command
from tinyc.cli.parameters import words_as_they_are


def tried(each: Any, folder: Path) -> list[Any]:
    """Values of every kind, of which most are wrong."""
    kind = each.type_descriptor.annotation
    words = ["", "auto", "12", "-3", "1.5", "none", "yes", "model\0.onnx", str(folder), str(folder / "none.onnx"), "-"]
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return [each.default, None, *words, *choices, [], ["a", "b"], ("a",), ["a", 3], 12, 1.5, True]


def outcome(kind: type, each: Any, ctx: typer.Context, value: Any) -> tuple[Any, Any]:
    """The value as a class of parameters takes it, and its type; or why not."""
    try:
        result = kind.process_value(each, ctx, value)
    except (typer.TyperException, ValueError, TypeError, AttributeError) as error:
        return type(error), str(error)
    return type(result), result


@pytest.mark.parametrize("name", COMMANDS)
def test_values_are_those_of_typer(name: str, tmp_path: Path) -> None:
    command = load_command(name)
    ctx = typer.Context(command)
    taken = 0
    for each in words_as_they_are(command.params):
        if each.callback is not None:
            continue
        plain = TyperOption if isinstance(each, TyperOption) else TyperArgument
        for value in tried(each, tmp_path):
            own = outcome(type(each), each, ctx, value)
            assert own == outcome(plain, each, ctx, value), (each.name, value)
            taken += own[0] is type(value)
    assert taken
