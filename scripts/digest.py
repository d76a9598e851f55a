# SPDX-License-Identifier: Apache-2.0
"""A digest of everything that tinyc generates, to show that a change of the code changed no library.

    python scripts/digest.py write FILE              # before: one line for each combination of model, board and options
    python scripts/digest.py compare FILE            # after: what differs, exit code 1 if anything does
    python scripts/digest.py write FILE --only 'kws.* cortex-m4'   # those whose names match; quicker
    python scripts/digest.py files COMBINATION DIR   # the files themselves, to be compared by eye

Models come from TINYC_MODELS (default ../shared/models). A combination that tinyc refuses is a line too: its message.
Float models are quantized with a quick recipe, since it is the code generator that is watched here and not the search
for ranges. All combinations together take about 45 minutes of CPU.

The banner of a library bears the version of tinyc; compare digests of one version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from tinyc import pipeline
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.pipeline.compiling import compile_model
from tinyc.quantize import Recipe

ROOT = Path(__file__).resolve().parents[1]
MODELS = Path(os.environ.get("TINYC_MODELS", ROOT.parent / "shared" / "models"))

BOARDS = ("cortex-m4", "cortex-m0plus", "cortex-m3", "cortex-m55", "riscv32imc", "host")
FURTHER_BOARDS = ("cortex-m33", "cortex-m7", "nucleo-l4r5zi", "esp32-c3", "raspberry-pi-pico")
QUICK = Recipe("minmax", equalize=False, rounding="nearest", augment=False)
FIVE = ("kws", "vww", "ic", "ad", "sww")

OPTIONS: Mapping[str, Mapping[str, object]] = {
    "default": {},
    "speed": {"memory": "speed"},
    "min": {"memory": "min"},
    "rows": {"memory": "min", "input_rows": True},
    "size": {"optimize": "size"},
    "balanced": {"optimize": "balanced"},
    "litert": {"numerics": Numerics.LITERT},
    "flash": {"flash_budget": 158_000},
    "window": {"incremental": 1},
}
RECIPES: Mapping[str, Recipe] = {
    "int8": QUICK,
    "int4": replace(QUICK, weights="int4"),
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


def generate(combination: Combination) -> Mapping[str, str]:
    """The text of every file of the library by its name; raises TinycError."""
    options = pipeline.Options(board=combination.board, **combination.options)  # type: ignore[arg-type]
    return compile_model(combination.model, load_board(combination.board), options, pipeline.Progress()).files


def line(combination: Combination) -> tuple[str, float]:
    """What the digest says of a combination, and the CPU seconds that it took."""
    began = time.process_time()
    try:
        said = digest(generate(combination))
    except TinycError as error:
        said = "refused: " + re.sub(r"\s+", " ", error.message)
    return f"{combination.name}: {said}", time.process_time() - began


def digest(files: Mapping[str, str]) -> str:
    """The first half of the SHA-256 of all names and texts."""
    whole = hashlib.sha256()
    for name, text in sorted(files.items()):
        whole.update(f"{name}\0{text}\0".encode())
    return whole.hexdigest()[:32]


def lines(only: str, jobs: int) -> list[str]:
    chosen = [each for each in combinations() if re.search(only, each.name)]
    with ProcessPoolExecutor(jobs) as pool:
        said = []
        for number, (text, seconds) in enumerate(pool.map(line, chosen), 1):
            print(f"{number}/{len(chosen)} {seconds:6.1f} s  {text}", file=sys.stderr)
            said.append(text)
    return sorted(said)


def compare(file: Path, only: str, jobs: int) -> int:
    """Prints the combinations that differ from the file's; 1 if there are any."""
    told = {text.split(": ", 1)[0]: text for text in file.read_text().splitlines()}
    before = {name: text for name, text in told.items() if re.search(only, name)}
    after = {text.split(": ", 1)[0]: text for text in lines(only, jobs)}
    differing = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    for name in differing:
        print(f"- {before.get(name, name + ': not there')}\n+ {after.get(name, name + ': not there')}")
    print(f"{len(before)} before, {len(after)} after, {len(differing)} differ")
    return 1 if differing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("write", "compare", "files"))
    parser.add_argument("file", help="the file of digests, or the name of a combination")
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.what == "compare":
        return compare(Path(given.file), given.only, given.jobs)
    if given.what == "write":
        Path(given.file).write_text("\n".join(lines(given.only, given.jobs)) + "\n")
        return 0
    found = next(each for each in combinations() if each.name == given.file)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, text in generate(found).items():
        (given.folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
