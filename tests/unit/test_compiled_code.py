# SPDX-License-Identifier: Apache-2.0
"""What compilers make of kernels in C, where kernels are chosen and where a library is estimated."""

from __future__ import annotations

import pytest

from tests.ops.weighted import Layer, graph_of
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.compiled_code import BASE, CompiledCode, KernelCode, compiled_code
from tinyc.choose.select import as_compiled, candidates
from tinyc.kernel.site import RELU
from tinyc.ops.conv2d import Conv2D

M4 = load_board("cortex-m4")
LAYER = Layer("conv2d", Conv2D(act=RELU), (1, 8, 8, 8), (16, 3, 3, 8), y_zero=-128)
OWN = {"k": 20, "k alone": 100, "k shared": 20, "k function": 300, "once": 90, "once alone": 90, "": 50, BASE: 7}


def test_a_kernel_that_several_steps_share_is_there_once() -> None:
    code = CompiledCode([OWN], "dsp")
    assert code.library(["k"]) == 7 + 100
    assert code.library(["k", "unknown", "k"]) == 7 + 2 * 20 + 300 + 50


def test_tables_of_other_cores_stand_for_what_was_not_measured() -> None:
    """Each kernel is as in the first table that has it; the rest of a library as in the first table."""
    code = CompiledCode([{"j": 8, "j alone": 9, BASE: 1}, OWN], "dsp")
    assert code.library(["k", "j"]) == 1 + 100 + 9
    assert CompiledCode([], "dsp").library(["k"]) == 44


def test_a_layer_takes_a_step_and_a_part_of_the_function() -> None:
    code = CompiledCode([OWN], "dsp")
    assert code.kernel("k") == KernelCode(300, 20)
    assert code.kernel("once") == KernelCode(0, 90)
    assert code.kernel("tc_div_s8").function > 100  # counted alone, on cores of the kind


def test_each_core_has_a_table_of_its_own() -> None:
    m0, m4 = load_board("cortex-m0plus"), load_board("cortex-m4")
    kernel = "tc_conv2d_s8"
    speed = compiled_code(m4.core, m4.isa, "speed").kernel(kernel)
    assert speed != compiled_code(m4.core, m4.isa, "size").kernel(kernel)
    assert speed != compiled_code(m0.core, m0.isa, "speed").kernel(kernel)


@pytest.mark.parametrize("kernel", ["tc_conv2d_s8", "tc_conv2d_s8_dsp", "tc_conv2d_s8_asm"])
def test_choices_count_what_the_compiler_makes_of_c(kernel: str) -> None:
    """Of kernels in assembly only the step, which is C."""
    compiled = compiled_code(M4.core, M4.isa, "speed")
    every = candidates(graph_of(LAYER), M4.isa, Numerics.TFLM, {"layer": kernel})
    (plain,), (counted,) = every["layer"], as_compiled(every, compiled)["layer"]
    more = counted.cost.flash_bytes - plain.cost.flash_bytes
    if kernel.endswith("_asm"):
        assert more == 0
        assert counted.code is None
    else:
        assert counted.code == compiled.kernel(kernel)
        assert more == sum(compiled.kernel(kernel)) - 44
        assert counted.cost.cycles == plain.cost.cycles
