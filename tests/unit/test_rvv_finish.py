# SPDX-License-Identifier: Apache-2.0
"""How sums become int8 with RISC-V's vectors: the instructions, as their specification says what they do, give the
layer's outputs for accumulators around every threshold, at the ends, and where both roundings of TensorFlow Lite have
a tie."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.weighted import Layer, graph_of
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, RELU6, Act, Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.rvv.finish import ADDED, DEFINED, PLAIN, VectorFinish, vector_finish
from tinyc.ops import all_ops
from tinyc.ops.conv2d import Conv2D


def rounded(value, bits):
    """roundoff_signed with vxrm = rnu: a bit below the last is added ("RISC-V V Vector Extension" 1.0, 3.8)."""
    return (value + (np.int64(1) << np.maximum(bits - 1, 0)) * (bits > 0)) >> bits


def saturated(value, bits):
    return np.clip(value, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def s32(value):
    return (value + 2**31) % 2**32 - 2**31


def executed(finish: VectorFinish, sums):
    """What tc_rvv.h does to sums [O, n] of products, instruction by instruction."""
    rows = finish.constants[:, :, None]
    t = s32(sums * finish.power + s32(rows[0]))  # vmadd
    mult, shift = s32(rows[1]), np.int64(finish.shift)
    if finish.way == DEFINED:
        t = saturated(rounded(t * mult, np.int64(31)), 32)  # vsmul
        t = s32(t + (t >> 31))  # vsra, vadd
        t = rounded(t, rows[2] & 31)  # vssra
    else:
        t = t * mult >> 32  # vmulh
        if finish.way == ADDED:
            t = rounded(s32(t + s32(rows[2])), rows[3] & 31)  # vadd, vssra
    t = saturated(rounded(t, shift & 31), 16)  # vnclip
    t = saturated(t + finish.y_zero, 16)  # vsadd
    return np.clip(saturated(t, 8), *finish.clamp)  # vnclip, vmax, vmin


def params(numerics: Numerics, act: Act, **more) -> ConvParams:
    layer = Layer("conv2d", Conv2D(act=act), (1, 2, 2, 40), (24, 1, 1, 40), **more)
    graph = graph_of(layer)
    prepared = all_ops()["conv2d"].prepare(Site(graph, graph.nodes[0], numerics))
    assert isinstance(prepared, ConvParams)
    return prepared


def check(p: ConvParams) -> str:
    """The layer's way to int8, after a look at its accumulators; empty where there is none."""
    matrix = Matrix.of(p, p.w.reshape(len(p.w), -1))
    finish = vector_finish(matrix)
    if finish is None:
        return ""
    steps, out_c = matrix.steps, len(p.w)
    ends = np.stack([steps.low, steps.low + 1, steps.high - 1, steps.high], axis=1)
    rng = np.random.default_rng(1)
    drawn = (
        steps.low[:, None] + rng.integers(0, 1 << 40, (len(steps.low), 4000)) % (steps.high - steps.low + 1)[:, None]
    )
    near = [np.clip(steps.reach + d, steps.low[:, None], steps.high[:, None]) for d in range(-3, 4)]
    acc = np.concatenate([ends, drawn, *near], axis=1)[:out_c]
    expected = p.finish(acc.T).T
    sums = (acc - p.bias.astype(np.int64)[:, None]) * finish.live[:out_c, None]
    cut = replace(finish, constants=finish.constants[:, :out_c])
    np.testing.assert_array_equal(executed(cut, sums), expected)
    return finish.way


@pytest.mark.parametrize("act", [Act(), RELU, RELU6], ids=str)
@pytest.mark.parametrize("numerics", Numerics)
def test_instructions_give_the_layers_outputs(numerics: Numerics, act: Act) -> None:
    sequences = set()
    for y_zero, gain, weights in (
        (-128, 1.0, "random"),
        (-5, 0.05, "random"),
        (0, 7.0, "largest"),
        (127, 0.3, "signs"),
    ):
        sequences.add(check(params(numerics, act, y_zero=y_zero, gain=gain, weights=weights)))
    assert PLAIN in sequences


def test_all_ways_are_taken() -> None:
    ways = {
        check(params(n, Act(), weights=w, gain=g)) for n in Numerics for w in ("random", "signs") for g in (0.3, 1.0)
    }
    assert {PLAIN, DEFINED, ADDED} <= ways


@pytest.mark.parametrize("right", [1, 2, 5, 7])
def test_definition_at_ties(right: int) -> None:
    """Multipliers of a power of two, so that halves come out exactly, of both signs."""
    p = params(Numerics.TFLM, Act())
    out_c = len(p.bias)
    exact = replace(p, mult=np.full(out_c, 1 << 30, np.int32), shift=np.full(out_c, -right, np.int32), bias=p.bias * 0)
    matrix = Matrix.of(exact, exact.w.reshape(out_c, -1))
    finish = vector_finish(matrix)
    assert finish is not None
    assert finish.way == DEFINED
    halves = (np.arange(-300, 300) * 2 + 1) << right  # / 2^(1 + right) is n + 1/2
    acc = np.sort(np.concatenate([halves + d for d in (-1, 0, 1)]))[None].repeat(out_c, axis=0)
    np.testing.assert_array_equal(executed(finish, acc), exact.finish(acc.T).T)


def test_factors_of_a_half_and_more_are_refused_unless_proved() -> None:
    """The definition takes no 1 from negatives where it does not shift."""
    p = params(Numerics.TFLM, Act())
    out_c = len(p.bias)
    large = replace(p, shift=np.zeros(out_c, np.int32), mult=np.full(out_c, (1 << 30) + 12345, np.int32))
    assert check(large) in ("", PLAIN, ADDED)
