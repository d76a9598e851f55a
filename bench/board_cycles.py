# SPDX-License-Identifier: Apache-2.0
"""How far the Cortex-M4's timing rules are from published board measurements, and what each rule is worth.

    python bench/board_cycles.py FOLDER [--write]

FOLDER holds `board_cycles.csv`, cycles that programs took on a board without wait states, and `events.csv`, how often
each situation that a rule charges for occurs when they run, beside the cycles by the manual's rules alone. Neither
is part of tinyc: the figures are pqm4's (github.com/mupq/pqm4, benchmarks.csv). --write puts the tables into
docs/cycles.md. Exit code 2 when the files are not there.

The table of halves fits and tests: of random halves of the program families, one chooses which rules to charge for, by
the mean error, and the other half says how far the chosen rules are from its boards.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import random
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tables import ROOT, as_table, write_section

from tinyc.machine.cores import CORES
from tinyc.machine.three_stage import ThreeStage

PAGE = ROOT / "docs" / "cycles.md"
PART = "board errors"
TARGETS = (2.0, 8.0)  # percent: median, largest
HALVES = 200
SEED = 14

# The rules that measurements add: a field of ThreeStage, and the situation that it charges for.
CHARGES = {
    "late_fetch": "long_unaligned_groups_of_3",
    "store_behind_store": "store_then_store",
    "load_behind_store": "store_then_load",
    "fresh_flags": "taken_conditional_flags_set_by_last_two",
    "offset_load": "load_register_offset_first_of_chain",
}
# A move from the FPU whose result the next instruction reads: the manual's rules alone made it wait.
NO_WAIT = "fpu_to_core_move_then_use"


@dataclass(frozen=True, slots=True)
class Row:
    """An operation of a program. board: least cycles there. manual: cycles by the manual's rules. events: how often
    each situation occurs, of the run with the least instructions."""

    program: str
    family: str
    assembly: bool
    board: float
    manual: float
    events: Mapping[str, float]

    def error(self, rules: Iterable[str], charges: Mapping[str, int]) -> float:
        """Percent that these rules are above the board."""
        added = sum(charges[rule] * self.events[CHARGES[rule]] for rule in rules)
        return 100 * ((self.manual + added - self.events[NO_WAIT]) / self.board - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Errors of the Cortex-M4's timing rules against boards")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/cycles.md")
    args = parser.parse_args()
    files = [args.folder / name for name in ("board_cycles.csv", "events.csv")]
    if not all(file.is_file() for file in files):
        print(f"{args.folder} holds no {' and '.join(file.name for file in files)}: nothing to compare with")
        return 2
    rows = read_rows(*files)
    text = tables(rows, charges_of_m4())
    if args.write:
        write_section(PAGE, PART, text, "bench/board_cycles.py", "Against boards")
    print(text)
    median, largest = _of(rows, charges_of_m4())
    return 0 if median <= TARGETS[0] and largest <= TARGETS[1] else 1


def charges_of_m4() -> Mapping[str, int]:
    core = CORES["cortex-m4"]
    assert isinstance(core, ThreeStage)
    return {rule: getattr(core, rule) for rule in CHARGES}


def read_rows(board: Path, events: Path) -> list[Row]:
    """Every operation that both files have."""
    measured = {_key(line): line for line in _lines(board)}
    return [_row(measured[_key(line)], line) for line in _lines(events) if _key(line) in measured]


def _lines(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def _key(line: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(line[part] for part in ("scheme", "implementation", "operation"))


def _row(measured: Mapping[str, str], counted: Mapping[str, str]) -> Row:
    """Events are means of runs; scaled to the run with the least instructions, as `board_min` is the least."""
    share = float(counted["instructions_min"]) / float(counted["instructions"])
    names = (*CHARGES.values(), NO_WAIT)
    family = re.match(r"[a-z]+(-[a-z]+)?", counted["scheme"])
    return Row(
        program="/".join(_key(counted)),
        family=family[0] if family else counted["scheme"],
        assembly=measured["asm_dominated"] == "yes",
        board=float(measured["board_min"]),
        manual=share * float(counted["modelled_cycles_now"]),
        events={name: share * float(counted[name]) for name in names},
    )


def _errors(rows: Iterable[Row], rules: Sequence[str], charges: Mapping[str, int]) -> list[float]:
    return [row.error(rules, charges) for row in rows]


def _of(rows: Sequence[Row], charges: Mapping[str, int], rules: Sequence[str] = tuple(CHARGES)) -> tuple[float, float]:
    """Median and largest error."""
    sizes = [abs(error) for error in _errors(rows, rules, charges)]
    return statistics.median(sizes), max(sizes)


def tables(rows: Sequence[Row], charges: Mapping[str, int]) -> str:
    """The Markdown of the section."""
    return "\n\n".join((_sizes(rows, charges), _each_rule(rows, charges), _halves(rows, charges))) + "\n"


def _sizes(rows: Sequence[Row], charges: Mapping[str, int]) -> str:
    groups = {
        f"all {len(rows)}": list(rows),
        "mostly assembly": [row for row in rows if row.assembly],
        "C, compiled by another gcc than the board's": [row for row in rows if not row.assembly],
    }
    head = ("error in percent", "the manual's rules: median", "largest", "these rules: median", "largest", "mean")
    lines = []
    for name, group in groups.items():
        if group:
            mean = statistics.mean(_errors(group, tuple(CHARGES), charges))
            sizes = (*_of(group, charges, ()), *_of(group, charges))
            lines.append((name, *(f"{size:.1f}" for size in sizes), f"{mean:+.1f}"))
    return as_table(head, lines)


def _each_rule(rows: Sequence[Row], charges: Mapping[str, int]) -> str:
    head = ("without the rule", "charges for", "mean error", "median", "largest")
    lines = []
    for left_out in ("", *CHARGES):
        rules = [rule for rule in CHARGES if rule != left_out]
        errors = [abs(error) for error in _errors(rows, rules, charges)]
        figures = (statistics.mean(errors), statistics.median(errors), max(errors))
        event = CHARGES.get(left_out, "").replace("_", " ")
        lines.append((left_out or "(all rules)", event, *(f"{figure:.2f}" for figure in figures)))
    return as_table(head, lines)


def _halves(rows: Sequence[Row], charges: Mapping[str, int]) -> str:
    chosen: Counter[str] = Counter()
    medians: list[float] = []
    largest: list[float] = []
    plain: list[float] = []
    for fit, test in _splits(rows):
        rules = _best(fit, charges)
        chosen.update(rules)
        for errors, collected in (
            (_of(test, charges, rules), (medians, largest)),
            (_of(test, charges, ()), (plain, [])),
        ):
            for value, place in zip(errors, collected, strict=True):
                place.append(value)
    often = ", ".join(f"`{rule}` {chosen[rule] / HALVES:.0%}" for rule in CHARGES)
    families = len({row.family for row in rows})
    return (
        f"Of {HALVES} random halves of the {families} program families one chose the rules and the other tested them. "
        f"Test medians: {_range(medians)} (with the manual's rules {_range(plain)}), the largest errors "
        f"{_range(largest)}. Chosen: {often}."
    )


def _splits(rows: Sequence[Row]) -> Iterable[tuple[list[Row], list[Row]]]:
    families = sorted({row.family for row in rows})
    rng = random.Random(SEED)
    for _ in range(HALVES):
        half = set(rng.sample(families, len(families) // 2))
        yield [row for row in rows if row.family in half], [row for row in rows if row.family not in half]


def _best(rows: Sequence[Row], charges: Mapping[str, int]) -> tuple[str, ...]:
    """The rules with the least mean error on these rows."""
    every = itertools.chain.from_iterable(itertools.combinations(CHARGES, n) for n in range(len(CHARGES) + 1))
    return min(every, key=lambda rules: statistics.mean(abs(error) for error in _errors(rows, rules, charges)))


def _range(values: Sequence[float]) -> str:
    """From the first tenth to the last."""
    ordered = sorted(values)
    tenth = len(ordered) // 10
    return f"{ordered[tenth]:.1f} to {ordered[-1 - tenth]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
