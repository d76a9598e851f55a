# SPDX-License-Identifier: Apache-2.0
"""What `tinyc estimate --map` says of every step: by rows or whole, and why."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from tests.unit.networks import Network
from tests.unit.stream_cases import NUMERICS, in_integers, smallest_plan
from tinyc.choose.select import candidates, select
from tinyc.explain.boundaries import Boundary, boundaries
from tinyc.ir.graph import Graph
from tinyc.plan import plan_graph


def gated() -> Graph:
    """Convolutions, a gate, convolutions, a classifier."""
    net = Network(4)
    net.input_shape = net.shape = (1, 3, 12, 9)
    for _ in range(3):
        net.conv(4)
    net.excite()
    net.conv(3)
    net.conv(2)
    net.add("Flatten", net.x)
    net.add("Gemm", net.x, net.constant(4, 2 * 12 * 9), transB=1)
    return in_integers(net.model(), 4)


def said_of(graph: Graph, by_rows: bool = True) -> tuple[Boundary, ...]:
    kernels = candidates(graph, frozenset(), NUMERICS)
    plan = smallest_plan(graph) if by_rows else plan_graph(graph, select(graph, frozenset(), NUMERICS))
    assert plan is not None
    return boundaries(graph, kernels, plan)


@pytest.fixture(scope="module")
def of_rows() -> tuple[Boundary, ...]:
    """Of the gated network, planned by rows."""
    return said_of(gated())


def test_every_step_is_spoken_of_once(of_rows: tuple[Boundary, ...]) -> None:
    graph, said = gated(), of_rows
    steps = [step for one in said for step in range(one.first, one.last + 1)]
    assert steps == list(range(sum(node.op != "reshape" for node in graph.nodes)))
    assert sum(one.fullest for one in said) == 1
    assert any(one.by_rows for one in said)


def test_the_gate_is_named(of_rows: tuple[Boundary, ...]) -> None:
    gates = [one for one in of_rows if "waits for" in one.reason]
    assert len(gates) == 1
    assert gates[0].reason.startswith("mul 'Mul_")
    assert "squeeze and excitation" in gates[0].hint
    assert not gates[0].by_rows


def test_the_classifier_reads_everything(of_rows: tuple[Boundary, ...]) -> None:
    *_, last = of_rows
    assert last.reason.startswith("fully_connected 'Gemm_")
    assert last.lines() == [f"step {last.first} whole: {last.reason}{'; the arena is fullest here' * last.fullest}"]


def test_why_all_of_it_runs_layer_by_layer() -> None:
    first, *_ = said_of(gated(), by_rows=False)
    assert "more time and flash than the bytes that it saves are worth" in first.reason
    assert "--prefer ram" in first.hint


def test_layers_over_time_in_one_row_are_told_of_columns() -> None:
    net = Network(5)
    net.input_shape = net.shape = (1, 4, 1, 16)
    net.add("Conv", net.x, net.constant(4, 4, 1, 3), pads=[0, 1, 0, 1])
    net.add("Conv", net.x, net.constant(4, 4, 1, 3), pads=[0, 1, 0, 1])
    graph = in_integers(net.model(), 5)
    (stopping,) = said_of(graph, by_rows=False)  # and nothing of time: no layer could run by rows
    assert stopping.reason == "its input is one row"
    assert "[1,T,1,C]" in stopping.hint
    assert (stopping.first, stopping.last) == (0, 2)  # both convolutions and the output's transpose at once


def test_neighbours_that_differ_stay_apart(of_rows: tuple[Boundary, ...]) -> None:
    for one, other in itertools.pairwise(of_rows):
        assert other.first == one.last + 1
        assert one.by_rows or replace(one, first=0, last=0) != replace(other, first=0, last=0)
