# SPDX-License-Identifier: Apache-2.0
"""A Report, as a build would state it."""

from __future__ import annotations

from tinyc import __version__
from tinyc.verify.report import Flash, Holding, LayerReport, MemoryReport, Report, Verify


def small_report(model: str = "kws.onnx") -> Report:
    """Of a model with one layer, on an emulated Cortex-M4."""
    layer = LayerReport(
        0, "conv1", "conv2d + relu", "tc_conv2d_s8", ((1, 8, 8, 1),), (1, 4, 4, 4), 576, 52, (64, 128), 0, 9000
    )
    return Report(
        schema=1,
        tinyc=__version__,
        model=model,
        model_sha256="0123456789abcdef" * 4,
        name="kws",
        board="cortex-m4",
        machine="QEMU 7.2.22 mps2-an386",
        toolchain="arm-none-eabi-gcc 12.2.1",
        optimize="speed",
        numerics="single",
        macs=576,
        arena_bytes=128,
        arena_lower_bound_bytes=128,
        stack_bytes=200,
        flash=Flash(1000, 52),
        instructions=9100,
        overhead_instructions=100,
        layers=(layer,),
        verify=Verify(20, 1280, 0, "integer reference"),
        memory=MemoryReport(1, (128,), (Holding("x", "input", 0, 64, 0, 1), Holding("y", "output", 64, 128, 0, 1))),
        arguments=("--board", "cortex-m4", "--samples", "20"),
    )
