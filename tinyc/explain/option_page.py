# SPDX-License-Identifier: Apache-2.0
"""docs/options.md, and the types of the Python API's keywords, from where each option is declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tinyc.options.build import LIMITS, Options
from tinyc.options.option import Heading, OptionFacts, flag_of, keyword_of, options_of, without_none
from tinyc.options.recipe import Pictures, Recipe

_ARGUMENTS = {"board", "calibration", "inputs", "state_init"}  # of the Python functions themselves: arrays will do
_HEADINGS: dict[Heading, str] = {
    "": "The model and the library",
    "Kernels and memory": "Kernels and memory",
    "Quantizing a float model": "Quantizing a float model",
    "Proof": "Proof",
}

_TABLE = ("| option | default | what it does |", "|---|---|---|")
_PAGE = """# Options

Every option of the commands that compile a model, as it is declared in `tinyc/options/`; `make docs` prints this page.
A command offers those that make sense for it. Its `--help` shows those that most builds use, its `--help-all` all of
them. Every option may also stand in [`tinyc.toml` beside the model](build.md#options-in-a-file). In Python they are
keywords of the same name, with `_` for `-`, of [`tinyc.build` and the functions beside it](python.md), and in
[a sweep's file](sweep.md) keys.
"""

_KEYWORDS = '''# SPDX-License-Identifier: Apache-2.0
"""The options of a build as the types of keywords; `python scripts/option_docs.py` writes this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypedDict

from tinyc.options.build import Precision, Prefer
from tinyc.options.recipe import (
    ActivationBits,
    Effort,
    Fit,
    Method,
    OutputScales,
    Pictures,
    Recipe,
    Rounding,
    WeightBits,
)

NumericsName = Literal["tflm", "litert", "single", "onnx"]


class RecipeOptions(TypedDict, total=False):
    """How a float model is quantized, option by option, or all of that as a `Recipe`."""

    recipe: Recipe | None
{recipe}


class LibraryOptions(RecipeOptions, total=False):
    """Options of `tinyc build` that make the library what it is; those that are left out are as on the command line."""

{library}
    pictures: Pictures | None
{pictures}


class ProofOptions(LibraryOptions, total=False):
    """And those of its proof. samples: how many inputs run, 0: all."""

{proof}


class LimitedOptions(ProofOptions, total=False):
    """And least figures of accuracy."""

{limits}
'''


def option_page() -> str:
    """The text of docs/options.md."""
    parts = [_PAGE]
    for heading, title in _HEADINGS.items():
        rows = [_row(owner, each, told) for owner, each, told in _declared() if told.heading == heading]
        parts.append("\n".join([f"## {title}\n", *_TABLE, *rows, ""]))
    return "\n".join(parts)


def keyword_types() -> str:
    """The text of tinyc/options/keywords.py."""
    parts: dict[str, list[str]] = {"library": [], "proof": [], "limits": [], "recipe": [], "pictures": []}
    told = {each.name: one for each, one in options_of(Options)}
    for each in fields(Options):
        if each.name in (*_ARGUMENTS, "recipe", "pictures") or not _is_keyword(each, told.get(each.name)):
            continue
        kind = "NumericsName | None" if each.name == "numerics" else str(each.type)
        facts = told.get(each.name)
        is_proof = facts is not None and facts.heading == "Proof" and each.name != "sequence"
        where = "limits" if facts is not None and not facts.shared else "proof" if is_proof else "library"
        parts[where].append(f"    {keyword_of(each)}: {kind}")
    for owner, where in ((Recipe, "recipe"), (Pictures, "pictures")):
        parts[where] = [f"    {keyword_of(each)}: {each.type}" for each, _ in options_of(owner)]
    return _KEYWORDS.format(**{where: "\n".join(lines) for where, lines in parts.items()})


def _is_keyword(each: Field[Any], told: OptionFacts | None) -> bool:
    """Whether every function of Python that builds has it, or it is a limit of accuracy."""
    return told is None or told.shared or each.name in LIMITS


def _declared() -> Iterator[tuple[type, Field[Any], OptionFacts]]:
    for owner in (Options, Recipe, Pictures):
        yield from ((owner, each, told) for each, told in options_of(owner))


def _row(owner: type, each: Field[Any], told: OptionFacts) -> str:
    kind, _ = without_none(get_type_hints(owner)[each.name])
    choices = "|".join(get_args(kind)) if get_origin(kind) is Literal else ""
    words = _escaped(choices or ("BYTES" if told.is_bytes else told.metavar))
    flag = f"`--{flag_of(each)}`" + (f", `-{told.short}`" if told.short else "") + (f" {words}" if words else "")
    is_plain = told.inverted or each.default in (None, (), False)
    usual = told.shown_default or ("" if is_plain else f"`{_shown(each.default)}`")
    python = f" In Python `{each.name}={not each.default}`." if told.inverted else ""
    return f"| {flag} | {usual} | {_escaped(told.help)}{python} |"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(f"{number:g}" for number in value) if isinstance(value, tuple) else str(value)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("[", "\\[").replace("<", "&lt;")
