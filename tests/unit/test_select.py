# SPDX-License-Identifier: Apache-2.0
"""Which kernels can run a node, and which is the fastest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden.test_emit import small_graph
from tests.ops.weighted import Layer, graph_of
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates, fastest, select
from tinyc.kernel import kernel
from tinyc.kernel.site import Padding
from tinyc.machine import thumb
from tinyc.ops.conv2d import Conv2D


def test_the_fastest_has_the_fewest_cycles_and_of_equal_ones_the_fewest_bytes() -> None:
    every = candidates(small_graph(), frozenset({"dsp"}), Numerics.TFLM)
    node = next(iter(every))
    (choice, *_) = every[node]
    twice = replace(choice, cost=replace(choice.cost, cycles=2 * choice.cost.cycles, flash_bytes=0))
    large = replace(choice, cost=replace(choice.cost, flash_bytes=choice.cost.flash_bytes + 1))
    assert fastest({node: [large, twice, choice]})[node] is choice
    assert all(own in every[name] for name, own in fastest(every).items())


def test_a_core_without_dsp_gets_portable_kernels() -> None:
    for choice in select(small_graph(), frozenset(), Numerics.TFLM).values():
        assert "dsp" not in choice.kernel.isa


def test_an_operator_without_a_kernel_says_what_each_asks_for() -> None:
    graph = small_graph()
    y = graph.values["conv"]
    wide = replace(graph, values=graph.values | {"conv": replace(y, dtype="s16")})
    with pytest.raises(TinycError, match="tc_conv2d_s8 takes int8") as caught:
        select(wide, frozenset(), Numerics.TFLM)
    assert "layer/0" in str(caught.value.where)


def test_what_kernels_for_other_cores_ask_for_is_told_where_none_is_left_and_only_there() -> None:
    graph = small_graph()
    node = next(node for node in graph.nodes if node.op == "conv2d")
    with pytest.raises(TinycError, match="tc_conv2d_s8_mve takes a core with mve\n"):
        candidates(graph, frozenset({"dsp"}), Numerics.TFLM, {node.name: "tc_conv2d_s8_mve"})
    (refused,) = {choice.refused for choice in candidates(graph, frozenset({"dsp"}), Numerics.TFLM)[node.name]}
    assert "tc_conv2d_s16_dsp" in dict(refused)
    assert not any("a core with" in asks for _, asks in refused)


def test_a_layer_of_other_weights_writes_a_third_of_what_the_first_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs is how sums become int8."""
    written = 0
    op = thumb.Asm.op

    def counted(asm: thumb.Asm, mnemonic: str, *operands: str) -> None:
        nonlocal written
        written += 1
        op(asm, mnemonic, *operands)

    monkeypatch.setattr(thumb.Asm, "op", counted)
    for cache in (kernel._writing, thumb._piece):
        cache.cache_clear()
    counts = []
    for seed in (1, 2):
        layer = Layer("conv2d", Conv2D(pad=Padding(1, 1, 1, 1)), (1, 8, 8, 16), (16, 3, 3, 16), seed=seed)
        before = written
        candidates(graph_of(layer), frozenset({"dsp"}), Numerics.TFLM)
        counts.append(written - before)
    assert 3 * counts[1] < counts[0]
