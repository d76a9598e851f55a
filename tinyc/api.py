# SPDX-License-Identifier: Apache-2.0
"""The Python API: what the command line does, as functions of values. `import tinyc` offers them."""

from __future__ import annotations

import difflib
import sys
import tempfile
import warnings
import wave
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.files import write_file
from tinyc.base.numerics import numerics_of
from tinyc.base.shown import Shown, Summary
from tinyc.bench import BenchOptions, BenchReport, run_bench
from tinyc.bench.run import Kind
from tinyc.explain.estimate import Estimate
from tinyc.explain.inspection import Inspection, inspect_model
from tinyc.explain.memory_map import MemoryMap
from tinyc.frontend import Camera, FrontEnd, load_camera, load_frontend
from tinyc.ir.graph import Array
from tinyc.load.in_memory import array_of, example_of, model_file
from tinyc.options.build import Optimize, Options, Precision, Prefer
from tinyc.options.keywords import LibraryOptions, LimitedOptions, NumericsName, RecipeOptions
from tinyc.options.option import keyword_of, options_of
from tinyc.options.recipe import Effort, Pictures, Recipe
from tinyc.pipeline import building
from tinyc.pipeline.device_run import BoardRun, DeviceLine, run_on_board
from tinyc.pipeline.estimating import estimate_model, map_model
from tinyc.pipeline.hearing import Hearing, Listening, hear
from tinyc.pipeline.looking import Looking, look
from tinyc.pipeline.notebook_bar import notebook_bar
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.quantizing import QuantizeReport, quantize_file
from tinyc.run.native import Library, load_library
from tinyc.verify.report import Report, UnprovedReport

File = str | PathLike[str]
Model = Any  # an onnx.ModelProto or a torch.nn.Module: a package that may not be there
_IN_MEMORY = "model"  # the library of a model without a file, where no name is given
Recording = File | npt.NDArray[np.int16]
Data = File | npt.NDArray[Any] | Mapping[str, npt.ArrayLike]


class TinycWarning(UserWarning):
    """Something that the command line would print as a warning."""


class QuantizeOptions(RecipeOptions, total=False):
    """Further options of `tinyc quantize`."""

    effort: Effort
    flash: int | None
    state: tuple[str, ...]
    sequence: int


class VerifyOptions(LimitedOptions, total=False):
    """And what runs in the place of inputs: a WAV file, or samples at the front end's rate; pictures, or a folder."""

    wav: Recording | None
    image: File | None


class LaterOptions(VerifyOptions, total=False):
    """And the folder of a library that was written without a proof, and what a module in memory is run on."""

    built: File | None
    example: Any


class RunOptions(VerifyOptions, total=False):
    """And what outputs are called, how many are averaged, and where a flashed board answers, at which rate."""

    labels: File | Sequence[str] | None
    smooth: int
    port: str | None
    baud: int | None


class BuildOptions(LimitedOptions, total=False):
    """And whether there is one, and what a module in memory is run on."""

    proof: bool
    example: Any


class BenchedOptions(RecipeOptions, total=False):
    """Those options of a build that `tinyc bench` takes."""

    numerics: NumericsName | None
    prefer: Prefer
    precision: Precision
    signature: str | None
    float_layers: tuple[str, ...]
    float_fallback: bool
    flash: int | None
    ram: int | None
    time: str | None
    samples: int
    toolchain: str | None
    emulator: str | None


class TimingOptions(BenchedOptions, total=False):
    """And how long desktop runs are timed, on how many threads."""

    seconds: float
    threads: int


@dataclass(frozen=True, slots=True)
class Built(Shown):
    """A library that was built, and proved unless that was not wanted: its report, and the folder that it lies in."""

    report: Report | UnprovedReport
    folder: Path

    __repr__ = Shown.text

    def summary(self) -> Summary:
        """That of the report, and the folder."""
        own = self.report.summary()
        return replace(own, facts=[*own.facts, ("folder", str(self.folder))])

    def load(self) -> Library:
        """The library as a function of NumPy arrays, on this computer."""
        return load_library(self.folder)


def build(
    model: File | Model,
    board: str = "cortex-m4",
    *,
    out: File | None = None,
    calibration: Data | None = None,
    inputs: Data | None = None,
    state_init: Data | None = None,
    **options: Unpack[BuildOptions],
) -> Built:
    """Compile a model for a board, run it on the board's machine, compare every output byte, and report.

    model: a file, an `onnx.ModelProto`, or a `torch.nn.Module`, which PyTorch's own exporter turns into ONNX. The
    exporter runs it on `example`, a tensor or a tuple of them; default: the first of the inputs or calibration data, of
    a module with one input. What is in memory is written beside the folder, `<out>.exported.onnx` and
    `<out>.calibration.npz`, for commands that are given the folder. The name of such a model defaults to `model`.
    The other arguments are the options of `tinyc build`; out defaults to `build/<name>`. calibration, inputs: an .npz
    file, an array [samples, ...] for a model with one input, or arrays by input name (labels as `y`). min_top1,
    min_agreement, min_sqnr, baseline: least figures of accuracy; less raises. proof: False writes the
    library without running it, which needs neither compiler nor emulator; `report` is an `UnprovedReport` then. Raises
    TinycError; also, with exit_code 1, when the model does not fit. Differing bytes do not raise: look at
    `report.passed`. What the command line would warn of becomes a TinycWarning. state: `"in:out"` for each input that
    gets an output in the next run, or `"none"`; default: by their names. state_init: what they begin with, by their
    inputs' names. sequence: they are reset after so many samples, where the data are not [sequences, steps, ...].
    """
    example = example_of(options.pop("example", None), calibration, inputs)
    with _as_files(calibration=calibration, inputs=inputs, state_init=state_init) as files, _progress() as progress:
        chosen = Options(board=board, **_values(options, BuildOptions, files))
        in_memory = not isinstance(model, str | PathLike)
        if in_memory:
            chosen = replace(chosen, name=chosen.name or _IN_MEMORY)
        place = Path("build") / (chosen.name or Path(str(model)).stem) if out is None else Path(out)
        if chosen.calibration is not None and not isinstance(calibration, str | PathLike):
            chosen = replace(chosen, calibration=_beside(place, "calibration.npz", chosen.calibration))
        with model_file(model, example) as written:
            path = _beside(place, "exported.onnx", written) if in_memory else written
        return Built(*building.build(path, place, chosen, progress))


def _beside(place: Path, name: str, file: Path) -> Path:
    """A copy of a file beside an output folder, where commands that are given the folder look for it."""
    copy = place.parent / f"{place.name}.{name}"
    copy.parent.mkdir(parents=True, exist_ok=True)
    write_file(copy, file.read_bytes())
    return copy


def verify(
    model: File | Model,
    board: str = "cortex-m4",
    *,
    inputs: Data | None = None,
    expect: str | npt.NDArray[Any] | None = None,
    calibration: Data | None = None,
    state_init: Data | None = None,
    **options: Unpack[LaterOptions],
) -> Report:
    """Like `build`, keeping nothing but the report; model and example: as there.

    built: a folder that `build` wrote with `proof=False`, model and options the same: its library is proved, and its
    report and header say so then.

    expect: outputs that must come out, `"FILE.npz"`, `"FILE.npz:KEY"`, or an integer array [samples, ...] for a model
    with one output. Default: the integer reference. samples: all by default. Look at `report.passed`. With `frontend`,
    wav is a recording to run on in the place of inputs: a WAV file, or int16 [n] at the front end's rate, [n, axes] of
    a front end of several axes; with
    `picture`, image is a picture, or a folder of them.
    """
    array = None if expect is None or isinstance(expect, str) else expect
    built, example = options.pop("built", None), options.pop("example", None)
    data = {"calibration": calibration, "inputs": inputs, "state_init": state_init}
    with (
        _as_files(**data) as files,
        _as_files(expect=array) as written,
        _as_shown(options) as shown,
        model_file(model, example_of(example, calibration, inputs)) as path,
        _progress() as progress,
    ):
        expected = str(written["expect"]) if written else expect if isinstance(expect, str) else None
        values = {"samples": 0, **_values(options, VerifyOptions, files | shown)}
        chosen = Options(board=board, expect=expected, **values)
        if built is None:
            report = building.verify_model(path, chosen, progress)
        else:
            report = building.prove_built(path, Path(built), chosen, progress)
    return report if array is None else replace(report, verify=replace(report.verify, against="the given outputs"))


def run(
    model: File,
    board: str = "cortex-m4",
    *,
    inputs: Data | None = None,
    calibration: Data | None = None,
    **options: Unpack[RunOptions],
) -> Hearing | Looking | BoardRun:
    """What a model says of a recording or of pictures, on the board's machine or a flashed board, as `tinyc run`.

    wav: as for `verify`; gives a `Hearing`, whose `.heard` says from when on the model answers what, by the mean of the
    last `smooth` outputs. image: likewise; a `Looking`, with `.seen`, picture by picture. labels: names of the outputs,
    or a file of them; default: numbers. port: where a board answers that was flashed with the model, baud its rate;
    without wav and image it runs the inputs there, which gives a `BoardRun` with `.cycles`. Every output byte is
    compared with the integer reference: look at `.passed`. Raises TinycError.
    """
    port, labels = options.pop("port", None), options.pop("labels", None)
    baud, smooth = options.pop("baud", None), options.pop("smooth", 1)
    with (
        _as_files(inputs=inputs, calibration=calibration) as files,
        _as_shown(options) as shown,
        _as_labels(labels) as names,
        model_file(model, None) as path,
        _progress() as progress,
    ):
        values = {"samples": 0, **_values(options, RunOptions, files | shown)}
        chosen = Options(board=board, **values)
        listening = Listening(names, smooth, None if port is None else DeviceLine(port, baud))
        if chosen.wav is not None:
            return hear(path, chosen, listening, progress)
        if chosen.image is not None:
            return look(path, chosen, listening, progress)
        if port is None:
            raise TinycError("nothing says where to run the model", hint="give wav=, image= or port=")
        return run_on_board(path, chosen, port, baud, progress)


def bench(
    models: File | Sequence[File],
    boards: str | Sequence[str] = "cortex-m4",
    *,
    references: Sequence[Kind] = ("cpu",),
    inputs: Data | None = None,
    calibration: Data | None = None,
    **options: Unpack[TimingOptions],
) -> BenchReport:
    """Boards beside desktop runs of the same models, as `tinyc bench`; the arguments are its options.

    references: of `cpu` and `gpu`; one that cannot run here is listed in `missing` with the reason. Raises TinycError.
    """
    paths = [models] if isinstance(models, str | PathLike) else models
    with _as_files(calibration=calibration, inputs=inputs) as files, _progress() as progress:
        named = (boards,) if isinstance(boards, str) else tuple(boards)
        values = _values(options, TimingOptions, files)
        timing = {name: values.pop(name) for name in ("seconds", "threads") if name in values}
        chosen = BenchOptions(named, tuple(references), Options(board="", **values), **timing)
        return run_bench([Path(model) for model in paths], chosen, progress)


def estimate(
    model: File | Model,
    board: str = "cortex-m4",
    *,
    example: Any = None,
    calibration: Data | None = None,
    **options: Unpack[LibraryOptions],
) -> Estimate:
    """What a model will cost on a board: arena and constants exactly, instructions, cycles and code estimated.

    Needs no compiler, no emulator and no calibration data, and takes a fraction of a second: for searches over
    networks and options. model: a file, an `onnx.ModelProto`, or a `torch.nn.Module` with an `example` of its input (a
    tensor, or a tuple of them), which PyTorch's own exporter turns into ONNX. The other arguments are those of `build`.
    Raises TinycError for a model that cannot be compiled; one that does not fit has `fits` false.
    """
    with (
        _as_files(calibration=calibration) as files,
        model_file(model, example_of(example, calibration)) as path,
        _progress() as progress,
    ):
        chosen = Options(board=board, **_values(options, LibraryOptions, files))
        return estimate_model(path, chosen, progress)


def memory_map(
    model: File | Model,
    board: str = "cortex-m4",
    *,
    example: Any = None,
    calibration: Data | None = None,
    **options: Unpack[LibraryOptions],
) -> MemoryMap:
    """Where every tensor of a model lives in the arena, and when, as `tinyc estimate --map`; `.at(step)` says what it
    holds.

    model and example: as for `estimate`. The other arguments are those of `build`. Raises TinycError.
    """
    with (
        _as_files(calibration=calibration) as files,
        model_file(model, example_of(example, calibration)) as path,
        _progress() as progress,
    ):
        chosen = Options(board=board, **_values(options, LibraryOptions, files))
        return map_model(path, chosen, progress).memory_map


def quantize(
    model: File | Model,
    *,
    example: Any = None,
    out: File | None = None,
    calibration: Data | None = None,
    evaluate: Data | None = None,
    state_init: Data | None = None,
    **options: Unpack[QuantizeOptions],
) -> QuantizeReport:
    """A float model in integers, beside the float model, as `tinyc quantize`: layer by layer where accuracy is lost.

    model and example: as for `build`. out: where to save it, `.onnx` (QDQ) or `.tflite`. calibration, evaluate: data
    as `build` takes them, with labels as
    `y`; evaluate defaults to the calibration inputs. flash: bytes for the weights,
    with `weights="auto"`. state, sequence, state_init: as `build` has them. Raises TinycError.
    """
    with (
        _as_files(calibration=calibration, evaluate=evaluate, state_init=state_init) as files,
        model_file(model, example_of(example, calibration, evaluate)) as path,
        _progress() as progress,
    ):
        test = files.pop("evaluate", None)
        values = _values(options, QuantizeOptions, files)
        saved = None if out is None else Path(out)
        return quantize_file(path, Options("host", **values), test, saved, progress)


def inspect(
    model: File | Model, outputs: tuple[str, ...] = (), signature: str | None = None, *, example: Any = None
) -> Inspection:
    """Operators, shapes, quantization and MACs of a model, or the reasons why it cannot be compiled. outputs,
    signature, example: as a build takes them."""
    with model_file(model, example) as path:
        return inspect_model(path, outputs, signature)


def load(folder: File, optimize: Optimize = "speed") -> Library:
    """The library in an output folder of `tinyc build` as a function of NumPy arrays, whatever board it is for.

    Compiled for this computer, it gives the board's integers bit for bit. Raises TinycError when there is
    no library or no compiler.
    """
    return load_library(Path(folder), optimize)


def _values(given: Mapping[str, Any], kind: type, files: Mapping[str, Path]) -> dict[str, Any]:
    """Options by the names of the command line, and files, as the pipeline takes them. Raises TypeError for an option
    that there is not."""
    for name in given:
        if name not in kind.__annotations__:
            near = difflib.get_close_matches(name, ["board", "calibration", "inputs", *kind.__annotations__], 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(kind.__annotations__))}"
            raise TypeError(f"there is no option '{name}'{hint}")
    numerics = given.get("numerics")
    plain: dict[str, Any] = {name: tuple(word) if isinstance(word, list) else word for name, word in given.items()}
    values = {each.name: plain.pop(name) for name, each in _keywords(Options).items() if name in plain}
    parts: tuple[tuple[str, Any], ...] = (("recipe", Recipe), ("pictures", Pictures))
    for part, owner in parts:
        words = {each.name: plain.pop(name) for name, each in _keywords(owner).items() if name in plain}
        if words:
            values[part] = replace(plain.pop(part, None) or owner(), **words)
    if values.get("baseline") is not None:
        values["baseline"] = Path(values["baseline"])
    return {**plain, **values, **files, "numerics": None if numerics is None else numerics_of(numerics)}


def _keywords(owner: type) -> Mapping[str, Field[Any]]:
    """The options of a class by what Python calls them."""
    return {keyword_of(each): each for each, _ in options_of(owner)}


@contextmanager
def _progress() -> Iterator[Progress]:
    """Of one call; a notebook shows it."""
    with notebook_bar() as bar:
        if bar is None:
            yield Progress(on_warning=_warn)
        else:
            yield Progress(on_warning=_warn, on_stage=bar.stage, on_share=bar.share)


def _warn(message: str) -> None:
    """A warning of the user's own line, however deep in here it arises."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tinyc":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, TinycWarning, stacklevel=level)


@contextmanager
def _as_files(**data: Data | None) -> Iterator[dict[str, Path]]:
    """Paths of the data that were given; arrays are written to files that last as long as the context."""
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        files = {}
        for role, given in data.items():
            if isinstance(given, str | PathLike):
                files[role] = Path(given)
            elif given is not None:
                files[role] = Path(folder) / f"{role}.npz"
                _write_npz(files[role], _arrays(given))
        yield files


@contextmanager
def _as_shown(options: VerifyOptions) -> Iterator[dict[str, Path]]:
    """Paths of a recording and of pictures, where there are such; samples are written at the rate of the front end."""
    wav, image = options.get("wav"), options.get("image")
    paths = {} if image is None else {"image": Path(image)}
    if wav is None or isinstance(wav, str | PathLike):
        yield paths if wav is None else {**paths, "wav": Path(wav)}
        return
    given = options.get("frontend")
    if given is None:
        raise TinycError("wav= is for libraries with a front end", hint="give frontend=")
    front = load_frontend(given)
    axes = getattr(front, "axes", 1)
    if wav.dtype != np.int16 or wav.shape[1:] != (() if axes == 1 else (axes,)):
        shape = "[n]" if axes == 1 else f"[n, {axes}]"
        hint = "samples of one channel, 16 bits" if axes == 1 else "samples of all axes side by side, 16 bits"
        raise TinycError(f"the recording is {wav.dtype} {list(wav.shape)}, not int16 {shape}", hint=hint)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        path = Path(folder) / "samples.wav"
        with wave.open(str(path), "wb") as file:
            file.setparams((axes, 2, round(front.rate / axes), 0, "NONE", ""))
            file.writeframes(wav.astype("<i2").tobytes())
        yield {**paths, "wav": path}


@contextmanager
def _as_labels(given: File | Sequence[str] | None) -> Iterator[Path | None]:
    """The path of a file of labels; names are written as lines of one."""
    if given is None or isinstance(given, str | PathLike):
        yield None if given is None else Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        path = Path(folder) / "labels.txt"
        path.write_text("\n".join(given) + "\n", encoding="utf-8")
        yield path


def _write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Like numpy.savez, which cannot have arrays called `file` or `allow_pickle`."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _arrays(given: npt.NDArray[Any] | Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    if isinstance(given, Mapping):
        return {name: array_of(array) for name, array in given.items()}
    return {"x": array_of(given)}


def frontend(name: File = "micro") -> FrontEnd:
    """The front end that `--frontend` would compile before a model, as a function: `.features(samples)`.

    name: `micro`, or a TOML file with its settings. The same integers as on the device; docs/frontend.md.
    """
    return load_frontend(fspath(name))


def picture(name: File, size: tuple[int, int] | None = None, channels: int = 3) -> Camera:
    """The camera that `--picture` would compile before a model, as functions of uint8 frames: `.pixels(frames)` what
    the model sees, `.features(frames)` in the reals that it is trained on, `.quantized(frames, scale, zero)` its int8.

    name: a line like `rgb565:320x240,crop=fit`, or a TOML file. size: (height, width) of the model's input, unless the
    settings say it. The same integers as on the device; docs/picture.md.
    """
    camera = load_camera(fspath(name))
    return camera.of(camera.declared_size if size is None else size, channels)
