# SPDX-License-Identifier: Apache-2.0
"""Generated libraries as a reader finds them: the whole story on top, names that say what a thing is, lines that fit,
a schedule that can be followed, examples that compile."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.golden.test_emit import small_graph
from tests.ops.one_node import one_node, tensor
from tests.unit.stream_cases import NUMERICS, integer_graph, smallest_plan, window_plan
from tests.unit.test_hostile_names import greatest, lowered, lowered_by_rows
from tinyc.base.errors import Loc
from tinyc.base.numerics import Numerics
from tinyc.base.runtime_headers import header_names, header_of
from tinyc.emit.columns import COLUMNS, narrow, prose
from tinyc.emit.library import Info, Proof, emit_library, with_proof
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.ir.graph import Graph
from tinyc.kernel.site import RELU
from tinyc.ops.clip import Clip
from tinyc.options.build import Options
from tinyc.options.words import shaping

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("whole", "remembers", "streamed", "by_rows", "window")
LABELS = ("model", "options", "numerics", "input 0", "output 0", "arena", "constants", "work")
MEASURED = ("code", "stack", "time", "proved")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-Wno-unused-variable")


def window_program(name: str) -> Program:
    graph = one_node("clip", Clip(RELU), [tensor("x", (1, 6, 5, 4), 0.1, 3)], 0.1, 3)
    return lower(graph, window_plan(graph, 2), NUMERICS, name)


def streamed_program(name: str) -> Program:
    graph = integer_graph(3)
    plan = smallest_plan(graph)
    assert plan is not None
    return lower(graph, plan, NUMERICS, name)


@cache
def program_of(kind: str) -> Program:
    match kind:
        case "whole":
            return lowered(named_twice(small_graph()), kind)
        case "remembers":
            return lowered(greatest(), kind)
        case "streamed":
            return streamed_program(kind)
        case "by_rows":
            return lowered_by_rows(integer_graph(3), kind)
        case _:
            return window_program(kind)


def named_twice(graph: Graph) -> Graph:
    """As where one layer of the file became two operators and one again."""
    first = graph.nodes[0]
    long = replace(first.origin[0], node=100, name=f"{'a_long_name_of_a_scope/' * 4}last")
    where = (*first.origin, Loc("tiny.tflite", 7, "norm", "BatchNormalization"), long)
    return replace(graph, nodes=(replace(first, origin=(*where, where[-1])), *graph.nodes[1:]))


def files_of(program: Program) -> Mapping[str, str]:
    return emit_library(program, Info(f"{program.name}.tflite", "ab" * 32, "host", "0.0.0", ("--prefer ram",)))


@pytest.fixture(params=KINDS)
def program(request: pytest.FixtureRequest) -> Program:
    return program_of(request.param)


def own_files(program: Program) -> Mapping[str, str]:
    """Those that are written for the model, and not copied."""
    return {name: text for name, text in files_of(program).items() if not name.startswith("tc_")}


def test_no_line_is_too_long(program: Program) -> None:
    for name, text in own_files(program).items():
        for line in text.split("\n"):
            assert len(line) <= COLUMNS or '"' in line, (name, line)


def test_no_line_of_the_kernels_is_too_long() -> None:
    for name in header_names():
        for number, line in enumerate(header_of(name).split("\n"), 1):
            assert len(line) <= COLUMNS, f"{name}:{number}"


def test_the_first_lines_tell_the_story(program: Program) -> None:
    banner = files_of(program)[f"{program.name}.c"].partition(" */\n#include")[0]
    assert banner.count("\n") <= 26 + 2 * len(program.steps)  # in 60 lines up to 17 steps
    top = "\n".join(banner.split("\n")[:60])
    for label in LABELS + MEASURED:
        assert re.search(rf"^ \*   {label} +\S", top, re.MULTILINE), label
    assert "--prefer ram" in top
    assert f"{program.arena_bytes:,} bytes" in top
    assert "To call it: " in top
    for step in program.steps:
        row = rf"^ \* {step.index:>6}  {re.escape(step.title)} +{step.choice.kernel.name} .*\n \* +\[\d+, \d+\).* '.+'"
        assert re.search(row, banner, re.MULTILINE), step.title
    for stream in program.streams:
        assert f"steps {stream.steps[0]} to {stream.steps[-1]} row by row" in banner


def test_a_layer_is_named_once() -> None:
    program = program_of("whole")
    text = files_of(program)["whole.c"]
    assert text.count("'norm' node 7 (BatchNormalization)") == 1
    assert "'layer/0' node 0 and 2 more" in text
    assert text.replace("\n *            ", "").count("scope/last' node 100") == 1
    for step in program.steps[1:]:
        assert text.count(f"'{step.node.origin[0].name}' node") == 2  # in the table, and above its function


def test_names_say_what_a_thing_is(program: Program) -> None:
    """Of the step, its operator and what is in it; never of a pass, or of a tensor's name in the file."""
    name, steps = program.name, {step.index: step.node.op for step in program.steps}
    owner = r"step_(\d+)_\w+?|steps(?:_\d+)+(?:_and_\d+_more|_to_\d+)?|input|state_\d+"
    for file, text in own_files(program).items():
        if file.endswith(("_kernels.h", ".h")) and "_weights" not in file and "_schedule" not in file:
            continue
        for symbol in re.findall(rf"^static (?:const|TC_NOINLINE) \w+ \*?{name}_(\w+)", text, re.MULTILINE):
            plain = re.fullmatch(r"pad_m?\d+|row_order|row_moves|move", symbol)
            owned = re.fullmatch(rf"(?:{owner})(?:_[a-z_]+\d?)?", symbol)
            assert plain or owned, symbol
            if owned and owned[1] and not symbol.endswith("_params"):
                assert symbol.startswith(f"step_{owned[1]}_{steps[int(owned[1])]}"), symbol
        assert not re.search(r"moved_|_moved|group_\d|:moved", text), file


def test_every_array_says_what_it_is(program: Program) -> None:
    for file, text in own_files(program).items():
        if file.endswith(("_weights.h", "_schedule.h")):
            for comment in re.findall(r"^(.*)\nstatic const", text, re.MULTILINE):
                assert comment.endswith("*/"), (file, comment)
    weights = files_of(program)[f"{program.name}_weights.h"]
    arrays = weights.count("\nstatic const")
    assert arrays == len(re.findall(r"Stored\s(?:\* )?as\s", weights.replace("\n *", "")))


@pytest.mark.parametrize("kind", ["streamed", "by_rows", "window"])
def test_a_schedule_is_the_order_of_turns(kind: str) -> None:
    """Its lines hold the turns of the program, one after the other, each beginning with a row in a comment."""
    program = program_of(kind)
    text = files_of(program)[f"{kind}_schedule.h"]
    legend = re.sub(r"\n \* ?", " ", text[: text.index("#ifndef")])
    assert "A line begins with" in legend
    assert f"The turn {{step, r}} calls {kind}_step_<step>_...(arena, r)" in legend
    tables = re.findall(r"turn_t \w+order\[(\d+)\].*\{\n((?:.*\n)*?)\};", text)
    of_all = program.row_input or program.incremental
    orders = [of_all.order] if of_all else [stream.order for stream in program.streams]
    assert len(tables) == len(orders) > 0
    for (count, body), order in zip(tables, orders, strict=True):
        turns = [(int(step), int(row)) for step, row in re.findall(r"\{ *(\d+), *(\d+)\}", body)]
        assert turns == [tuple(pair) for pair in order.data.tolist()]
        assert int(count) == len(turns)
        assert re.match(r"    /\* +\d+ \*/ \{", body)


def test_what_is_known_comes_into_the_banner(program: Program) -> None:
    source = files_of(program)[f"{program.name}.c"]
    assert "nothing yet" in source
    proof = Proof("gcc 12", "-O3", "a machine", 1234, 5678, 90, 1_000_000, 1, 3, 120, 1, True)
    for proof_facts in (proof, replace(proof, stack_bytes=None, instructions=None, by_reference=False)):
        told = with_proof(source, proof_facts)
        assert told.count("\n") == source.count("\n")
        assert "119 of 120 output bytes for 3 inputs equal" in told
        assert ("1,000,000 instructions" in told) == (proof_facts.instructions is not None)
        assert re.findall("0x[0-9a-f]{8}", told) == re.findall("0x[0-9a-f]{8}", source)
        with pytest.raises(ValueError, match="already"):
            with_proof(told, proof_facts)


def compiles(folder: Path, files: Mapping[str, str], text: str) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    for name, content in files.items():
        (folder / name).write_text(content)
    (folder / "snippet.c").write_text(text)
    command = ["gcc", "-std=c99", *WARNINGS, "-fsyntax-only", "snippet.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_in_the_header_compiles(program: Program, tmp_path: Path) -> None:
    header = files_of(program)[f"{program.name}.h"]
    lines = re.findall(r"^ \*     (.*)$|^ \*()$", header[: header.index("#ifndef")], re.MULTILINE)
    example = "\n".join(line for line, _ in lines)
    assert f"{program.name}_arena_t arena;" in example
    declared = "\n".join(f"{line};" for line in re.findall(r"^(?:const|void) .*\)$", example, re.MULTILINE))
    compiles(tmp_path, files_of(program), example.replace("#include", "#include <stdint.h>\n#include", 1).replace(
        f"static {program.name}_arena_t arena;", f"static {program.name}_arena_t arena;\n{declared}"
    ))  # fmt: skip


SNIPPETS = {"docs/state.md": ("remembers", 0), "docs/memory.md": ("window", 1), "README.md": ("whole", 0)}
AROUND = """#include <stdint.h>
#include "{name}.h"
void next_frames(int8_t *to);
void next_frame(int8_t *to);
void wake_up(void);
void decide(const int8_t *scores);
void use(void);
{arena}
void use(void)
{{
    {frame}
    {snippet}
}}
"""


@pytest.mark.parametrize("page", SNIPPETS)
def test_the_snippets_of_the_pages_compile(page: str, tmp_path: Path) -> None:
    kind, number = SNIPPETS[page]
    snippet = re.findall(r"```c\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)[number]
    name = re.findall(r"\b(\w+)_(?:reset|arena_t)\b", snippet)[0]
    files = files_of(replace(program_of(kind), name=name)) if kind == "whole" else files_of(again(kind, name))
    by_rows = kind == "window"
    compiles(tmp_path, files, AROUND.format(
        name=name,
        arena=f"static {name}_arena_t arena;" if by_rows else "",
        frame=f"int8_t frame[{name.upper()}_HOP_ROWS * {name.upper()}_INPUT_0_ROW_SIZE];" if by_rows else "",
        snippet=re.sub(r"#include.*\n", "", snippet),
    ))  # fmt: skip


def again(kind: str, name: str) -> Program:
    return window_program(name) if kind == "window" else lowered(greatest(), name)


def test_options_are_those_of_the_command_line() -> None:
    assert shaping(Options("host")) == ()
    options = Options("host", name="x", numerics=Numerics.ONNX, prefer="ram", ram=4096, input_rows=True)
    assert shaping(options) == ("--numerics onnx", "--prefer ram", "--ram 4096", "--input-rows")
    assert shaping(Options("host", frontend="micro")) == ("--frontend micro",)
    assert shaping(Options("host", frontend="my/settings.toml")) == ("--frontend FILE",)
    assert shaping(Options("host", calibration=Path("/some/where.npz"))) == ("--calibration FILE",)


CODE = f"    const int32_t value = {' + '.join(['one_of_many_terms'] * 9)};"
COMMENT = f" *   layer    {' and'.join([' a layer of some name'] * 9)} */"


LONG = [CODE, f"/* x\n{COMMENT}", f"/* {'word ' * 40}*/", f"/* {'x' * 300} */", f" f({'a, ' * 60}b);"]


@pytest.mark.parametrize("text", LONG)
def test_long_lines_go_on(text: str) -> None:
    narrowed = narrow(text)
    assert max(map(len, narrowed.split("\n"))) <= COLUMNS
    assert re.sub(r"[\s*]", "", narrowed) == re.sub(r"[\s*]", "", text)
    assert narrow(narrowed) == narrowed


def test_directives_and_strings_stay() -> None:
    several = f"#define NUMBERS {{ \\\n    {'1, ' * 40}\\\n    {'2, ' * 40}3 }}"
    for line in (f"#define LONG {'1 + ' * 40}1", several, f'    "{"word " * 40}"', f"    {'x' * 200}"):
        assert narrow(line) == line


def test_prose_fills_lines() -> None:
    for letters in range(COLUMNS):
        assert "* */" not in prose("word " * 20 + "x" * letters, "/* ", " */")
    comment = prose("word " * 60, "/* ", " */")
    assert comment.startswith("/* word")
    assert comment.endswith(" */\n")
    assert all(line.startswith(" * word") for line in comment.split("\n")[1:-1])
    assert max(map(len, comment.split("\n"))) <= COLUMNS


def test_sizes_of_ports_are_elements_and_bytes() -> None:
    graph = one_node("clip", Clip(RELU), [tensor("x", (1, 2, 3), 0.1, 0, "s16")], 0.1, 0)
    files = emit_library(lowered(graph, "unit"), Info("x", "0" * 64, "host"))
    for port in ("INPUT_0", "OUTPUT_0"):
        said = dict(re.findall(rf"#define UNIT_{port}_(SIZE|BYTES|RANK|SHAPE) (.+)", files["unit.h"]))
        assert said == {"SIZE": "6", "BYTES": "12", "RANK": "3", "SHAPE": "{ 1, 2, 3 }"}
