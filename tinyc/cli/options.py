# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import copy
import functools
import inspect
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import list_boards
from tinyc.cli.output import Color, guarded
from tinyc.pipeline import Options
from tinyc.quantize import Pictures, Recipe, Rounding
from tinyc.quantize.recipe import hurried

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="The trained model: a .onnx or .tflite file.", show_default=False)
]


def complete_board(begun: str) -> list[str]:
    """The boards whose names begin so, for a shell."""
    return [file.stem for file in sorted(paths.boards_dir().glob("*.toml")) if file.stem.startswith(begun)]


BoardName = Annotated[
    str,
    typer.Option(
        "--board",
        "-b",
        help="Board name (see `tinyc boards`) or a .toml file; NAME+nofp: leave its FPU alone.",
        autocompletion=complete_board,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is done, and where the time goes.")]
ColorOption = Annotated[Color, typer.Option("--color", help="Color: auto, always or never. NO_COLOR is respected.")]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        "-c",
        help="Inputs to quantize with: .npz, .npy, a folder of arrays or pictures, or module:function.",
        show_default="MODEL.calib.npz",
    ),
]
InputsFile = Annotated[
    Path | None,
    typer.Option("--inputs", help="Test inputs (.npz; `y` may hold labels).", show_default="calibration data"),
]
Wav = Annotated[
    Path | None,
    typer.Option(help="A recording to run on, with --frontend: 16 bits, one channel.", show_default=False),
]
Image = Annotated[
    Path | None,
    typer.Option(help="A picture to run on, with --picture, a folder of them, or a .raw frame.", show_default=False),
]
SequenceLength = Annotated[
    int,
    typer.Option("--sequence", min=0, help="For a model with state: reset it after every so many inputs; 0: never."),
]
StatePairs = Annotated[
    list[str] | None,
    typer.Option(
        "--state",
        metavar="IN:OUT",
        help="An input and the output that the next run gets there, once for each; none: there are none.",
        show_default="by their names",
    ),
]
StateInit = Annotated[
    Path | None,
    typer.Option(help="What states begin with after a reset (.npz, by their inputs' names).", show_default="zeros"),
]
SampleCount = Annotated[int, typer.Option(min=0, help="Run at most this many inputs on the board; 0: all.")]
ModelName = Annotated[str | None, typer.Option(help="Name of the C library.", show_default="the file's stem")]
ToolchainName = Annotated[
    str | None, typer.Option(help="Compiler: arm-none-eabi-gcc, zig, gcc, clang.", show_default="first found")
]
Emulator = Annotated[str | None, typer.Option(help="Machine: qemu, unicorn, renode, host.", show_default="first found")]
NumericsName = Annotated[
    Numerics | None,
    typer.Option(
        help="Whose integers to reproduce.",
        show_default="tflm for .tflite, onnx for quantized .onnx, single for models quantized here",
    ),
]


def number_of_bytes(text: str | int) -> int:
    """`65536`, `64K` or `64KiB`; K is 1024 bytes, M is 1024 K. BadParameter for anything else."""
    found = re.fullmatch(r"([0-9_]+) ?(?:([KM])(?:iB)?)?", str(text))
    if found is None:
        raise typer.BadParameter("give bytes, like 65536, 64K or 1M")
    return int(found[1]) * {None: 1, "K": 1024, "M": 1024**2}[found[2]]


def board_names(words: str) -> tuple[str, ...]:
    """Boards by names with commas between them; `all`: those that ship, but for the host. TinycError for none."""
    if words == "all":
        return tuple(board.name for board in list_boards() if not board.is_host)
    found = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if not found:
        raise TinycError("no board is named", hint="--board cortex-m4,cortex-m55, or --board all")
    return found


FlashBudget = Annotated[
    int | None,
    typer.Option(
        parser=number_of_bytes,
        metavar="BYTES",
        help="Flash that constants and kernels may take; 64K is 65,536.",
        show_default="half of the flash",
    ),
]


RamBudget = Annotated[
    int | None,
    typer.Option(
        parser=number_of_bytes,
        metavar="BYTES",
        help="RAM that the arena may take, whatever that costs in time; 64K is 65,536.",
        show_default="the board's RAM",
    ),
]


RamCode = Annotated[
    int | None,
    typer.Option(
        "--ram-code",
        parser=number_of_bytes,
        metavar="BYTES",
        help="RAM for the code and constants that wait for flash most, copied by start-up code; 16K is 16,384.",
        show_default="none",
    ),
]


StreamWeights = Annotated[
    int | None,
    typer.Option(
        "--stream-weights",
        parser=number_of_bytes,
        metavar="BYTES",
        help="RAM for two buffers that weights come to, by your DMA, while the layer before runs.",
        show_default="none",
    ),
]


class MemoryFor(StrEnum):
    """How much time a smaller arena may cost: 1, 5 or 20 % more."""

    SPEED = "speed"
    BALANCED = "balanced"
    MIN = "min"


MemoryOption = Annotated[MemoryFor, typer.Option("--memory", help="Spend 1, 5 or 20 % more time on a smaller arena.")]


InputRows = Annotated[
    bool, typer.Option("--input-rows", help="The library takes its input row by row, and never holds all of it.")
]


Incremental = Annotated[
    int | None,
    typer.Option(
        "--incremental",
        metavar="AXIS",
        help="The library slides over this axis of its input, and computes only what is new.",
        show_default="off",
    ),
]
Hop = Annotated[int, typer.Option(min=1, help="New rows per call of an incremental library.")]
StreamUnpadded = Annotated[
    bool,
    typer.Option("--stream-unpadded", help="With --incremental: do not pad in time; the outputs are others then."),
]


WeightsBlob = Annotated[
    bool,
    typer.Option("--weights-blob", help="Constants in a file of their own, replaced without new code."),
]
LikeFolder = Annotated[
    Path | None,
    typer.Option(
        "--like",
        metavar="FOLDER",
        help="Only constants, for the code of the library in FOLDER, "
        "built with --weights-blob; an error if they do not fit it.",
        show_default="none",
    ),
]
Frontend = Annotated[
    str | None,
    typer.Option(
        "--frontend",
        metavar="NAME|FILE",
        help="Compile a front end before the model: micro, or a .toml file of settings (log mel, MFCC, motion).",
        show_default="none",
    ),
]


Picture = Annotated[
    str | None,
    typer.Option(
        "--picture",
        metavar="LINE|FILE",
        help="The library takes frames of a camera: FORMAT:WIDTHxHEIGHT[,KEY=VALUE,...], or a .toml file.",
        show_default="none",
    ),
]


class PrecisionName(StrEnum):
    """What a float model computes in on the board."""

    AUTO = "auto"
    INTEGER = "integer"
    FLOAT32 = "float32"


PrecisionOption = Annotated[
    PrecisionName,
    typer.Option(
        "--precision", help="Of a float model: quantize it, or leave it in float32. auto: scikit-learn's stays."
    ),
]


OutputNames = Annotated[
    str | None,
    typer.Option("--outputs", metavar="NAME,...", help="Tensors that the model ends at, in the place of its outputs."),
]
Signature = Annotated[
    str | None,
    typer.Option("--signature", metavar="NAME", help="Of a .tflite file with several entries: the one that is taken."),
]
FloatLayers = Annotated[
    str | None,
    typer.Option(
        "--float", metavar="NAME,...", help="Layers of an integer model that run in float32; * and ? as in file names."
    ),
]
FloatFallback = Annotated[
    bool, typer.Option("--float-fallback", help="Layers that no integer kernel runs are run in float32.")
]


class OptimizeFor(StrEnum):
    """What the compiler of the library optimizes for."""

    SPEED = "speed"
    BALANCED = "balanced"
    SIZE = "size"


OptimizeOption = Annotated[OptimizeFor, typer.Option("--optimize", help="Choose kernels by time or by flash.")]


class RangeMethod(StrEnum):
    """How activation ranges follow from what calibration saw."""

    AUTO = "auto"
    MINMAX = "minmax"
    PERCENTILE = "percentile"
    MSE = "mse"
    ENTROPY = "entropy"


class WeightBits(StrEnum):
    """How wide weights are."""

    INT8 = "int8"
    INT4 = "int4"
    AUTO = "auto"


class ActivationBits(StrEnum):
    """How wide activations are."""

    INT8 = "int8"
    INT16 = "int16"
    AUTO = "auto"


class WeightRounding(StrEnum):
    """How weights become integers."""

    AUTO = "auto"
    NEAREST = "nearest"
    LEARNED = "learned"


class Effort(StrEnum):
    """How much is tried to lose little accuracy."""

    FULL = "full"
    FAST = "fast"


class Toggle(StrEnum):
    """Yes, no, or what measures better."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class PictureFit(StrEnum):
    """How a picture gets the input's size."""

    CROP = "crop"
    STRETCH = "stretch"


MethodOption = Annotated[
    RangeMethod, typer.Option("--calibration-method", help="How to find activation ranges; auto measures output error.")
]
WeightsOption = Annotated[
    WeightBits, typer.Option("--weights", help="Bits of weights; auto: per layer, for --flash-budget or --max-loss.")
]
MaxLoss = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=100,
        help="With --weights auto: most decisions that may change against int8, in percent; with --activations auto: "
        "against int16.",
        show_default="1, without a budget or --min-sqnr",
    ),
]
ActivationsOption = Annotated[
    ActivationBits,
    typer.Option("--activations", help="Bits of activations; auto: int16 where --max-loss or --min-sqnr needs it."),
]
Int16Layers = Annotated[
    str | None,
    typer.Option("--int16-layers", metavar="NAME,...", help="Layers with int16 outputs; * and ? as in file names."),
]
MinSqnr = Annotated[
    float | None,
    typer.Option("--min-sqnr", min=0, metavar="DB", help="With --activations auto: least SQNR of the output, in dB."),
]
RoundingOption = Annotated[
    WeightRounding,
    typer.Option(
        "--rounding", help="Round weights to the nearest step, as learned, or (auto) whichever measures better."
    ),
]
EqualizeOption = Annotated[Toggle, typer.Option("--equalize", help="Give a tensor's channels similar ranges.")]
AugmentOption = Annotated[
    bool, typer.Option("--augment/--no-augment", help="Learn from varied calibration pictures too.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the variants; nothing else is random.")]
EffortOption = Annotated[
    Effort,
    typer.Option(
        "--effort",
        help="`fast`: ranges by min-max, weights to the nearest step, biases corrected; other options go before.",
    ),
]
CacheOption = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache", envvar="TINYC_QUANTIZE_CACHE", help="Keep what quantizing finds in the user's cache."
    ),
]
PictureMean = Annotated[
    str, typer.Option("--picture-mean", help="Of pictures: x = (pixel - mean) / std; one number or one per color.")
]
PictureStd = Annotated[str, typer.Option("--picture-std", help="See --picture-mean.")]
PictureFitOption = Annotated[PictureFit, typer.Option("--picture-fit", help="Cut or stretch pictures to size.")]

# How a float model is quantized.
QUANTIZE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "calibration_method": (MethodOption, RangeMethod.AUTO),
    "weights": (WeightsOption, WeightBits.INT8),
    "max_loss": (MaxLoss, None),
    "activations": (ActivationsOption, ActivationBits.INT8),
    "int16_layers": (Int16Layers, None),
    "min_sqnr": (MinSqnr, None),
    "rounding": (RoundingOption, WeightRounding.AUTO),
    "equalize": (EqualizeOption, Toggle.AUTO),
    "augment": (AugmentOption, True),
    "seed": (SeedOption, 0),
    "effort": (EffortOption, Effort.FULL),
    "cache": (CacheOption, True),
    "picture_mean": (PictureMean, "0"),
    "picture_std": (PictureStd, "1"),
    "picture_fit": (PictureFitOption, PictureFit.CROP),
}

# The options of every command that compiles a model, in the order of --help, with their defaults.
_MODEL_OPTIONS: dict[str, tuple[Any, Any]] = {
    "board": (BoardName, "cortex-m4"),
    "name": (ModelName, None),
    "outputs": (OutputNames, None),
    "signature": (Signature, None),
    "state": (StatePairs, None),
    "state_init": (StateInit, None),
    "numerics": (NumericsName, None),
    "precision": (PrecisionOption, PrecisionName.AUTO),
    "float_layers": (FloatLayers, None),
    "float_fallback": (FloatFallback, False),
    "optimize": (OptimizeOption, OptimizeFor.SPEED),
    "flash_budget": (FlashBudget, None),
    "memory": (MemoryOption, MemoryFor.BALANCED),
    "ram_budget": (RamBudget, None),
    "ram_code": (RamCode, None),
    "stream_weights": (StreamWeights, None),
    "input_rows": (InputRows, False),
    "incremental": (Incremental, None),
    "hop": (Hop, 1),
    "stream_unpadded": (StreamUnpadded, False),
    "weights_blob": (WeightsBlob, False),
    "like": (LikeFolder, None),
    "frontend": (Frontend, None),
    "picture": (Picture, None),
    "calibration": (CalibrationFile, None),
    **QUANTIZE_OPTIONS,
    "inputs": (InputsFile, None),
    "samples": (SampleCount, 20),
    "sequence": (SequenceLength, 0),
    "toolchain": (ToolchainName, None),
    "emulator": (Emulator, None),
}

# Headings of --help. What is under none of them stands first.
_PANELS: dict[str, tuple[str, ...]] = {
    "Kernels and memory": (
        *("optimize", "flash_budget", "memory", "ram_budget", "ram_code", "stream_weights"),
        *("input_rows", "incremental", "hop", "stream_unpadded", "weights_blob", "like"),
    ),
    "Quantizing a float model": ("calibration", *QUANTIZE_OPTIONS),
    "Proof": ("inputs", "samples", "sequence", "toolchain", "emulator"),
}


def _under_heading(name: str, kind: Any) -> Any:
    """The annotation of an option with the heading that it stands under in --help."""
    heading = next((heading for heading, names in _PANELS.items() if name in names), None)
    if heading is None:
        return kind
    base, info = get_args(kind)
    info = copy.copy(info)
    info.rich_help_panel = heading
    return Annotated[base, info]


def with_model_options(
    without: tuple[str, ...] = (), **defaults: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of every command that compiles a model. It receives them as one argument,
    `options: Options`, in whose place they stand in --help. without: names of those that it does not offer; defaults:
    those that differ for this command."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        shared = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, default),
                annotation=_under_heading(name, kind),
            )
            for name, (kind, default) in _MODEL_OPTIONS.items()
            if name not in without
        ]
        parameters: list[inspect.Parameter] = []
        for parameter in own.parameters.values():
            if parameter.name == "options":
                parameters += shared
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        @functools.wraps(command)
        def with_words(**words: Any) -> None:
            chosen = {name: words.pop(name, default) for name, (_, default) in _MODEL_OPTIONS.items()}
            with guarded(words["color"], words.get("json", False), words["verbose"]):
                options = make_options(**chosen)
            command(options=options, **words)

        with_words.__dict__["__signature__"] = own.replace(parameters=parameters)
        with_words.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_words

    return decorate


def make_options(
    board: str,
    name: str | None,
    outputs: str | None,
    signature: str | None,
    state: list[str] | None,
    state_init: Path | None,
    numerics: Numerics | None,
    precision: PrecisionName,
    float_layers: str | None,
    float_fallback: bool,
    optimize: OptimizeFor,
    calibration: Path | None,
    toolchain: str | None,
    emulator: str | None,
    inputs: Path | None,
    flash_budget: int | None,
    ram_budget: int | None,
    ram_code: int | None,
    stream_weights: int | None,
    memory: MemoryFor,
    input_rows: bool,
    incremental: int | None,
    hop: int,
    stream_unpadded: bool,
    weights_blob: bool,
    like: Path | None,
    frontend: str | None,
    picture: str | None,
    samples: int,
    sequence: int,
    **quantization: Any,
) -> Options:
    """The pipeline's Options from the command line's words."""
    return Options(
        board=board,
        name=name,
        outputs=words_of(outputs),
        signature=signature,
        states=tuple(state or ()),
        state_init=state_init,
        numerics=numerics,
        precision=precision.value,
        float_layers=words_of(float_layers),
        float_fallback=float_fallback,
        optimize=optimize.value,
        calibration=calibration,
        toolchain=toolchain,
        emulator=emulator,
        inputs=inputs,
        flash_budget=flash_budget,
        ram_budget=ram_budget,
        ram_code=ram_code,
        stream_weights=stream_weights,
        memory=memory.value,
        input_rows=input_rows,
        incremental=incremental,
        hop=hop,
        stream_unpadded=stream_unpadded,
        weights_blob=weights_blob,
        like=like,
        frontend=frontend,
        picture=picture,
        samples=samples,
        sequence=sequence,
        recipe=make_recipe(**quantization),
        cache=quantization["cache"],
        pictures=make_pictures(**quantization),
    )


def words_of(text: str | None) -> tuple[str, ...]:
    """What is between commas."""
    return tuple(word for word in map(str.strip, (text or "").split(",")) if word)


_ROUNDING: dict[WeightRounding, Rounding | None] = {
    WeightRounding.AUTO: None,
    WeightRounding.NEAREST: "nearest",
    WeightRounding.LEARNED: "learned",
}


def make_recipe(
    calibration_method: RangeMethod,
    weights: WeightBits,
    max_loss: float | None,
    rounding: WeightRounding,
    equalize: Toggle,
    augment: bool,
    seed: int,
    activations: ActivationBits,
    int16_layers: str | None,
    min_sqnr: float | None,
    effort: Effort,
    **_: Any,
) -> Recipe | None:
    """The recipe that the command line's words describe; None where they are all the defaults."""
    asked = Recipe(
        method=calibration_method.value,
        equalize={Toggle.AUTO: None, Toggle.ON: True, Toggle.OFF: False}[equalize],
        rounding=_ROUNDING[rounding],
        weights=weights.value,
        max_loss=max_loss,
        augment=augment,
        seed=seed,
        activations=activations.value,
        int16_layers=words_of(int16_layers),
        min_sqnr=min_sqnr,
    )
    chosen = activations is ActivationBits.AUTO
    if max_loss is not None and weights is not WeightBits.AUTO and not chosen:
        message = "it chooses bits per layer: give --weights auto or --activations auto with it"
        raise typer.BadParameter(message, param_hint="--max-loss")
    if min_sqnr is not None and not chosen:
        raise typer.BadParameter("it chooses bits per layer: give --activations auto with it", param_hint="--min-sqnr")
    if effort is Effort.FAST:
        asked = hurried(asked)
    return None if asked == Recipe() else asked


def make_pictures(picture_mean: str, picture_std: str, picture_fit: PictureFit, **_: Any) -> Pictures:
    """How pictures become inputs. BadParameter for words that are no numbers, or a deviation of zero."""
    mean, std = _numbers("--picture-mean", picture_mean), _numbers("--picture-std", picture_std)
    if min(std) < _LEAST_DEVIATION:
        raise typer.BadParameter("it is zero, or less", param_hint="--picture-std")
    return Pictures(mean, std, picture_fit.value)


_LARGEST_NUMBER, _LEAST_DEVIATION = 1e6, 1e-6  # of pixels, which go from 0 to 255


def _numbers(option: str, words: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in words.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"{words!r}: give numbers like 123.7,116.3,103.5", param_hint=option) from error
    if not all(abs(number) <= _LARGEST_NUMBER for number in found):
        raise typer.BadParameter(f"{words!r}: give numbers that are no larger than a pixel may be", param_hint=option)
    if len(found) not in (1, 3):
        raise typer.BadParameter(f"{len(found)} numbers, expected 1 or 3", param_hint=option)
    return found
