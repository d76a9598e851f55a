# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions on a Cortex-M4 as they are compiled, as convolutions, and by the kernel for any of them.

`python bench/transposed.py` prints a Markdown table: one layer of stride 2 each, with random weights, proved.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import onnx
from streamed_networks import SAMPLES, Network

from tinyc.ir.graph import Graph
from tinyc.options.build import Options
from tinyc.pipeline import lowering
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import UNPROVEN
from tinyc.verify.report import Report

SIZE = 24
LAYERS = ((2, 16, 16), (2, 64, 32), (3, 16, 16), (3, 64, 32), (4, 16, 16), (4, 64, 32))  # kernel, inputs, outputs


def as_they_are(graph: Graph, apart: bool = False) -> Graph:
    """What takes the place of passes.phases.as_convolutions."""
    return graph


def write(kernel: int, in_c: int, out_c: int, folder: Path) -> Path:
    """A model of one layer, with random calibration inputs beside it."""
    net = Network(in_c, in_c, SIZE, SIZE)
    path = folder / f"k{kernel}_{in_c}_{out_c}.onnx"
    onnx.save(net.model(net.transposed("x", out_c, kernel)), path)
    data = np.random.default_rng(0).standard_normal((2, in_c, SIZE, SIZE)).astype(np.float32)
    np.savez(path.with_suffix(".calib.npz"), x=data)
    return path


def measure(path: Path) -> Iterator[Report]:
    """Proved builds: as it is compiled, and by the kernel for any layer."""
    options = Options("cortex-m4", prefer="time", samples=SAMPLES, recipe=UNPROVEN)
    yield verify_model(path, options, Progress())
    with patch.object(lowering, "as_convolutions", as_they_are):
        yield verify_model(path, options, Progress())


def main() -> None:
    print("| layer | instructions | per MAC | constants | `tc_transpose_conv2d_s8` | per MAC |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for kernel, in_c, out_c in LAYERS:
            new, old = measure(write(kernel, in_c, out_c, Path(folder)))
            if not new.passed or not old.passed:
                raise RuntimeError(f"kernel {kernel}: output differs from the reference")
            assert new.instructions is not None
            assert old.instructions is not None
            macs = SIZE * SIZE * kernel * kernel * in_c * out_c
            cells = [f"{kernel}x{kernel}, {in_c} to {out_c}", f"{new.instructions:,}", f"{new.instructions / macs:.2f}"]
            grown = sum(layer.const_bytes for layer in new.layers) / sum(layer.const_bytes for layer in old.layers)
            cells += [f"{grown:.1f} times", f"{old.instructions:,}", f"{old.instructions / macs:.2f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
