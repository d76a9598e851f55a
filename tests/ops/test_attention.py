# SPDX-License-Identifier: Apache-2.0
"""attention: the bytes of the nodes that it stands for, every kernel, and what it is made of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.attention_graphs import OUT, Crossed, Heads, attention_graph, crossed_graph, edges, masked
from tests.ops.harness import check_kernels
from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.kernel.kernel import Offer, Refused
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.attention import OP, Attention, HeadWalk, prepare
from tinyc.ops.softmax import fixed_exps
from tinyc.passes.attention import join_attention
from tinyc.reference.interpreter import run_int

SHAPES = [
    Heads(8, 2, 4),
    Heads(7, 3, 5),
    Heads(5, 1, 16, factor=False),
    Heads(1, 2, 3),
    Heads(9, 2, 7, keys_turned=False),
    Heads(6, 2, 8, scores=(0.01, 3)),
]


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_joining_changes_no_byte(heads, numerics):
    graph = attention_graph(heads)
    joined = join_attention(graph, numerics)
    check(joined, "join", all_ops())
    (node,) = joined.nodes
    assert isinstance(node.attrs, Attention)
    assert node.inputs[0] == node.inputs[1] == node.inputs[2] == "x"
    for sample in edges(heads):
        np.testing.assert_array_equal(run_int(joined, sample, numerics)["y"], run_int(graph, sample, numerics)["y"])


def test_long_rows():
    heads = Heads(512, 1, 4)
    graph = attention_graph(heads)
    joined = join_attention(graph, Numerics.TFLM)
    for sample in edges(heads):
        reference = run_int(graph, sample, Numerics.TFLM)["y"]
        np.testing.assert_array_equal(run_int(joined, sample, Numerics.TFLM)["y"], reference)


@pytest.mark.parametrize(
    ("heads", "numerics"),
    [
        (SHAPES[1], Numerics.OURS),
        (SHAPES[0], Numerics.TFLM),
        (SHAPES[2], Numerics.LITERT),
        (SHAPES[4], Numerics.ONNX),
        (SHAPES[3], Numerics.OURS),
    ],
)
def test_kernels(heads, numerics):
    names = check_kernels(join_attention(attention_graph(heads), numerics), edges(heads), numerics)
    suffix = "f32_s8" if numerics.scales_in_float else "s8"
    assert names == [f"tc_attention_{suffix}{family}" for family in ("_mve", "_dsp", "")]


MASKS = {
    "causal": np.tril(np.ones((7, 7), bool)),
    "causal, hidden first": np.tril(np.ones((1, 1, 7, 7), bool)),
    "padded": np.arange(7).reshape(1, 1, 1, 7) < 5,
    "of heads": np.random.default_rng(4).random((1, 3, 7, 7)) < 0.6,
    "rows of nothing": np.arange(7).reshape(7, 1) % 3 > 0,
}


def _mask(name):
    return masked(attention_graph(SHAPES[1]), MASKS[name], -128, shown_first="hidden first" not in name)


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("mask", MASKS)
def test_masks_change_no_byte(mask, numerics):
    graph = _mask(mask)
    joined = join_attention(graph, numerics)
    check(joined, "join", all_ops())
    (node,) = joined.nodes
    assert isinstance(node.attrs, Attention)
    assert joined.consts[node.inputs[4]].size == {"padded": 7, "of heads": 147}.get(mask, 49)
    for sample in edges(SHAPES[1]):
        np.testing.assert_array_equal(run_int(joined, sample, numerics)["y"], run_int(graph, sample, numerics)["y"])


@pytest.mark.parametrize(
    ("mask", "numerics"),
    [
        ("causal", Numerics.OURS),
        ("padded", Numerics.TFLM),
        ("of heads", Numerics.LITERT),
        ("rows of nothing", Numerics.ONNX),
    ],
)
def test_kernels_with_masks(mask, numerics):
    names = check_kernels(join_attention(_mask(mask), numerics), edges(SHAPES[1]), numerics)
    assert len(names) == 3


def test_a_mask_of_another_shape_stays():
    """Scores that a mask repeats are more than there were."""
    graph = crossed_graph(Crossed(1, 5, 2, 3, 4))
    wider = masked(graph, np.tril(np.ones((4, 5), bool)), -128)
    wide = {name: replace(wider.values[name], shape=(1, 2, 4, 5)) for name in ("seen", "shares")}
    wide["y"] = replace(wider.values["y"], shape=(1, 2, 4, 4))
    joined = join_attention(replace(wider, values={**wider.values, **wide}), Numerics.OURS)
    assert not any(isinstance(node.attrs, Attention) for node in joined.nodes)


CROSSED = [Crossed(3, 9, 2, 5, 7), Crossed(8, 3, 1, 6, 4), Crossed(1, 13, 3, 2, 1)]


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.LITERT])
@pytest.mark.parametrize("sides", CROSSED, ids=str)
def test_crossed(sides, numerics):
    """Queries of one tensor, keys and values of another one with other sizes, with and without hidden keys."""
    rng = np.random.default_rng(2)
    samples = [{n: rng.integers(-128, 128, s).astype(np.int8) for n, s in sides.shapes.items()} for _ in range(2)]
    plain = crossed_graph(sides)
    for graph in (plain, masked(plain, np.arange(sides.keys) < sides.keys - 1, -128)):
        joined = join_attention(graph, numerics)
        (node,) = joined.nodes
        assert isinstance(node.attrs, Attention)
        for sample in samples:
            np.testing.assert_array_equal(run_int(joined, sample, numerics)["y"], run_int(graph, sample, numerics)["y"])
        assert len(check_kernels(joined, samples, numerics)) == 3


@pytest.mark.parametrize("keys", [511, 512, 1100, 2050])
def test_long_rows_of_nearly_equal_scores(keys):
    """No share is half a step where 512 keys have the same one."""
    sides = Crossed(2, keys, 1, 4, 3)
    rng = np.random.default_rng(5)
    values = rng.integers(-128, 128, sides.shapes["v"]).astype(np.int8)
    equal = {name: np.full(sides.shapes[name], 20, np.int8) for name in ("q", "k")}
    one = {"q": equal["q"], "k": np.where(np.arange(keys)[:, None] == 7, 127, equal["k"]).astype(np.int8)}
    joined = join_attention(crossed_graph(sides), Numerics.OURS)
    samples = [{**scores, "v": values} for scores in (equal, one)]
    assert len(check_kernels(joined, samples, Numerics.OURS)) == 3
    assert (run_int(joined, samples[0], Numerics.OURS)["y"] == OUT[1]).all() == (keys > 511)


def _share(scale, e, shift):
    """As softmax and tc_softmax_many_s8.h have it."""
    return (scale * e + (1 << 30) + (1 << (31 + shift))) >> (32 + shift)


def _share_dsp(scale, e, shift):
    """As tc_attention_s8_dsp.h has it."""
    start = ((scale + 1) >> 1) + (1 << shift)
    return (scale * (2 * e - (1 << 31)) + (start << 32) + (1 << 31)) >> (33 + shift)


@pytest.mark.parametrize("scale", [1 << 30, (1 << 30) + 2, 1518500250, (1 << 31) - 2, (1 << 31) - 1])
def test_shares_of_doubled_exponentials(scale):
    """Those of every reciprocal, which are even but the saturated one, and the table that this one does not allow."""
    exps = [0, 1, (1 << 31) - 1, *fixed_exps(1.0, 0.02, 8).tolist(), *(k << 22 for k in range(257))]
    for shift in range(22, 31):
        assert [_share(scale, e, shift) for e in exps] == [_share_dsp(scale, e, shift) for e in exps]
    tie = (1 << 30) + (1 << 22)
    differs = _share(scale, tie, 22) != _share_dsp(scale, tie, 22)
    assert differs == (scale == (1 << 31) - 1)


def test_a_table_with_a_tie_is_refused():
    graph = join_attention(attention_graph(SHAPES[0]), Numerics.OURS)
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    params = prepare(site)
    (kernel,) = (kernel for kernel in OP.every_kernel if kernel.name == "tc_attention_s8_dsp")
    assert isinstance(kernel.offer(site, params), Offer)
    tie = replace(params.softmax, exps=np.array([(1 << 31) - 1, (1 << 30) + (1 << 22)], np.int32))
    assert isinstance(kernel.offer(site, replace(params, softmax=tie)), Refused)


def test_a_score_that_others_read_stays():
    graph = attention_graph(SHAPES[0])
    watched = type(graph)(graph.name, graph.inputs, ("y", "shares"), graph.nodes, graph.values, graph.consts)
    assert not any(isinstance(node.attrs, Attention) for node in join_attention(watched, Numerics.OURS).nodes)


def test_walks():
    at = np.arange(24).reshape(2, 3, 4)
    assert HeadWalk.over(at) == HeadWalk(0, 12, 4, 1)
    assert HeadWalk.over(at.swapaxes(0, 1)[:, :, 1:]) == HeadWalk(1, 4, 12, 1)
    assert HeadWalk.over(at[:, [0, 2, 1]]) is None
