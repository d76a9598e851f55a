"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tinyc.cli.output import Color
from tinyc.numerics import Numerics
from tinyc.pipeline import Options

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The trained model: a .onnx or .tflite file.", show_default=False)
]
BoardName = Annotated[str, typer.Option("--board", "-b", help="Board name (see `tinyc boards`) or a .toml file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is done, and where the time goes.")]
ColorOption = Annotated[Color, typer.Option("--color", help="Color: auto, always or never. NO_COLOR is respected.")]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        "-c",
        help="Inputs to find activation ranges with (.npz).",
        show_default="MODEL.calib.npz",
    ),
]
InputsFile = Annotated[
    Path | None,
    typer.Option("--inputs", help="Test inputs (.npz; `y` may hold labels).", show_default="calibration data"),
]
SampleCount = Annotated[int, typer.Option(min=0, help="Run at most this many inputs on the board; 0: all.")]
ModelName = Annotated[str | None, typer.Option(help="Name of the C library.", show_default="the file's stem")]
ToolchainName = Annotated[
    str | None, typer.Option(help="Compiler: arm-none-eabi-gcc, zig, gcc, clang.", show_default="first found")
]
Emulator = Annotated[str | None, typer.Option(help="Machine: qemu, unicorn, host.", show_default="first found")]
NumericsName = Annotated[
    Numerics | None,
    typer.Option(
        help="Whose integers to reproduce.", show_default="tflm for .tflite, single for models quantized here"
    ),
]


FlashBudget = Annotated[
    int | None,
    typer.Option(
        min=0, help="Bytes of flash for constants and kernels, to choose kernels by.", show_default="half of the flash"
    ),
]


RamBudget = Annotated[
    int | None, typer.Option(min=0, help="Bytes of arena to stay within, at any price.", show_default="the board's RAM")
]


class MemoryFor(StrEnum):
    """How much time a smaller arena may cost: nothing, 5 % or 20 % more instructions."""

    SPEED = "speed"
    BALANCED = "balanced"
    MIN = "min"


MemoryOption = Annotated[
    MemoryFor, typer.Option("--memory", help="Spend no, 5 % or 20 % more time on a smaller arena.")
]


class OptimizeFor(StrEnum):
    """What the compiler of the library optimizes for."""

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"


def make_options(
    board: str,
    name: str | None,
    numerics: Numerics | None,
    optimize: OptimizeFor,
    calibration: Path | None,
    toolchain: str | None,
    emulator: str | None,
    inputs: Path | None,
    expect: str | None,
    flash_budget: int | None,
    ram_budget: int | None,
    memory: MemoryFor,
    samples: int,
) -> Options:
    """The pipeline's Options from the command line's words."""
    return Options(
        board=board,
        name=name,
        numerics=numerics,
        optimize=optimize.value,
        calibration=calibration,
        toolchain=toolchain,
        emulator=emulator,
        inputs=inputs,
        expect=expect,
        flash_budget=flash_budget,
        ram_budget=ram_budget,
        memory=memory.value,
        samples=samples,
    )
