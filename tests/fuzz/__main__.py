# SPDX-License-Identifier: Apache-2.0
"""The command: `python -m tests.fuzz --minutes 60 --seed 1`, or `make fuzz MINUTES=60 SEED=1`.

    python -m tests.fuzz --cases 200 --targets onnx tflite     # a number of cases of some targets
    python -m tests.fuzz --case networks:17                    # one case again, with all that is known of it
    python -m tests.fuzz --list                                # the targets

Exit code 0: nothing found; 1: defects, which are printed and written to `--out`; 2: the options make no sense.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.case import Case, Outcome, Target
from tests.fuzz.shrinking import smaller
from tests.fuzz.targets import TARGETS
from tests.fuzz.work import Worker
from tinyc.base.errors import TinycError

TURN_SECONDS = 20.0  # of one target, before another has its turn
SHRUNK = 12  # defects of one target that are made smaller; more would take the time of finding others


@dataclass
class Tally:
    """What has come of a target so far."""

    cases: int = 0
    seconds: float = 0.0
    words: Counter[str] = field(default_factory=Counter)
    defects: dict[str, Outcome] = field(default_factory=dict)  # by signature, the first of each
    repeats: Counter[str] = field(default_factory=Counter)


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.list:
        for target in TARGETS.values():
            print(f"{target.name:10} {target.about}")
        return 0
    try:
        if given.case:
            return _again(Case.parse(given.case))
        chosen = (
            [_target(name) for name in given.targets] if given.targets else [t for t in TARGETS.values() if t.share]
        )
    except TinycError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    tallies = _fuzz(chosen, given.seed, given.minutes, given.cases)
    _write(given.out, given.seed, tallies)
    return 1 if any(tally.defects for tally in tallies.values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Tries to break tinyc.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long, over all targets (default 10)")
    parser.add_argument("--cases", type=int, help="so many cases of each target instead")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other cases (default 1)")
    parser.add_argument("--targets", nargs="+", metavar="TARGET", help="some of them; see --list")
    parser.add_argument("--case", help="one case again: TARGET:SEED or TARGET:SEED:PIECE.PIECE...")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="folder of the report (default build/fuzz)"
    )
    parser.add_argument("--list", action="store_true", help="name the targets")
    return parser


def _target(name: str) -> Target:
    if name not in TARGETS:
        raise TinycError(f"there is no target '{name}'", hint=f"there are: {', '.join(TARGETS)}")
    return TARGETS[name]


def _usual() -> list[str]:
    return [target.name for target in TARGETS.values() if target.share]


def _again(case: Case) -> int:
    target = _target(case.target)
    print(target.describe(case.seed, target.subset_of(case)))
    worker = Worker(target)
    outcome = worker.run(case)
    worker.close()
    print(f"{case}: {outcome.word or outcome.signature}")
    print(outcome.text, end="")
    return int(outcome.failed)


def _fuzz(targets: list[Target], seed: int, minutes: float, cases: int | None) -> dict[str, Tally]:
    """Turn after turn of the target that is furthest behind its share of the time."""
    tallies = {target.name: Tally() for target in targets}
    end = time.monotonic() + 60 * minutes
    while True:
        waiting = [t for t in targets if cases is None or tallies[t.name].cases < cases]
        if not waiting or (cases is None and time.monotonic() >= end):
            return tallies
        target = min(waiting, key=lambda t: tallies[t.name].seconds / (t.share or 1))
        _turn(target, tallies[target.name], seed, end if cases is None else None, cases)


def _turn(target: Target, tally: Tally, seed: int, end: float | None, cases: int | None) -> None:
    """Cases of one target, for TURN_SECONDS, or to the end of the time or of the cases."""
    worker, began = Worker(target), time.monotonic()
    while (now := time.monotonic()) < began + TURN_SECONDS and (end is None or now < end):
        if cases is not None and tally.cases >= cases:
            break
        outcome = worker.run(Case(target.name, seed * 1_000_000 + tally.cases))
        tally.cases += 1
        if outcome.failed:
            _record(worker, tally, outcome)
        else:
            tally.words[outcome.word] += 1
    worker.close()
    tally.seconds += time.monotonic() - began


def _record(worker: Worker, tally: Tally, outcome: Outcome) -> None:
    tally.repeats[outcome.signature] += 1
    if outcome.signature in tally.defects:
        return
    if len(tally.defects) < SHRUNK:
        outcome = smaller(outcome, worker.target.pieces(outcome.case.seed), worker.run)
    tally.defects[outcome.signature] = outcome
    print(f"\n{outcome.case}: {outcome.signature}\n{outcome.text}", flush=True)
    print(f"again: make fuzz CASE={outcome.case}", flush=True)


def _write(folder: Path, seed: int, tallies: dict[str, Tally]) -> None:
    """The table on the screen, and everything in `report.json`."""
    print(f"\n{'target':10} {'cases':>8} {'seconds':>8} {'defects':>8}  outcomes")
    for name, tally in tallies.items():
        words = ", ".join(f"{count} {word}" for word, count in tally.words.most_common())
        print(f"{name:10} {tally.cases:8} {tally.seconds:8.0f} {len(tally.defects):8}  {words}")
    report = {
        name: {
            "cases": tally.cases,
            "seconds": round(tally.seconds, 1),
            "outcomes": dict(tally.words),
            "defects": [
                {"case": str(o.case), "signature": s, "seen": tally.repeats[s], "text": o.text}
                for s, o in tally.defects.items()
            ],
        }
        for name, tally in tallies.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"seed": seed, "targets": report}, indent=2)
    (folder / "report.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
