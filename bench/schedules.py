# SPDX-License-Identifier: Apache-2.0
"""Writes a section of docs/figures.md: how far the order of instructions is from the best one.

    python bench/schedules.py [--seconds 20] [--write]

Slices of the loops of MLPerf Tiny's models, as their libraries are printed for a core, are put into the best order that
there is by an exact solver (OR-tools CP-SAT), under the same timing rules and the same dependences: no order is below
its proved bounds. The models are looked for in TINYC_MODELS.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import ROOT, as_table, write_section

from tinyc.board import load_board
from tinyc.machine.cores import CORES
from tinyc.machine.dual_issue import CortexM7, CortexM33
from tinyc.machine.lines import emitted
from tinyc.machine.list_schedule import Addresses, Pipeline, dependences
from tinyc.machine.listing import functions_in
from tinyc.machine.op import Decoded
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

PAGE = ROOT / "docs" / "figures.md"
PART = "schedules"
MODELS = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models")) / "mlperf_tiny"
NAMES = ("kws", "vww", "ic")
SCHEDULED = ("cortex-m7", "cortex-m33")
SLICE = 40  # instructions
LEAST = 12  # of a piece
STREAM = re.compile(r"tc_(conv2d|fully_connected)")  # functions whose r0 walks through constants


@dataclass(frozen=True, slots=True)
class Piece:
    """Straight code of a function, and what is known of its addresses."""

    function: str
    lines: tuple[str, ...]
    addresses: Addresses

    @property
    def ops(self) -> list[Decoded]:
        return [_op(line) for line in self.lines]


def main() -> int:
    parser = argparse.ArgumentParser(description="Orders of instructions against an exact solver")
    parser.add_argument("--seconds", type=float, default=20, help="that the solver has for a slice")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/figures.md")
    args = parser.parse_args()
    pieces = {core: list(pieces_of(core)) for core in SCHEDULED}
    text = _exact_table(pieces, args.seconds)
    if args.write:
        write_section(PAGE, PART, text + "\n", "bench/schedules.py", "Orders compared")
    else:
        print(text)
    return 0


def pieces_of(core: str) -> Iterator[Piece]:
    """Of every function in assembly of the models' libraries for a board of that core; each piece once."""
    seen = set()
    for name in NAMES:
        options = Options(core, prefer="time")
        compiled = compile_model(MODELS / f"{name}_int8.tflite", load_board(core), options, Progress())
        for text in compiled.files.values():
            for function, lines in functions_in(text).items():
                for piece in _straight(function, lines):
                    if piece.lines not in seen:
                        seen.add(piece.lines)
                        yield piece


def _straight(function: str, lines: Sequence[str]) -> Iterator[Piece]:
    instructions = [_op(line) for line in lines if _is_instruction(line)]
    addresses = Addresses(
        not any(op.takes_stack for op in instructions), frozenset({"r0"} if STREAM.match(function) else ())
    )
    straight: list[str] = []
    for line in (*lines, "end:"):
        op = _op(line) if _is_instruction(line) else None
        if op is None or op.leaves or op.stays:
            if len(straight) >= LEAST:
                yield Piece(function, tuple(straight), addresses)
            straight = []
        else:
            straight.append(line)


def _is_instruction(line: str) -> bool:
    return not line.endswith(":") and not line.startswith(".")


def _op(line: str) -> Decoded:
    mnemonic, _, operands = line.partition(" ")
    return emitted(mnemonic, operands.strip())


# ---- the best order ----


def _exact_table(pieces: Mapping[str, Sequence[Piece]], seconds: float) -> str:
    rows: list[tuple[str, ...]] = []
    total: list[tuple[str, int, int]] = []
    for core in SCHEDULED:
        rules = _pipeline(core)
        for piece in slices(pieces[core]):
            ops = piece.ops
            ours = round(sum(rules.costs(ops)))
            bound, proved = best(ops, rules, piece.addresses, ours, seconds)
            total.append((core, ours, bound))
            kind = re.sub(r"_[0-9a-f]{6}", "", piece.function.removeprefix("tc_"))
            best_text = f"{bound}" if proved else f"at least {bound}"
            above = f"{100 * (ours / bound - 1):.0f} %"
            rows.append((CORES[core].name, kind, f"{len(ops)}", f"{ours}", best_text, above))
            print(*rows[-1], file=sys.stderr)
    sums = []
    for core in SCHEDULED:
        mine = [(ours, bound) for name, ours, bound in total if name == core]
        ours, bound = (sum(column) for column in zip(*mine, strict=True))
        sums.append(f"{CORES[core].name} {100 * (ours / bound - 1):.1f} %")
    head = ("core", "slice of", "instructions", "cycles", "best order", "above")
    said = f"Together, above the best order or the bound that is proved for it: {', '.join(sums)}."
    return as_table(head, rows) + f"\n\n{said}"


def _pipeline(core: str) -> Pipeline:
    rules = CORES[core]
    assert isinstance(rules, CortexM33 | CortexM7)
    return rules


def slices(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """From the middle of the longest piece of one function of each kind."""
    kinds: dict[str, Piece] = {}
    for piece in sorted(pieces, key=lambda piece: -len(piece.lines)):
        kind = re.sub(r"_k\d.*|_i\d+.*|_[0-9a-f]{6}.*", "", piece.function)
        if kind not in kinds and len(piece.lines) >= SLICE:
            kinds[kind] = piece
    for piece in kinds.values():
        first = (len(piece.lines) - SLICE) // 2
        yield Piece(piece.function, piece.lines[first : first + SLICE], piece.addresses)


def best(
    ops: Sequence[Decoded], core: Pipeline, addresses: Addresses, at_most: int, seconds: float
) -> tuple[int, bool]:
    """The fewest cycles of any order, and whether that is proved; else a bound that no order is below."""
    from ortools.sat.python import cp_model  # noqa: PLC0415  an optional package

    model, places = cp_model.CpModel(), range(at_most)
    starts = [[model.new_bool_var(f"{n} {t}") for t in places] for n in range(len(ops))]
    when = [sum(t * starts[n][t] for t in places) for n in range(len(ops))]
    end = model.new_int_var(0, at_most, "end")
    for n, op in enumerate(ops):
        model.add_exactly_one(starts[n])
        model.add(when[n] + core.alone(op) <= end)
    behind, pairing = dependences(ops, core, addresses), [core.pairing(op) for op in ops]
    for first, later in enumerate(behind):
        for second, cycles in later.items():
            model.add(when[second] >= when[first] + cycles)
    for t in places:
        busy = []
        for n, op in enumerate(ops):
            cycles = core.alone(op)
            whole = core.width if cycles > 1 else 1
            busy += [whole * starts[n][at] for at in range(max(0, t - cycles + 1), t + 1)]
        model.add(sum(busy) <= core.width)
    for first in range(len(ops)):
        for second in range(first + 1, len(ops)):
            back = second not in behind[first] and core.pairs(pairing[second], pairing[first])
            if core.width > 1 and not back and not core.pairs(pairing[first], pairing[second]):
                for t in places:
                    model.add_at_most_one(starts[first][t], starts[second][t])
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds, solver.parameters.num_workers = seconds, 2
    status = solver.solve(model)
    bound = max(core.least(ops), round(solver.best_objective_bound))
    return bound, status == cp_model.OPTIMAL or bound == at_most


if __name__ == "__main__":
    sys.exit(main())
