# SPDX-License-Identifier: Apache-2.0
"""The command that repeats a build: its options in the words of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from tinyc.pipeline.options import Options
from tinyc.quantize import Pictures, Recipe

# Fields whose options are called otherwise; of a recipe, those that are no options are left out.
_CALLED = {"states": "state", "float_layers": "float", "method": "calibration_method"}
_NO_OPTIONS = {"board", "recipe", "pictures", "cache", "wav", "image", "expect"}
_OF_RECIPES = (
    *("method", "weights", "max_loss", "activations", "int16_layers", "min_sqnr", "rounding"),
    *("equalize", "augment", "seed"),
)


def build_arguments(options: Options) -> tuple[str, ...]:
    """What `tinyc build MODEL` has to be told beside the model, each word an argument; files by their names, since a
    report holds no paths."""
    names = [each.name for each in fields(Options) if each.name not in _NO_OPTIONS]
    words = ["--board", _said(options.board), *_changed(options, Options(options.board), names)]
    words += _changed(options.recipe or Recipe(), Recipe(), _OF_RECIPES)
    pictures = options.pictures or Pictures()
    for each in fields(Pictures):
        value = getattr(pictures, each.name)
        if value != each.default:
            words += [f"--picture-{each.name}", _said(value)]
    return tuple(words)


def _changed(given: Any, plain: Any, names: list[str] | tuple[str, ...]) -> Iterator[str]:
    """The words of fields that are not as in `plain`."""
    for name in names:
        value, usual = getattr(given, name), getattr(plain, name)
        if value == usual:
            continue
        option = _CALLED.get(name, name).replace("_", "-")
        if name == "states":
            yield from (word for pair in value for word in (f"--{option}", pair))
        elif isinstance(usual, bool):
            yield f"--{option}" if value else f"--no-{option}"
        else:
            yield from (f"--{option}", _said(value))


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, Path):
        return value.name
    if isinstance(value, tuple):
        return ",".join(map(_said, value))
    if isinstance(value, str) and value.endswith(".toml"):  # of a board, a front end, a camera
        return Path(value).name
    return str(value.value if isinstance(value, Enum) else value)
