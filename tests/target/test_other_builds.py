# SPDX-License-Identifier: Apache-2.0
"""The library as others build it: with their flags, without a C library, with compilers that know C99 only."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from integer_cases import plain
from kernel_cases import KernelLibrary, check, needing, run_together, together, write_library
from machines import target_for
from symbols import HELPERS, foreign_symbols

from tests.ops.harness import OneStepPlan
from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, graph_of
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.paths import runtime_dir
from tinyc.base.runtime_headers import header_names, header_of
from tinyc.board import Board, load_board
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import Pair
from tinyc.ops.compare import Compare
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.transpose import Transpose
from tinyc.toolchain.compile import Sources, firmware_around
from tinyc.toolchain.compilers import find_toolchain

M4 = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
AFFECTED = re.compile(r"12\.[012]\.|13\.[01]\.")  # versions of gcc that drop the call


def cross_gcc() -> str:
    program = shutil.which("arm-none-eabi-gcc")
    if program is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    return program


def transposing_library(folder: Path) -> None:
    """A library of one step that copies bytes with a stride: what gcc 12 takes for a step without effect."""
    library_of(folder, one_node("transpose", Transpose((0, 2, 1)), [tensor("x", (1, 5, 2), 0.1, 7)], 0.1, 7))


def library_of(folder: Path, graph: Graph, isa: str = "thumb2", kernel: str | None = None) -> None:
    """The library `turn` of one node. kernel: that it takes, where not the first choice."""
    prefer = {node.name: kernel for node in graph.nodes if kernel}
    choices = select(graph, frozenset({isa}), Numerics.TFLM, prefer=prefer)
    scratch = {name: choice.scratch_bytes for name, choice in choices.items()}
    program = lower(graph, OneStepPlan(graph, scratch).plan(choices), Numerics.TFLM, "turn")
    for name, text in emit_library(program, Info("turn", "0" * 64, "test")).items():
        (folder / name).write_text(text)


def calls_its_step(folder: Path, flag: str) -> bool:
    command = [cross_gcc(), *M4, flag, "-S", "turn.c", "-o", "-"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return "turn_step_0" in listing.partition("\nturn_run:")[2].partition(".size")[0]


@pytest.mark.parametrize("flag", ["-O0", "-O1", "-O2", "-O3", "-Os"])
def test_every_step_is_called(tmp_path: Path, flag: str) -> None:
    transposing_library(tmp_path)
    assert calls_its_step(tmp_path, flag)


@pytest.mark.parametrize("flag", ["-O2", "-Os"])
def test_what_keeps_the_call(tmp_path: Path, flag: str) -> None:
    """Without tc_begin.h the affected compilers drop the call; each half of its options keeps it."""
    version = subprocess.run([cross_gcc(), "-dumpfullversion"], capture_output=True, text=True, check=True).stdout
    if not AFFECTED.match(version):
        pytest.skip(f"arm-none-eabi-gcc {version.strip()} is not among those that drop the call")
    transposing_library(tmp_path)
    begin = (tmp_path / "tc_begin.h").read_text()
    (tmp_path / "tc_begin.h").write_text('#include "tc_compiler.h"\n')
    (tmp_path / "tc_end.h").write_text("\n")
    assert not calls_its_step(tmp_path, flag)
    for options in ('"no-delete-null-pointer-checks"', '"no-ipa-pure-const", "no-ipa-modref"'):
        assert all(option in begin for option in options.split(", "))
        (tmp_path / "tc_begin.h").write_text(f'#pragma GCC optimize({options})\n#include "tc_compiler.h"\n')
        assert calls_its_step(tmp_path, flag)


@pytest.mark.parametrize(("shape", "repeated"), [((8, 9, 32), (32,)), ((12, 8, 6), (12, 8, 1)), ((16, 40), (16, 1))])
def test_callers_count_on_no_register_that_a_frame_of_thumb1_takes(shape: Shape, repeated: Shape) -> None:
    """Compiled for size, loops of comparisons give their small frames back by popping r0 to r3."""
    inputs = [plain("a", shape, "s32"), plain("b", repeated, "s32")]
    graphs = [one_node("compare", Compare(kind), inputs) for kind in ("less", "equal", "greater_equal")]
    graphs += [one_node("integer_binary", IntegerBinary(kind, "s32"), inputs) for kind in ("add", "mul", "min")]
    board = load_board("cortex-m0plus")
    network = together(board.isa, Numerics.TFLM, graphs=graphs)
    run_together(network, board, find_toolchain(board, "gcc"), Numerics.TFLM, optimize="size")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("arm-none-eabi-gcc", *M4, "-fpic", "-msingle-pic-base", "-mpic-register=r9"), "clobbered by 'r9'"),
        (("clang", "--target=thumbv7em-none-eabi", "-frwpi"), "r9 holds the base of the data"),
        (("clang", "--target=msp430"), "int of 32 bits"),
        (("avr-gcc", "-mmcu=atmega1284p"), "int of 32 bits"),
    ],
)
def test_what_a_library_is_not_compiled_for(tmp_path: Path, command: tuple[str, ...], message: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    transposing_library(tmp_path)
    refused = subprocess.run(
        [*command, "-Os", "-ffreestanding", "-S", "turn.c", "-o", "/dev/null"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert refused.returncode != 0
    assert message in refused.stderr


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("gcc", "-ffast-math"), "without -ffast-math"),
        (("gcc", "-Ofast"), "without -ffast-math"),
        (("clang", "-ffast-math"), "without -ffast-math"),
        (("gcc", "-mfpmath=387"), "compile them with -mfpmath=sse"),
        (("clang", "-m32", "-mfpmath=387"), "compile them with -mfpmath=sse"),
    ],
)
def test_what_a_library_of_floats_is_not_compiled_for(tmp_path: Path, command: tuple[str, ...], message: str) -> None:
    if shutil.which(command[0]) is None or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"{command[0]} for x86 is not installed")
    (tmp_path / "x.c").write_text('#include "tc_float.h"\n')
    folders = [f"-I{runtime_dir() / room}" for room in ("base", "float32")]
    options = (*folders, "-ffreestanding", "-fsyntax-only", "x.c")
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run([command[0], *options, "-O2"]).returncode == 0
    refused = run([*command, *options])
    assert refused.returncode != 0
    assert message in refused.stderr


def test_a_pool_of_one_channel(tmp_path: Path) -> None:
    """gcc 12 sees writes behind the output there."""
    x = tensor("x", (1, 6, 8, 1), 0.1, 7)
    library_of(tmp_path, one_node("max_pool2d", MaxPool2D(Pair(2, 2), Pair(2, 2)), [x], 0.1, 7))
    command = [cross_gcc(), "-mcpu=cortex-m3", "-mthumb", "-ffreestanding", *STRICT_O3, "turn.c"]
    subprocess.run(command, cwd=tmp_path, check=True)


def test_the_twin_of_a_depthwise_layer_on_this_computer(tmp_path: Path) -> None:
    """gcc 12 sees rows in a null pointer there, of a layer that is given its image."""
    layer = Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 13, 3, 4), (3, 3, 4))
    library_of(tmp_path, graph_of(layer), "dsp")
    assert "tc_depthwise_planes.h" in (tmp_path / "turn.c").read_text()
    subprocess.run(["gcc", *STRICT_O3, "turn.c"], cwd=tmp_path, check=True)


@pytest.mark.parametrize("outputs", [1, 7])
def test_fully_connected_of_few_outputs_on_this_computer(tmp_path: Path, outputs: int) -> None:
    """gcc 12 sees reads behind the constants of these outputs there, in the loop for eight."""
    layer = Layer("fully_connected", FullyConnected(), (1, 20), (outputs, 20))
    library_of(tmp_path, graph_of(layer), "dsp", "tc_fully_connected_s8_row_dsp")
    subprocess.run(["gcc", *STRICT_O3, "turn.c"], cwd=tmp_path, check=True)


STRICT_O3 = ("-O3", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-S", "-o", "/dev/null")


CLANG_TARGETS = {
    "cortex-m4": ("--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16"),
    "cortex-m0plus": ("--target=thumbv6m-none-eabi", "-mcpu=cortex-m0plus"),
}
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")


def test_initializers_leave_nothing_out() -> None:
    """Of elements that an initializer leaves out, and of many zeros, compilers make a call of memset."""
    wrong = []
    for name in header_names():
        for match in re.finditer(r"^( *)([\w ]+?)\[(\d+)\] = \{([^{}]*)\};", header_of(name), re.MULTILINE):
            indent, what, size, elements = match.groups()
            while (flat := re.sub(r"\([^()]*\)|\[[^][]*\]", "x", elements)) != elements:
                elements = flat
            given = elements.rstrip(", \n").count(",") + 1
            only_zeros = given > 2 and set(elements) <= set("0, \n")
            if indent and not what.startswith("static") and (given != int(size) or only_zeros):
                wrong.append(f"{name}: {match[0]}")
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board_name", "family", "level"),
    [
        (board, family, level)
        for board in HELPERS
        for family in ("gcc", "clang")
        for level in LEVELS
        if (family == "gcc" and level != "-Oz") or (family == "clang" and board in CLANG_TARGETS)
    ],
)
def test_links_with_nothing(
    kernel_library: Callable[..., KernelLibrary], tmp_path: Path, board_name: str, family: str, level: str
) -> None:
    """All kernels with the usual flags: no symbol of a C library. Quick tests see it of each library that they compile
    for the proof (`check_links_alone`)."""
    board = load_board(board_name)
    source, output = kernel_library(board.isa).folder / "all.c", tmp_path / "all.o"
    arguments: tuple[str | Path, ...] = (level, "-ffreestanding", "-c", source, "-o", output)
    if family == "gcc":
        try:
            gcc = find_toolchain(board, "gcc")
        except TinycError as error:
            pytest.skip(error.message)
        gcc.run(arguments, "compiling all kernels")
    elif shutil.which("clang"):
        subprocess.run(["clang", *CLANG_TARGETS[board_name], *arguments], check=True)
    else:
        pytest.skip("clang is not installed")
    assert not foreign_symbols(output, board_name)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O3", "-Os"])
@pytest.mark.parametrize(("board_name", "feature"), [("cortex-m55", "mve"), ("riscv32imc", "rv32m")])
def test_other_levels(tmp_path: Path, board_name: str, feature: str, level: str) -> None:
    """The kernels of cores that scripts/flag_matrix.py has not, at levels that are not those of the proof."""
    board = load_board(board_name)
    try:
        gcc = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    network = together(board.isa, Numerics.TFLM, needing(feature))
    write_library(network, tmp_path, board.isa, Numerics.TFLM)
    flags = (level, "-ffreestanding", "-ffunction-sections", "-fdata-sections")
    command = [*gcc.command, *gcc.target_flags, *flags, "-c", "all.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    firmware = firmware_around(tmp_path / "all.o", Sources(tmp_path, "all"), board, gcc, tmp_path / "firmware")
    check(network, target_for(board_name, None).run(firmware, network.requests), Numerics.TFLM, f"{board_name} {level}")


OTHER_CORES = {  # another core than the library's, with the FPU of its kind
    "cortex-m3": ("-mcpu=cortex-m3",),
    "cortex-m33": ("-mcpu=cortex-m33", "-mfloat-abi=hard"),
    "cortex-m55, no vectors": ("-mcpu=cortex-m55+nomve", "-mfloat-abi=hard"),
}


def test_other_cores_have_all_functions(tmp_path: Path) -> None:
    """Of the kernels with vectors every part that a core lacks has its form in C: each function that is called is there
    (that what is there is right, `test_portable` and `test_other_cores` show)."""
    isa = load_board("cortex-m55").isa
    write_library(together(isa, Numerics.TFLM, needing("mve")), tmp_path, isa, Numerics.TFLM)
    for flags in OTHER_CORES.values():
        command = [cross_gcc(), "-mthumb", *flags, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "all.c"]
        said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stderr
        assert "made for a core with Helium, compiled without" in said
    meant = [cross_gcc(), "-mthumb", *OTHER_CORES["cortex-m3"], "-fsyntax-only", "-DTC_PORTABLE", "-Wextra", "all.c"]
    assert not subprocess.run(meant, cwd=tmp_path, check=True, capture_output=True).stderr


@pytest.mark.slow
@pytest.mark.parametrize("board_name", ["cortex-m33", "cortex-m4", "cortex-m3", "cortex-m0plus"])
@pytest.mark.parametrize("isa_of", ["cortex-m55", "cortex-m33"])
def test_other_cores(tmp_path: Path, isa_of: str, board_name: str) -> None:
    """The library of a core with more, compiled for one with less: the reference's bytes."""
    isa, board = load_board(isa_of).isa, load_board(board_name)
    feature = "mve" if isa_of == "cortex-m55" else "dsp"
    network = together(
        isa,
        Numerics.TFLM,
        lambda kernel: feature in kernel.isa and ("fpu" in board.isa or "fpu" not in kernel.isa),
    )
    write_library(network, tmp_path, isa, Numerics.TFLM)
    run_together(network, board, find_toolchain(board, "gcc"), Numerics.TFLM, tmp_path)
    for line in stack_usage(board, tmp_path):
        assert line[1] <= 1024, line  # what packages say: tinyc/package/facts.py


def stack_usage(board: Board, folder: Path) -> list[tuple[str, int]]:
    """The function and bytes of each frame of all.c, compiled for the board."""
    command = [cross_gcc(), *board.cflags["gcc"], "-O2", "-fstack-usage", "-c", "all.c", "-o", "all.o"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    lines = (line.split("\t") for line in (folder / "all.su").read_text().splitlines())
    return [(place.rpartition(":")[2], int(size)) for place, size, _ in lines]


def portable_object(source: Path, folder: Path, compiler: str) -> Path:
    """The library `all` by a compiler that is not GNU C, or that is told to be none."""
    commands = {"tcc": ["tcc", "-std=c99"], "gcc": ["gcc", "-std=c99", "-pedantic-errors", "-O1", "-DTC_PORTABLE"]}
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    subprocess.run([*commands[compiler], "-c", source, "-o", folder / "all.o"], check=True)
    return folder / "all.o"


@pytest.mark.parametrize(
    ("compiler", "isa_of"),
    [
        ("tcc", "cortex-m4"),
        pytest.param("tcc", "cortex-m0plus", marks=pytest.mark.slow),
        pytest.param("tcc", "cortex-m55", marks=pytest.mark.slow),
        pytest.param("tcc", "riscv32imc", marks=pytest.mark.slow),
        pytest.param("gcc", "cortex-m4", marks=pytest.mark.slow),
        pytest.param("gcc", "cortex-m55", marks=pytest.mark.slow),
    ],
)
def test_portable(kernel_library: Callable[..., KernelLibrary], tmp_path: Path, compiler: str, isa_of: str) -> None:
    """The libraries of several boards in C99 alone, on this computer: the reference's bytes from every kernel."""
    isa = load_board(isa_of).isa
    host = load_board("host")
    kernels = kernel_library(isa)
    library = portable_object(kernels.folder / "all.c", tmp_path, compiler)
    try:
        linker = find_toolchain(host, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    firmware = firmware_around(library, Sources(kernels.folder, "all"), host, linker, tmp_path / "firmware")
    ran = target_for("host", None).run(firmware, kernels.network.requests)
    check(kernels.network, ran, Numerics.TFLM, f"{compiler}, for {isa_of}")


def test_portable_has_no_extension(kernel_library: Callable[..., KernelLibrary]) -> None:
    """With TC_PORTABLE no word of GNU C reaches the compiler, but for those of its own headers."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    source = kernel_library(load_board("cortex-m4").isa).folder / "all.c"
    command = ["gcc", "-E", "-DTC_PORTABLE", "-ffreestanding", "all.c"]
    text = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=True).stdout
    ours = [part for part in re.split(r"^# \d+ ", text, flags=re.MULTILINE) if not part.startswith('"/')]
    assert not re.findall(r"__attribute__|__asm\w*|__builtin\w*|__extension__|#pragma", "".join(ours))
