# SPDX-License-Identifier: Apache-2.0
"""Makes layers by every row form of their kernels, on the host with sanitizers (firmware: tests/target)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.ops.harness import HOST_ISA
from tests.ops.row_program import Case, RowProgram
from tests.ops.sanitized import COMPILER, sanitized
from tinyc.base.numerics import Numerics
from tinyc.choose.select import ask, candidates
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.kernel import Kernel, Offer, Once
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.plan.row_forms import phases, row_forms
from tinyc.reference.interpreter import run_int

Layer = tuple[Graph, Sequence[Mapping[str, Array]]]


def is_scalar(kernel: Kernel) -> bool:
    """Whether the kernel is for cores without DSP instructions."""
    return any(word in kernel.name for word in ("scalar", "rv32"))


def cases(
    graph: Graph,
    numerics: Numerics = Numerics.TFLM,
    isa: frozenset[str] = HOST_ISA,
    all_forms: bool = False,
    scalar: bool | None = None,
) -> list[Case]:
    """Every row form of every kernel that serves the graph's one node, in place too where it says that it may.

    all_forms: also the calls for whole layers that make one row at a time, or a row as an image of one row. scalar:
    only of kernels for cores without DSP instructions, or only of others.
    """
    (node,) = graph.nodes
    site, op = Site(graph, node, numerics, isa=isa), all_ops()[node.op]
    if all_forms:
        offered = [(c.kernel, form) for c in candidates(graph, isa, numerics)[node.name] for form in row_forms(c)]
    else:
        params = Once(lambda: op.prepared(site))
        offers = [(kernel, ask(kernel, site, isa, params)) for kernel in op.every_kernel]
        offered = [(k, form) for k, offer in offers if isinstance(offer, Offer) for form in offer.row_forms()]
    offered = [(kernel, form) for kernel, form in offered if scalar in (None, is_scalar(kernel))]
    by_form: dict[tuple[str, int | None, int], Case] = {}  # kernels share forms
    for kernel, form in [(kernel, moved) for kernel, one in offered for moved in phases(one)]:
        ways = (None, *form.inplace)
        for way in ways[-1:] if form.call.rows is not None and form.call.rows.phase else ways:
            case = Case(graph, kernel, form, way)
            by_form.setdefault((case.function, way, case.rows.phase), case)
    return list(by_form.values())


@dataclass(frozen=True)
class Layers:
    """Named one-node graphs and their samples (as many each), made by all of their row forms in one program."""

    program: RowProgram
    names: list[str]  # of the graph of each case
    inputs: list[list[bytes]]  # [sample][case]
    expected: list[list[Array]]

    @classmethod
    def of(
        cls,
        layers: Mapping[str, Layer],
        numerics: Numerics,
        isa: frozenset[str],
        all_forms: bool = False,
        most_bytes: int = 1 << 30,
        scalar: bool | None = None,
    ) -> list[Layers]:
        """The layers in as many programs as arenas of `most_bytes` (or of a layer) ask for."""
        parts: list[tuple[list[str], list[Case]]] = [([], [])]
        for name, (graph, _) in layers.items():
            own = cases(graph, numerics, isa, all_forms, scalar)
            assert own, f"no kernel of {name} has row forms"
            if parts[-1][0] and RowProgram(parts[-1][1] + own).arena_bytes > most_bytes:
                parts.append(([], []))
            parts[-1][0].extend([name] * len(own))
            parts[-1][1].extend(own)
        return [cls.of_cases(layers, names, own_cases, numerics) for names, own_cases in parts]

    @classmethod
    def of_cases(cls, layers: Mapping[str, Layer], names: list[str], own: list[Case], numerics: Numerics) -> Layers:
        """These cases, each of the layer that is named."""
        program = RowProgram(own)
        inputs, expected = [], []
        for number in range(len(next(iter(layers.values()))[1])):
            arrays = {name: (layers[name][0], layers[name][1][number]) for name in dict.fromkeys(names)}
            outputs = {name: run_int(graph, x, numerics)[graph.outputs[0]] for name, (graph, x) in arrays.items()}
            expected.append([outputs[name] for name in names])
            inputs.append([port for i, name in enumerate(names) for port in program.ports(i, arrays[name][1])])
        return cls(program, names, inputs, expected)

    def compare(self, number: int, outputs: Sequence[bytes]) -> None:
        """Assert that the sample's outputs, one per case, are the reference's bytes."""
        for name, case, got, want in zip(self.names, self.program.cases, outputs, self.expected[number], strict=True):
            array = np.frombuffer(got, want.dtype).reshape(want.shape)
            np.testing.assert_array_equal(array, want, err_msg=f"{name}: {case.name}")


def check_rows(
    layers: Mapping[str, Layer],
    numerics: Numerics = Numerics.TFLM,
    compiler: str = COMPILER,
    all_forms: bool = False,
    scalar: bool | None = None,
) -> list[Case]:
    """Assert that every row form of the layers' nodes gives the reference's bytes on the host; the cases."""
    (work,) = Layers.of(layers, numerics, HOST_ISA, all_forms, scalar=scalar)
    with tempfile.TemporaryDirectory() as folder:
        for file, text in work.program.files().items():
            Path(folder, file).write_text(text)
        Path(folder, "main.c").write_text(_MAIN)
        blob = b"".join(port for sample in work.inputs for port in sample)
        said = sanitized(Path(folder), ["main.c", "unit.c"], blob, compiler)
    at = 0
    for number, arrays in enumerate(work.expected):
        outputs = []
        for array in arrays:
            outputs.append(said[at : at + array.nbytes])
            at += array.nbytes
        work.compare(number, outputs)
    assert at == len(said)
    return work.program.cases


_MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "unit.h"
int main(void)
{
    void *arena = malloc(UNIT_ARENA_BYTES);
    for (;;) {
        for (int i = 0; i < UNIT_INPUT_COUNT; i++) {
            const size_t size = (size_t)unit_input_bytes[i];
            if (fread(unit_input(arena, i), 1, size, stdin) != size) {
                free(arena);
                return i != 0;
            }
        }
        if (unit_run(arena) != 0) return 1;
        for (int i = 0; i < UNIT_OUTPUT_COUNT; i++) {
            fwrite(unit_output(arena, i), 1, (size_t)unit_output_bytes[i], stdout);
        }
    }
}
"""
