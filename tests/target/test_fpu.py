# SPDX-License-Identifier: Apache-2.0
"""Integers in registers of the FPU: what an interrupt or another thread does to them, and what keeps one from it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.base.templates import render
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe, hurried
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.toolchain.compile import Firmware, Sources, compile_firmware
from tinyc.toolchain.compilers import find_toolchain, host_compiler


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Firmware]:
    """A convolution for a Cortex-M4, and for one whose FPU is left alone."""
    folder = tmp_path_factory.mktemp("fpu")
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((64, 32, 1, 1)), "b": rng.standard_normal(64)}
    nodes = [op("Conv", "x w b", "y", strides=[2, 2])]
    floats = {name: array.astype(np.float32) for name, array in constants.items()}
    onnx.save(build(nodes, {"x": (1, 32, 8, 8)}, ["y"], floats), folder / "m.onnx")
    np.savez(folder / "m.calib.npz", x=rng.standard_normal((4, 32, 8, 8)).astype(np.float32))
    firmware_by_name = {}
    for name in ("cortex-m4", "cortex-m4+nofp"):
        board, place = load_board(name), folder / name
        place.mkdir()
        compiled = compile_model(folder / "m.onnx", board, Options(name, recipe=hurried(Recipe())), Progress())
        for file, text in compiled.files.items():
            (place / file).write_text(text, encoding="utf-8")
        firmware_by_name[name] = compile_firmware(
            Sources(place, "m"), board, find_toolchain(board), "balanced", place / "firmware"
        )
    return firmware_by_name


ZEPHYR = ["-D__ZEPHYR__=1", "-DCONFIG_MULTITHREADING=1"]


@pytest.mark.parametrize(
    ("defines", "said"),
    [
        ([], ""),
        (ZEPHYR, "CONFIG_FPU_SHARING"),
        ([*ZEPHYR, "-DCONFIG_FPU_SHARING=1"], ""),
        ([*ZEPHYR, "-DTC_FPU_UNSAVED"], ""),
        ([*ZEPHYR, "-DTC_PORTABLE"], ""),
        (ZEPHYR[:1], ""),
        (["-DconfigENABLE_FPU=0"], "configENABLE_FPU"),
        (["-DconfigENABLE_FPU=1"], ""),
        (["-D__NuttX__"], "CONFIG_ARCH_FPU"),
        (["-D__NuttX__", "-DCONFIG_ARCH_FPU=1"], ""),
        (["-DTC_CHECK_FPU"], ""),
    ],
)
def test_what_can_be_seen_ends_the_build(
    libraries: dict[str, Firmware], tmp_path: Path, defines: list[str], said: str
) -> None:
    (tmp_path / "nuttx").mkdir()
    (tmp_path / "nuttx" / "config.h").touch()
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-std=c99"]
    warnings.append("-fsyntax-only" if defines == ["-DTC_CHECK_FPU"] else "-E")
    for name, firmware in libraries.items():
        source = firmware.sources.folder / "m.c" if firmware.sources else Path()
        command = [
            *firmware.toolchain.command,
            *load_board(name).cflags["gcc"],
            *warnings,
            *defines,
            f"-I{tmp_path}",
            *("-o", os.devnull, str(source)),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        expected = said if name == "cortex-m4" else ""
        assert (done.returncode != 0) == bool(expected), done.stderr
        assert expected in done.stderr


def test_a_switch_of_threads_that_forgets_the_fpu_is_seen(libraries: dict[str, Firmware], tmp_path: Path) -> None:
    compiler = host_compiler()
    if compiler is None:
        pytest.skip("no compiler for this computer")
    (tmp_path / "c.c").write_text(
        '#include <stdint.h>\n#include "tc_fpu.h"\n'
        "int keeps(const uint16_t *c) { return tc_switch_keeps_fpu(c); }\n"
        "int intact(const uint32_t *s) { return tc_fpu_is_kept(s); }\n"
    )
    headers = paths.runtime_dir() / "dsp"
    compiler.run(["-shared", "-fPIC", f"-I{headers}", tmp_path / "c.c", "-o", tmp_path / "c.so"], "a test")
    c = ctypes.CDLL(str(tmp_path / "c.so"))
    toolchain = libraries["cortex-m4"].toolchain
    begins, ends = "mrs r0, psp\n", "msr psp, r0\nbx lr\nvpush {s0}\n"
    tail = "msr psp, r0\nbx lr\nmrs r0, psp\nb .-18\n"  # the handler is its last two, its code lies before it
    for body, right in {
        f"{begins} tst lr, #16\n it eq\n vstmdbeq r0!, {{s16-s31}}\n stmdb r0!, {{r4-r11}}\n {ends}": 1,
        f"{begins} stmdb r0!, {{r4-r11}}\n {ends}": 0,
        "push {r7}\n mov r7, sp\n pop {r7}\n bx lr\n": 1,
        "b .\n": 1,
        f"it eq\n bxeq lr\n vstmdb r0!, {{s16-s31}}\n {tail}": 1,
        f"it eq\n bxeq lr\n stmdb r0!, {{r4-r11}}\n {tail}": 0,
    }.items():
        (tmp_path / "h.s").write_text(f".syntax unified\n.thumb\n.fpu fpv4-sp-d16\n{body}\n.rept 600\nnop\n.endr\n")
        toolchain.run(["-c", tmp_path / "h.s", "-o", tmp_path / "h.o"], "a test")
        copy = toolchain.command[0].replace("gcc", "objcopy")
        subprocess.run([copy, "-O", "binary", tmp_path / "h.o", tmp_path / "h.bin"], check=True)
        code = ctypes.create_string_buffer((tmp_path / "h.bin").read_bytes())
        assert c.keeps(ctypes.byref(code, 14 * body.endswith(tail))) == right, body
    scs = np.zeros(1024, np.uint32)
    for cpacr, fpccr, right in (
        (0xF << 20, 0xC0000000, 1),
        (0xF << 20, 0, 0),
        (0, 0xC0000000, 0),
        (5 << 20, 1 << 31, 0),
    ):
        scs[0xD88 // 4], scs[0xF34 // 4] = cpacr, fpccr
        assert c.intact(scs.ctypes.data_as(ctypes.c_void_p)) == right


def in_qemu(firmware: Firmware, folder: Path, *defines: str) -> dict[str, tuple[int, ...]]:
    """What program.c prints in QEMU: name -> status, whether there were interrupts, sum of the output."""
    program = shutil.which("qemu-system-arm")
    if program is None:
        pytest.skip("qemu-system-arm is not installed")
    here, sources = Path(__file__).with_name("fpu"), firmware.sources
    assert sources is not None
    target = ["-mcpu=cortex-m4", "-mthumb", "-mfpu=fpv4-sp-d16", "-mfloat-abi=softfp"]
    library, elf = folder / "m.o", folder / "program.elf"
    flags = firmware.toolchain.target_flags
    firmware.toolchain.run([*flags, "-O2", *defines, "-c", sources.folder / "m.c", "-o", library], "a library")
    command = [*target, "-O1", *defines, f"-I{sources.folder}", "-nostdlib", "-Wl,--no-warn-mismatch"]
    files = [f"-T{here / 'program.ld'}", here / "program.c", library, "-lgcc", "-o", elf]
    firmware.toolchain.run([*command, *files], "a program")
    machine = ["-M", "mps2-an386", "-display", "none", "-monitor", "none", "-serial", "null", "-kernel", str(elf)]
    options = ["-semihosting-config", "enable=on,target=native", "-icount", "shift=3"]  # 8 ns an instruction
    done = subprocess.run([program, *options, *machine], check=False, capture_output=True, text=True, timeout=600)
    lines = [line.split() for line in (done.stdout + done.stderr).splitlines()]
    return {name: tuple(int(word, 16) for word in words) for name, *words in lines}


def test_in_qemu_interrupts_change_what_the_core_does_not_keep(libraries: dict[str, Firmware], tmp_path: Path) -> None:
    """Of a handler that computes in floats: none with the core's stacking; without, the check refuses."""
    unsafe = 8
    checked = in_qemu(libraries["cortex-m4"], tmp_path, "-DTC_CHECK_FPU")
    _, _, right = checked["alone"]
    assert checked == {
        "off": (unsafe, 0, 0),
        "alone": (0, 0, right),
        "lazy": (0, 1, right),
        "careless": checked["careless"],
        "eager": (0, 1, right),
        "unstacked": (unsafe, 0, 0),
    }
    blind = in_qemu(libraries["cortex-m4"], tmp_path)
    assert blind["lazy"] == blind["eager"] == (0, 1, right)
    for name in ("unstacked", "careless"):
        status, interrupted, wrong = blind[name]
        assert (status, interrupted) == (0, 1)
        assert wrong != right, f"{name} interrupts do no harm: this test shows nothing"
    assert set(in_qemu(libraries["cortex-m4+nofp"], tmp_path).values()) == {(0, 0, right), (0, 1, right)}


def test_boards_without_their_fpu() -> None:
    board = load_board("cortex-m55+nofp")
    assert board.isa == {"thumb2", "dsp"}
    assert board.cflags["gcc"] == ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=soft")
    assert load_board("cortex-m4+nofp").cflags["zig"] == ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m4")
    for name in ("cortex-m0plus+nofp", "host+nofp", "riscv32imc+nofp"):
        with pytest.raises(TinycError, match="has no FPU"):
            load_board(name)


@pytest.mark.parametrize("uses_fpu", [True, False])
def test_zephyr_is_asked_for_the_fpu_where_it_is_used(uses_fpu: bool) -> None:
    class Facts:
        name, upper, model, tinyc, board_name, arena_bytes = "m", "M", "m.onnx", "1", "b", 16
        thread_stack_bytes = 2048

    Facts.uses_fpu = uses_fpu  # type: ignore[attr-defined]
    text = render("package/zephyr/Kconfig.j2", {"f": Facts})
    assert ("imply FPU_SHARING" in text) == uses_fpu
    assert ("registers of an FPU" in text) == uses_fpu
