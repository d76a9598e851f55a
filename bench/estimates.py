# SPDX-License-Identifier: Apache-2.0
"""Measures how far `tinyc estimate` is from proofs, and what kernels really cost on each core.

    python bench/estimates.py --records FILE.jsonl [--boards cortex-m4 ...] [--prefer flash] [MODEL ...]
    python bench/estimates.py --records FILE.jsonl --fit   # of what was measured, which the first does in the end, too
    python bench/estimates.py --records CODE.jsonl --code  # of compiled libraries, that none has to run: their bytes
    python bench/estimates.py --records CODE.jsonl --kernels [--only REGEX]  # before: of each kernel in small layers
    python bench/estimates.py --records CODE.jsonl --code --random 1 11  # and of random networks in int16 and float32

Every record is a proof of a model on a board: instructions of each step and code bytes beside what the kernels say.
From all of them come tinyc/explain/measured_costs.json and tinyc/choose/code_bytes.json, where cores that were not
measured keep what is known of them, and the tables of docs/estimate.md. The errors of models "of a new kind" are those
of models that the fit has not seen: each is estimated with what models of other names say.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from counted import every_layer, spread  # which has the tests of kernels among modules
from kernel_cases import cases, together
from stacks import depths_of
from tables import ROOT, as_table, write_section

from tests.fuzz.networks import network
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import Board, load_board
from tinyc.board.core import core_named
from tinyc.choose import compiled_code
from tinyc.choose.compiled_code import BASE, FEW, ROWS, TILES, WINDOW, CompiledCode, compiled_name, table_of, way_of
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.emit.program import Program
from tinyc.explain.cycles import core_of
from tinyc.explain.estimate import (
    ASSEMBLY,
    FEATURES,
    OTHERS,
    MeasuredCosts,
    StepOnCore,
    assembly_bytes,
    assembly_stack_bytes,
    cycle_features,
    estimate,
    features_of,
    has_one_scale,
    kernel_keys,
)
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.counted import SCALE, kind_of
from tinyc.machine.cores import PerInstruction, written_for
from tinyc.options.build import Options, Precision, Prefer
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import compile_library, prove_in
from tinyc.plan.planner import plan_graph
from tinyc.plan.replay import InvalidPlanError
from tinyc.toolchain import compile as toolchains
from tinyc.toolchain.compile import Sources
from tinyc.toolchain.compilers import Toolchain, find_toolchain
from tinyc.toolchain.elf import read_elf
from tinyc.toolchain.size import is_memory_function, library_size

PAGE = ROOT / "docs" / "estimate.md"
FIGURES = ROOT / "docs" / "figures.md"
COSTS = ROOT / "tinyc" / "explain" / "measured_costs.json"
CODE = compiled_code.TABLE
BOARDS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "cortex-m3", "cortex-m0plus", "riscv32imc")
HEAD = (
    "core",
    "models",
    "instructions, median error",
    "largest",
    "of a new kind, median",
    "largest",
    "cycles, median error",
    "largest",
    "code, median error",
    "largest",
    "arena",
    "constants",
    "stack, bound over measured",
)

_USUAL: Prefer = "balanced"
_TOGETHER = (1, 3, FEW + 1)  # layers of one library, that a kernel is compiled for
_FLOAT = "_fp32"  # in the names of files that are measured without quantizing them
_INT16 = "_int16"  # in those of files that are quantized to int16
_RANDOM = "random"  # begins names of networks that tests make

Record = Mapping[str, Any]
Floats = npt.NDArray[np.float64]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the errors of `tinyc estimate`")
    parser.add_argument("models", nargs="*", type=Path, help="model files, beside those measured already")
    parser.add_argument("--records", type=Path, required=True, help="a line of JSON for each proof; grows")
    parser.add_argument("--boards", nargs="+", default=BOARDS)
    parser.add_argument("--prefer", default=_USUAL, choices=(_USUAL, "flash"), help="what libraries are best in")
    parser.add_argument("--fit", action="store_true", help="run nothing")
    parser.add_argument("--code", action="store_true", help="compile only, and fit only bytes of code")
    parser.add_argument("--random", type=int, nargs=2, default=(0, 0), help="seeds of small networks: first, and end")
    parser.add_argument("--kernels", action="store_true", help="compile libraries of one layer and of some, no more")
    parser.add_argument("--only", default="", help="with --kernels: of those named so, and those around assembly, too")
    args = parser.parse_args()
    if args.kernels:
        _compile_kernels(args.records, args.boards, args.prefer, args.only)
        return 0
    if not args.fit:
        measure = _compile_one if args.code else _measure
        with tempfile.TemporaryDirectory() as folder:
            models = [*args.models, *_random_networks(Path(folder), range(*args.random))]
            _measure_all(args.records, models, args.boards, args.prefer, measure)
    records = [record for record in _read(args.records) if "error" not in record]
    code = _with_code(json.loads(CODE.read_text(encoding="utf-8")), records)
    CODE.write_text(json.dumps(code, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    if args.code:
        return 0
    fitted = fit(records, json.loads(COSTS.read_text(encoding="utf-8")))
    COSTS.write_text(json.dumps(fitted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    rows = {row[0]: row for row in _table_of(PAGE, "errors")[1:]}  # of cores that were not measured, as they are
    rows |= {row[0]: row for own in _by_table(records).values() for row in _rows(own)}
    ordered = sorted(rows.values(), key=lambda row: _place(row[0].partition(",")[0]))
    write_section(PAGE, "errors", as_table(HEAD, ordered) + "\n", "bench/estimates.py", "How near")
    by_file = _by_file(records, _table_of(FIGURES, "estimates"))
    write_section(FIGURES, "estimates", by_file, "bench/estimates.py", "Estimates, file by file")
    return 0


def _random_networks(folder: Path, seeds: Iterable[int]) -> Iterator[Path]:
    """Files of small networks in int16 and in float32, of which there are few models to measure."""
    for seed in seeds:
        for kind in (_INT16, _FLOAT):
            file = folder / f"{_RANDOM}{seed}{kind}.onnx"
            onnx.save(network(seed), file)
            yield file


def _place(core: str) -> int:
    return BOARDS.index(core) if core in BOARDS else len(BOARDS)


def _table_of(page: Path, section: str) -> list[tuple[str, ...]]:
    """The cells of a section's table as it is, its head first; nothing where it has none."""
    table = re.search(rf"<!-- {section}:.*?-->(.*?)<!-- end of {section} -->", page.read_text(encoding="utf-8"), re.S)
    lines = [line for line in (table[1] if table else "").splitlines() if line.startswith("| ")]
    return [tuple(line[2:-2].split(" | ")) for line in lines if not line.startswith("| ---")]


def _read(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _measure_all(
    file: Path,
    models: Sequence[Path],
    boards: Sequence[str],
    prefer: Prefer,
    measure: Callable[[Path, Precision, str, Prefer], Record],
) -> None:
    done = {(record["model"], record["precision"], _prefer(record), record["board"]) for record in _read(file)}
    for board in boards:
        for model in models:
            precision: Precision = "float32" if _FLOAT in model.name else "integer"
            if (model.name, precision, prefer, board) not in done:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(measure(model, precision, board, prefer)) + "\n")


def _prefer(record: Record) -> Prefer:
    return record.get("prefer", _USUAL)


def _asked(model: Path, precision: Precision, name: str, prefer: Prefer) -> tuple[Board, Options, dict[str, Any]]:
    """The board, how a library is built for it, and what a record says of that."""
    board = load_board(name)
    record = {"model": model.name, "precision": precision, "prefer": prefer, "board": name, "core": board.core}
    recipe = Recipe(activations="int16") if _INT16 in model.name else None
    return board, Options(name, samples=1, precision=precision, prefer=prefer, recipe=recipe), record


def _measure(model: Path, precision: Precision, name: str, prefer: Prefer) -> Record:
    board, options, record = _asked(model, precision, name, prefer)
    progress = Progress()
    try:
        compiled = compile_model(model, board, options, progress)
        with tempfile.TemporaryDirectory() as folder:
            report = prove_in(Path(folder), compiled, board, options, progress)
            elf = read_elf(Path(folder) / "firmware" / f"{compiled.program.name}.elf")
            functions = elf.step_functions(compiled.program.name)
            depths = depths_of(Path(folder) / "firmware" / f"{compiled.program.name}.elf", elf)
    except TinycError as error:
        return record | {"error": error.message}
    said = estimate(model.name, compiled.program, board, MeasuredCosts({}, {}))
    assert report.passed
    return record | {
        "instructions": report.instructions,
        "code_bytes": report.flash.code_bytes,
        "const_bytes": report.flash.const_bytes,
        "arena_bytes": report.arena_bytes,
        "said": {"arena_bytes": said.arena_bytes, "const_bytes": said.const_bytes},
        "assembly_bytes": assembly_bytes(compiled.program),
        "stack_bytes": report.stack_bytes,
        "overhead": report.overhead_instructions,
        "cycles": report.cycles,
        "run_stack": depths.get(f"{compiled.program.name}_run", 0),
        "steps": [
            {
                "kernel": step.kernel,
                "op": step.op,
                "features": features_of(own_step),
                "cycle_features": cycle_features(own_step, board.core),
                "same_scale": has_one_scale(own_step),
                "stack": depths.get(functions[step.step].name, 0) if step.step in functions else 0,
                "own_stack": assembly_stack_bytes(own_step),
                "counted": layer.instructions,
                "cycles": layer.cycles,
                "code": functions[step.step].size if step.step in functions else 0,
            }
            for step, own_step, layer in zip(said.layers, compiled.program.steps, report.layers, strict=True)
        ],
    }


def _compile_one(model: Path, precision: Precision, name: str, prefer: Prefer) -> Record:
    """Bytes of the library's code, those of its assembly, and each step's kernel with the bytes of its function."""
    board, options, record = _asked(model, precision, name, prefer)
    progress = Progress()
    try:
        compiled = compile_model(model, board, options, progress)
        toolchain = find_toolchain(board, "gcc")
        with tempfile.TemporaryDirectory() as folder:
            firmware = compile_library(Path(folder), compiled, board, options, toolchain)
            return record | _code_of(compiled.program, firmware.library_object, toolchain, board)
    except TinycError as error:
        return record | {"error": error.message}


def _code_of(program: Program, library_object: Path, toolchain: Toolchain, board: Board) -> dict[str, Any]:
    """Bytes that a library takes beside the constants of its layers, those of its assembly, of functions in C that
    steps call, the compiler's helpers among them, and of each step: its function, its call, and a part of what C has
    beside, constants among that."""
    folder = library_object.parent
    size, elf = library_size(library_object, toolchain, board, folder), read_elf(folder / "library.elf")
    own, count = elf.step_functions(program.name), max(len(program.steps), 1)
    constants, written = {symbol.name for symbol in program.symbols}, tuple(one.name for one in program.specials)
    assembly, around, functions = assembly_bytes(program), -assembly_bytes(program), dict[str, int]()
    end = 0
    for symbol in sorted(elf.symbols, key=lambda symbol: (symbol.address, -symbol.size)):
        name = symbol.name.partition(".")[0]
        beyond = min(symbol.size, symbol.address + symbol.size - end)  # some helpers begin in others
        if beyond <= 0 or (symbol.is_function and is_memory_function(symbol.name)):
            continue
        end = symbol.address + symbol.size
        if (
            (written and name.startswith(written))
            or name == f"{program.name}_run"
            or (not symbol.is_function and symbol.name not in constants)
        ):
            around += beyond
        elif symbol.is_function and not name.startswith(f"{program.name}_"):
            functions[name] = functions.get(name, 0) + beyond
    steps = [
        {
            "kernel": compiled_name(step.choice.kernel, step.call, step.row_step.form if step.row_step else None),
            "code": (own[step.index].size if step.index in own else 0) + around // count,
        }
        for step in program.steps
    ]
    bytes_beside = size.flash_bytes - sum(symbol.const.data.nbytes for symbol in program.symbols)
    return {"code_bytes": bytes_beside, "assembly_bytes": assembly, "functions": functions, "steps": steps}


def _compile_kernels(file: Path, boards: Sequence[str], prefer: Prefer, only: str) -> None:
    """Records of libraries of one small layer and of several, for every kernel that has `only` in its name."""
    small_layers = [*every_layer(), *cases()]
    for name in boards:
        board, options, about = _asked(Path("layers"), "integer", name, prefer)
        toolchain = find_toolchain(board, "gcc")
        done = {record["kernel"] for record in _read(file) if (record["board"], _prefer(record)) == (name, prefer)}
        for numerics in Numerics:
            every = together(board.isa, numerics, lambda kernel: bool(re.search(only, kernel.name)), small_layers)
            for kernel in sorted(set(every.prefer.values()) - done):
                done.add(kernel)
                graph = every.of(tuple(node for node in every.graph.nodes if every.prefer[node.name] == kernel)).graph
                for layers in {count: spread(_different(graph), count) for count in _TOGETHER}.values():
                    record = _compile_layers(_alone(graph, layers), kernel, board, options, numerics, toolchain)
                    title = f"{len(layers)} of {kernel}"
                    with file.open("a", encoding="utf-8") as stream:
                        stream.write(json.dumps({**about, "model": title, "kernel": kernel, **record}) + "\n")


def _different(graph: Graph) -> list[Node]:
    """First layers of all shapes: of equal ones a compiler makes what it does of no other network."""
    shapes = {
        tuple(graph.values[name].shape for name in (*node.inputs, *node.outputs) if name): node
        for node in reversed(graph.nodes)
    }
    return list(reversed(shapes.values()))


def _alone(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """The layers side by side: what they read is input, what they write output."""
    inputs = dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in graph.consts)
    outputs = dict.fromkeys(name for node in nodes for name in node.outputs)
    names = {name for node in nodes for name in (*node.inputs, *node.outputs)}
    return replace(
        graph,
        inputs=tuple(name for name in inputs if name not in outputs),
        outputs=tuple(outputs),
        nodes=tuple(nodes),
        values={name: value for name, value in graph.values.items() if name in names},
        consts={name: value for name, value in graph.consts.items() if name in names},
        states=(),
        labels={},
    )


def _compile_layers(
    graph: Graph, kernel: str, board: Board, options: Options, numerics: Numerics, toolchain: Toolchain
) -> Record:
    """The part of a record that `_compile_one` makes, of layers that this kernel runs."""
    try:
        asked = {node.name: kernel for node in graph.nodes}
        choices = select(graph, board.isa, numerics, asked, written_for(board.core, False))
        program = lower(graph, plan_graph(graph, choices, work=0), numerics, "layers")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for header, text in emit_library(program, Info("layers", "0" * 64, board.name)).items():
                (folder / header).write_text(text, encoding="utf-8")
            output = folder / "layers.o"
            toolchains.compile_library(Sources(folder, "layers"), toolchain, options.optimize, output)
            return _code_of(program, output, toolchain, board)
    except (TinycError, InvalidPlanError) as error:
        return {"error": str(error), "steps": [{"kernel": kernel}] * len(graph.nodes)}


def _with_code(earlier: Mapping[str, Mapping[str, int]], records: Sequence[Record]) -> dict[str, Mapping[str, int]]:
    """What code_bytes.json holds, with the code of the measured cores as it is now."""
    fitted = dict(earlier)
    for table, own in _by_table(records).items():
        kernels = [record for record in own if " of " in record["model"]]
        small = [record for record in own if record["model"].startswith(_RANDOM)]
        networks = [record for record in own if record not in kernels and record not in small]
        # Of single kernels what no network says, and of small networks what no model of someone's does.
        code = {**_fit_code(kernels), **_fit_code(small), **_fit_code(networks)}
        if not networks and table in fitted:  # what kernels and libraries take mostly is not known of some of them
            code = {key: size for key, size in code.items() if key not in ("", BASE)}
        of_code = CompiledCode([code], "")
        errors = [-_left(record, of_code) / record["code_bytes"] for record in networks if record["steps"]]
        print(f"{table}: code of {len(own)} libraries, of networks {_words(errors)}")
        fitted[table] = _with_others(fitted.get(table), code)
    return fitted


def _by_table(records: Iterable[Record]) -> dict[str, list[Record]]:
    """By core, and what the compiler is told."""
    by_table: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        optimize = Options(record["board"], prefer=_prefer(record)).optimize
        by_table[table_of(record["core"], optimize)].append(record)
    return dict(by_table)


def fit(records: Sequence[Record], earlier: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What measured_costs.json holds: `earlier`, with the measured cores as they are now."""
    costs: dict[str, dict[str, Any]] = {part: dict(earlier.get(part, {})) for part in _PARTS}
    for core, own in _by_table(records).items():
        fitted, networks = _fit_core(own), next(iter(_kinds(own).values()))
        errors = _errors(networks, fitted)
        words = _words(errors.instructions, _unseen(networks, own)), _words(errors.cycles)
        for part, value in zip(_PARTS, (*fitted, *words), strict=True):
            if value or part not in _OF_CYCLES:
                costs[part][core] = _with_others(costs[part].get(core), value)
    return costs


def _with_others(earlier: Any, measured: Any) -> Any:
    """What was measured, with what is known of kernels that were not."""
    if not isinstance(measured, dict):
        return measured
    names = {key.partition(" ")[0] for key in measured}
    return {key: value for key, value in (earlier or {}).items() if key.partition(" ")[0] not in names} | measured


Line = tuple[float, ...]  # what each of the features stands for
_PARTS = ("kernels", "cycles", "stack", "errors", "cycle_errors")
_OF_CYCLES = ("cycles", "cycle_errors")


class Fitted(NamedTuple):
    """Of a core, by kernel: the lines that make counted instructions of said ones, and modelled cycles; `OTHERS`: for
    any other kernel. stack: bytes of a step beside its functions in assembly; `""`: beside the deepest step."""

    kernels: dict[str, Line]
    cycles: dict[str, Line]
    stack: dict[str, int]


class Figure(NamedTuple):
    """What lines are fitted to: the keys of a step's features, of what they stand for, and of a record's sum of it."""

    features: str
    counted: str
    whole: str


INSTRUCTIONS = Figure("features", "counted", "instructions")
CYCLES = Figure("cycle_features", "cycles", "cycles")


def _fit_core(records: Sequence[Record]) -> Fitted:
    stack: dict[str, int] = defaultdict(int)
    for record in records:
        stack[""] = max(stack[""], record["stack_bytes"] - max((step["stack"] for step in record["steps"]), default=0))
        for step in record["steps"]:
            deepest = min(step["stack"], record["stack_bytes"])  # calls through pointers were not followed
            stack[step["kernel"]] = max(stack[step["kernel"]], deepest - step["own_stack"])
    cycles = {} if _by_instructions(records[0]["core"]) else _lines(records, CYCLES)
    return Fitted(_lines(records, INSTRUCTIONS), cycles, dict(stack))


def _by_instructions(core: str) -> bool:
    """Whether its cycles are so many for each instruction: then the estimate's are, too. Or none are known."""
    rules = core_of(core)
    return rules is None or isinstance(rules, PerInstruction)


def _lines(records: Sequence[Record], figure: Figure, asked_keys: frozenset[str] | None = None) -> dict[str, Line]:
    """By `kernel_keys`, or by those wanted; `OTHERS`: for any other kernel. A way of calling a kernel has a line of
    its own where that misses less of a layer that it was made without than the line of what is more general does."""
    layers: dict[str, dict[tuple[float, ...], Layer]] = defaultdict(dict)  # equal ones count once
    above: dict[str, Sequence[str]] = {}
    for record in records:
        for step, keys in zip(record["steps"], _keys(record), strict=True):
            for at, key in enumerate(keys):
                if step["own_stack"] and at < len(keys) - 2:
                    continue  # assembly is the same wherever it is called
                features, counted = step[figure.features], step[figure.counted]
                own = (*features, counted)
                whole = min(record[figure.whole], layers[key][own].whole if own in layers[key] else 2**62)
                layers[key][own] = Layer(tuple(features), counted, whole)
                above[key] = [other for other in keys[at + 1 :] if other not in (key, *OTHERS)]
    layers_by_key = {key: sorted(own.values()) for key, own in layers.items() if key not in OTHERS}
    assembly = {step["kernel"] for record in records for step in record["steps"] if step["own_stack"]}
    exact = figure is INSTRUCTIONS or all(core_named(record["core"]).ordered for record in records)
    said = _of_said(records) if exact else None
    lines: dict[str, Line] = {}
    for key in sorted(layers_by_key, key=lambda one: len(above[one])):
        if (asked_keys is not None and key not in asked_keys) or (" " in key and len(layers_by_key[key]) < _ENOUGH):
            continue
        line, missed = _line(layers_by_key[key], key in assembly, said)
        general = next((lines[other] for other in above[key] if other in lines), None)
        if general is None or missed < _missed_by(general, layers_by_key[key]):
            lines[key] = line
    every = [layer for own in layers.values() for layer in own.values()]
    for key, measured in ((ASSEMBLY, list(layers[ASSEMBLY].values())), ("", every)):
        if measured:
            lines[key] = (round(statistics.median(layer.counted / layer.features[0] for layer in measured), 4),)
    return lines


def _fit_code(records: Sequence[Record]) -> dict[str, int]:
    """A table of code_bytes.json: medians of steps, some of which are many times as long; of functions that they call
    means, since some compilers take some into some steps."""
    sizes, functions = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    bases, ways = [], Counter[str]()
    for record in (record for record in records if "functions" in record):
        calls = _calls_of(record)
        for step, key in zip(record["steps"], calls, strict=True):
            for name in (key, step["kernel"], step["kernel"].partition(" ")[0]):
                sizes[name].append(step["code"])
        taken = sum(record["functions"].values()) + sum(step["code"] for step in record["steps"])
        bases.append(record["code_bytes"] - record["assembly_bytes"] - taken)
        ways.update(set(calls))
        for function, size in record["functions"].items():
            for call in _callers(function, set(calls)):
                functions[f"{call} {function}"].append(size)
    code = {key: round(statistics.median(own)) for key, own in sizes.items()}
    code |= {key: round(sum(own) / ways[key.rpartition(" ")[0]]) for key, own in functions.items() if any(own)}
    once = [CompiledCode([code], "").library([kernel]) for kernel in {key.partition(" alone")[0] for key in ways}]
    if once:
        code[""] = round(statistics.median(once))
    return {**code, **({BASE: round(statistics.median(bases))} if bases else {})}


# How functions begin that steps of a kind alone call, how the kernels of these steps, and the words of such steps, if
# there are any: else they are of all steps of the kernels.
_CALLERS = (
    ("tc_scalar_tile_rows", "tc_conv2d", (TILES,)),
    ("tc_scalar_narrow_products", "tc_conv2d", (TILES,)),
    ("tc_rv32_gather6", "tc_conv2d_s8_rv32_six", (ROWS, WINDOW)),
    ("tc_rv32_gather", "tc_conv2d_s8_rv32", (ROWS, WINDOW)),
    ("tc_rv32_store", "tc_conv2d_s8_rv32", (ROWS, WINDOW)),
)


def _callers(function: str, calls: Collection[str]) -> Collection[str]:
    """Those of the steps of a library that may call a function of it."""
    for start, callers, words in _CALLERS:
        if function.startswith(start):
            own = [call for call in calls if call.startswith(callers)]
            return [call for call in own if call.split(" ")[1] in words] or own
    kernels = {call.partition(" ")[0] for call in calls}  # of the others it is not known who calls them
    return [call for call in calls if len(kernels) == 1 or function == call.partition(" ")[0]]


def _calls_of(record: Record) -> list[str]:
    """Of each step, its kernel, and whether other steps call it too."""
    kernels = Counter(name.partition(" ")[0] for name in _names(record))
    return [f"{name} {way_of(kernels[name.partition(' ')[0]])}" for name in _names(record)]


def _names(record: Record) -> list[str]:
    return [step["kernel"] for step in record["steps"]]


def _left(record: Record, code: CompiledCode) -> int:
    """Bytes that a library has more than is said."""
    left: int = record["code_bytes"] - record["assembly_bytes"] - code.library(_names(record))
    return left


_ENOUGH = 3  # layers, for a line of more than a ratio, or of one way of calling a kernel
_RANK = 1e-15  # of the largest singular value: those below are none
_PER_TERM = 3  # layers, and one more
_WORTHWHILE = 0.9  # another term has to bring errors below this share
_MOST = 4  # terms of a line
_STEP, _CALLS, _ZEROS = (FEATURES.index(name) for name in ("step", "calls", "zeros"))
_AROUND = {(0,), (0, _STEP), (0, _CALLS), (0, _STEP, _CALLS)}  # what assembly may take, and the step that calls it


class Layer(NamedTuple):
    """Features of a step, what was counted, and of how many instructions of its model."""

    features: tuple[float, ...]
    counted: float
    whole: float


def _missed_by(line: Line, layers: Sequence[Layer]) -> float:
    """The sum of squares of the shares of models that a line misses."""
    missed = [_on(line, layer.features) - layer.counted for layer in layers]
    return float(sum((each / layer.whole) ** 2 for each, layer in zip(missed, layers, strict=True)))


def _on(line: Line, features: Sequence[float]) -> float:
    return sum(factor * value for factor, value in zip(line, features, strict=False))


def _of_said(records: Sequence[Record]) -> float:
    """What a core counts for one instruction that kernels in assembly say, all of ARMv7-M's scale."""
    (scale,) = {SCALE[kind_of(load_board(record["board"]).isa)] for record in records}
    return 1 / scale


def _line(layers: Sequence[Layer], written: bool, exact: float | None) -> tuple[Line, float]:
    """The line that says best what a layer takes which it has not seen, by the shares of models that it misses, and the
    sum of squares of these. In doubt fewer terms.

    written: in assembly, which knows what it takes, but not the step around it. exact: what is counted for one that is
    said of it, which but for the step is right; None: that is not so.
    """
    terms = np.array([layer.features for layer in layers], np.float64)
    whole = np.array([layer.whole for layer in layers], np.float64)
    targets = np.array([layer.counted for layer in layers], np.float64) / whole
    terms /= whole[:, None]
    if written and exact is not None:
        chosen: tuple[int, ...] = (_STEP,)
        beside = targets - exact * terms[:, 0]
        best = _solved(terms, beside, (_STEP,))
        least = _missed(terms, beside, chosen)
        best[0] = exact
    else:
        chosen = (0,)
        best = _solved(terms, targets, (0,))
        least = _missed(terms, targets, chosen)
    for count in range(1, _MOST + 1) if len(layers) > _ENOUGH else ():
        if len(layers) <= _PER_TERM * count:
            break
        sets = list(combinations(range(len(FEATURES)), count))
        tried = [
            (_missed(terms, targets, own), own, _solved(terms, targets, own))
            for own in (filter(_AROUND.__contains__, sets) if written else sets)
        ]
        free = (_STEP, _CALLS) if written else (_STEP, _ZEROS)
        usable = [
            one for one in tried if (np.delete(one[2], free) >= 0).all() and (terms @ one[2] > 0).all()
        ]  # more work never takes less, but for products with zeros
        error, own, line = min(usable, key=lambda one: one[0], default=(least, chosen, best))
        if error < _WORTHWHILE ** (count - len(chosen)) * least if count > len(chosen) else error < _WORTHWHILE * least:
            chosen, best, least = own, line, error
    if not written and len(layers) > _PER_TERM:  # what the kernel says, and one term for what that leaves
        beside = targets - terms[:, 0]
        error, at = min((_missed(terms, beside, (at,)), at) for at in range(1, len(FEATURES)))
        line = _solved(terms, beside, (at,))
        if error < _WORTHWHILE * least and line[at] > 0:
            best, least = line, error
            best[0] = 1
    factors = [round(float(value), 5) for value in best]
    while len(factors) > 1 and not factors[-1]:
        factors.pop()
    return tuple(factors), least


def _missed(terms: Floats, targets: Floats, chosen: Sequence[int]) -> float:
    """The sum of squares of what lines miss, each of the layer that it was made without."""
    own = terms[:, list(chosen)]
    scale = np.abs(own).max(axis=0)
    base, sizes, _ = np.linalg.svd(own / np.where(scale > 0, scale, 1), full_matrices=False)
    base = base[:, sizes > _RANK * sizes.max(initial=0)]
    left = 1 - np.square(base).sum(axis=1)
    missed = (targets - base @ (base.T @ targets)) / np.where(left > 1e-9, left, np.nan)
    return float(np.sum(np.nan_to_num(missed, nan=1.0) ** 2))  # a line that only one layer decides says nothing of it


def _solved(terms: Floats, targets: Floats, chosen: Sequence[int]) -> Floats:
    """Factors of all terms, 0 but for the chosen ones, that miss least."""
    own = terms[:, list(chosen)]
    scale = np.where((largest := np.abs(own).max(axis=0)) > 0, largest, 1)
    solution = np.zeros(terms.shape[1])
    solution[list(chosen)] = np.linalg.lstsq(own / scale, targets, rcond=None)[0] / scale
    return solution


def _keys(record: Record) -> list[Sequence[str]]:
    """Of each step."""
    counts = Counter(step["kernel"] for step in record["steps"])
    return [
        kernel_keys(
            step["kernel"], step["op"], counts[step["kernel"]], step["same_scale"], assembly=step["own_stack"] > 0
        )
        for step in record["steps"]
    ]


class Errors(NamedTuple):
    """Relative ones, of each model."""

    instructions: list[float]
    cycles: list[float]
    code: list[float]


def _errors(records: Sequence[Record], lines_fitted: Fitted) -> Errors:
    """Errors of each model that runs something, and not views alone."""
    board, prefer = load_board(records[0]["board"]), _prefer(records[0])
    code = compiled_code.compiled_code(board.core, board.isa, Options(board.name, prefer=prefer).optimize)
    own = [record for record in records if record["steps"]]
    return Errors(
        [_error(record, lines_fitted.kernels, INSTRUCTIONS) for record in own],
        [_error(record, lines_fitted.cycles, CYCLES) for record in own if lines_fitted.cycles],
        [-_left(record, code) / record["code_bytes"] for record in own],
    )


def _unseen(records: Sequence[Record], others: Sequence[Record]) -> list[float]:
    """Errors of the instructions of each model, by what those of the others say that are of another family."""
    lines: dict[str, dict[str, Line]] = {}
    for family in {_family(record) for record in records}:
        own = [record for record in records if _family(record) == family]
        own_keys = frozenset(key for record in own for keys in _keys(record) for key in keys)
        lines[family] = _lines([other for other in others if _family(other) != family], INSTRUCTIONS, own_keys)
    return [_error(record, lines[_family(record)], INSTRUCTIONS) for record in records if record["steps"]]


def _error(record: Record, lines: Mapping[str, Line], figure: Figure) -> float:
    costs = MeasuredCosts({"": lines}, {})
    steps = zip(record["steps"], _keys(record), strict=True)
    said: float = sum(costs.counted(StepOnCore("", keys, step[figure.features])) for step, keys in steps)
    return said / float(record[figure.whole]) - 1


def _family(record: Record) -> str:
    """Of models with the same layers: `kws_int8.tflite`, `kws_fp32.onnx`; `conv0.tflite`, `conv12.tflite`."""
    name: str = record["model"].partition("_")[0].partition(".")[0]
    return name.rstrip("0123456789")


def _words(errors: Sequence[float], unseen: Sequence[float] = ()) -> str:
    """unseen: of models like which none was measured."""
    if not errors:
        return ""
    sizes = [abs(error) for error in errors]
    of_all = f"{100 * statistics.median(sizes):.1f} % median, {100 * max(sizes):.1f} % at most, of {len(sizes)} models"
    return of_all + (
        f"; {100 * statistics.median(map(abs, unseen)):.1f} % median of models of new kinds" if unseen else ""
    )


def _rows(records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    """Networks, and layers that are published one by one, which miss what their kernel does alone."""
    fitted = _fit_core(records)
    for kind, own in _kinds(records).items():
        seen, unseen = _errors(own, fitted), _unseen(own, records)
        kinds = (seen.instructions, unseen, seen.cycles, seen.code)
        shares = [f"{100 * how(map(abs, errors)):.1f} %" if errors else "" for errors in kinds for how in _HOWS]
        equal = sum(record["arena_bytes"] == record["said"]["arena_bytes"] for record in own)
        constants = max(abs(r["said"]["const_bytes"] - r["const_bytes"]) for r in own)
        yield (
            f"{records[0]['core']}, {kind}",
            str(len(own)),
            *shares,
            "all equal" if equal == len(own) else f"{equal} equal",
            f"within {constants:,} bytes",
            _stack(own, fitted),
        )


def _by_file(records: Sequence[Record], before: Sequence[tuple[str, ...]]) -> str:
    """A table of the errors of each model on each core; models without steps have nothing to estimate. before: the
    table as it is; cores that were not measured keep what it says."""
    measured = {record["core"] for record in records}
    head, *rows_before = before or [("model",)]
    by_file: dict[str, dict[str, str]] = defaultdict(dict)
    for model, *cells in rows_before:
        by_file[model] = {core: cell for core, cell in zip(head[1:], cells, strict=True) if core not in measured}
    for own in _by_table(records).values():
        lines, core = _lines(own, INSTRUCTIONS), own[0]["core"]
        for record in own:
            if record["steps"]:
                error = _error(record, lines, INSTRUCTIONS)
                prefers = "" if _prefer(record) == _USUAL else f", --prefer {_prefer(record)}"
                by_file[f"{record['model']}, {record['precision']}{prefers}"][core] = f"{100 * error:+.1f}"
    cores = sorted({core for errors in by_file.values() for core in errors}, key=_place)
    rows = [(model, *(errors.get(core, "") for core in cores)) for model, errors in sorted(by_file.items()) if errors]
    return (
        "Instructions of an inference, estimated over counted, in percent: all model files of the tests, as "
        "[how near](estimate.md#how-near) fits them. Empty: the board has no room for it, a proof would take too "
        "long, or it was not measured with the core's others.\n\n" + as_table(("model", *cores), rows) + "\n"
    )


_HOWS: tuple[Callable[[Iterable[float]], float], ...] = (statistics.median, max)


_LAYERS = 2  # steps: more are a network


def _kinds(records: Sequence[Record]) -> Mapping[str, Sequence[Record]]:
    """Those that run something, by what they are."""
    by_kind: dict[str, list[Record]] = {"networks": [], "networks by --prefer flash": [], "single layers": []}
    for record in records:
        if len(record["steps"]) > _LAYERS:
            by_kind["networks" if _prefer(record) == _USUAL else "networks by --prefer flash"].append(record)
        elif record["steps"]:
            by_kind["single layers"].append(record)
    return {kind: own for kind, own in by_kind.items() if own}


def _stack(records: Sequence[Record], fitted: Fitted) -> str:
    """How far the bound is above what was measured; those that it is made of, and those that the others bound."""
    over = [_bound(record, fitted) - record["stack_bytes"] for record in records]
    assert min(over) >= 0
    return f"{min(over)} to {max(over)} bytes, median {round(statistics.median(over))}"


def _bound(record: Record, fitted: Fitted) -> int:
    steps = record["steps"]
    return fitted.stack[""] + max((fitted.stack[step["kernel"]] + step["own_stack"] for step in steps), default=0)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
