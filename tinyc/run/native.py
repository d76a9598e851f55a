# SPDX-License-Identifier: Apache-2.0
"""A generated library as a function of NumPy arrays: compiled for this computer, the same integers as on the board."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.board import load_board
from tinyc.ir.graph import Array
from tinyc.options.build import Optimize
from tinyc.toolchain.compilers import OPTIMIZE_FLAGS, find_toolchain

_DTYPES: Mapping[str, type] = {
    "float": np.float32,
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
}


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a library. shape: as in C, images NHWC. real = scale * (q - zero_point); scale None: no
    quantization, or scales for quantities of an output, which are scales_step elements apart. axes: the model's own
    axes in the order of the library, where that is another one; else ()."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: float | None
    zero_point: int
    axes: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    scales_step: int = 1

    @property
    def is_quantized(self) -> bool:
        """Whether its integers stand for reals."""
        return self.scale is not None or bool(self.scales)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape without a batch axis of 1."""
        return self.shape[1:] if len(self.shape) > 1 and self.shape[0] == 1 else self.shape

    def quantize(self, reals: npt.ArrayLike) -> Array:
        """The integers that the library's own `<model>_quantize_input` gives: half away from zero, saturated, of NaN
        the least."""
        if self.scale is None:
            raise TinycError(f"'{self.name}' has no quantization", hint="give, and take, its own numbers: real=False")
        q = np.asarray(reals, np.float32) / np.float32(self.scale)
        lowest, highest = self._limits()
        least, most = np.float32(lowest - self.zero_point), np.float32(highest - self.zero_point)
        q = np.where(q > least, q, least)
        q = np.where(q < most, q, most)
        away = np.where(q < 0, np.float32(-0.5), np.float32(0.5))
        integers: Array = ((q + away).astype(np.int32) + self.zero_point).astype(self.dtype)
        return integers

    def dequantize(self, integers: npt.ArrayLike) -> Array:
        """float32 reals, as the library's own `<model>_dequantize_output` computes them."""
        if not self.is_quantized:
            raise TinycError(f"'{self.name}' has no quantization", hint="give, and take, its own numbers: real=False")
        offset = np.asarray(integers).astype(np.int32) - self.zero_point
        scale: Array | np.float32 = np.float32(self.scale or 0)
        if self.scales:
            index = np.arange(np.prod(self.shape)) // self.scales_step % len(self.scales)
            scale = np.array(self.scales, np.float32)[index].reshape(self.sample_shape)
        return np.asarray(scale * offset.astype(np.float32))

    def accept(self, given: npt.ArrayLike) -> tuple[Array, bool, bool]:
        """(samples [n, *sample_shape] in the port's dtype, whether a batch was given, whether reals were).

        Raises TinycError for another shape, for integers out of range and for reals that are not finite.
        """
        array = np.asarray(given)
        batch = array.ndim == len(self.sample_shape) + 1
        if array.dtype.kind not in "fiu" or (array.shape[1:] if batch else array.shape) != self.sample_shape:
            raise TinycError(
                f"input '{self.name}' is an array of {array.dtype} {list(array.shape)}; expected {self.dtype} or "
                f"reals of shape {list(self.sample_shape)}, or one axis more for several samples",
                hint=self._brought(array.shape),
            )
        real = array.dtype.kind == "f"
        if real and not np.isfinite(array).all():
            raise TinycError(
                f"input '{self.name}' has values that are not finite", hint="NaN and infinity have no integer"
            )
        samples = array if batch else array[np.newaxis]
        if self.dtype.kind == "f":
            return samples.astype(np.float32), batch, False
        if real:
            return self.quantize(samples), batch, True
        lowest, highest = self._limits()
        if samples.size and (samples.min() < lowest or samples.max() > highest):
            raise TinycError(f"input '{self.name}' has values outside {self.dtype} [{lowest}, {highest}]")
        return samples.astype(self.dtype), batch, False

    def _brought(self, given: tuple[int, ...]) -> str:
        """How an array of another shape becomes one that the port takes."""
        rank = len(self.axes)
        if not rank:
            return "bring it to that shape: numpy.reshape; the axes are in the model's order"
        order = self.axes
        if len(given) == rank - 1 and order[0] == 0:  # a sample, without the axis of the batch
            order = tuple(axis - 1 for axis in order[1:])
        words = ", ".join(map(str, order))
        return f"the library has the model's axes in another order: numpy.transpose(x, ({words})) brings yours to it"

    def _limits(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)


class Library:
    """A generated library, loaded. Call it with arrays; any number of threads may, each call has its own arena.

    inputs, outputs: what the model takes and gives. arena_bytes: all of its RAM but the stack. version: what
    `<model>_version` says. rows: of the input, where rows are pushed. hop_rows: new rows of a call of an incremental
    library, which is a function of one window here: a reset, and all rows of it. Both are 0 elsewhere.
    """

    def __init__(self, name: str, header: str, shared: ctypes.CDLL) -> None:
        defines = defines_of(header)
        prefix = name.upper()
        self.name = name
        self.arena_bytes = int(defines[f"{prefix}_ARENA_BYTES"])
        self._align = int(defines[f"{prefix}_ARENA_ALIGN"])
        self.inputs = ports_of(name, "input", header, defines)
        self.outputs = ports_of(name, "output", header, defines)
        self.rows = int(defines.get(f"{prefix}_INPUT_0_ROWS", 0))  # 0: the input lies in the arena
        self.hop_rows = int(defines.get(f"{prefix}_HOP_ROWS", 0))
        self._run = getattr(shared, f"{name}_{'push_rows' if self.hop_rows else 'push_row' if self.rows else 'run'}")
        remembers = f"{prefix}_STATE_BYTES" in defines or self.hop_rows > 0
        self._reset = getattr(shared, f"{name}_reset") if remembers else None
        if self._reset is not None:
            self._reset.argtypes = [ctypes.c_void_p]
        self._run.restype = ctypes.c_int
        one_row = [ctypes.c_int32] if self.rows and not self.hop_rows else []
        self._run.argtypes = [ctypes.c_void_p, *one_row, *([ctypes.c_void_p] if self.rows else [])]
        self._input_at = [] if self.rows else _addresses(shared, f"{name}_input_", len(self.inputs))
        self._output_at = _addresses(shared, f"{name}_output_", len(self.outputs))
        version = getattr(shared, f"{name}_version")
        version.restype = ctypes.c_char_p
        self.version: str = version().decode()

    def __repr__(self) -> str:
        return f"<tinyc library {self.version}>"

    def __call__(self, *inputs: npt.ArrayLike, real: bool | None = None) -> Array:
        """The output of a model that has one. See `run`."""
        if len(self.outputs) != 1:
            raise TinycError(f"{self.name} has {len(self.outputs)} outputs", hint="use run(), which gives them all")
        return self.run(*inputs, real=real)[0]

    def run(self, *inputs: npt.ArrayLike, real: bool | None = None) -> tuple[Array, ...]:
        """All outputs, for one array per input: a sample, or samples along a further first axis; outputs alike.

        Integers are taken as they are, and integers come back, those of the board bit for bit. Reals are
        quantized as the C helpers do, and reals (float32) come back. real=True, False: reals or
        integers come back in any case. Samples of a model with state are one sequence that begins with a
        reset. Raises TinycError when the arrays do not fit.
        """
        if len(inputs) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise TinycError(
                f"{self.name} takes {len(self.inputs)} inputs, found {len(inputs)}", hint=f"in order: {names}"
            )
        taken = [port.accept(array) for port, array in zip(self.inputs, inputs, strict=True)]
        if len({(len(samples), batch) for samples, batch, _ in taken}) > 1:
            raise TinycError("inputs have different numbers of samples", hint="give as many of each, or one of each")
        raw = self._infer([samples for samples, _, _ in taken])
        wants_reals = any(given_reals for _, _, given_reals in taken) if real is None else real
        batch = taken[0][1] if taken else False
        return tuple(
            port.dequantize(part) if wants_reals and port.is_quantized else part
            for port, part in zip(self.outputs, raw if batch else [part[0] for part in raw], strict=True)
        )

    def bound(self, *inputs: npt.ArrayLike) -> Callable[[], None]:
        """A function that runs the library on these samples (one per input) and drops the outputs: for timing."""
        taken = [port.accept(array)[0][0] for port, array in zip(self.inputs, inputs, strict=True)]
        once = self._once(self._arena())

        def again() -> None:
            once(taken)

        return again

    def _once(self, arena: npt.NDArray[np.uint8]) -> Callable[[list[Array]], int]:
        """A function that runs the library on one sample of each input, in the given arena; it returns the status."""
        run = self._run
        if self.hop_rows:
            return self._window(arena)
        if self.rows:

            def by_rows(sample: list[Array]) -> int:
                rows = np.ascontiguousarray(sample[0]).reshape(self.rows, -1)
                at = arena.ctypes.data  # the function keeps its arena alive
                return max(run(at, number, row.ctypes.data) for number, row in enumerate(rows))

            return by_rows
        address = arena.ctypes.data
        places = [at(address) - address for at in self._input_at]
        views = [_view(arena, place, port) for place, port in zip(places, self.inputs, strict=True)]

        def whole(sample: list[Array]) -> int:
            for view, array in zip(views, sample, strict=True):
                view[...] = array
            status: int = run(address)
            return status

        return whole

    def _window(self, arena: npt.NDArray[np.uint8]) -> Callable[[list[Array]], int]:
        """A function that gives an incremental library a window after a reset. Where the window is no whole number of
        hops, zeros come before it, which are out of the window at its end."""
        reset, run, hop = self._reset, self._run, self.hop_rows
        assert reset is not None
        ahead = -self.rows % hop

        def window(sample: list[Array]) -> int:
            at = arena.ctypes.data  # the function keeps its arena alive
            rows = sample[0].reshape(self.rows, -1)
            whole = np.concatenate([np.zeros((ahead, rows.shape[1]), rows.dtype), rows])
            reset(at)
            return [run(at, whole[start:].ctypes.data) for start in range(0, len(whole), hop)][-1]

        return window

    def _arena(self) -> npt.NDArray[np.uint8]:
        memory = np.zeros(self.arena_bytes + self._align, np.uint8)
        start = -memory.ctypes.data % self._align
        arena = memory[start : start + self.arena_bytes]
        if self._reset is not None:
            self._reset(arena.ctypes.data)
        return arena

    def _infer(self, samples: list[Array]) -> list[Array]:
        """[n, *sample_shape] of every output."""
        count = len(samples[0]) if samples else 1
        arena = self._arena()
        address = arena.ctypes.data
        once = self._once(arena)
        views_out = [
            _view(arena, at(address) - address, p) for p, at in zip(self.outputs, self._output_at, strict=True)
        ]
        results = [np.empty((count, *port.sample_shape), port.dtype) for port in self.outputs]
        for index in range(count):
            if once([array[index] for array in samples]) != 0:
                raise TinycError(f"{self.name}: the library refused its arena")
            for view, result in zip(views_out, results, strict=True):
                result[index] = view
        return results


def load_library(folder: Path, optimize: Optimize = "speed") -> Library:
    """The library that `tinyc build` wrote to the folder, for whatever board, compiled for this computer.

    Kernels in a core's assembly run as their twins in C. Raises TinycError when there is no library or no compiler.
    """
    name = find_name(folder)
    header = (folder / f"{name}.h").read_text(encoding="utf-8")
    toolchain = find_toolchain(load_board("host"))
    flags = ["-std=c99", OPTIMIZE_FLAGS[optimize], "-ffp-contract=off", "-fPIC", "-shared"]
    with tempfile.TemporaryDirectory(prefix="tinyc-", ignore_cleanup_errors=True) as out:
        shared = Path(out) / f"{name}.so"
        toolchain.run([*flags, folder / f"{name}.c", "-o", shared], f"compiling {name}.c for this computer")
        return Library(name, header, ctypes.CDLL(str(shared)))


def defines_of(header: str) -> dict[str, str]:
    """The macros of a library's header, with their texts: the first of several, which is GNU C's."""
    defines = re.findall(r"^#define (\w+) (.+?)(?: /\*.*)?$", header.replace("\\\n", ""), re.MULTILINE)
    return dict(reversed(defines))


def find_name(folder: Path) -> str:
    """The model whose `<name>.h` and `<name>.c` lie in the folder; kernels have a header only."""
    names = [path.stem for path in sorted(folder.glob("*.c")) if path.with_suffix(".h").is_file()]
    if len(names) != 1:
        what = "several libraries" if names else "no library"
        raise TinycError(f"there is {what} in this folder", Loc(str(folder)), "give the output folder of `tinyc build`")
    return names[0]


def ports_of(name: str, kind: str, header: str, defines: Mapping[str, str]) -> tuple[Port, ...]:
    """The inputs or outputs (kind) that a library's header declares."""
    ports = []
    for index in range(int(defines[f"{name.upper()}_{kind.upper()}_COUNT"])):
        prefix = f"{name.upper()}_{kind.upper()}_{index}"
        ctype = re.search(rf"^(?:const )?(\w+) \*{name}_{kind}_{index}\(", header, re.MULTILINE)
        if kind == "input" and ctype is None:
            ctype = re.search(rf"^int {name}_push_rows?\(.*const (\w+) \*data\);", header, re.MULTILINE)
        title = re.search(
            rf"^/\* {kind} {index} '(.*)': \w+ \[.*(?:\n \* Its axes are the model's own axes ([\d, ]+):)?",
            header,
            re.MULTILINE,
        )
        if ctype is None or ctype[1] not in _DTYPES:
            raise TinycError(f"cannot tell the type of {kind} {index} from {name}.h", hint="build the library again")
        scale = defines.get(f"{prefix}_SCALE")
        ports.append(
            Port(
                name=title[1] if title else f"{kind}_{index}",
                shape=tuple(int(size) for size in re.findall(r"\d+", defines[f"{prefix}_SHAPE"])),
                dtype=np.dtype(_DTYPES[ctype[1]]),
                scale=None if scale is None else float(scale.rstrip("f")),
                zero_point=int(defines.get(f"{prefix}_ZERO_POINT", "0").strip("()")),
                axes=tuple(int(axis) for axis in re.findall(r"\d+", title[2] or "")) if title else (),
                scales=tuple(
                    float(scale) for scale in re.findall(r"([^\s{},]+)f", defines.get(f"{prefix}_SCALES", ""))
                ),
                scales_step=int(defines.get(f"{prefix}_SCALES_STEP", "1")),
            )
        )
    return tuple(ports)


def _addresses(shared: ctypes.CDLL, prefix: str, count: int) -> list[Any]:
    functions = [getattr(shared, f"{prefix}{index}") for index in range(count)]
    for function in functions:
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_void_p
    return functions


def _view(arena: npt.NDArray[np.uint8], offset: int, port: Port) -> Array:
    """The bytes of a port in the arena as an array of one sample."""
    elements = int(np.prod(port.sample_shape, dtype=np.int64))
    return np.frombuffer(arena, port.dtype, elements, offset).reshape(port.sample_shape)
