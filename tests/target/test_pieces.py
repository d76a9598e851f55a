# SPDX-License-Identifier: Apache-2.0
"""Straight code that functions share (`Asm.piece`) is what each of them would write by itself, and costs as much."""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from kernel_cases import cases

from tinyc.base.numerics import Numerics
from tinyc.choose.select import ask
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import Cost, Offer, Once, SpecializedKernel
from tinyc.kernel.site import Site
from tinyc.kernels.depthwise.depthwise import transposed
from tinyc.kernels.depthwise.plane_layer import PlaneLayer
from tinyc.kernels.depthwise.planes import function
from tinyc.kernels.finish import Requantization
from tinyc.machine.cores import CORES
from tinyc.machine.thumb import Asm
from tinyc.ops import all_ops

ISA = frozenset({"dsp", "fpu"})
KERNELS = {
    (op.name, kernel.name): kernel
    for op in all_ops().values()
    for kernel in op.every_kernel
    if kernel.written and "dsp" in kernel.isa and kernel.isa <= ISA
}

Said = Mapping[tuple[str, str, int, int], tuple[Cost, str]]
"""By operator, kernel, case and row form (-1: the whole layer) what it costs and the text of its functions."""


def test_functions_of_pieces_are_what_they_are_without(monkeypatch: pytest.MonkeyPatch) -> None:
    with_pieces = said()
    assert {(op, kernel) for op, kernel, _, _ in with_pieces} == KERNELS.keys()
    monkeypatch.setattr(Asm, "piece", lambda asm, write, *arguments: write(asm, *arguments))
    forget()
    alone = said()
    forget()
    assert alone.keys() == with_pieces.keys()
    for key, (cost, text) in alone.items():
        assert (cost, text) == with_pieces[key], key


@pytest.mark.parametrize("transpose", [False, True])
def test_planes_that_are_far_apart_are_reached(transpose: bool) -> None:
    requant = Requantization(shifts=(11, 11, 11, 11), base=-261121)
    rows = {"in_h": 64, "in_w": 80, "out_h": 64, "out_w": 80, "in_row": 1280, "out_row": 1280, "band": 8}
    window = {"k_h": 3, "k_w": 3, "stride_h": 1, "stride_w": 1, "pad_top": 1, "pad_left": 1}
    steps = {"in_step": 16, "out_step": 16, "channels": 16, "bits": 8}
    layer = PlaneLayer(**rows, **window, **steps, requant=requant, core=CORES["cortex-m4"])
    text = "\n".join(function(replace(transposed(layer), band=8) if transpose else layer).text())
    pairs = [int(offset) for offset in re.findall(r"(?:ldrd|strd).*\[\w+, #(-?\d+)\]", text)]
    singles = [int(offset) for offset in re.findall(r"(?:ldr|strb) .*\[\w+, #(-?\d+)\]", text)]
    assert pairs
    assert max(map(abs, pairs)) <= 1020
    assert -255 <= min(singles) <= max(singles) <= 4095


def test_a_piece_is_straight_code() -> None:
    asm = Asm(CORES["cortex-m4"])
    with pytest.raises(ValueError, match="labels or jumps"):
        asm.piece(_jumps)


def _jumps(asm: Asm) -> None:
    asm.op("bx", "lr")


def forget() -> None:
    """What was written before."""
    modules = [module for name, module in sys.modules.items() if name.startswith("tinyc.")]
    for value in [value for module in modules for value in vars(module).values()]:
        if hasattr(value, "cache_clear"):
            value.cache_clear()


def said() -> Said:
    """Of two cases that each kernel takes, for a Cortex-M4."""
    count = Counter[tuple[str, str]]()
    return {key: value for number, graph in enumerate(corpus()) for key, value in _of_case(number, graph, count)}


@functools.cache
def corpus() -> list[Graph]:
    return cases()


def _of_case(
    number: int, graph: Graph, count: Counter[tuple[str, str]]
) -> Iterator[tuple[tuple[str, str, int, int], tuple[Cost, str]]]:
    (node,) = graph.nodes
    site = Site(graph, node, Numerics.LITERT if number % 2 else Numerics.TFLM, CORES["cortex-m4"], ISA)
    params = Once(lambda: all_ops()[node.op].prepare(site))
    for (op, name), kernel in KERNELS.items():
        if op != node.op or count[op, name] == 2:
            continue
        offer = ask(kernel, site, ISA, params)
        if isinstance(offer, Offer):
            count[op, name] += 1
            for form, value in _of_offer(offer):
                yield (op, name, number, form), value


def _of_offer(offer: Offer) -> Iterator[tuple[int, tuple[Cost, str]]]:
    yield -1, (offer.cost, _text(offer.special))
    for number, form in enumerate(offer.row_forms()):
        yield number, (form.cost, _text(form.special))


def _text(special: Once[SpecializedKernel] | None) -> str:
    if special is None:
        return ""
    return "\n".join((special().text, *(part.text for part in special().parts)))
