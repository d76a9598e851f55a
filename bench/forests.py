# SPDX-License-Identifier: Apache-2.0
"""Forests of scikit-learn as C by tinyc, emlearn and m2cgen: flash and instructions on a Cortex-M4, and decisions.

    pip install scikit-learn skl2onnx emlearn m2cgen
    python bench/forests.py [--only rf_digits] [--json FILE]

All are compiled by arm-none-eabi-gcc -O2 for a Cortex-M4 with FPU, linked without what is not used, and run on unicorn.
flash: code and constants of the linked program less those of an empty one, so with the double arithmetic that m2cgen's
code calls. instructions: of one prediction, the mean over samples; class only. differ: predictions that are not
scikit-learn's, of samples that no tool was shaped on. emlearn: leaves of 8 bits, as by default; int16 features where
the data are integers, else floats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import emlearn
import m2cgen
import numpy as np
import unicorn
import unicorn.arm_const as arm
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

FLAGS = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-O2", "-std=gnu99", "-w"]
LINKED = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-nostartfiles", "-Wl,-e,predict"]
SAMPLES = 40
_END = 0x1F000000  # where a call returns to

TINYC = """#include "forest.h"
#include "forest.c"
static forest_arena_t arena;
float input[COUNT];
double result;
void predict(void)
{
    TYPE *features = forest_input_0(&arena);
    for (int i = 0; i < COUNT; i++) features[i] = input[i];
    forest_run(&arena);
    result = RESULT;
}
"""
M2CGEN = """float input[COUNT];
double result;
static double features[COUNT], out[CLASSES];
void predict(void)
{
    for (int i = 0; i < COUNT; i++) features[i] = input[i];
    SCORE
}
"""
MOST = """score(features, out);
    int best = 0;
    for (int i = 1; i < CLASSES; i++) best = out[i] > out[best] ? i : best;
    result = best;"""
EMLEARN = """#include "model.h"
float input[COUNT];
double result;
static TYPE features[COUNT];
void predict(void)
{
    for (int i = 0; i < COUNT; i++) features[i] = (TYPE)input[i];
    result = model_predict(features, COUNT);
}
"""
EMPTY = "float input[COUNT];\ndouble result;\nvoid predict(void)\n{\n    result = input[0];\n}\n"


@dataclass(frozen=True)
class Row:
    """instructions: the mean of a prediction."""

    forest: str
    tool: str
    flash_bytes: int
    instructions: int
    differ: int
    samples: int


def forests() -> Iterator[tuple[str, Any, np.ndarray, bool]]:
    """(name, trained forest, features of which every second row was learned, whether they are integers)."""
    iris, digits, cancer, diabetes = (
        load(return_X_y=True) for load in (load_iris, load_digits, load_breast_cancer, load_diabetes)
    )
    many = [
        ("iris, 10 trees", iris, RandomForestClassifier(10, random_state=0), False),
        ("digits, 10 trees of depth 8", digits, RandomForestClassifier(10, max_depth=8, random_state=0), True),
        ("digits, 50 trees", digits, RandomForestClassifier(50, random_state=0), True),
        ("breast cancer, 20 trees of depth 4", cancer, RandomForestClassifier(20, max_depth=4, random_state=0), False),
        ("breast cancer, 100 trees", cancer, RandomForestClassifier(100, random_state=0), False),
        ("diabetes, 10 trees of depth 6", diabetes, RandomForestRegressor(10, max_depth=6, random_state=0), False),
    ]
    for name, (x, y), model, integers in many:
        model.fit(x[::2].astype(np.float32), y[::2])
        yield name, model, x.astype(np.float32), integers


def sources(model: Any, x: np.ndarray, integers: bool, folder: Path) -> Iterator[tuple[str, str]]:
    """(tool, C text) in a folder that holds the headers."""
    classes = len(getattr(model, "classes_", [0]))
    sizes = {"COUNT": str(x.shape[1]), "CLASSES": str(classes)}
    yield "empty", filled(EMPTY, sizes)
    options = {"zipmap": False} if classes > 1 else None
    features = Int64TensorType if integers else FloatTensorType
    inputs = [("x", features([None, x.shape[1]]))]
    onnx_file = folder / "forest.onnx"
    exported = to_onnx(model, initial_types=inputs, options=options, target_opset={"": 17, "ai.onnx.ml": 3})
    onnx_file.write_bytes(exported.SerializeToString())
    plain = Options(board="cortex-m4", name="forest")
    ways = (
        ("tinyc", plain),
        ("tinyc, --prefer time", replace(plain, prefer="time")),
        ("tinyc, --prefer flash", replace(plain, prefer="flash")),
    )
    for tool, chosen in ways:
        built = compile_model(onnx_file, load_board("cortex-m4"), chosen, Progress())
        for file, text in built.files.items():
            (folder / file).write_text(text)
        taken = "forest_output_0(&arena)[0]"
        result = taken if classes > 1 else f"forest_dequantize_output_0({taken})"
        yield tool, filled(TINYC, sizes | {"TYPE": "int32_t" if integers else "float", "RESULT": result})
    score = MOST if classes > 1 else "result = score(features);"
    yield "m2cgen", m2cgen.export_to_c(model) + filled(M2CGEN.replace("SCORE", score), sizes)
    kinds = [("inline", "int16_t"), ("loadable", "int16_t")] if integers else [("inline", "float")]
    for method, dtype in kinds:
        converted = emlearn.convert(model, method=method, dtype=dtype)
        converted.save(file=str(folder / "model.h"), name="model")
        yield f"emlearn, {method} {dtype.removesuffix('_t')}", filled(EMLEARN, sizes | {"TYPE": dtype})


def filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def compiled(text: str, folder: Path) -> Path:
    (folder / "program.c").write_text(text)
    includes = [f"-I{folder}", f"-I{Path(emlearn.__file__).parent}"]
    placed = ["-Wl,-Ttext=0x8000000", "-Wl,-Tdata=0x20000000", "--specs=nosys.specs"]
    command = ["arm-none-eabi-gcc", *FLAGS, *LINKED, *includes, *placed, "program.c", "-lm", "-o", "program.elf"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "program.elf"


def flash_bytes(elf: Path) -> int:
    """Code, constants and initial values."""
    with elf.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(s["sh_size"] for s in sections if s["sh_flags"] & 2 and s["sh_type"] != "SHT_NOBITS")


def run(elf: Path, x: np.ndarray) -> tuple[list[float], int]:
    """(results, instructions of all calls)."""
    machine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    machine.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M4)
    for base, size in ((0x8000000, 0x800000), (0x20000000, 0x200000), (_END, 0x1000)):
        machine.mem_map(base, size)
    with elf.open("rb") as file:
        loaded = ELFFile(file)
        for segment in loaded.iter_segments("PT_LOAD"):
            machine.mem_write(segment["p_vaddr"], segment.data())
        table = loaded.get_section_by_name(".symtab")
        assert isinstance(table, SymbolTableSection)
        symbols = {symbol.name: symbol["st_value"] for symbol in table.iter_symbols()}
    machine.mem_map(0xE000E000, 0x1000)
    machine.mem_write(0xE000ED88, (0xF << 20).to_bytes(4, "little"))  # the FPU is on
    executed = [0]
    machine.hook_add(unicorn.UC_HOOK_CODE, _counting(executed))
    results = []
    for row in x:
        machine.mem_write(symbols["input"], row.astype("<f4").tobytes())
        machine.reg_write(arm.UC_ARM_REG_SP, 0x201FF000)
        machine.reg_write(arm.UC_ARM_REG_LR, _END | 1)
        machine.emu_start(symbols["predict"] | 1, _END)
        results.append(float(np.frombuffer(machine.mem_read(symbols["result"], 8), "<f8")[0]))
    return results, executed[0]


def _counting(executed: list[int]) -> Callable[..., None]:
    def count(*_: object) -> None:
        executed[0] += 1

    return count


def measured(name: str, model: Any, x: np.ndarray, integers: bool) -> Iterator[Row]:
    unseen = x[1::2][:SAMPLES]
    predicted = model.predict(unseen)
    with tempfile.TemporaryDirectory() as held:
        folder, empty = Path(held), (0, 0)
        for tool, text in sources(model, x, integers, folder):
            elf = compiled(text, folder)
            results, executed = run(elf, unseen)
            if tool == "empty":
                empty = flash_bytes(elf), executed
                continue
            differ = int((~np.isclose(results, predicted, rtol=1e-5)).sum())
            work = round((executed - empty[1]) / len(unseen))
            yield Row(name, tool, flash_bytes(elf) - empty[0], work, differ, len(unseen))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="forests whose names begin so")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    arguments = parser.parse_args()
    rows = []
    print("| forest | tool | flash, bytes | instructions | differ |\n|---|---|---|---|---|")
    for name, model, x, integers in forests():
        if name.startswith(arguments.only):
            for row in measured(name, model, x, integers):
                print(
                    f"| {row.forest} | {row.tool} | {row.flash_bytes:,} | {row.instructions:,} |"
                    f" {row.differ} of {row.samples} |",
                    flush=True,
                )
                rows.append(asdict(row))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
