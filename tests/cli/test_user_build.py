# SPDX-License-Identifier: Apache-2.0
"""`tinyc verify --elf` and `--object`: libraries that users built, right ones and wrong ones."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import tinyc as api
from tests.cli.test_cli import tinyc, write_model  # noqa: F401  (tinyc: a fixture)

KWS = Path(__file__).resolve().parents[2] / "examples" / "kws" / "kws.onnx"
M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
CLANG_M4 = ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-ffreestanding")
MAIN = """#include "kws.h"
kws_arena_t arena;
int seen;
void start(void)
{
    for (;;) {
        kws_input_0(&arena)[0] = 1;
        seen += kws_run(&arena) + kws_output_0(&arena)[0];
    }
}
"""
SCRIPT = """ENTRY(start)
MEMORY { ROM (rx) : ORIGIN = 0x08010000, LENGTH = 256K
         RAM (rw) : ORIGIN = 0x20000000, LENGTH = 64K }
SECTIONS { .text : { *(.text*) *(.rodata*) } > ROM
           .bss (NOLOAD) : { *(.bss*) *(COMMON) } > RAM
           .data : { *(.data*) } > RAM AT> ROM
           /DISCARD/ : { *(.ARM.exidx*) } }
"""


@dataclass(frozen=True)
class Project:
    """A user's folder: a model, its library in `kws/`, a main of theirs and a linker script."""

    model: Path
    folder: Path

    def link(self, *flags: str, sources: tuple[str, ...] = ("main.c", "kws/kws.c")) -> Path:
        gcc = shutil.which("arm-none-eabi-gcc")
        if gcc is None:
            pytest.skip("arm-none-eabi-gcc is not installed")
        elf = self.folder / "user.elf"
        common = [gcc, *M4, "-Ikws", "-Wl,--gc-sections", "-ffunction-sections", "-nostdlib", "-Wl,-T,user.ld"]
        subprocess.run([*common, *flags, *sources, "-lgcc", "-o", elf], cwd=self.folder, check=True)
        return elf

    def compile(self, *command: str) -> Path:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        object_file = self.folder / "kws.o"
        subprocess.run([*command, "-c", "kws/kws.c", "-o", object_file], cwd=self.folder, check=True)
        return object_file

    def patched(self, name: str, old: str, new: str) -> Project:
        file = self.folder / "kws" / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))
        return self


def write_turn(path: Path) -> Path:
    """A transpose of [5, 2]: a step that gcc 12 drops where nothing keeps it from that."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 5, 2]), ("y", [1, 2, 5]))]
    node = helper.make_node("Transpose", ["x"], ["y"], "turn", perm=[0, 2, 1])
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def write_project(folder: Path, model: Path, **options: object) -> Project:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    with nullcontext() if model == KWS else pytest.warns(api.TinycWarning):  # no calibration data lie beside others
        api.build(model, "cortex-m4", out=folder / "kws", name="kws", samples=1, **options)
    (folder / "main.c").write_text(MAIN)
    (folder / "user.ld").write_text(SCRIPT)
    return Project(model, folder)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("kws")
    return write_project(folder, write_model(folder / "model.onnx"))


@pytest.fixture
def project(built: Project, tmp_path: Path) -> Project:
    """A copy that a test may change."""
    shutil.copytree(built.folder, tmp_path, dirs_exist_ok=True)
    return Project(built.model, tmp_path)


def arguments(project: Project, *more: object) -> tuple[object, ...]:
    return ("verify", project.model, "-b", "cortex-m4", "--name", "kws", *more)


@pytest.mark.parametrize("flags", [("-Os",), ("-O2", "-flto"), ("-O0",), ("-O3", "-mno-unaligned-access")], ids=str)
def test_a_program(tinyc, project: Project, flags: tuple[str, ...]) -> None:  # noqa: F811
    ran = tinyc(*arguments(project, "--elf", project.link(*flags), "--json"))
    assert ran.code == 0, ran.err
    assert ran.json["verify"]["mismatches"] == 0
    assert ran.json["verify"]["output_bytes"] > 0
    if "-mno-unaligned-access" in flags:
        assert ran.json["unaligned"] == 0


def test_a_program_by_clang(tinyc, project: Project) -> None:  # noqa: F811
    project.compile("clang", *CLANG_M4, "-Os", "-Ikws")
    elf = project.link("-O1", sources=("main.c", "kws.o"))
    ran = tinyc(*arguments(project, "--elf", elf))
    assert ran.code == 0, ran.err
    assert "all equal" in ran.out


def test_a_wrong_weight(tinyc, project: Project) -> None:  # noqa: F811
    """The name of the layer, and exit code 1."""
    weights = (project.folder / "kws" / "kws_weights.h").read_text()
    first = weights.index("{\n", weights.index("fully_connected_stream[")) + 2
    stop = weights.index("}", first)
    numbers = weights[first:stop].split(",")
    numbers[6] = f" {int(numbers[6]) ^ 0x6000}"  # a weight of 16 bits
    changed = weights[:first] + ",".join(numbers) + weights[stop:]
    (project.folder / "kws" / "kws_weights.h").write_text(changed)
    ran = tinyc(*arguments(project, "--elf", project.link("-O2")))
    assert ran.code == 1, ran.err
    assert "DIFFERENT" in ran.out
    assert "fully_connected 'g'" in ran.out


def test_a_wrong_weight_of_a_layer_by_rows(tinyc, tmp_path: Path) -> None:  # noqa: F811
    """What it made is gone from the arena when the model has run."""
    project = write_project(tmp_path, write_model(tmp_path / "model.onnx"), input_rows=True)
    weights = (tmp_path / "kws" / "kws_weights.h").read_text()
    first = weights.index("{\n", weights.index("kws_step_0_conv2d")) + 2
    stop = weights.index("}", first)
    # One bit of each: which of a stream are weights is the kernel's own business.
    wrong = ",".join(f" {int(number, 0) ^ 0x40}" for number in weights[first:stop].split(",") if number.strip())
    (tmp_path / "kws" / "kws_weights.h").write_text(weights[:first] + wrong + weights[stop:])
    main = '#include "kws.h"\nkws_arena_t arena;\nint8_t row[64];\nvoid start(void) { kws_push_row(&arena, 0, row); }\n'
    (tmp_path / "main.c").write_text(main)
    ran = tinyc(*arguments(project, "--input-rows", "--elf", project.link("-O2")))
    assert ran.code == 1, ran.err
    assert "first difference: step 0 conv2d" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize("step", [0, 1, 2, 4, 7, 8])
def test_wrong_bits_of_any_layer_by_rows(tinyc, tmp_path: Path, step: int) -> None:  # noqa: F811
    """Of a network whose first ten layers run row by row together: the first wrong one is named, not the last."""
    project = write_project(tmp_path, KWS)
    weights = (tmp_path / "kws" / "kws_weights.h").read_text()
    begin = weights.index("{\n", weights.index(f"kws_step_{step}_")) + 2
    end = weights.index("}", begin)
    numbers = weights[begin:end].split(",")
    middle = len(numbers) // 2
    numbers[middle] = f" {int(numbers[middle], 0) ^ 0x4040}"
    (tmp_path / "kws" / "kws_weights.h").write_text(weights[:begin] + ",".join(numbers) + weights[end:])
    ran = tinyc(*arguments(project, "--samples", 40, "--elf", project.link("-O2")))
    assert ran.code == 1, ran.err
    assert f"first difference: step {step} " in ran.out


def test_a_dropped_step(tinyc, tmp_path: Path) -> None:  # noqa: F811
    project = write_project(tmp_path, write_turn(tmp_path / "model.onnx"))
    good = tinyc(*arguments(project, "--elf", project.link("-O2")))
    assert good.code == 0, good.err
    (tmp_path / "kws" / "tc_begin.h").write_text('#include "tc_compiler.h"\n')
    (tmp_path / "kws" / "tc_end.h").write_text("\n")
    version = subprocess.run(["arm-none-eabi-gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    if not version.stdout.startswith("12.2"):
        pytest.skip("this arm-none-eabi-gcc drops no step")
    ran = tinyc(*arguments(project, "--elf", project.link("-O2")))
    assert ran.code == 1, ran.err
    assert "has no step: the compiler dropped" in ran.out


@pytest.mark.parametrize("kind", ["object", "archive", "flto"])
def test_an_object(tinyc, project: Project, kind: str) -> None:  # noqa: F811
    flags = ["-flto"] if kind == "flto" else []
    library = project.compile("arm-none-eabi-gcc", *M4, "-Os", *flags, "-Ikws")
    if kind == "archive":
        subprocess.run(["arm-none-eabi-ar", "rcs", "libkws.a", "kws.o"], cwd=project.folder, check=True)
        library = project.folder / "libkws.a"
    ran = tinyc(*arguments(project, "--object", library))
    assert ran.code == 0, ran.err
    assert "all equal" in ran.out


def test_a_wrong_object(tinyc, project: Project) -> None:  # noqa: F811
    source = (project.folder / "kws" / "kws.c").read_text()
    call, last = re.findall(r"\b(kws_step_(\d+)\w*\(base\);)", source)[-1]
    project.patched("kws.c", call, "")
    library = project.compile("arm-none-eabi-gcc", *M4, "-O2", "-Ikws")
    ran = tinyc(*arguments(project, "--object", library))
    assert ran.code == 1, ran.err
    assert f"step {last} " in ran.out
    assert "never called" in ran.out


def test_other_models_and_files(tinyc, project: Project, tmp_path: Path) -> None:  # noqa: F811
    elf = project.link("-O1")
    other = tinyc(
        "verify", write_model(tmp_path / "other.onnx", channels=6), "-b", "cortex-m4", "--name", "kws", "--elf", elf
    )
    assert other.code == 2
    assert "does not write for this model" in other.err
    renamed = tinyc("verify", project.model, "-b", "cortex-m4", "--name", "abc", "--elf", elf)
    assert renamed.code == 2
    assert "it holds kws" in renamed.err
    text = tinyc(*arguments(project, "--elf", project.folder / "main.c"))
    assert text.code == 2
    assert "not an ELF file" in text.err
    stripped = tmp_path / "stripped.elf"
    subprocess.run(["arm-none-eabi-strip", elf, "-o", stripped], check=True)
    nameless = tinyc(*arguments(project, "--elf", stripped))
    assert nameless.code == 2
    assert "no function kws_run" in nameless.err
    both = tinyc(*arguments(project, "--elf", elf, "--object", elf))
    assert both.code == 2
    missing = tinyc(*arguments(project, "--object", tmp_path / "none.o"))
    assert missing.code == 2


def test_rows_and_state(tinyc, tmp_path: Path) -> None:  # noqa: F811
    """A library that takes its input by rows is called row by row."""
    project = write_project(tmp_path, write_model(tmp_path / "model.onnx"), input_rows=True)
    main = '#include "kws.h"\nkws_arena_t arena;\nint8_t row[64];\nvoid start(void) { kws_push_row(&arena, 0, row); }\n'
    (tmp_path / "main.c").write_text(main)
    ran = tinyc(*arguments(project, "--input-rows", "--elf", project.link("-Os")))
    assert ran.code == 0, ran.err
