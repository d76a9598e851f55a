# SPDX-License-Identifier: Apache-2.0
"""Runs every kernel that may serve a one-node graph on the host, sanitizers on, against the reference."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from tests.ops.sanitized import COMPILER, sanitized
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice, ask, select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node
from tinyc.kernel.kernel import Offer
from tinyc.kernel.site import Site
from tinyc.loops.written import WORD_CORES
from tinyc.ops import all_ops
from tinyc.plan.answer import Group, Plan
from tinyc.plan.builder import whole_problem
from tinyc.plan.problem import WHOLE
from tinyc.reference.interpreter import run_int

HOST_ISA = frozenset({"thumb2", "dsp", "fpu", "mve", "rv32m", "rv32v"})  # their kernels have twins in C


@dataclass(frozen=True)
class OneStepPlan:
    """Every tensor at an address of its own, a gap behind each, scratch last: what a test of kernels needs.

    scratch_bytes: of all nodes, which share it, or of each by its name, all at addresses of their own.
    """

    graph: Graph
    scratch_bytes: int | Mapping[str, int]

    @cached_property
    def _places(self) -> Mapping[str, tuple[int, int]]:
        """(offset, bytes) of every tensor and, behind them, of scratch: of `node`, or of ""."""
        scratch = self.scratch_bytes if isinstance(self.scratch_bytes, Mapping) else {"": self.scratch_bytes}
        sizes = {name: v.size_bytes for name, v in self.graph.values.items() if name not in self.graph.consts}
        places, at = {}, 0
        for name, size in (sizes | {f" {node}": size for node, size in scratch.items()}).items():
            places[name] = at, size
            at += -(-size // 16) * 16 + 16
        return places

    def offset(self, name: str) -> int:
        return self._places[name][0]

    def scratch_offset(self, node: str) -> int:
        return self._places[f" {node}" if isinstance(self.scratch_bytes, Mapping) else " "][0]

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """(offset, bytes) of what no kernel may write, but for what lies behind the arena."""
        ends = [at + size for at, size in self._places.values()]
        return [(end, at - end) for end, (at, _) in zip(ends, [*self._places.values()][1:], strict=False)]

    def plan(self, choices: Mapping[str, Choice]) -> Plan:
        """The nodes one after another, with these kernels."""
        problem, end = whole_problem(self.graph, choices), sum([*self._places.values()][-1])
        return Plan(
            problem=problem,
            groups=tuple(Group(i, i + 1, ((i, WHOLE),)) for i in range(len(problem.layers))),
            forms=tuple(layer.whole for layer in problem.layers),
            row_offsets={},
            scratch_offsets={name: (self.scratch_offset(name),) for name, one in choices.items() if one.scratch_bytes},
            accumulator_offsets={},
            allocations=(),
            arena_bytes=end,
            lower_bound_bytes=end,
            arena_align=16,
            lasting={name: at for name, (at, _) in self._places.items()},
        )


def copying(kernel: str) -> list[str]:
    """Names of a kernel that copies runs, those with loops of their own first."""
    return [*(f"{kernel}_{ending}" for ending in WORD_CORES), kernel]


def usable_kernels(graph: Graph, node: Node, numerics: Numerics) -> list[str]:
    """Names of the kernels that serve the node on a host that plays a DSP core."""
    site = Site(graph, node, numerics)
    return [k.name for k in all_ops()[node.op].every_kernel if isinstance(ask(k, site, HOST_ISA), Offer)]


@dataclass(frozen=True)
class Case:
    """A one-node graph, the kernels that it is for, and samples."""

    graph: Graph
    kernels: Sequence[str]
    inputs: Sequence[Mapping[str, Array]]
    numerics: Numerics
    compiler: str

    def compare(self, outputs: Sequence[Sequence[Array]]) -> None:
        """Assert that these outputs, [sample][of a kernel, of the next], are the reference's bytes."""
        names = [(kernel, output) for kernel in self.kernels for output in self.graph.outputs]
        for sample, of_sample in zip(self.inputs, outputs, strict=True):
            want = run_int(self.graph, sample, self.numerics)
            for (kernel, output), array in zip(names, of_sample, strict=True):
                np.testing.assert_array_equal(array, want[output], err_msg=f"{kernel}: output {output}")


def check_kernels(
    graph: Graph,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics = Numerics.TFLM,
    compiler: str = COMPILER,
) -> list[str]:
    """Assert that every usable kernel of the graph's one node gives the reference's bytes; their names.

    In a test whose file runs its kernels together (conftest.py) the bytes are compared behind the test's body.
    """
    (node,) = graph.nodes
    names = usable_kernels(graph, node, numerics)
    assert names, f"no kernel serves {node}"
    case = Case(graph, names, inputs, numerics, compiler)
    if open_cases:
        open_cases[-1].append(case)
    else:
        case.compare(*run_cases([case]))
    return names


open_cases: list[list[Case]] = []  # what check_kernels adds to, in place of running each


def run_kernel(
    graph: Graph,
    node: Node,
    kernel: str,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics,
    compiler: str = COMPILER,
) -> list[list[Array]]:
    """Outputs of each sample from the generated library with the given kernel."""
    assert graph.nodes == (node,)
    (outputs,) = run_cases([Case(graph, [kernel], inputs, numerics, compiler)])
    return outputs


def run_cases(cases: Sequence[Case]) -> list[list[list[Array]]]:
    """Outputs of cases of the same numerics and compiler: [case][sample][of a kernel, of the next]. One library runs
    all kernels one after another; a case with fewer samples than another sees its last one again."""
    (numerics, compiler), *others = {(case.numerics, case.compiler) for case in cases}
    assert not others
    parts = [_renamed(side_by_side(case.graph, len(case.kernels)), f"{i} ") for i, case in enumerate(cases)]
    graph = _union(parts)
    kernels = [kernel for case in cases for kernel in case.kernels]
    prefer = {node.name: kernel for node, kernel in zip(graph.nodes, kernels, strict=True)}
    choices = select(graph, HOST_ISA, numerics, prefer=prefer)
    plan = OneStepPlan(graph, {name: choices[name].scratch_bytes for name in prefer})
    samples = [
        {
            f"{i} {name}": array
            for i, case in enumerate(cases)
            for name, array in case.inputs[min(number, len(case.inputs) - 1)].items()
        }
        for number in range(max(len(case.inputs) for case in cases))
    ]
    outputs = run_plan(graph, choices, plan, samples, numerics, compiler)
    ends = list(accumulate(len(part.outputs) for part in parts))
    return [
        [outputs[number][end - len(part.outputs) : end] for number in range(len(case.inputs))]
        for case, part, end in zip(cases, parts, ends, strict=True)
    ]


def side_by_side(graph: Graph, count: int) -> Graph:
    """The graph with its one node so many times: each has states and outputs of its own, all read the same inputs."""
    (node,) = graph.nodes
    own = [*node.outputs, *(state.name for state in graph.states)]
    copies = [{name: f"{name} {number}" for name in own} for number in range(count)]
    nodes = [
        replace(
            node,
            name=f"{node.name} {number}",
            inputs=tuple(new.get(name, name) for name in node.inputs),
            outputs=tuple(new[name] for name in node.outputs),
        )
        for number, new in enumerate(copies)
    ]
    values = {name: value for name, value in graph.values.items() if name not in own}
    values |= {new[name]: replace(graph.values[name], name=new[name]) for new in copies for name in own}
    return replace(
        graph,
        outputs=tuple(new[name] for new in copies for name in graph.outputs),
        nodes=tuple(nodes),
        values=values,
        states=tuple(
            replace(state, name=new[state.name], after=new.get(state.after, state.after))
            for new in copies
            for state in graph.states
        ),
    )


def _renamed(graph: Graph, prefix: str) -> Graph:
    """The graph with this before every name."""

    def new(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name and prefix + name for name in names)

    return replace(
        graph,
        inputs=new(graph.inputs),
        outputs=new(graph.outputs),
        nodes=tuple(
            replace(node, name=prefix + node.name, inputs=new(node.inputs), outputs=new(node.outputs))
            for node in graph.nodes
        ),
        values={prefix + name: replace(value, name=prefix + name) for name, value in graph.values.items()},
        consts={prefix + name: array for name, array in graph.consts.items()},
        states=tuple(replace(one, name=prefix + one.name, after=prefix + one.after) for one in graph.states),
        labels={prefix + name: labels for name, labels in graph.labels.items()},
    )


def _union(graphs: Sequence[Graph]) -> Graph:
    """Graphs without common names as one."""
    return Graph(
        name=graphs[0].name,
        inputs=tuple(name for graph in graphs for name in graph.inputs),
        outputs=tuple(name for graph in graphs for name in graph.outputs),
        nodes=tuple(node for graph in graphs for node in graph.nodes),
        values={name: value for graph in graphs for name, value in graph.values.items()},
        consts={name: array for graph in graphs for name, array in graph.consts.items()},
        states=tuple(state for graph in graphs for state in graph.states),
    )


def run_plan(
    graph: Graph,
    choices: Mapping[str, Choice],
    plan: Plan | OneStepPlan,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics,
    compiler: str = COMPILER,
) -> list[list[Array]]:
    """Outputs of each sample from the generated library with the given kernels and places."""
    gaps, placed = (plan.gaps, plan.plan(choices)) if isinstance(plan, OneStepPlan) else ((), plan)
    return run_program(graph, lower(graph, placed, numerics, "unit"), inputs, compiler, gaps)


def run_program(
    graph: Graph,
    program: Program,
    inputs: Sequence[Mapping[str, Array]],
    compiler: str = COMPILER,
    gaps: Sequence[tuple[int, int]] = (),
) -> list[list[Array]]:
    """Outputs of each sample from the generated library, called `unit`, sanitizers on. compiler: flags may follow.

    gaps: (offset, bytes) of what must be as it was when the library has run.
    """
    files = emit_library(program, Info("unit", "0" * 64, "host"))
    blob = b"".join(np.ascontiguousarray(s[name]).tobytes() for s in inputs for name in graph.inputs)
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            Path(folder, file).write_text(text)
        Path(folder, "main.c").write_text(_main(graph, gaps))
        return _split(graph, sanitized(Path(folder), ["main.c"], blob, compiler), len(inputs))


def _split(graph: Graph, blob: bytes, count: int) -> list[list[Array]]:
    values = [graph.values[name] for name in graph.outputs]
    outputs: list[list[Array]] = []
    at = 0
    for _ in range(count):
        sample = []
        for value in values:
            part: Array = np.frombuffer(blob, NUMPY_DTYPE[value.dtype], value.elements, at)
            sample.append(part.reshape(value.shape))
            at += value.size_bytes
        outputs.append(sample)
    assert at == len(blob)
    return outputs


def _main(graph: Graph, gaps: Sequence[tuple[int, int]]) -> str:
    """Reads samples from stdin until it ends. The arena is malloc'ed at its exact size, so ASan sees overruns.

    The library comes first, as it must stand alone, and in the same file, which saves half of the compiling.
    """
    reads = " && ".join(
        f"fread(unit_input_{i}(arena), 1, UNIT_INPUT_{i}_BYTES, stdin) == UNIT_INPUT_{i}_BYTES"
        for i in range(len(graph.inputs))
    )
    writes = "\n".join(
        f"        fwrite(unit_output_{i}(arena), 1, UNIT_OUTPUT_{i}_BYTES, stdout);" for i in range(len(graph.outputs))
    )
    ends = ", ".join(f"{{{at}, {at + size}}}" for at, size in (*gaps, (0, 0)))
    return f"""
#include "unit.c"
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const int gaps[][2] = {{{ends}}};
int main(void)
{{
    unsigned char *arena = malloc(UNIT_ARENA_BYTES);
    memset(arena, 0xA5, UNIT_ARENA_BYTES);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {{
        ASAN_POISON_MEMORY_REGION(arena + gaps[i][0], (size_t)(gaps[i][1] - gaps[i][0]));
    }}
    while ({reads}) {{
        if (unit_run(arena) != UNIT_OK) return 1;
{writes}
    }}
    free(arena);
    return 0;
}}
"""
