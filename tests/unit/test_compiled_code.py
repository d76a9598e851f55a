# SPDX-License-Identifier: Apache-2.0
"""What compilers make of kernels in C, where kernels are chosen and where a library is estimated."""

from __future__ import annotations

import pytest

from tests.ops.weighted import Layer, graph_of
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.compiled_code import BASE, FEW, CompiledCode, KernelCode, compiled_code, compiled_name
from tinyc.choose.select import as_compiled, candidates
from tinyc.kernel.kernel import Cost, WrittenCode, call_consts, flash_of
from tinyc.kernel.site import RELU
from tinyc.ops.conv2d import Conv2D

M4 = load_board("cortex-m4")
LAYER = Layer("conv2d", Conv2D(act=RELU), (1, 8, 8, 8), (16, 3, 3, 8), y_zero=-128)
OWN = {
    **{"k": 20, "k alone": 100, "k alone helper": 40, "k shared": 20, "k shared k": 300, "k shared helper": 30},
    **{"other": 8, "other shared": 8, "other shared helper": 30},
    **{"once": 90, "once alone": 90, "looped": 16, "looped shared": 16, "looped rows": 250, "looped rows alone": 250},
    **{"": 50, BASE: 7},
}


def test_a_function_that_several_steps_call_is_there_once() -> None:
    """Of one kernel, and of several."""
    code = CompiledCode([OWN], "dsp")
    assert code.library(["k"]) == 7 + 100 + 40
    assert code.library(["k", "unknown", "k"]) == 7 + 2 * 20 + 300 + 30 + 50
    assert code.library(["k", "k", "other", "other"]) == 7 + 2 * 20 + 300 + 30 + 2 * 8


def test_more_steps_than_few_share_a_function() -> None:
    """Each of some has its own, with the layer's sizes in it."""
    code = CompiledCode([{**OWN, "j shared": 300, "j many": 30, "j many j": 900}], "dsp")
    assert code.library(["j"] * FEW) == 7 + 300 * FEW
    assert code.library(["j"] * (FEW + 1)) == 7 + 30 * (FEW + 1) + 900
    assert code.kernel("j").step == code.for_layers(["j"] * FEW).kernel("j").step == 300
    assert code.for_layers(["j"] * (FEW + 1)).kernel("j") == KernelCode(30, (("j", 900, 270),))


@pytest.mark.parametrize(("board", "like"), [("ek-ra8d1", "cortex-m55"), ("hazard3", "riscv32imc")])
def test_a_kernel_that_was_not_measured_on_a_core_is_as_on_others_of_its_kind(board: str, like: str) -> None:
    own, of_kind = (compiled_code(one.core, one.isa, "speed") for one in map(load_board, (board, like)))
    assert own.kernel("tc_conv2d_f32") == of_kind.kernel("tc_conv2d_f32")
    assert own.kernel("tc_conv2d_f32") != compiled_code("cortex-m3", frozenset(), "speed").kernel("tc_conv2d_f32")


def test_a_step_that_calls_its_kernel_for_each_row_takes_more() -> None:
    code = CompiledCode([OWN], "dsp")
    assert code.library(["looped", "looped rows"]) == 7 + 16 + 250
    assert code.kernel("looped rows").step - code.kernel("looped").step == 234
    assert code.kernel("once rows") == code.kernel("once")


def test_tables_of_other_cores_stand_for_what_was_not_measured() -> None:
    """Each kernel is as in the first table that has it; the rest of a library as in the first table."""
    code = CompiledCode([{"j": 8, "j alone": 9, BASE: 1}, OWN], "dsp")
    assert code.library(["k", "j"]) == 1 + 100 + 40 + 9
    assert CompiledCode([], "dsp").library(["k"]) == 44


def test_a_layer_takes_a_step_and_functions_that_others_may_call() -> None:
    """Those of several kernels apart, and what the only layer of a kernel takes of it."""
    code = CompiledCode([OWN], "dsp")
    assert code.kernel("k") == KernelCode(20, (("k", 300, 80), ("helper", 30, 40)))
    assert code.kernel("k").bytes == 100 + 40
    assert code.kernel("once") == KernelCode(90)
    assert code.kernel("tc_div_s8").bytes > 100  # counted alone, on cores of the kind
    assert code.kernel("tc_new_asm", written=True) == KernelCode(44)


def test_each_core_has_a_table_of_its_own() -> None:
    m0, m4 = load_board("cortex-m0plus"), load_board("cortex-m4")
    kernel = "tc_conv2d_s8"
    speed = compiled_code(m4.core, m4.isa, "speed").kernel(kernel)
    assert speed != compiled_code(m4.core, m4.isa, "size").kernel(kernel)
    assert speed != compiled_code(m0.core, m0.isa, "speed").kernel(kernel)


@pytest.mark.parametrize("kernel", ["tc_conv2d_s8", "tc_conv2d_s8_dsp", "tc_conv2d_s8_asm"])
def test_choices_count_what_the_compiler_makes_of_c(kernel: str) -> None:
    """And of a kernel in C the constants that it is called with, to the byte."""
    compiled = compiled_code(M4.core, M4.isa, "speed")
    every = candidates(graph_of(LAYER), M4.isa, Numerics.TFLM, {"layer": kernel})
    (plain,), (counted,) = every["layer"], as_compiled(every, compiled)["layer"]
    call = counted.offer.call()
    code = compiled.kernel(compiled_name(counted.kernel, call), written=counted.kernel.written)
    assert counted.cost.cycles == plain.cost.cycles
    if kernel.endswith("_asm"):
        assert counted.cost.flash_bytes - plain.cost.flash_bytes == code.bytes - 44
    else:
        assert counted.cost.flash_bytes == code.bytes + sum(const.data.nbytes for const in call_consts(call))


def test_what_one_layer_has_and_what_several_share_is_counted_apart() -> None:
    """A function that is part of the only step that calls it, and padding, of which the longest row stands for all."""
    function, pads = WrittenCode("f", 300, 40), [WrittenCode(("pad", -128), size) for size in (64, 16)]
    costs = [Cost(1, 500, 0).with_code(20).beside([function, pad]) for pad in pads]
    assert flash_of(costs[:1]) == 520 + 40 + 64
    assert flash_of(costs) == 2 * 520 + 300 + 64
    both = [cost.shared({"f": 2, ("pad", -128): 2}) for cost in costs]
    assert [cost.flash_bytes for cost in both] == [520 + 40 + 32, 520 + 40 + 8]  # 40: one of them may have it alone
    assert flash_of(both) == flash_of(costs)
    alone = costs[0].shared({})
    assert (alone.flash_bytes, alone.codes) == (520 + 40 + 64, ())


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("alone", [None, 40, 200, 700])
def test_parts_of_what_layers_may_share_are_at_most_what_it_takes(layers: int, alone: int | None) -> None:
    """However many of the layers have it: of one alone a compiler may make less than a part of what many would have."""
    cost = Cost(100, 50, 0).beside([WrittenCode("function", 600, alone)])
    part = cost.shared({"function": layers})
    for users in range(1, layers + 1):
        assert sum(own.flash_bytes for own in [part] * users) <= flash_of([cost] * users)
    assert part.own_bytes == cost.own_bytes == 50
