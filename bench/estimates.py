# SPDX-License-Identifier: Apache-2.0
"""Measures how far `tinyc estimate` is from proofs, and what kernels really cost on each core.

    python bench/estimates.py --records FILE.jsonl [--boards cortex-m4 ...] [MODEL ...]   # measure, then fit
    python bench/estimates.py --records FILE.jsonl --fit                                  # fit what was measured

Every record is a proof of a model on a board: instructions of each step and code bytes beside what the kernels say.
From all of them come tinyc/explain/measured_costs.json, where cores that were not measured keep what is known of them,
and the tables of docs/estimate.md. The errors of models "of a new kind" are those of models that the fit has not seen:
each is estimated with what models of other names say.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from stacks import depths_of
from tables import ROOT, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.build.elf import read_elf
from tinyc.explain.estimate import (
    FEATURES,
    MeasuredCosts,
    assembly_bytes,
    assembly_stack_bytes,
    estimate,
    features_of,
    has_one_scale,
    kernel_keys,
)
from tinyc.pipeline import Options, Progress, compile_model
from tinyc.pipeline.options import Precision
from tinyc.pipeline.proving import prove_in

PAGE = ROOT / "docs" / "estimate.md"
FIGURES = ROOT / "docs" / "figures.md"
COSTS = ROOT / "tinyc" / "explain" / "measured_costs.json"
BOARDS = ("cortex-m4", "cortex-m55", "cortex-m3", "cortex-m0plus", "riscv32imc")
HEAD = (
    "core",
    "models",
    "instructions, median error",
    "largest",
    "of a new kind, median",
    "largest",
    "code, median error",
    "largest",
    "arena",
    "constants",
    "stack, bound over measured",
)

_FLOAT = "_fp32"  # in the names of files that are measured without quantizing them

Record = Mapping[str, Any]
Floats = npt.NDArray[np.float64]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the errors of `tinyc estimate`")
    parser.add_argument("models", nargs="*", type=Path, help="model files, beside those measured already")
    parser.add_argument("--records", type=Path, required=True, help="a line of JSON for each proof; grows")
    parser.add_argument("--boards", nargs="+", default=BOARDS)
    parser.add_argument("--fit", action="store_true", help="run nothing")
    args = parser.parse_args()
    if not args.fit:
        _measure_all(args.records, args.models, args.boards)
    records = [record for record in _read(args.records) if "error" not in record]
    fitted = fit(records, json.loads(COSTS.read_text(encoding="utf-8")))
    COSTS.write_text(json.dumps(fitted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    rows = [row for core, own in _by_core(records).items() for row in _rows(core, own)]
    write_section(PAGE, "errors", as_table(HEAD, rows) + "\n", "bench/estimates.py", "How near")
    write_section(FIGURES, "estimates", _by_file(records), "bench/estimates.py", "Estimates, file by file")
    return 0


def _read(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _measure_all(file: Path, models: Sequence[Path], boards: Sequence[str]) -> None:
    done = {(record["model"], record["precision"], record["board"]) for record in _read(file)}
    for board in boards:
        for model in models:
            precision: Precision = "float32" if _FLOAT in model.name else "integer"
            if (model.name, precision, board) not in done:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(_measure(model, precision, board)) + "\n")


def _measure(model: Path, precision: Precision, name: str) -> Record:
    board, options, progress = load_board(name), Options(name, samples=1, precision=precision), Progress()
    record: dict[str, Any] = {"model": model.name, "precision": precision, "board": name, "core": board.core}
    try:
        compiled = compile_model(model, board, options, progress)
        with tempfile.TemporaryDirectory() as folder:
            report = prove_in(Path(folder), compiled, board, options, progress)
            elf = read_elf(Path(folder) / "firmware" / f"{compiled.program.name}.elf")
            functions = elf.step_functions(compiled.program.name)
            depths = depths_of(Path(folder) / "firmware" / f"{compiled.program.name}.elf", elf)
    except TinycError as error:
        return record | {"error": error.message}
    said = estimate(model.name, compiled.program, board, MeasuredCosts({}, {}, {}, {}))
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
        "run_stack": depths.get(f"{compiled.program.name}_run", 0),
        "steps": [
            {
                "kernel": step.kernel,
                "op": step.op,
                "features": features_of(made),
                "same_scale": has_one_scale(made),
                "stack": depths.get(functions[step.step].name, 0) if step.step in functions else 0,
                "own_stack": assembly_stack_bytes(made),
                "counted": layer.instructions,
                "code": functions[step.step].size if step.step in functions else 0,
            }
            for step, made, layer in zip(said.layers, compiled.program.steps, report.layers, strict=True)
        ],
    }


def _by_core(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["core"]].append(record)
    return dict(found)


def fit(records: Sequence[Record], known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What measured_costs.json holds: `known`, with the measured cores as they are now."""
    found: dict[str, dict[str, Any]] = {part: dict(known.get(part, {})) for part in _PARTS}
    for core, own in _by_core(records).items():
        fitted, networks = _fit_core(own), _kinds(own)["networks"]
        values = (*fitted, _words(_errors(networks, fitted)[0], _errors(networks, others=own)[0]))
        for part, value in zip(_PARTS, values, strict=True):
            found[part][core] = value
    return found


Line = tuple[float, ...]  # instructions for each of the features
_PARTS = ("kernels", "code", "base", "stack", "errors")


class Fitted(NamedTuple):
    """Of a core, by kernel: the line that makes counted instructions of said ones; `""`: for any other kernel. code,
    base: as `MeasuredCosts` has them. stack: bytes of a step beside its functions in assembly; `""`:
    beside the deepest step."""

    kernels: dict[str, Line]
    code: dict[str, int]
    base: int
    stack: dict[str, int]


def _fit_core(records: Sequence[Record]) -> Fitted:
    layers: dict[str, dict[tuple[float, ...], Layer]] = defaultdict(dict)  # equal ones count once
    stack: dict[str, int] = defaultdict(int)
    for record in records:
        stack[""] = max(stack[""], record["stack_bytes"] - max((step["stack"] for step in record["steps"]), default=0))
        for step, keys in zip(record["steps"], _keys(record), strict=True):
            for key in keys[-2:] if step["own_stack"] else keys:  # assembly is the same wherever it is called
                own = (*step["features"], step["counted"])
                whole = min(record["instructions"], layers[key][own].whole if own in layers[key] else 2**62)
                layers[key][own] = Layer(tuple(step["features"]), step["counted"], whole)
            deepest = min(step["stack"], record["stack_bytes"])  # calls through pointers were not followed
            stack[step["kernel"]] = max(stack[step["kernel"]], deepest - step["own_stack"])
    known = {key: sorted(own.values()) for key, own in layers.items() if key}
    assembly = {step["kernel"] for record in records for step in record["steps"] if step["own_stack"]}
    kernels = {
        key: _line(own, key not in assembly) for key, own in known.items() if " " not in key or len(own) >= _ENOUGH
    }
    every = [layer for own in layers.values() for layer in own.values()]
    kernels[""] = (round(statistics.median(layer.counted / layer.features[0] for layer in every), 4),)
    return Fitted(kernels, *_fit_code(records), dict(stack))


_ROUNDS = 20  # after which sizes of functions no longer change


def _fit_code(records: Sequence[Record]) -> tuple[dict[str, int], int]:
    """(bytes of code by kernel, bytes of the rest). Of functions that several steps share only sums are known: each in
    turn is what is left of its libraries, in the middle of them, when the others are as large as they are taken to be.
    """
    sizes: dict[str, list[int]] = defaultdict(list)
    for record in records:
        counts = Counter(_names(record))
        for step, kernel in zip(record["steps"], _names(record), strict=True):
            for key in (f"{kernel} {'alone' if counts[kernel] == 1 else 'shared'}", kernel, ""):
                sizes[key].append(step["code"])
    code = {key: round(statistics.median(found)) for key, found in sizes.items()}
    shared = [tuple(kernel for kernel, steps in Counter(_names(record)).items() if steps > 1) for record in records]
    left = [_left(record, code, 0) for record in records]
    alone = [own for own, kernels in zip(left, shared, strict=True) if not kernels]
    base = round(statistics.median(alone or left))
    functions = dict.fromkeys(sorted({kernel for kernels in shared for kernel in kernels}), 0)
    for _ in range(_ROUNDS):
        for kernel in functions:
            own = [
                rest - base - sum(functions[other] for other in kernels if other != kernel)
                for rest, kernels in zip(left, shared, strict=True)
                if kernel in kernels
            ]
            functions[kernel] = max(round(statistics.median(own)), 0)
    return code | {f"{kernel} function": size for kernel, size in functions.items() if size}, base


def _names(record: Record) -> list[str]:
    return [step["kernel"] for step in record["steps"]]


def _left(record: Record, code: Mapping[str, int], base: int) -> int:
    """Bytes that a library has more than is said."""
    said = MeasuredCosts({}, {"": code}, {"": base}, {}).code_of("", _names(record))
    left: int = record["code_bytes"] - record["assembly_bytes"] - said
    return left


_ENOUGH = 3  # layers, for a line of more than a ratio, or of one way of calling a kernel
_WORTHWHILE = 0.9  # another term has to bring errors below this share
_MOST = 4  # terms of a line
_STEP = FEATURES.index("step")


class Layer(NamedTuple):
    """Features of a step, what was counted, and of how many instructions of its model."""

    features: tuple[float, ...]
    counted: float
    whole: float


def _line(layers: Sequence[Layer], compiled: bool) -> Line:
    """The line that says best what a layer takes which it has not seen, by the shares of models that it misses; for
    assembly the ratio. In doubt fewer terms. compiled: C."""
    terms = np.array([layer.features for layer in layers], np.float64)
    whole = np.array([layer.whole for layer in layers], np.float64)
    wanted = np.array([layer.counted for layer in layers], np.float64) / whole
    terms /= whole[:, None]
    chosen, best = (0,), _solved(terms, wanted, (0,))
    least = _missed(terms, wanted, chosen)
    for count in range(1, _MOST + 1) if compiled and len(layers) > _ENOUGH else ():
        tried = [
            (_missed(terms, wanted, own), own, line)
            for own in combinations(range(len(FEATURES)), count)
            if len(layers) > 2 * count - 1 and (line := _solved(terms, wanted, own)) is not None
        ]
        usable = [
            one for one in tried if (np.delete(one[2], _STEP) >= 0).all() and (terms @ one[2] > 0).all()
        ]  # more work never takes less
        error, own, line = min(usable, key=lambda one: one[0], default=(least, chosen, best))
        if error < _WORTHWHILE ** (count - len(chosen)) * least if count > len(chosen) else error < _WORTHWHILE * least:
            chosen, best, least = own, line, error
    found = [round(float(value), 5) for value in best]
    while len(found) > 1 and not found[-1]:
        found.pop()
    return tuple(found)


def _missed(terms: Floats, wanted: Floats, chosen: Sequence[int]) -> float:
    """The sum of squares of what lines miss, each of the layer that it was made without."""
    own = terms[:, list(chosen)]
    scale = np.abs(own).max(axis=0)
    hat = (own / np.where(scale > 0, scale, 1)) @ np.linalg.pinv(own / np.where(scale > 0, scale, 1))
    left = 1 - np.diag(hat)
    missed = (wanted - hat @ wanted) / np.where(left > 1e-9, left, np.nan)
    return float(np.sum(np.nan_to_num(missed, nan=1.0) ** 2))  # a line that only one layer decides says nothing of it


def _solved(terms: Floats, wanted: Floats, chosen: Sequence[int]) -> Floats:
    """Factors of all terms, 0 but for the chosen ones, that miss least."""
    own = terms[:, list(chosen)]
    scale = np.where((largest := np.abs(own).max(axis=0)) > 0, largest, 1)
    found = np.zeros(terms.shape[1])
    found[list(chosen)] = np.linalg.lstsq(own / scale, wanted, rcond=None)[0] / scale
    return found


def _keys(record: Record) -> list[Sequence[str]]:
    """Of each step."""
    counts = Counter(step["kernel"] for step in record["steps"])
    return [
        kernel_keys(step["kernel"], step["op"], counts[step["kernel"]], step["same_scale"]) for step in record["steps"]
    ]


def _errors(
    records: Sequence[Record], known: Fitted | None = None, others: Sequence[Record] = ()
) -> tuple[list[float], list[float]]:
    """Relative errors of instructions and code of each model; without `known`, of what those of the others say that are
    of another family."""
    fits: dict[str, Fitted] = {}
    instructions, code = [], []
    for record in records:
        family = _family(record)
        if known is None and family not in fits:
            fits[family] = _fit_core([other for other in others if _family(other) != family])
        fitted = known or fits[family]
        for _, error in _errors_by_model([record], fitted):
            instructions.append(error)
            code.append(-_left(record, fitted.code, fitted.base) / record["code_bytes"])
    return instructions, code


def _errors_by_model(records: Iterable[Record], fitted: Fitted) -> Iterator[tuple[Record, float]]:
    """Relative errors of instructions of those models that run something, and not views alone."""
    costs = MeasuredCosts({"": fitted.kernels}, {}, {}, {})
    for record in records:
        if record["steps"]:
            steps = zip(record["steps"], _keys(record), strict=True)
            total = sum(costs.counted("", keys, step["features"]) for step, keys in steps)
            yield record, total / record["instructions"] - 1


def _family(record: Record) -> str:
    """Of models with the same layers: `kws_int8.tflite`, `kws_fp32.onnx`; `conv0.tflite`, `conv12.tflite`."""
    name: str = record["model"].partition("_")[0].partition(".")[0]
    return name.rstrip("0123456789")


def _words(errors: Sequence[float], unseen: Sequence[float]) -> str:
    """unseen: of models like which none was measured."""
    if not errors:
        return "not measured"
    sizes = [abs(error) for error in errors]
    of_all = f"{100 * statistics.median(sizes):.1f} % median, {100 * max(sizes):.1f} % at most, of {len(sizes)} models"
    return of_all + (
        f"; {100 * statistics.median(map(abs, unseen)):.1f} % median of models of new kinds" if unseen else ""
    )


def _rows(core: str, records: Sequence[Record]) -> Iterator[tuple[str, ...]]:
    """Networks, and layers that are published one by one, which miss what their kernel does alone."""
    fitted = _fit_core(records)
    for kind, own in _kinds(records).items():
        instructions, code = _errors(own, fitted)
        unseen, _ = _errors(own, others=records)
        shares = [f"{100 * how(map(abs, errors)):.1f} %" for errors in (instructions, unseen, code) for how in _HOWS]
        equal = sum(record["arena_bytes"] == record["said"]["arena_bytes"] for record in own)
        constants = max(abs(r["said"]["const_bytes"] - r["const_bytes"]) for r in own)
        yield (
            f"{core}, {kind}",
            str(len(own)),
            *shares,
            "all equal" if equal == len(own) else f"{equal} equal",
            f"within {constants:,} bytes",
            _stack(own, fitted),
        )


def _by_file(records: Sequence[Record]) -> str:
    """A table of the errors of each model on each core; models without steps have nothing to estimate."""
    cores = _by_core(records)
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for core, own in cores.items():
        for record, error in _errors_by_model(own, _fit_core(own)):
            found[record["model"], record["precision"]][core] = error
    rows = [
        (f"{model}, {precision}", *(f"{100 * errors[core]:+.1f}" if core in errors else "" for core in cores))
        for (model, precision), errors in sorted(found.items())
    ]
    return (
        "Instructions of an inference, estimated over counted, in percent: all model files of the tests, as "
        "[estimate.md](estimate.md#how-near) fits them. Empty: the board has no room for it, or a proof would take too "
        "long.\n\n" + as_table(("model", *cores), rows) + "\n"
    )


_HOWS: tuple[Callable[[Iterable[float]], float], ...] = (statistics.median, max)


def _kinds(records: Sequence[Record]) -> Mapping[str, Sequence[Record]]:
    """Those that run something, by what they are."""
    kinds = {"networks": range(3, 2**31), "single layers": range(1, 3)}
    found = {kind: [record for record in records if len(record["steps"]) in counts] for kind, counts in kinds.items()}
    return {kind: own for kind, own in found.items() if own}


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
