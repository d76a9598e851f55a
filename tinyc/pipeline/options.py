# SPDX-License-Identifier: Apache-2.0
"""What the pipeline may be asked for, and how it says where it is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from tinyc.base.errors import TinycError, check_word
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Optimize
from tinyc.load.states import Asked
from tinyc.plan.shrink import Memory
from tinyc.quantize import Pictures, Recipe
from tinyc.toolchain.device import Dialogue, Protocol

Precision = Literal["auto", "integer", "float32"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a build may be asked for. Paths are the user's; None stands for the documented default."""

    board: str
    name: str | None = None
    outputs: tuple[str, ...] = ()  # tensors that the model ends at, in the place of the file's outputs
    signature: str | None = None  # of a .tflite file that has several
    states: tuple[str, ...] = ()  # `in:out` of inputs and outputs that are state, or `none`; default: by their names
    state_init: Path | None = None  # .npz: what states begin with; zeros for the others
    numerics: Numerics | None = None
    optimize: Optimize = "speed"
    precision: Precision = "auto"  # of a float model: it is quantized, or stays float32; auto: `compiling.precision_of`
    float_layers: tuple[str, ...] = ()  # names, or patterns, of layers of an integer model that run in float32
    float_fallback: bool = False  # so do layers that no integer kernel runs
    calibration: Path | None = None  # a file, a folder, or `module:function`
    recipe: Recipe | None = None  # how a float model is quantized; None: automatically
    pictures: Pictures | None = None  # how pictures become inputs, where the calibration is a folder of them
    toolchain: str | None = None
    emulator: str | None = None
    inputs: Path | None = None
    wav: Path | None = None  # a recording to run on, for libraries with a front end
    image: Path | None = None  # a picture to run on, or a folder of them, for libraries with a camera
    expect: str | None = None
    flash_budget: int | None = None  # bytes of constants and kernel code; None: by the board's flash
    ram_budget: int | None = None  # bytes of arena; None: the board's RAM
    ram_code: int | None = None  # bytes of RAM for code and constants that wait for flash most; None: all stays there
    stream_weights: int | None = None  # bytes of two buffers that weights come to while the step before runs
    memory: Memory = "balanced"
    input_rows: bool = False  # the library takes its input row by row
    incremental: int | None = None  # axis of time: the library keeps what overlapping windows share
    hop: int = 1  # new rows per call of an incremental library
    stream_unpadded: bool = False  # nothing is padded in time: another function
    weights_blob: bool = False  # the constants are a file apart from the code
    like: Path | None = None  # folder of a library built so, whose code is to run the new constants
    proof: bool = True  # run on the board's machine and compared; False: only written
    cache: bool = False  # what quantizing finds is kept beside the model, and found there
    frontend: str | None = None  # what is compiled before the model: `micro`, or a file with its settings
    picture: str | None = None  # what frames of a camera become the input: a file of settings, or a line of them
    samples: int = 20  # at most so many inputs run on the board; 0: all
    sequence: int = 0  # of a model with state: inputs after each reset; 0: all are one sequence
    harness: Protocol = "tinyc"  # what the firmware for the board itself speaks
    task: str | None = None  # of MLPerf Tiny, for its harness
    baud: int | None = None  # of that firmware; None: the task's or the board's

    def __post_init__(self) -> None:
        check_word("precision", self.precision, get_args(Precision))
        check_word("way to optimize", self.optimize, get_args(Optimize))
        check_word("way to plan memory", self.memory, get_args(Memory))
        if self.like is not None and not self.weights_blob:
            raise TinycError("--like is for constants apart from the code", hint="give --weights-blob too")

    @property
    def asked_states(self) -> Asked:
        """What the user says of inputs and outputs that are state."""
        return Asked(self.states, self.state_init)

    @property
    def by_calls(self) -> bool:
        """Whether the library takes the new rows of a window; one with a front end takes samples."""
        return self.incremental is not None and self.frontend is None

    @property
    def dialogue(self) -> Dialogue:
        """How the firmware for the board itself speaks."""
        return Dialogue(self.harness, self.task, self.baud)

    def shaping(self) -> tuple[str, ...]:
        """Those that make the library another one than the defaults do, as on the command line. Paths are left out:
        the same file elsewhere gives the same library."""
        plain = Options(self.board)
        budgets = ("flash_budget", "memory", "ram_budget", "ram_code", "stream_weights")
        valued = ("precision", "numerics", "optimize", *budgets, "incremental", "hop")
        words = [_option(name, getattr(self, name)) for name in valued if getattr(self, name) != getattr(plain, name)]
        words += [_option(name) for name in ("input_rows", "stream_unpadded", "weights_blob") if getattr(self, name)]
        words += [_option("outputs", ",".join(self.outputs))] * bool(self.outputs)
        words += [] if self.signature is None else [_option("signature", self.signature)]
        words += [_option("state", pair) for pair in self.states] + ["--state-init FILE"] * bool(self.state_init)
        words += [_option("float", ",".join(self.float_layers))] * bool(self.float_layers)
        words += [_option("float_fallback")] * self.float_fallback
        if self.recipe is not None:
            widths = {"weights": self.recipe.weights, "activations": self.recipe.activations}
            words += [_option(name, bits) for name, bits in widths.items() if bits != "int8"]
        if self.frontend is not None:
            words.append(_option("frontend", self.frontend if self.frontend.isidentifier() else "FILE"))
        if self.picture is not None:
            words.append(_option("picture", "FILE" if self.picture.endswith(".toml") else self.picture))
        return tuple(words + ["--calibration FILE"] * (self.calibration is not None))


def _option(name: str, value: object = None) -> str:
    """`--ram-budget 4096`."""
    said = value.value if isinstance(value, Numerics) else value
    return f"--{name.replace('_', '-')}" + ("" if value is None else f" {said}")


@dataclass
class Progress:
    """Seconds of each stage, and a callback that hears a stage begin. The pipeline's only mutable value."""

    on_stage: Callable[[str], None] = lambda stage: None
    on_warning: Callable[[str], None] = lambda message: None
    on_share: Callable[[str, float], None] = lambda what, share: None  # of a long stage: what, and how much is done
    seconds: dict[str, float] = field(default_factory=dict)

    def counted(self, what: str, of: int) -> Callable[[], None]:
        """To be called when each of the `of` parts of a stage is done."""
        done = itertools.count(1)
        return lambda: self.on_share(what, next(done) / of)

    def within(self, what: str) -> Progress:
        """For one of many: `what` stands before its stages. Seconds are counted together."""
        return replace(
            self,
            on_stage=lambda stage: self.on_stage(f"{what}: {stage}"),
            on_share=lambda stage, share: self.on_share(f"{what}: {stage}", share),
        )

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.on_stage(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
