# SPDX-License-Identifier: Apache-2.0
"""Kernels that run in one program: what is wrong in one of them fails alone, and none reads or writes beside its own
tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.conftest import Body, run_together
from tests.ops.harness import HOST_ISA, Case, OneStepPlan, run_cases, run_program
from tests.ops.one_node import one_node, random_s8, tensor
from tests.ops.sanitized import COMPILER
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.emit.lower import lower
from tinyc.kernel.site import RELU6
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip


def _sums(elements: int, samples: int) -> Case:
    shape = (1, elements)
    graph = one_node("add", Add(), [tensor("a", shape, 0.05, -7), tensor("b", shape, 0.03, 100)], 0.06, 3)
    inputs = [{"a": random_s8(seed, shape), "b": random_s8(seed + 9, shape)} for seed in range(samples)]
    return Case(graph, ["tc_add_s8_mve", "tc_add_s8"], inputs, Numerics.TFLM, COMPILER)


def test_each_case_has_its_own_outputs() -> None:
    cases = [_sums(7, 1), _sums(3, 3)]
    outputs = run_cases(cases)
    assert [[len(kernels) for kernels in samples] for samples in outputs] == [[2], [2, 2, 2]]
    for case, of_case in zip(cases, outputs, strict=True):
        case.compare(of_case)


def test_a_wrong_byte_is_said() -> None:
    case = _sums(7, 1)
    ((first, second),) = run_cases([case])[0]
    wrong = np.array(second)
    wrong[0, 4] += 1
    with pytest.raises(AssertionError, match="tc_add_s8: output y"):
        case.compare([[first, wrong]])


def test_what_cannot_run_leaves_the_others_to_themselves() -> None:
    right = Body([_sums(7, 1)])
    wrong = Body([replace(_sums(7, 1), kernels=["tc_add_of_nothing"])])
    run_together([right, wrong])
    assert right.outputs == wrong.outputs == {}
    run_together([right])
    right.cases[0].compare(right.outputs[0])


@pytest.mark.parametrize("at", [0, 8])
def test_a_gap_is_neither_read_nor_written(at: int) -> None:
    """The input lies at 0, the output at 32."""
    graph = one_node("clip", Clip(RELU6), [tensor("x", (1, 16), 0.05, 0)], 0.05, 0)
    plan = OneStepPlan(graph, 0)
    program = lower(graph, plan.plan(select(graph, HOST_ISA, Numerics.TFLM)), Numerics.TFLM, "unit")
    x = random_s8(1, (1, 16))
    for output in (0, plan.offset("y")):
        with pytest.raises(AssertionError, match="use-after-poison"):
            run_program(graph, program, [{"x": x}], gaps=[(output + at, output + at + 8)])
    run_program(graph, program, [{"x": x}], gaps=plan.gaps)
