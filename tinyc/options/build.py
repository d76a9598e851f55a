# SPDX-License-Identifier: Apache-2.0
"""What a build may be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.options.option import Heading, check_values, option
from tinyc.options.recipe import Effort, Pictures, Recipe, hurried

Precision = Literal["auto", "integer", "float32"]
Prefer = Literal["balanced", "time", "ram", "flash"]
Optimize = Literal["speed", "balanced", "size"]  # of a C compiler: -O3, -O2, -Os
Protocol = Literal["tinyc", "mlperf"]

_KERNELS: Heading = "Kernels and memory"
_PROOF: Heading = "Proof"
_OFFERS_NUMERICS = "tflm for .tflite, onnx for quantized .onnx, single for models quantized here"

LIMITS = ("min_top1", "min_agreement", "baseline", "max_drop")  # of accuracy, where it is measured


@dataclass(frozen=True, slots=True)
class Options:
    """What a build may be asked for. Paths are the user's; None stands for the documented default.

    Raises TinycError for a value that an option cannot have, and for --like without --weights-blob.
    """

    board: str = option(
        "cortex-m4",
        "One of `tinyc boards`, or a .toml file.",
        short="b",
        metavar="NAME",
        question="Which board",
    )
    name: str | None = option(
        None, "Name of the C library.", shown_default="the file's stem", metavar="NAME", question="What to write"
    )
    outputs: tuple[str, ...] = option(
        (), "Tensors that the model ends at, in the place of its outputs.", metavar="NAME,...", shapes=True
    )
    signature: str | None = option(
        None, "Of a .tflite file with several entries: the one that is taken.", metavar="NAME", shapes=True
    )
    states: tuple[str, ...] = option(
        (),
        "An input and the output that the next run gets there, once for each; none: there are none.",
        flag="state",
        metavar="IN:OUT",
        shown_default="by their names",
        repeats=True,
        shapes=True,
    )
    state_init: Path | None = option(
        None, "What states begin with after a reset (.npz, by their inputs' names).", shown_default="zeros", shapes=True
    )
    numerics: Numerics | None = option(
        None, "Whose integers to reproduce.", shown_default=_OFFERS_NUMERICS, shapes=True
    )
    precision: Precision = option(  # auto: `pipeline.precision`
        "auto", "Of a float model: quantize it, or leave it in float32. auto: scikit-learn's stays.", shapes=True
    )
    float_layers: tuple[str, ...] = option(
        (),
        "Layers of an integer model that run in float32; * and ? as in file names.",
        metavar="NAME,...",
        shapes=True,
    )
    float_fallback: bool = option(False, "Layers that no integer kernel runs are run in float32.", shapes=True)
    prefer: Prefer = option(
        "balanced",
        "What counts most within the limits.",
        heading=_KERNELS,
        question="Within what",
        shapes=True,
    )
    flash: int | None = option(
        None,
        "Most flash for code and constants.",
        shown_default="the board's",
        is_bytes=True,
        question="Within what",
        heading=_KERNELS,
        shapes=True,
    )
    flash_reserve: int | None = option(
        None,
        "Of --flash, what compiled code takes beyond its estimate: with it no compiler is asked.",
        metavar="BYTES",
        shown_default="what compiling says",
        heading=_KERNELS,
        shapes=True,
    )
    ram: int | None = option(
        None,
        "Most RAM for the arena, like 16K.",
        shown_default="the board's",
        is_bytes=True,
        question="Within what",
        heading=_KERNELS,
        shapes=True,
    )
    time: str | None = option(
        None,
        "Most time: 12ms, or in cycles 3.3M.",
        metavar="TIME",
        shown_default="any",
        question="Within what",
        heading=_KERNELS,
        shapes=True,
    )
    ram_code: int | None = option(
        None,
        "RAM for the code and constants that wait for flash most, copied by start-up code; 16K is 16,384, 0 for none.",
        shown_default="what is worth it where flash is slow",
        is_bytes=True,
        heading=_KERNELS,
        shapes=True,
    )
    cores: int = option(
        1,
        "Cores of the board that share out the rows of layers, by a hook of yours.",
        least=1,
        most=8,
        heading=_KERNELS,
        shapes=True,
    )
    stream_weights: int | None = option(
        None,
        "RAM for two buffers that weights come to, by your DMA, while the layer before runs.",
        shown_default="none",
        is_bytes=True,
        heading=_KERNELS,
        shapes=True,
    )
    input_rows: bool = option(
        False, "The library takes its input row by row, and never holds all of it.", heading=_KERNELS, shapes=True
    )
    incremental: int | None = option(  # the axis of time: the library keeps what overlapping windows share
        None,
        "The library slides over this axis of its input, and computes only what is new.",
        metavar="AXIS",
        shown_default="off",
        heading=_KERNELS,
        shapes=True,
    )
    hop: int = option(1, "New rows per call of an incremental library.", least=1, heading=_KERNELS, shapes=True)
    stream_unpadded: bool = option(
        False, "With --incremental: do not pad in time; the outputs are others then.", heading=_KERNELS, shapes=True
    )
    weights_blob: bool = option(
        False, "Constants in a file of their own, replaced without new code.", heading=_KERNELS, shapes=True
    )
    like: Path | None = option(
        None,
        "Only constants, for the code of the library in FOLDER, built with --weights-blob; an error if they do not "
        "fit it.",
        metavar="FOLDER",
        shown_default="none",
        heading=_KERNELS,
    )
    frontend: str | None = option(
        None,
        "Compile a front end before the model: micro, or a .toml file of settings (log mel, MFCC, motion).",
        metavar="NAME|FILE",
        shown_default="none",
        shapes=True,
    )
    picture: str | None = option(
        None,
        "The library takes frames of a camera: FORMAT:WIDTHxHEIGHT[,KEY=VALUE,...], or a .toml file.",
        metavar="LINE|FILE",
        shown_default="none",
        shapes=True,
    )
    calibration: Path | None = option(
        None,
        "Inputs to quantize with: .npz, .npy, a folder of arrays or pictures, module:function.",
        short="c",
        shown_default="MODEL.calib.npz",
        question="Of what",
        heading="Quantizing a float model",
        shapes=True,
    )
    recipe: Recipe | None = None  # how a float model is quantized; None: automatically
    effort: Effort = option(
        "full",
        "fast: a tenth of the time, somewhat less exact.",
        heading="Quantizing a float model",
        question="How exact",
    )
    cache: bool = option(
        False,
        "Keep what quantizing finds in the user's cache.",
        negated=True,
        environment="TINYC_QUANTIZE_CACHE",
        heading="Quantizing a float model",
    )
    pictures: Pictures | None = None  # how pictures become inputs, where the calibration is a folder of them
    inputs: Path | None = option(
        None,
        "Test inputs; `y` may hold labels.",
        shown_default="calibration data",
        heading=_PROOF,
        question="Of what",
    )
    samples: int = option(20, "Run at most this many inputs on the board; 0: all.", least=0, heading=_PROOF)
    sequence: int = option(
        0, "For a model with state: reset it after every so many inputs; 0: never.", least=0, heading=_PROOF
    )
    toolchain: str | None = option(
        None, "Compiler: arm-none-eabi-gcc, zig, gcc, clang.", shown_default="first found", heading=_PROOF
    )
    emulator: str | None = option(
        None, "Machine: qemu, unicorn, renode, host.", shown_default="first found", heading=_PROOF
    )
    min_top1: float | None = option(
        None,
        "Least right answers; less is an error.",
        metavar="PERCENT",
        question="How exact",
        least=0,
        most=100,
        heading=_PROOF,
        shared=False,
    )
    min_agreement: float | None = option(
        None,
        "Least share of inputs with the float model's decision, in percent. Less is an error.",
        metavar="PERCENT",
        least=0,
        most=100,
        heading=_PROOF,
        shared=False,
    )
    baseline: Path | None = option(
        None,
        "Folder of an earlier build, or its report.json: no figure of accuracy may be below what it states.",
        metavar="BUILD",
        shown_default="none",
        heading=_PROOF,
        shared=False,
    )
    max_drop: float = option(
        0.0, "With --baseline: points, or dB, that a figure may be below it.", least=0, heading=_PROOF, shared=False
    )
    proof: bool = option(
        True,
        "Only write the library: needs no compiler and no emulator, proves nothing.",
        flag="no_proof",
        inverted=True,
        shared=False,
    )
    harness: Protocol = option(
        "tinyc", "What the firmware for the board speaks: for `tinyc run`, or MLPerf Tiny's runner.", shared=False
    )
    task: str | None = option(
        None, "MLPerf Tiny's name of the model: kws01, vww01, ic01, ad01, sww01.", shown_default="none", shared=False
    )
    baud: int | None = option(
        None,
        "Baud rate of the firmware for the board.",
        shown_default="the task's or the board's",
        least=300,
        shared=False,
    )
    wav: Path | None = option(
        None, "A recording to run on, with --frontend: 16 bits, one channel.", shared=False, question="Of what"
    )
    image: Path | None = option(
        None,
        "A picture to run on, with --picture, a folder of them, or a .raw frame.",
        shared=False,
        question="Of what",
    )
    expect: str | None = option(
        None,
        "Expected outputs, FILE.npz or FILE.npz:KEY; default: the integer reference.",
        shared=False,
        question="Of what",
    )

    def __post_init__(self) -> None:
        check_values(self)
        if self.like is not None and not self.weights_blob:
            raise TinycError("--like is for constants apart from the code", hint="give --weights-blob too")
        if self.task is not None and self.harness != "mlperf":
            raise TinycError("--task is what MLPerf Tiny's runner is told", hint="give --harness mlperf too")

    @property
    def asked_recipe(self) -> Recipe | None:
        """How a float model is quantized, the effort counted in; None: automatically."""
        return hurried(self.recipe or Recipe()) if self.effort == "fast" else self.recipe

    @property
    def optimize(self) -> Optimize:
        """What the C compiler is told."""
        return "size" if self.prefer == "flash" else "speed"

    @property
    def by_calls(self) -> bool:
        """Whether the library takes the new rows of a window; one with a front end takes samples."""
        return self.incremental is not None and self.frontend is None
