# SPDX-License-Identifier: Apache-2.0
"""Values that no option can have, from Python and from files: refused with its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
import typer

import tinyc
from tinyc.api import _values
from tinyc.base.numerics import Numerics
from tinyc.cli.app import load_command
from tinyc.cli.options import declared, make_options, number_of_bytes
from tinyc.options.build import Options
from tinyc.options.keywords import LibraryOptions
from tinyc.options.option import OptionFacts, flag_of, without_none
from tinyc.options.recipe import Pictures, Recipe
from tinyc.options.words import shaping
from tinyc.sweep.job import Job, SentFile, setting_kinds

DECLARED = {flag_of(each): (owner, each, kind, told) for owner, each, kind, told in declared()}


def wrong_values(kind: Any, told: OptionFacts) -> list[object]:
    """Of another type, beyond the limits, and what is neither below nor above them."""
    plain, is_optional = without_none(kind)
    if get_origin(plain) is tuple:
        values: list[object] = ["conv", 7, (object(),)]
    elif get_origin(plain) is Literal:
        values = ["no such word", 7]
    else:
        values = [object(), *([True, "64K"] if plain in (int, float) else [7])]
    least, most = 0 if told.is_bytes else told.least, told.most
    values += [] if least is None else [least - 1]
    values += [] if most is None else [most + 1]
    values += [float("nan")] if plain in (int, float) else []
    return values if is_optional else [*values, None]


@pytest.mark.parametrize("flag", DECLARED)
def test_what_an_option_cannot_be_is_said_with_its_name(flag: str) -> None:
    owner, each, kind, told = DECLARED[flag]
    for value in wrong_values(kind, told):
        with pytest.raises(tinyc.TinycError, match=f"--{flag}") as raised:
            owner(**{each.name: value})
        assert raised.value.hint, value


@pytest.mark.parametrize("values", [{"recipe": "fast"}, {"pictures": 3}])
def test_a_group_of_options_is_a_value_of_its_own_type(values: dict[str, Any]) -> None:
    with pytest.raises(tinyc.TinycError, match=next(iter(values))):
        Options(**values)


def test_numbers_of_numpy_are_numbers() -> None:
    assert Options(flash=np.int64(4096), hop=np.int32(2)).flash == 4096
    assert Recipe(weights="auto", max_loss=np.float32(0.5)).max_loss == 0.5


def test_lists_are_tuples_where_python_gives_them() -> None:
    """And the library's words are those of the command line."""

    options = Options(**_values({"outputs": ["a", "b"], "float_layers": []}, LibraryOptions, {}))
    assert shaping(options) == ("--outputs a,b",)


@pytest.mark.parametrize("words", ["_", "1__0", "64_", "", "-1", "64X", "9" * 5000, "٣"])
def test_what_is_no_number_of_bytes(words: str) -> None:
    with pytest.raises(typer.BadParameter, match="like 65536, 64K or 1M"):
        number_of_bytes(words)
    assert number_of_bytes("1_024K") == 1024**2


# Sweeps --------------------------------------------------------------------------------------------------------------


def job_of(**settings: Any) -> Job:
    return Job(SentFile("m.onnx", "0"), "host", "prove", tuple(sorted(settings.items())))


def some_values(kind: Any) -> list[Any]:
    """Of a sweep's file, for an option."""
    plain, is_optional = without_none(kind)
    if plain is Numerics:
        return [one.value for one in Numerics]
    if get_origin(plain) is Literal:
        return [*get_args(plain), *["auto"] * is_optional]
    if get_origin(plain) is tuple:
        return ["", "a", "a,,b", ","]
    examples: dict[Any, list[Any]] = {bool: [True, False], int: [1, 3], float: [1, 2.5], str: ["word"]}
    return examples[plain]


@pytest.mark.parametrize("name", setting_kinds())
def test_the_words_of_a_job_are_those_of_the_command_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line reads from them what the job is built with."""

    monkeypatch.delenv("TINYC_QUANTIZE_CACHE", raising=False)
    kind = setting_kinds()[name]
    for value in some_values(get_type_hints(kind.owner)[kind.field.name]):
        chooses = {"activations": "auto"} if name in ("max_loss", "min_sqnr") else {}
        job = job_of(**{name: value}, **chooses)
        context = load_command("build").make_context("build", ["m.onnx", "--board", "host", *job.words().split()])
        expected, read = job.options({}), make_options(context.params)
        assert replace(read, recipe=read.recipe or Recipe()) == replace(
            expected, recipe=expected.recipe or Recipe(), pictures=Pictures()
        )
