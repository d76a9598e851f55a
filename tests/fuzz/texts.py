# SPDX-License-Identifier: Apache-2.0
"""Everything else that comes from outside: arrays, boards, reports, command lines, frames of a board."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer

from tests.fuzz.case import WrongError
from tests.fuzz.damage import WORDS, cut_or_flipped
from tests.load.onnx_models import build, op
from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.base.output_folder import REPORT_FILE, check_replaceable
from tinyc.bench.compare import compare_files
from tinyc.bench.report import SCHEMA
from tinyc.board import Board, load_board
from tinyc.cli.app import app, load_command
from tinyc.cli.serial_text import frame_text
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import calibrate
from tinyc.reference.samples import load_samples
from tinyc.run import protocol
from tinyc.run.base import Conversation
from tinyc.toolchain.compile import Firmware, FirmwareInfo
from tinyc.toolchain.compilers import host_compiler
from tinyc.toolchain.device import MANIFEST, read_device

MOST_EDITS = 4
ODD: tuple[Any, ...] = (
    0,
    1,
    -1,
    255,
    1 << 31,
    1 << 70,
    0.5,
    float("nan"),
    float("inf"),
    True,
    None,
    "",
    [],
    {},
    [0],
    *WORDS,
)


def edits(seed: int) -> int:
    return int(np.random.default_rng([seed, 0]).integers(1, MOST_EDITS + 1))


@cache
def _content() -> bytes:
    """A small float model: x [1,2,6,5]."""
    weights = np.linspace(-1, 1, 2 * 3 * 9, dtype=np.float32).reshape(3, 2, 3, 3)
    nodes = [op("Conv", "x w", "c", pads=[1, 1, 1, 1]), op("Relu", "c", "y")]
    return build(nodes, {"x": [1, 2, 6, 5]}, ["y"], {"w": weights}).SerializeToString()


def _model(folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(_content())
    return path


def check_npz(seed: int, subset: frozenset[int], folder: Path) -> str:
    """Calibration and test inputs of every kind, some of them damaged."""
    rng = np.random.default_rng([seed, 1])
    path = folder / "data.npz"
    _write_npz(path, rng)
    content = path.read_bytes()
    for index in sorted(subset):
        own = np.random.default_rng([seed, 2 + index])
        if own.random() < 0.15 and content:
            content = cut_or_flipped(content, own)
    path.write_bytes(content)
    model = _model(folder)
    graph = normalize(load_model(model))
    return max(_samples(path, graph), _calibrated(path, model, graph))


def _write_npz(path: Path, rng: np.random.Generator) -> None:
    arrays = {}
    for n in range(rng.integers(0, 4)):
        name = "x" if n == 0 and rng.random() < 0.8 else ("x", "y", "arr_0", "ä/..", "labels")[rng.integers(5)]
        arrays[name] = _array(rng)
    if rng.random() < 0.1:
        with zipfile.ZipFile(path, "w") as file:
            for name in ("x.npy", "y"):
                file.writestr(name, rng.bytes(int(rng.integers(200))))
        return
    with path.open("wb") as file:
        (np.savez if rng.random() < 0.7 else np.savez_compressed)(file, **arrays)


def _array(rng: np.random.Generator) -> Array:
    odd = ((3, 1, 2, 6, 5), (2, 6, 5), (3, 6, 5, 2), (3,), (), (0, 2, 6, 5), (3, 0), (3, 60), (1,) * 9)
    shape = (3, 2, 6, 5) if rng.random() < 0.5 else odd[rng.integers(len(odd))]
    kinds = ("f8", "f2", "i1", "u1", "i8", "b1", "c8", "S3", "U2", "O", "M8[s]", ">f4")
    kind = "f4" if rng.random() < 0.5 else kinds[rng.integers(len(kinds))]
    array = rng.standard_normal(shape) * 50
    if kind[0] == "O":
        return np.full(shape, None)
    with np.errstate(all="ignore"):
        numbers = np.asarray(array).astype(kind if kind[0] != "M" else "i8").astype(kind)
    if numbers.dtype.kind == "f" and numbers.size and rng.random() < 0.3:
        numbers.reshape(-1)[0] = rng.choice([np.nan, np.inf, 6e4, 0.0])
    return numbers * 0 if numbers.dtype.kind == "f" and rng.random() < 0.1 else numbers


def _samples(path: Path, graph: Graph) -> str:
    try:
        load_samples(path, graph)
    except TinycError as error:
        return _refused(error, path)
    return "taken"


def _calibrated(path: Path, model: Path, graph: Graph) -> str:
    try:
        calibrate(model, graph, path, None)
        compile_model(model, load_board("host"), Options("host", calibration=path), Progress())
    except TinycError as error:
        return _refused(error, path)
    return "taken"


def _refused(error: TinycError, path: Path) -> str:
    if not error.message or "Traceback" in str(error):
        raise WrongError("empty error", repr(str(error)))
    return "refused"


def check_board(seed: int, subset: frozenset[int], folder: Path) -> str:
    """A board's description with other values, keys, tables; then the library for it."""
    rng = np.random.default_rng([seed, 1])
    files = sorted(paths.boards_dir().glob("*.toml"))
    text = files[rng.integers(len(files))].read_text(encoding="utf-8")
    for index in sorted(subset):
        text = _edited(text, np.random.default_rng([seed, 2 + index]))
    path = folder / "board.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        board = load_board(path)
        compile_model(_model(folder), board, Options(str(path)), Progress())
    except TinycError:
        return "refused"
    return "taken"


def _edited(text: str, rng: np.random.Generator) -> str:
    """Another value, a line less, twice or elsewhere, or other bytes."""
    lines = text.splitlines()
    if not lines:
        return text
    at, kind = int(rng.integers(len(lines))), rng.integers(6)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(int(rng.integers(len(lines))), lines[at])
    elif kind == 2:
        return cut_or_flipped(text.encode(), rng).decode("utf-8", "replace")
    else:
        settings = [n for n, line in enumerate(lines) if "=" in line]
        if settings:
            at = settings[rng.integers(len(settings))]
            key, _, value = lines[at].partition("=")
            lines[at] = f"{key}= {_other(value.strip(), rng)}"
    return "\n".join(lines) + "\n"


def _other(value: str, rng: np.random.Generator) -> str:
    """Another number for a number, most of the time; else anything."""
    if value.replace("_", "").isdigit() and rng.random() < 0.7:
        old = int(value.replace("_", ""))
        return str(max(0, old + int(rng.choice([-old, -1, 1, old, 1 << 20, 1 << 40]))))
    return _toml(ODD[rng.integers(len(ODD))])


def _toml(value: Any) -> str:
    if value is None or isinstance(value, dict):
        return "{ a = 1 }"
    if isinstance(value, float):
        return {"nan": "nan", "inf": "inf"}.get(str(value), str(value))
    return json.dumps(value)


def check_json(seed: int, subset: frozenset[int], folder: Path) -> str:
    """Reports that tinyc reads again: of a benchmark, of a build, of firmware for a board."""
    rng = np.random.default_rng([seed, 1])
    kind = rng.integers(3)
    text = json.dumps((_BENCH, _REPORT, _DEVICE)[kind])
    for index in sorted(subset):
        text = _changed(text, np.random.default_rng([seed, 2 + index]))
    content = text.encode("utf-8", "surrogatepass")
    try:
        if kind == 0:
            old, new = folder / "old.json", folder / "new.json"
            old.write_bytes(content)
            new.write_text(json.dumps(_BENCH), encoding="utf-8")
            compare_files(old, new) if rng.random() < 0.5 else compare_files(new, old)
        elif kind == 1:
            (folder / REPORT_FILE).write_bytes(content)
            check_replaceable(folder)
        else:
            (folder / MANIFEST).write_bytes(content)
            read_device(folder)
    except TinycError:
        return "refused"
    return "taken"


_BOARD_FACTS = {"board": "cortex-m4", "instructions": 1000, "arena_bytes": 512, "mismatches": 0}
_REFERENCE = {"name": "onnxruntime", "parity": {"sqnr_db": 30.5}, "latency": {"median_us": 3.5}}
_BENCH: Any = {
    "schema": SCHEMA,
    "models": [{"model": "a.onnx", "boards": [_BOARD_FACTS], "references": [_REFERENCE]}],
}
_REPORT: Any = {"tinyc": "0.1.0", "name": "model", "board": "host"}
_DEVICE: Any = {
    "board": "nucleo-l4r5zi",
    "board_file": "",
    "model": "model",
    "protocol": "tinyc",
    "baud": 115200,
    "origin": 134217728,
    "flash_bytes": 100,
    "sha256": "0" * 64,
}


def _changed(text: str, rng: np.random.Generator) -> str:
    """One value in the tree replaced, or its key gone; or the bytes damaged."""
    if rng.random() < 0.15:
        return cut_or_flipped(text.encode(), rng).decode("utf-8", "replace")
    try:
        tree = json.loads(text)
    except ValueError:
        return text
    _change(tree, rng)
    return json.dumps(tree)


def _change(tree: Any, rng: np.random.Generator) -> None:
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    if not keys:
        return
    key = keys[rng.integers(len(keys))]
    if isinstance(tree[key], dict | list) and rng.random() < 0.7:
        _change(tree[key], rng)
    elif rng.random() < 0.2:
        del tree[key]
    else:
        tree[key] = ODD[rng.integers(len(ODD))]


def check_frames(seed: int, subset: frozenset[int], folder: Path) -> str:
    """What a board may send: frames of every type with right checksums, lengths and numbers that are wrong, noise."""
    rng = np.random.default_rng([seed, 1])
    info = FirmwareInfo(512, 16, (4,), (3, 8), 3)
    host = host_compiler()
    assert host is not None
    firmware = Firmware(folder, "net", _host(), host, folder, info, dump_steps=bool(rng.random() < 0.5))
    stream = b"".join(_frame(np.random.default_rng([seed, 2 + index])) for index in sorted(subset))
    word = "taken"
    try:
        talk = Conversation(firmware, int(rng.integers(1, 4)))
        for at in range(0, len(stream), 7):
            talk.feed(stream[at : at + 7])
        talk.finish("a board")
    except TinycError:
        word = "refused"
    with contextlib.suppress(TinycError):
        for frame in protocol.FrameReader(skip_noise=True).feed(stream):
            frame_text(frame)
    return word


@cache
def _host() -> Board:
    return load_board("host")


def _frame(rng: np.random.Generator) -> bytes:
    if rng.random() < 0.1:
        return rng.bytes(int(rng.integers(1, 40)))
    kind = list(protocol.Reply)[rng.integers(len(protocol.Reply))] if rng.random() < 0.95 else int(rng.integers(256))
    size = int(rng.choice([0, 1, 4, 8, 12, 24, 35, 39, 40, 41, 60]))
    words = rng.choice([0, 1, 2, 3, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], 16)
    payload = b"".join(struct.pack("<I", int(word)) for word in words)[:size]
    frame = protocol.encode(kind, payload)  # type: ignore[arg-type]
    return cut_or_flipped(frame, rng) if rng.random() < 0.1 else frame


_COMMANDS = ("inspect", "estimate", "quantize", "boards")  # that need no compiler and no board
_VALUES = (
    "0",
    "1",
    "-1",
    "64K",
    "1e9",
    "nan",
    "x",
    "",
    "min",
    "host",
    "cortex-m4",
    "model.onnx",
    "no.npz",
    "é",
    "a" * 300,
)


def check_commands(seed: int, subset: frozenset[int], folder: Path) -> str:
    """A command line of options that exist, with values that may not: exit code 0, 1 or 2, and no exception."""
    rng = np.random.default_rng([seed, 1])
    name = _COMMANDS[rng.integers(len(_COMMANDS))]
    options = [each for each in load_command(name).params if each.opts[0].startswith("-")]
    words = [name]
    if name != "boards":
        words.append(str(_model(folder)) if rng.random() < 0.9 else _VALUES[rng.integers(len(_VALUES))])
    for index in sorted(subset):
        own = np.random.default_rng([seed, 2 + index])
        option = options[own.integers(len(options))]
        words.append(option.opts[own.integers(len(option.opts))])
        if not option.is_flag:
            words.append(_VALUES[own.integers(len(_VALUES))])
    with contextlib.chdir(folder), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        code = _exit_code(words)
    if code not in (0, 1, 2):
        raise WrongError(f"exit code {code}", " ".join(words))
    return "refused" if code else "done"


def _exit_code(words: list[str]) -> int:
    """What the command line returns; its exceptions go on, but for those that say a word is wrong."""
    try:
        return app(words, standalone_mode=False) or 0
    except typer.TyperException:
        return 2
    except SystemExit as leave:
        return int(leave.code or 0)
