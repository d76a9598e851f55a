# SPDX-License-Identifier: Apache-2.0
"""What tinyc generates, measured in three ways, to show what a change of the code changed.

    python scripts/digest.py write FILE              # before: a line for each combination of model, board and options
    python scripts/digest.py compare FILE            # after: what differs, exit code 1 if anything does
    python scripts/digest.py compare FILE --gate seen    # only what the board's compiler sees must be equal
    python scripts/digest.py compare FILE --gate costs   # only no cost may be above what it was
    python scripts/digest.py write FILE --only 'kws.* cortex-m4'   # those whose names match; quicker
    python scripts/digest.py files COMBINATION DIR   # the files themselves, to be compared by eye

Gates:
  text    every file of the library, byte for byte
  seen    what the board's compiler sees: its C files after its own preprocessor, without comments and layout. Twins
          that only another computer compiles may change, the names of functions, as far as they are digests of their
          text, and the files in which functions stand
  costs   what `tinyc estimate` says: instructions, cycles, bytes of code, of constants, of the arena; none above before

With `--prove` costs are also counted: one input runs on the board's machine (instructions, cycles, stack), and compiled
code and constants are measured. That takes ten times as long, so give `--only` too.

Models come from TINYC_MODELS (default ../shared/models). A combination that tinyc refuses is a line too: its message.
Float models are quantized with a quick recipe, since it is the code generator that is watched here and not the search
for ranges. All combinations together take about 45 minutes of CPU.

The banner of a library bears the version of tinyc; compare files of one version.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.explain.estimate import estimate
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import Compiled, compile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.toolchain.compile import CODE_FLAGS
from tinyc.toolchain.compilers import OPTIMIZE_FLAGS, find_toolchain

ROOT = Path(__file__).resolve().parents[1]
MODELS = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models"))

BOARDS = ("cortex-m4", "cortex-m0plus", "cortex-m3", "cortex-m55", "riscv32imc", "host")
FURTHER_BOARDS = ("cortex-m33", "cortex-m7", "nucleo-l4r5zi", "esp32-c3", "raspberry-pi-pico")
QUICK = Recipe("minmax", equalize=False, rounding="nearest", augment=False)
FIVE = ("kws", "vww", "ic", "ad", "sww")

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    "time": {"prefer": "time"},
    "ram": {"prefer": "ram"},
    "rows": {"prefer": "ram", "input_rows": True},
    "size": {"prefer": "flash"},
    "litert": {"numerics": Numerics.LITERT},
    "flash": {"flash": 158_000},
    "window": {"incremental": 1},
}
RECIPES: Mapping[str, Recipe] = {
    "int8": QUICK,
    "int4": replace(QUICK, weights="int4", rounding="learned"),
    "int16": replace(QUICK, activations="int16"),
}


@dataclass(frozen=True, slots=True)
class Combination:
    """One library: its name here, the file, the board, and the options beside the board."""

    name: str
    model: Path
    board: str
    options: Mapping[str, object]


def combinations() -> Iterator[Combination]:
    """Every published model on every core; the five of MLPerf Tiny with all options too."""
    for path in sorted([*MODELS.rglob("*.tflite"), *MODELS.rglob("*.onnx")]):
        label = str(path.relative_to(MODELS))
        float_model = "fp32" in path.name
        for board in BOARDS:
            for option, values in RECIPES.items() if float_model else [("default", None)]:
                options = {"recipe": values} if values else {}
                yield Combination(f"{label} {board} {option}", path, board, options)
    for model in FIVE:
        path = MODELS / "mlperf_tiny" / f"{model}_int8.tflite"
        for board in (*BOARDS, *FURTHER_BOARDS):
            for option, chosen in OPTIONS.items():
                if board in FURTHER_BOARDS or chosen:
                    yield Combination(f"{model} {board} {option}", path, board, chosen)


Measured = Mapping[str, str | int]  # of a combination: "text", "seen" and its costs, or why it is refused
GATES = ("text", "seen", "costs")
_OWN_DIGEST = re.compile(r"(_tinyc_digest, )0x[0-9a-f]{8}")  # in a library: of its text, comments and all
_NAME_DIGEST = re.compile(r"(?<=_)[0-9a-f]{6}(?=_|\b)")  # in a function's name: of its text, twin and all
_WORD_OF_C = re.compile(r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | \w+ | [-+*/%&|^<>=!]+ | [^\w\s] """, re.VERBOSE)


def options_of(combination: Combination) -> Options:
    return Options(board=combination.board, samples=1, **combination.options)  # type: ignore[arg-type]


def generate(combination: Combination) -> Compiled:
    """The library; raises TinycError."""
    options = options_of(combination)
    return compile_model(combination.model, load_board(combination.board), options, Progress())


def measure(combination: Combination, proved: bool) -> tuple[str, Measured, float]:
    """A combination's name, what is said of it, and the CPU seconds that it took."""
    began = time.process_time()
    measured: Measured
    try:
        compiled = generate(combination)
        measured = {
            "text": digest(compiled.files),
            "seen": seen(compiled.files, combination),
            **costs(compiled, combination, proved),
        }
    except TinycError as error:
        measured = {"refused": re.sub(r"\s+", " ", error.message)}
    return combination.name, measured, time.process_time() - began


def digest(texts: Mapping[str, str]) -> str:
    """The first half of the SHA-256 of all names and texts."""
    whole = hashlib.sha256()
    for name, text in sorted(texts.items()):
        whole.update(f"{name}\0{text}\0".encode())
    return whole.hexdigest()[:32]


def seen(files: Mapping[str, str], combination: Combination) -> str:
    """The digest of the library's C files as the board's preprocessor prints them, word by word."""
    toolchain = find_toolchain(load_board(combination.board))
    flags = (*toolchain.target_flags, *CODE_FLAGS, OPTIMIZE_FLAGS[options_of(combination).optimize])
    with tempfile.TemporaryDirectory(prefix="tinyc-digest-") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        preprocessed = {}
        for name in files:
            if name.endswith(".c"):
                command = [*toolchain.command, *flags, "-ffreestanding", "-E", "-P", name]
                done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
                text = numbered(_OWN_DIGEST.sub(r"\1", done.stdout))
                preprocessed[name] = " ".join(_WORD_OF_C.findall(text))
    return digest(preprocessed)


def numbered(text: str) -> str:
    """C text with numbers, in order of appearance, for the digests in names."""
    numbers: dict[str, str] = {}
    return _NAME_DIGEST.sub(lambda part: numbers.setdefault(part[0], str(len(numbers))), text)


def costs(compiled: Compiled, combination: Combination, proved: bool) -> Mapping[str, int]:
    """What the library takes, as it is estimated; proved: as it is counted, too."""
    board = load_board(combination.board)
    said = estimate(combination.model.name, compiled.program, board)
    figures: dict[str, int | None] = {
        "instructions": said.instructions,
        "cycles": said.cycles,
        "code": said.code_bytes,
        "constants": said.const_bytes,
        "arena": said.arena_bytes,
    }
    if proved:
        report = prove(compiled, board, options_of(combination), Progress())
        figures |= {
            "counted instructions": report.instructions,
            "counted cycles": report.cycles,
            "compiled code": report.flash.code_bytes,
            "compiled constants": report.flash.const_bytes,
            "stack": report.stack_bytes,
        }
    return {name: figure for name, figure in figures.items() if figure is not None}


def measure_all(only: str, jobs: int, proved: bool) -> dict[str, Measured]:
    chosen = [each for each in combinations() if re.search(only, each.name)]
    measured = {}
    with ProcessPoolExecutor(jobs) as pool:
        one = functools.partial(measure, proved=proved)
        for number, (name, figures, seconds) in enumerate(pool.map(one, chosen), 1):
            print(f"{number}/{len(chosen)} {seconds:6.1f} s  {name}: {json.dumps(figures)}", file=sys.stderr)
            measured[name] = figures
    return dict(sorted(measured.items()))


def in_file(measured: Mapping[str, Measured]) -> str:
    """JSON, a combination a line."""
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(said)}" for name, said in measured.items()) + "\n}\n"


def differences(before: Measured, after: Measured, gate: str) -> list[str]:
    """What of a combination does not pass the gate, in words."""
    if "refused" in {**before, **after}:
        return [] if before == after else [f"- {dict(before)}", f"+ {dict(after)}"]
    if gate != "costs":
        return [] if before[gate] == after[gate] else [f"{gate} differs"]
    figures = {name for name in before.keys() & after.keys() if isinstance(before[name], int)}
    return [f"{name} {before[name]:,} -> {after[name]:,}" for name in sorted(figures) if after[name] > before[name]]  # type: ignore[operator]


def compare(before: Mapping[str, Measured], after: Mapping[str, Measured], gate: str) -> int:
    """Prints the combinations that do not pass the gate; 1 if there are any."""
    missing = before.keys() ^ after.keys()
    failed = {name: differences(before[name], after[name], gate) for name in before.keys() & after.keys()}
    failed = {name: said for name, said in failed.items() if said} | {name: ["in one of both only"] for name in missing}
    for name, said in sorted(failed.items()):
        print(f"{name}: {'; '.join(said)}")
    print(f"{len(before)} before, {len(after)} after, {len(failed)} do not pass {gate}")
    print_sums(before, after)
    return 1 if failed else 0


def print_sums(before: Mapping[str, Measured], after: Mapping[str, Measured]) -> None:
    """Of every cost that changed, the sum of all combinations."""
    both = before.keys() & after.keys()
    for cost in sorted({name for key in both for name, figure in before[key].items() if isinstance(figure, int)}):
        sums = [sum(int(said[key].get(cost, 0)) for key in both) for said in (before, after)]
        if sums[0] != sums[1]:
            print(f"{cost}: {sums[0]:,} -> {sums[1]:,} in all")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare", "files"))
    parser.add_argument("file", help="the file of figures, or the name of a combination")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--gate", choices=GATES, default="text", help="what `compare` holds")
    parser.add_argument("--prove", action="store_true", help="count costs on the board's machine, too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.what == "files":
        combination = next(each for each in combinations() if each.name == given.file)
        given.folder.mkdir(parents=True, exist_ok=True)
        for name, text in generate(combination).files.items():
            (given.folder / name).write_text(text)
        return 0
    measured = measure_all(given.only, given.jobs, given.prove)
    if given.what == "write":
        Path(given.file).write_text(in_file(measured))
        return 0
    before = json.loads(Path(given.file).read_text())
    return compare({name: said for name, said in before.items() if re.search(given.only, name)}, measured, given.gate)


if __name__ == "__main__":
    sys.exit(main())
