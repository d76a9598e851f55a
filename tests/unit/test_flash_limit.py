# SPDX-License-Identifier: Apache-2.0
"""A budget of flash holds for the library that a compiler makes, not for what kernels are said to take."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import tinyc
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import check_compiled_flash
from tinyc.toolchain.size import LibrarySize

NEAR = 0.1  # share of the least planned bytes that a small library takes more, as compiled
M4 = load_board("cortex-m4")
KWS = Path(__file__).parents[2] / "examples" / "kws" / "kws.onnx"


@pytest.mark.parametrize("share", [0.95, 0.98])
def test_a_library_keeps_the_budget_by_what_is_planned(models_dir: Path, share: float) -> None:
    """And uses it: what is built may take one part of a hundred more."""
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    free = compile_model(file, M4, Options("cortex-m4", prefer="time"), Progress()).plan.flash_bytes
    budget = int(free * share)
    taken = compile_model(file, M4, Options("cortex-m4", flash=budget), Progress()).plan.flash_bytes
    assert 0.88 * budget < taken <= budget


def test_the_last_bytes_are_not_bought_with_all_time(models_dir: Path) -> None:
    """Where the kernels of `--prefer flash` fit, a limit gives no slower ones."""
    file = models_dir / "mlperf_tiny" / "sww_int8.tflite"
    small = compile_model(file, M4, Options("cortex-m4", prefer="flash"), Progress())
    for more in (1.02, 1.05, 1.1):
        limit = int(small.plan.flash_bytes * more) + 1000
        compiled = compile_model(file, M4, Options("cortex-m4", flash=limit), Progress())
        assert compiled.plan.cycles <= small.plan.cycles


def test_what_is_tried_warns_once(models_dir: Path) -> None:
    """However many libraries are estimated."""
    file, said = models_dir / "mlperf_tiny" / "kws_int8.tflite", list[str]()
    options = Options("cortex-m4", flash=42_000, stream_weights=64)
    compile_model(file, M4, options, Progress(on_warning=said.append))
    assert len([warning for warning in said if "--stream-weights" in warning]) == 1


def test_a_compiled_library_over_its_budget_is_an_error(models_dir: Path) -> None:
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    options = Options("cortex-m4", flash=42_000)
    compiled = compile_model(file, M4, options, Progress())
    check_compiled_flash(compiled, LibrarySize(10_000, 32_000), options)
    check_compiled_flash(compiled, LibrarySize(10_000, 99_000), Options("cortex-m4"))
    with pytest.raises(TinycError, match="takes 43,000 bytes of flash, --flash is 42,000: 1,000 too few") as caught:
        check_compiled_flash(compiled, LibrarySize(10_000, 33_000), options)
    assert caught.value.exit_code == 1
    assert "`--prefer flash` with the same limit takes less" in str(caught.value)
    with pytest.raises(TinycError, match="`--prefer flash` without --flash"):
        check_compiled_flash(compiled, LibrarySize(10_000, 33_000), replace(options, prefer="flash"))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_what_the_hint_says_builds(tmp_path: Path, weights: Literal["int8", "int4"]) -> None:
    """And takes about what was said. How well the weights are rounded has no say in it."""
    data, out = tmp_path / "few.npz", tmp_path / "out"
    np.savez(data, **{name: samples[:8] for name, samples in np.load(KWS.parent / "kws.calib.npz").items()})
    recipe = Recipe("minmax", equalize=False, rounding="nearest" if weights == "int8" else None, weights=weights)
    build = partial(tinyc.build, KWS, "cortex-m4", out=out, calibration=data, recipe=recipe, proof=False)
    with pytest.raises(TinycError, match="the smallest library found takes about") as caught:
        build(flash=10_000)
    assert "`--prefer flash` without --flash builds a small library" in str(caught.value)
    said = int(re.findall(r"takes about ([\d,]+) bytes", str(caught.value))[0].replace(",", ""))
    flash = build(prefer="flash").report.flash
    assert flash is not None
    assert flash.code_bytes + flash.const_bytes == pytest.approx(said, rel=NEAR)


def test_a_build_keeps_its_budget_or_fails(models_dir: Path, tmp_path: Path) -> None:
    """What a gate in continuous integration relies on."""
    file, out = models_dir / "mlperf_tiny" / "kws_int8.tflite", tmp_path / "out"
    flash = tinyc.build(file, "cortex-m4", out=out, flash=38_000, samples=1).report.flash
    assert 34_000 < flash.code_bytes + flash.const_bytes <= 38_000
    with pytest.raises(TinycError, match="too few") as caught:
        tinyc.build(file, "cortex-m4", out=tmp_path / "none", flash=20_000, samples=1)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "none").exists()
