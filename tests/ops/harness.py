# SPDX-License-Identifier: Apache-2.0
"""Runs every kernel that may serve a one-node graph on the host, sanitizers on, against the reference."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice, ask, select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node
from tinyc.kernel.kernel import Offer
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.plan.answer import Plan, PlanStep
from tinyc.reference.interpreter import run_int
from tinyc.run.host import fixed_addresses

HOST_ISA = frozenset({"dsp", "fpu", "mve", "rv32m"})  # their kernels have plain C twins, which run anywhere
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@dataclass(frozen=True)
class OneStepPlan:
    """Every tensor at an address of its own, scratch last: what a test of one kernel needs."""

    graph: Graph
    scratch_bytes: int

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        return tuple(PlanStep(node.name) for node in self.graph.nodes)

    @cached_property
    def _offsets(self) -> Mapping[str, int]:
        """Of every tensor, and under "" of what lies behind them."""
        found, at = {}, 0
        for name, value in self.graph.values.items():
            if name not in self.graph.consts:
                found[name] = at
                at += -(-value.size_bytes // 16) * 16
        return found | {"": at}

    def offset(self, name: str) -> int:
        return self._offsets[name]

    def scratch_offset(self, node: str) -> int:
        return self._offsets[""]

    @property
    def arena_align(self) -> int:
        return 16

    @property
    def arena_bytes(self) -> int:
        return self.scratch_offset("") + self.scratch_bytes

    @property
    def slow_bytes(self) -> int:
        return 0

    @property
    def lower_bound_bytes(self) -> int:
        return self.arena_bytes


def usable_kernels(graph: Graph, node: Node, numerics: Numerics) -> list[str]:
    """Names of the kernels that serve the node on a host that plays a DSP core."""
    site = Site(graph, node, numerics)
    return [k.name for k in all_ops()[node.op].kernels if isinstance(ask(k, site, HOST_ISA), Offer)]


def check_kernels(
    graph: Graph,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics = Numerics.TFLM,
    compiler: str = "gcc",
) -> list[str]:
    """Assert that every usable kernel of the graph's one node gives the reference's bytes; their names."""
    (node,) = graph.nodes
    names = usable_kernels(graph, node, numerics)
    assert names, f"no kernel serves {node}"
    expected = [run_int(graph, sample, numerics) for sample in inputs]
    for name in names:
        outputs = run_kernel(graph, node, name, inputs, numerics, compiler)
        for got, want in zip(outputs, expected, strict=True):
            for output, array in zip(graph.outputs, got, strict=True):
                np.testing.assert_array_equal(array, want[output], err_msg=f"{name}: output {output}")
    return names


def run_kernel(
    graph: Graph,
    node: Node,
    kernel: str,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics,
    compiler: str = "gcc",
) -> list[list[Array]]:
    """Outputs of each sample from the generated library with the given kernel."""
    choices = select(graph, HOST_ISA, numerics, prefer={node.name: kernel})
    plan = OneStepPlan(graph, choices[node.name].scratch_bytes)
    return run_plan(graph, choices, plan, inputs, numerics, compiler)


def run_plan(
    graph: Graph,
    choices: Mapping[str, Choice],
    plan: Plan | OneStepPlan,
    inputs: Sequence[Mapping[str, Array]],
    numerics: Numerics,
    compiler: str = "gcc",
) -> list[list[Array]]:
    """Outputs of each sample from the generated library with the given kernels and places."""
    return run_program(graph, lower(graph, choices, plan, numerics, "unit"), inputs, compiler)


def run_program(
    graph: Graph, program: Program, inputs: Sequence[Mapping[str, Array]], compiler: str = "gcc"
) -> list[list[Array]]:
    """Outputs of each sample from the generated library, called `unit`, sanitizers on. compiler: flags may follow."""
    files = emit_library(program, Info("unit", "0" * 64, "host"))
    blob = b"".join(np.ascontiguousarray(s[name]).tobytes() for s in inputs for name in graph.inputs)
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            Path(folder, file).write_text(text)
        Path(folder, "main.c").write_text(_main(graph))
        program_name, *flags = compiler.split()
        usual = ["-std=c99", "-O0", "-g", *WARNINGS, *SANITIZE, "-pipe"]
        build = [program_name, *usual, *flags, "main.c", "-o", "unit"]
        done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        ran = subprocess.run([*fixed_addresses(), f"{folder}/unit"], input=blob, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
    return _split(graph, ran.stdout, len(inputs))


def _split(graph: Graph, blob: bytes, count: int) -> list[list[Array]]:
    values = [graph.values[name] for name in graph.outputs]
    found, at = [], 0
    for _ in range(count):
        sample = []
        for value in values:
            part = np.frombuffer(blob, NUMPY_DTYPE[value.dtype], value.elements, at)
            sample.append(part.reshape(value.shape))
            at += value.size_bytes
        found.append(sample)
    assert at == len(blob)
    return found


def _main(graph: Graph) -> str:
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
    return f"""
#include "unit.c"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{{
    void *arena = malloc(UNIT_ARENA_BYTES);
    memset(arena, 0xA5, UNIT_ARENA_BYTES);
    while ({reads}) {{
        if (unit_run(arena) != UNIT_OK) return 1;
{writes}
    }}
    free(arena);
    return 0;
}}
"""
