# SPDX-License-Identifier: Apache-2.0
"""A host for the MLPerf Tiny serial protocol, from its public description: commands end in '%', each answer ends with
the line m-ready. Also a small model to ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.base.serial_line import SerialPort
from tinyc.board import load_board
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.ops.fully_connected import FullyConnected
from tinyc.plan import plan_graph
from tinyc.reference.interpreter import prepare_int

LOAD_BYTES = 31  # of one db command


@dataclass
class Host:
    """write and read move bytes; read gives b"" when nothing comes any more."""

    write: Callable[[bytes], None]
    read: Callable[[], bytes]
    pending: str = field(default="")

    def ask(self, command: str) -> list[str]:
        """The lines of the answer, without m-ready."""
        self.write(f"{command}%".encode("ascii"))
        return self.answer(command)

    def answer(self, what: str) -> list[str]:
        lines = self._until("m-ready", what)
        return lines[:-1]

    def greeting(self) -> list[str]:
        """What it says when it starts: no answer to anything, so without m-ready."""
        return self._until("m-name-dut-[tinyc]", "start")

    def _until(self, last: str, what: str) -> list[str]:
        lines: list[str] = []
        while last not in lines:
            line, end, rest = self.pending.partition("\r\n")
            if not end:
                more = self.read()
                assert more, f"no answer to {what!r} after {lines} {self.pending!r}"
                self.pending += more.decode("ascii")
                continue
            self.pending = rest
            lines.append(line)
        return lines

    def load(self, data: bytes) -> None:
        assert self.ask(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        answer: list[str] = []
        for at in range(0, len(data), LOAD_BYTES):
            assert answer == []
            answer = self.ask(f"db {data[at : at + LOAD_BYTES].hex()}")
        assert answer == ["m-load-done"]

    def infer(self, count: int, warmups: int) -> tuple[int, list[float]]:
        """Microseconds of all runs, and the results."""
        lines = self.ask(f"infer {count} {warmups}")
        shape = r"m-warmup-start-{}\nm-warmup-done\nm-infer-start-{}\nm-lap-us-(\d+)\nm-lap-us-(\d+)\nm-infer-done\n"
        match = re.fullmatch(shape.format(warmups, count) + r"m-results-\[([-\d.,]+)\]", "\n".join(lines))
        assert match, lines
        return int(match[2]) - int(match[1]), [float(text) for text in match[3].split(",")]


def wake(port: str) -> None:
    """Asks whenever the line is silent (what is sent before the other side listens is lost), another question each
    time, until the last one is answered: nothing more is under way then."""
    said, asked = b"", 0
    with SerialPort(port, 115_200) as line:
        while f"e-[Unknown command: awake{asked}]\r\nm-ready\r\n".encode() not in said:
            more = line.read(4096, 0.5)
            if not more:
                asked += 1
                assert asked < 240, f"the firmware does not answer: {said!r}"
                line.write(f"%awake{asked}%".encode())
            said += more


INPUT = Quant((0.5,), (3,))
OUTPUT = Quant((20.0,), (-5,))


def dense(inputs: int, outputs: int) -> Graph:
    """y = x * w + b with zero points, and results that saturate."""
    w = (np.arange(inputs * outputs, dtype=np.int64) * 37 % 255 - 127).astype(np.int8).reshape(outputs, inputs)
    values = [
        Value("x", (1, inputs), "s8", INPUT),
        Value("w", (outputs, inputs), "s8", Quant((0.25,), (0,))),
        Value("b", (outputs,), "s32", Quant((0.125,), (0,))),
        Value("y", (1, outputs), "s8", OUTPUT),
    ]
    node = Node("dense", "fully_connected", ("x", "w", "b"), ("y",), FullyConnected())
    consts = {"w": read_only(w), "b": read_only(np.arange(outputs, dtype=np.int32) * 1000 - 2000)}
    return Graph("dense", ("x",), ("y",), (node,), {value.name: value for value in values}, consts)


def write_library(folder: Path, graph: Graph, board_name: str) -> Path:
    """The generated library of the graph, as `tinyc build` writes it; the folder."""
    board = load_board(board_name)
    choices = select(graph, board.isa, Numerics.TFLM)
    program = lower(graph, plan_graph(graph, choices), Numerics.TFLM, "dense")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in emit_library(program, Info("dense", "0" * 64, board.name)).items():
        (folder / name).write_text(text)
    return folder


def reference(graph: Graph, x: bytes) -> list[float]:
    """The dequantized outputs."""
    run = prepare_int(graph, Numerics.TFLM)
    q = run({"x": np.frombuffer(x, np.int8).reshape(1, -1)})["y"].ravel()
    return [float(OUTPUT.scale[0] * (int(v) - OUTPUT.zero[0])) for v in q]
