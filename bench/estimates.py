# SPDX-License-Identifier: Apache-2.0
"""Measures how far `tinyc estimate` is from proofs, and what kernels really cost on each core.

    python bench/estimates.py --records FILE.jsonl [--boards cortex-m4 ...] [MODEL ...]   # measure, then fit
    python bench/estimates.py --records FILE.jsonl --fit                                  # fit what was measured

Every record is a proof of a model on a board: instructions of each step and code bytes beside what the kernels say.
From all of them come tinyc/explain/measured_costs.json and the table of docs/estimate.md. The errors there are those of
models that the fit has not seen: each model is estimated with what the others say.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tables import ROOT, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.build.elf import read_elf
from tinyc.explain.estimate import MeasuredCosts, assembly_bytes, estimate
from tinyc.pipeline import Options, Progress, compile_model
from tinyc.pipeline.proving import prove_in

PAGE = ROOT / "docs" / "estimate.md"
COSTS = ROOT / "tinyc" / "explain" / "measured_costs.json"
BOARDS = ("cortex-m4", "cortex-m55", "cortex-m3", "cortex-m0plus", "riscv32imc")
HEAD = (
    "core",
    "models",
    "instructions, median error",
    "largest",
    "code, median error",
    "largest",
    "arena",
    "constants",
)

Record = Mapping[str, Any]


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
    fitted = fit(records)
    COSTS.write_text(json.dumps(fitted, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    rows = [_row(core, own) for core, own in _by_core(records).items()]
    write_section(PAGE, "errors", as_table(HEAD, rows) + "\n", "bench/estimates.py", "How near")
    return 0


def _read(file: Path) -> list[Record]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def _measure_all(file: Path, models: Sequence[Path], boards: Sequence[str]) -> None:
    done = {(record["model"], record["board"]) for record in _read(file)}
    for model in models:
        for board in boards:
            if (model.name, board) not in done:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(_measure(model, board)) + "\n")


def _measure(model: Path, name: str) -> Record:
    board, options, progress = load_board(name), Options(name, samples=1), Progress()
    record: dict[str, Any] = {"model": model.name, "board": name, "core": board.core}
    try:
        compiled = compile_model(model, board, options, progress)
        with tempfile.TemporaryDirectory() as folder:
            report = prove_in(Path(folder), compiled, board, options, progress)
            elf = read_elf(Path(folder) / "firmware" / f"{compiled.program.name}.elf")
            functions = elf.step_functions(compiled.program.name)
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
        "steps": [
            {
                "kernel": step.kernel,
                "said": step.instructions,
                "counted": layer.instructions,
                "code": functions[step.step].size if step.step in functions else 0,
            }
            for step, layer in zip(said.layers, report.layers, strict=True)
        ],
    }


def _by_core(records: Iterable[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        found[record["core"]].append(record)
    return dict(found)


def fit(records: Sequence[Record]) -> dict[str, Any]:
    """What measured_costs.json holds."""
    parts = {core: _fit_core(own) for core, own in _by_core(records).items()}
    errors = {core: _words(_errors(own)[0]) for core, own in _by_core(records).items()}
    return {
        "kernels": {core: kernels for core, (kernels, _, _) in parts.items()},
        "code": {core: code for core, (_, code, _) in parts.items()},
        "base": {core: base for core, (_, _, base) in parts.items()},
        "errors": errors,
    }


Line = tuple[float, float]


def _fit_core(records: Sequence[Record]) -> tuple[dict[str, Line], dict[str, int], int]:
    """By kernel: factor and summand that make counted instructions of said ones, and bytes of a step's function; `""`:
    for any other kernel. Bytes of the rest."""
    pairs: dict[str, set[tuple[float, float]]] = defaultdict(set)  # equal layers count once
    code: dict[str, list[int]] = defaultdict(list)
    for record in records:
        for step in record["steps"]:
            pairs[step["kernel"]].add((step["said"], step["counted"]))
            for kernel in (step["kernel"], ""):
                code[kernel].append(step["code"])
    kernels = {kernel: _line(sorted(own)) for kernel, own in pairs.items()}
    kernels[""] = (round(statistics.median(c / s for own in pairs.values() for s, c in own if s), 4), 0.0)
    steps = {kernel: round(statistics.median(sizes)) for kernel, sizes in code.items()}
    rest = [record["code_bytes"] - record["assembly_bytes"] - _steps_code(record, steps) for record in records]
    return kernels, steps, round(statistics.median(rest))


def _line(pairs: Sequence[tuple[float, float]]) -> Line:
    """The line with the least relative errors through (said, counted); through zero where there are only one or two, or
    where it would begin below."""
    said, counted = (np.array(column, np.float64) for column in zip(*pairs, strict=True))
    ratio = (round(float(np.median(counted / np.maximum(said, 1))), 4), 0.0)
    if len(pairs) < 3:
        return ratio
    (factor, summand), *_ = np.linalg.lstsq(
        np.stack([said, np.ones_like(said)], 1) / counted[:, None], np.ones(len(said))
    )
    return (round(float(factor), 4), round(float(summand), 1)) if factor > 0 and summand >= 0 else ratio


def _steps_code(record: Record, steps: Mapping[str, int]) -> int:
    return sum(steps.get(step["kernel"], steps[""]) for step in record["steps"])


def _errors(records: Sequence[Record]) -> tuple[list[float], list[float]]:
    """Relative errors of instructions and code of each model, estimated with what the other models say."""
    instructions, code = [], []
    for record in records:
        others = [other for other in records if other["model"].partition("_")[0] != record["model"].partition("_")[0]]
        if not others or not record["instructions"]:
            continue
        kernels, steps, base = _fit_core(others)
        lines = [(step["said"], kernels.get(step["kernel"], kernels[""])) for step in record["steps"]]
        total = sum(said * factor + summand for said, (factor, summand) in lines)
        instructions.append(total / record["instructions"] - 1)
        size = record["assembly_bytes"] + _steps_code(record, steps) + base
        code.append(size / record["code_bytes"] - 1)
    return instructions, code


def _words(errors: Sequence[float]) -> str:
    if not errors:
        return "not measured"
    sizes = [abs(error) for error in errors]
    return f"{100 * statistics.median(sizes):.1f} % median, {100 * max(sizes):.1f} % at most, of {len(sizes)} models"


def _row(core: str, records: Sequence[Record]) -> tuple[str, ...]:
    instructions, code = ([abs(error) for error in errors] for errors in _errors(records))
    equal = sum(record["arena_bytes"] == record["said"]["arena_bytes"] for record in records)
    constants = max(abs(r["said"]["const_bytes"] - r["const_bytes"]) for r in records)
    shares = [f"{100 * how(errors):.1f} %" for errors in (instructions, code) for how in (statistics.median, max)]
    return (core, str(len(records)), *shares, f"{equal} equal", f"within {constants:,} bytes")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
