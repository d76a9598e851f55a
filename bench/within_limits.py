# SPDX-License-Identifier: Apache-2.0
"""Writes a section of docs/benchmarks.md: the fastest libraries within limits of flash and RAM.

    python bench/within_limits.py

Every row is a build for a Cortex-M4 with --prefer time, proved byte for byte against TensorFlow Lite Micro's outputs.
"""

from __future__ import annotations

import sys

from choices import measure
from tables import PAGE, as_table, write_section

from tinyc.base.errors import TinycError
from tinyc.options.build import Options

BOARD = "cortex-m4"
# Flash and RAM that ST Edge AI Core 4.0.1 states for the same files (stm32f4, its balanced setting).
ST = {
    "kws": (55_088, 18_556),
    "person": (255_369, 41_456),
    "ic": (119_441, 44_712),
    "ad": (279_410, 2_048),
}
TIMES = {"person": "9.6M"}  # of what is as much worth by `time`, this is kept by a larger arena
HEAD = ("model", "options", "flash", "arena", "instructions", "modelled cycles", "different bytes")
WORDS = """The limits are the flash and the RAM that ST Edge AI Core 4.0.1 states for the same files (stm32f4, its
balanced setting). It states no cycles for these builds; [published results](#board-estimates-beside-published-results)
of its runtime on a board are above."""
TITLE = f"Within the flash and RAM of ST Edge AI on {BOARD}"


def main() -> int:
    rows, good = [], True
    asked = [(model, time) for model in ST for time in dict.fromkeys((None, TIMES.get(model)))]
    for model, time in asked:
        flash, ram = ST[model]
        report = measure(model, Options(BOARD, prefer="time", flash=flash, ram=ram, time=time))
        assert report is not None  # of models with whole inputs
        good &= report.passed
        taken = report.flash.code_bytes + report.flash.const_bytes
        numbers = (taken, report.arena_bytes, report.instructions, report.cycles, report.verify.mismatches)
        options = f"`--prefer time --flash {flash} --ram {ram}{f' --time {time}' if time else ''}`"
        rows.append([model, options, *("-" if number is None else f"{number:,}" for number in numbers)])
    text = f"{WORDS}\n\n{as_table(HEAD, rows)}\n"
    write_section(PAGE, f"within limits on {BOARD}", text, "bench/within_limits.py", TITLE)
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TinycError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
