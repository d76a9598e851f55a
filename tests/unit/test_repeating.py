# SPDX-License-Identifier: Apache-2.0
"""The options of a build, as words that the command line's own parser reads back as the same options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.cli.app import load_command
from tinyc.cli.options import make_options
from tinyc.options.build import Options
from tinyc.options.option import without_none
from tinyc.options.recipe import Pictures, Recipe, hurried
from tinyc.options.words import build_arguments

PLAIN = Options("cortex-m4", cache=True, pictures=Pictures())
CASES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "files": {"calibration": Path("calib.npz"), "inputs": Path("my test.npz"), "state_init": Path("s.npz")},
    "words": {"name": "kws", "outputs": ("a", "b/c"), "states": ("h:hn", "c:cn"), "numerics": Numerics.ONNX},
    "kernels": {"prefer": "flash", "flash": 65536, "ram": 4096, "time": "12ms", "input_rows": True},
    "streams": {"incremental": 2, "hop": 3, "stream_unpadded": True},
    "floats": {"float_layers": ("x*",), "float_fallback": True, "precision": "float32"},
    "blob": {"weights_blob": True, "like": Path("kws")},
    "proof": {"samples": 0, "sequence": 4, "toolchain": "zig", "emulator": "unicorn"},
    "signals": {"frontend": "mfcc.toml", "picture": "yuyv:160x120"},
    "recipe": {
        "recipe": Recipe(
            method="mse", equalize=False, rounding="learned", weights="auto", max_loss=0.5, activations="auto",
            int16_layers=("a", "b"), min_sqnr=30.0, augment=False, seed=3,
        )
    },
    "effort": {"effort": "fast"},
    "pictures": {"pictures": Pictures((123.7, 116.3, 103.5), (58.4, 57.1, 57.4), "stretch")},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_command_line_reads_them_back(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINYC_QUANTIZE_CACHE", raising=False)
    options = replace(PLAIN, **CASES[name])
    words = build_arguments(options)
    assert words[:2] == ("--board", "cortex-m4")
    context = load_command("build").make_context("build", ["model.onnx", *words])
    assert make_options(context.params) == options


def test_every_option_is_told_or_left_out_on_purpose() -> None:
    """Each field of Options changes the words, but for those that no build takes or that change nothing."""
    changed: dict[object, object] = {int: 700, float: 50.0, str: "x.toml", Path: Path("x"), tuple[str, ...]: ("x",)}
    silent = set()
    for name, kind in get_type_hints(Options).items():
        value = getattr(PLAIN, name)
        new = not value if isinstance(value, bool) else WORDS[name] if name in WORDS else changed[without_none(kind)[0]]
        if build_arguments(replace(PLAIN, **{name: new, **NEEDS.get(name, {})})) == build_arguments(
            replace(PLAIN, **NEEDS.get(name, {}))
        ):
            silent.add(name)
    assert silent == {"cache", "wav", "image", "expect"}


WORDS: dict[str, object] = {
    "cores": 2,
    "numerics": Numerics.ONNX,
    "precision": "float32",
    "effort": "fast",
    "harness": "mlperf",
    "prefer": "flash",
    "recipe": Recipe(weights="int4"),
    "pictures": Pictures(fit="stretch"),
}
NEEDS: dict[str, dict[str, object]] = {"like": {"weights_blob": True}, "task": {"harness": "mlperf"}}


def test_paths_are_not_told() -> None:
    given = replace(PLAIN, board="/home/me/my.toml", calibration=Path("/home/me/c.npz"), frontend="/home/me/f.toml")
    told = ("--board", "my.toml", "--frontend", "f.toml", "--calibration", "c.npz")
    assert build_arguments(given) == told


def test_an_effort_is_told_by_its_name_and_leaves_what_is_asked_for() -> None:
    given = replace(PLAIN, effort="fast", recipe=Recipe(weights="int4"))
    assert build_arguments(given)[2:] == ("--effort", "fast", "--weights", "int4")
    assert given.asked_recipe == hurried(Recipe(weights="int4"))
    assert PLAIN.asked_recipe is None


def test_a_hurried_recipe_is_told_by_its_parts() -> None:
    words = build_arguments(replace(PLAIN, recipe=hurried(Recipe())))
    assert words[2:4] == ("--calibration-method", "minmax")
    assert "--rounding" in words


def test_a_task_needs_its_runner() -> None:
    with pytest.raises(TinycError, match="--task is what MLPerf Tiny's runner is told"):
        replace(PLAIN, task="kws01")
