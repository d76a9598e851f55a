# SPDX-License-Identifier: Apache-2.0
"""Libraries of models with hostile names, file names and boards: to a compiler they are those of a harmless model."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden.test_emit import small_graph
from tests.hostile_names import HOSTILE, INJECTED
from tests.ops.harness import HOST_ISA
from tests.ops.one_node import tensor
from tests.unit.stream_cases import NUMERICS, integer_graph, smallest_plan
from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.graph import Graph, Node, State
from tinyc.ops.add import Add
from tinyc.ops.extremum import Extremum
from tinyc.plan.families import families_of
from tinyc.plan.front import Front
from tinyc.plan.persistent import place_states
from tinyc.plan.worth import Worth
from tinyc.toolchain.compilers import find_toolchain

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\.?\d[\w.]*(?:(?<=[eEpP])[+-]\w*)?|\S')
_DIGEST = re.compile(r"(_tinyc_digest, )0x[0-9a-f]{8}")  # of the library's text, comments and all
TOGETHER = 10  # names in one library
FLAGS = ("-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def renamed(graph: Graph, name_of: Callable[[str], str]) -> Graph:
    """The graph with other names for all that the user's file names: values, nodes, operators, the file itself."""

    def at(loc: Loc) -> Loc:
        return Loc(name_of(loc.file), loc.node, name_of(loc.name), name_of(loc.op))

    names = {name: name_of(name) for name in graph.values}
    nodes = tuple(
        replace(
            node,
            name=name_of(node.name),
            inputs=tuple(names.get(name, name) for name in node.inputs),
            outputs=tuple(names[name] for name in node.outputs),
            origin=tuple(map(at, node.origin)),
        )
        for node in graph.nodes
    )
    values = {names[name]: replace(value, name=names[name]) for name, value in graph.values.items()}
    return replace(
        graph,
        name=name_of(graph.name),
        inputs=tuple(names[name] for name in graph.inputs),
        outputs=tuple(names[name] for name in graph.outputs),
        nodes=nodes,
        values=values,
        consts={names[name]: array for name, array in graph.consts.items()},
        states=tuple(replace(state, name=names[state.name], after=names[state.after]) for state in graph.states),
    )


def spread(graph: Graph, names: Sequence[str]) -> Graph:
    """Every name of the file is one of the names; the later ones, where there are more, have numbers."""
    numbers: dict[str, int] = {}

    def name_of(old: str) -> str:
        number = numbers.setdefault(old, len(numbers))
        return f"{names[number % len(names)]}{number if number >= len(names) else ''}" or "empty"

    return renamed(graph, name_of)


def greatest() -> Graph:
    """The greatest input so far, which begins with bytes that are not all alike."""
    values = {name: tensor(name, (1, 2, 3), 0.1, 7) for name in ("x", "most", "top", "y")}
    where = (Loc("file", 0, "layer", "op"),)
    nodes = (
        Node("layer", "extremum", ("x", "most"), ("top",), Extremum(largest=True), where),
        Node("sum", "add", ("top", "x"), ("y",), Add(), where),
    )
    return Graph("greatest", ("x",), ("y",), nodes, values, {}, (State("most", "top", bytes(range(6))),))


def lowered(graph: Graph, prefix: str) -> Program:
    kernels = candidates(graph, frozenset(), Numerics.TFLM)
    best = Front(families_of(graph, kernels)).best(Worth(1 / 3, 1 / 3))
    assert best is not None
    plan = place_states(graph, best.plan)
    return lower(graph, plan, Numerics.TFLM, prefix)


def lowered_by_rows(graph: Graph, prefix: str) -> Program:
    plan = smallest_plan(graph, HOST_ISA, by_rows=True)
    assert plan is not None
    return lower(graph, plan, NUMERICS, prefix)


def libraries(names: Sequence[str]) -> list[Mapping[str, str]]:
    """Libraries with the names in all places, one whose state has names, and one that runs row by row, with functions
    of its own."""
    chunks = [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]
    programs = [lowered(spread(small_graph(), chunk), f"m{i}") for i, chunk in enumerate(chunks)]
    programs.append(lowered(spread(greatest(), names[:TOGETHER]), "remembers"))
    programs.append(lowered_by_rows(spread(integer_graph(3), names), "rows"))
    return [emit_library(program, _info(names[0])) for program in programs]


def banners(names: Sequence[str]) -> list[Mapping[str, str]]:
    """A library for each name, which is that of its model's file and of its board."""
    program = lowered(small_graph(), "m")
    return [emit_library(replace(program, name=f"b{i}"), _info(name)) for i, name in enumerate(names)]


def _info(name: str) -> Info:
    return Info(name, "ab" * 32, name, "0.0.0")


@pytest.fixture(scope="module")
def compiler() -> tuple[str, ...]:
    try:
        return find_toolchain(load_board("host")).command
    except TinycError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders with all libraries, for hostile and for harmless names."""
    folders = {}
    for kind, names in (("hostile", HOSTILE), ("harmless", tuple(f"n{i}_" for i in range(len(HOSTILE))))):
        folders[kind] = tmp_path_factory.mktemp(kind)
        for source, files_by_library in (("libraries.c", libraries(names)), ("banners.c", banners(names))):
            for file, text in [item for files in files_by_library for item in files.items()]:
                (folders[kind] / file).write_text(text, encoding="utf-8")
            sources = [file for files in files_by_library for file in files if file.endswith(".c")]
            (folders[kind] / source).write_text("".join(f'#include "{file}"\n' for file in sources))
    return folders


def tokens(compiler: tuple[str, ...], source: Path) -> list[str]:
    command = [*compiler, *FLAGS, "-E", "-P", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    return _TOKEN.findall(_DIGEST.sub(r"\1", done.stdout))


@pytest.mark.parametrize("source", ["libraries.c", "banners.c"])
def test_the_compiler_sees_the_harmless_library(
    compiler: tuple[str, ...], written: Mapping[str, Path], source: str
) -> None:
    """Token by token: no C name is made of a name of the model's."""
    hostile, harmless = (tokens(compiler, written[kind] / source) for kind in ("hostile", "harmless"))
    assert len(harmless) > 10_000
    assert hostile == harmless
    assert INJECTED not in hostile


def test_it_compiles_without_a_warning(compiler: tuple[str, ...], written: Mapping[str, Path]) -> None:
    command = [*compiler, *FLAGS, "-fsyntax-only", written["hostile"] / "libraries.c"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_the_text_is_plain(written: Mapping[str, Path]) -> None:
    """ASCII, no control characters, no line that is longer than a compiler must take."""
    for file in written["hostile"].iterdir():
        text = file.read_text(encoding="utf-8")
        assert text.isascii()
        assert text.replace("\n", "").isprintable()
        assert max(map(len, text.split("\n"))) < 4095
