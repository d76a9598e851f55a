# SPDX-License-Identifier: Apache-2.0
"""Writes a section of docs/figures.md: what LLVM's scheduling models say of our loops, beside our timing rules.

    python bench/mca.py [--mca llvm-mca] [--model kws ...] [--write]

Slices of the loops of MLPerf Tiny's models, as their libraries are printed for a core, are counted by the rules that
tinyc counts cycles by, and by llvm-mca, both as a loop that turns again and again. llvm-mca is part of LLVM
(`apt install llvm`); its models are LLVM's and no measurement. The models are looked for in TINYC_MODELS.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import schedules
from schedules import Piece
from tables import ROOT, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.machine.cores import CORES

PAGE = ROOT / "docs" / "figures.md"
PART = "llvm-mca"
MODELS = ("kws", "ad", "sww")
FEW, MANY = 20, 120  # turns; what they differ by is the loop's own, without how it begins and ends
_TOTAL = re.compile(r"Total Cycles:\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A core as LLVM knows it. model: the scheduling model that it takes for it."""

    triple: str
    cpu: str
    model: str


SCHEDULED = {
    "cortex-m4": Scheduled("thumbv7em-none-eabi", "cortex-m4", "CortexM4Model"),
    "cortex-m7": Scheduled("thumbv7em-none-eabi", "cortex-m7", "CortexM7Model"),
    "cortex-m33": Scheduled("thumbv8m.main-none-eabi", "cortex-m33", "CortexM4Model"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Our cycles of loops beside llvm-mca's")
    parser.add_argument("--mca", default="llvm-mca", help="the program")
    parser.add_argument("--model", action="append", help="only these models")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/figures.md")
    args = parser.parse_args()
    program = shutil.which(args.mca)
    if program is None:
        raise TinycError(f"{args.mca} is not installed", hint="apt install llvm, or --mca PATH")
    schedules.NAMES = tuple(args.model or MODELS)
    text = f"{_version(program)}.\n\n" + "\n\n".join(_table(program, core) for core in SCHEDULED)
    if args.write:
        write_section(PAGE, PART, text + "\n", "bench/mca.py", "A second opinion: llvm-mca")
    else:
        print(text)
    return 0


def _table(program: str, core: str) -> str:
    rows, ratios = [], []
    for piece in schedules.slices(list(schedules.pieces_of(core))):
        ours, theirs = our_cycles(core, piece), mca_cycles(program, SCHEDULED[core], piece.lines)
        kind = re.sub(r"_[0-9a-f]{6}", "", piece.function.removeprefix("tc_"))
        ratios.append(theirs / ours)
        rows.append(
            (CORES[core].name, kind, f"{len(piece.lines)}", f"{ours:.1f}", f"{theirs:.1f}", f"{ratios[-1]:.2f}")
        )
    head = ("core", "slice of", "instructions", "our cycles", f"{SCHEDULED[core].model}", "ratio")
    said = f"{CORES[core].name}: median ratio {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}."
    return as_table(head, rows) + f"\n\n{said}"


def our_cycles(core: str, piece: Piece) -> float:
    """Of a turn of a loop of the piece, without its branch."""
    ops = piece.ops
    few, many = (sum(CORES[core].costs(ops * turns)) for turns in (2, 6))
    return (many - few) / 4


def mca_cycles(program: str, core: Scheduled, lines: Sequence[str]) -> float:
    """The same by llvm-mca."""
    totals = [_total(program, core, lines, turns) for turns in (FEW, MANY)]
    return (totals[1] - totals[0]) / (MANY - FEW)


def _total(program: str, core: Scheduled, lines: Sequence[str], turns: int) -> int:
    command = [program, f"-mtriple={core.triple}", f"-mcpu={core.cpu}", f"-iterations={turns}", "-instruction-info=0"]
    text = "\n".join((".syntax unified", *lines, ""))
    ran = subprocess.run([*command, "-"], input=text, capture_output=True, text=True, check=False)
    total = _TOTAL.search(ran.stdout)
    if total is None:
        raise TinycError(f"llvm-mca says no cycles of a slice for {core.cpu}: {ran.stderr.strip()[:200]}")
    return int(total[1])


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"LLVM version (\S+)", said)
    return f"LLVM {version[1]}" if version else "LLVM"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
