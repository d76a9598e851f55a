# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2 1.0 on 224x224 in a fast and a slow RAM, beside all of it in one RAM.

    python bench/memories.py                                  # a table, each build proved byte for byte
    python bench/memories.py --board stm32h747i-disco         # of another board with two RAMs
    python bench/memories.py --write FOLDER                   # the model alone, with calibration inputs beside it

Weights are random, of a fixed seed: what a plan takes depends on shapes alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from streamed_networks import Network, inverted

from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import UNPROVEN
from tinyc.verify.report import Report

BOARD = "cortex-m7-psram"
BUDGETS = (None, 128 * 1024, 64 * 1024)  # bytes of the fast RAM; None: all of the board's

BLOCKS = (  # expansion, channels, blocks, stride of the first: table 2 of the paper
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)


def mobilenet_v2(size: int = 224) -> onnx.ModelProto:
    net = Network(224, 3, size, size)
    x = net.conv("x", 32, 3, 2, act="Relu6")
    for expand, out, count, stride in BLOCKS:
        for number in range(count):
            x = inverted(net, x, out, expand, stride if number == 0 else 1)
    return net.model(net.classify(net.conv(x, 1280, 1, act="Relu6"), 1000))


def write(folder: Path, size: int = 224) -> Path:
    """The model's file, with random calibration inputs beside it."""
    path = folder / f"mobilenet_v2_{size}.onnx"
    onnx.save(mobilenet_v2(size), path)
    data = np.random.default_rng(0).standard_normal((2, 3, size, size)).astype(np.float32)
    np.savez(folder / f"mobilenet_v2_{size}.calib.npz", x=data)
    return path


def measure(path: Path, board: str, budget: int | None) -> Report:
    """The report of a build that was proved. RuntimeError where bytes differ."""
    options = Options(board=board, ram=budget, emulator="unicorn", samples=1, recipe=UNPROVEN)
    report = verify_model(path, options, Progress())
    if not report.passed:
        raise RuntimeError(f"{path.stem}: output differs from the reference")
    return report


def row(board: str, budget: int | None, report: Report) -> str:
    """A line of the table."""
    slow, cycles, clock = report.slow, report.cycles or 0, load_board(board).clock_hz
    waits = slow.waits if slow is not None else 0
    return " | ".join(
        [
            f"| {f'{budget:,}' if budget else 'all'}",
            f"{report.arena_bytes:,}",
            f"{slow.bytes:,}" if slow is not None else "-",
            f"{report.instructions or 0:,}",
            f"{cycles:,}",
            f"{waits:,}" if slow is not None else "-",
            f"{1000 * (cycles + waits) / clock:,.0f} |",
        ]
    )


def main() -> int:
    """Print the table, or write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=224, help="of the image")
    parser.add_argument("--board", default=BOARD, help="one with a slow RAM")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the model there, and stop")
    args = parser.parse_args()
    if args.write is not None:
        args.write.mkdir(parents=True, exist_ok=True)
        print(write(args.write, args.size))
        return 0
    megahertz = load_board(args.board).clock_hz // 1_000_000
    print("| SRAM that it may take | arena in SRAM | in the slow RAM | instructions ", end="")
    print(f"| modelled cycles | modelled waits | modelled ms at {megahertz} MHz |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), args.size)
        for budget in BUDGETS:
            print(row(args.board, budget, measure(path, args.board, budget)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
