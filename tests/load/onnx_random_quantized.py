# SPDX-License-Identifier: Apache-2.0
"""The nodes of `onnx_random` between DequantizeLinear and QuantizeLinear: int8 or uint8 in and out, scales at edges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.random import Generator
from onnx import TensorProto

from tests.load.onnx_models import build, op, run_onnxruntime
from tests.load.onnx_random import GENERATORS, Case
from tinyc.ir.graph import Array

# Whose second input is weights, and along which axis they may have scales of their own.
WEIGHT_AXIS = {"Conv": 0, "ConvTranspose": 1, "Gemm": None, "MatMul": 1}
# Whose constants are integers in a quantized model. (tinyc rounds floats there to 8 bits.)
WITH_CONSTANTS = {"Add", "Mul", "Sub", "MatMul"}


@dataclass(frozen=True)
class Quantized:
    """A case in integers: its model, and its inputs as integers."""

    case: Case
    model: onnx.ModelProto
    feeds: dict[str, Array]


def quantized(name: str, seed: int) -> Quantized | None:
    """A drawn node; None where ONNX Runtime does not take it or there is nothing to quantize."""
    r = np.random.default_rng([seed, 1, *name.encode()])
    case = GENERATORS[name](r)
    if case.nodes or case.outputs > 1 or case.opset < 13:
        return None
    try:
        (real,) = run_onnxruntime(case.model(), case.feeds(r)).values()
    except Exception:
        return None
    if real.dtype != np.float32 or not real.size or not np.isfinite(real).all():
        return None
    maker = _Maker(case, r, np.uint8 if r.random() < 0.4 else np.int8)
    names = [maker.argument(k, arg) for k, arg in enumerate(case.args)]
    maker.nodes.append(op(name, " ".join(names), "real", **case.attributes))
    same = maker.inputs and r.random() < 0.3
    maker.quantize("real", "y", maker.grids[0] if same else maker.grid(float(real.min()), float(real.max())))
    elem = TensorProto.UINT8 if maker.kind is np.uint8 else TensorProto.INT8
    model = build(maker.nodes, maker.inputs, ["y"], maker.constants, case.opset, ir_version=10, elem_type=elem)
    return Quantized(case, model, {key: maker.integers(shape) for key, shape in maker.inputs.items()})


class _Maker:
    def __init__(self, case: Case, r: Generator, kind: type) -> None:
        self.case, self.r, self.kind = case, r, kind
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.constants: dict[str, Array] = {}
        self.grids: list[tuple[np.float32, int]] = []

    def grid(self, low: float, high: float) -> tuple[np.float32, int]:
        """Scale and zero point for a range, at times too narrow, at times a power of two."""
        low, high = min(low, 0.0), max(high, 0.0)
        scale = max((high - low) / 255 * float(self.r.choice((1, 1, 1, 0.3, 3))), 1e-6)
        if self.r.random() < 0.3:
            scale = 2.0 ** round(math.log2(scale))
        limits = np.iinfo(self.kind)
        return np.float32(scale), int(np.clip(round(limits.min - low / scale), limits.min, limits.max))

    def integers(self, shape: tuple[int, ...]) -> Array:
        limits = np.iinfo(self.kind)
        x = self.r.integers(limits.min, limits.max + 1, shape)
        ends = self.r.choice((limits.min, limits.max), shape)
        return np.where(self.r.random(shape) < 0.2, ends, x).astype(self.kind)

    def argument(self, k: int, arg: tuple[int, ...] | Array | None) -> str:
        if arg is None:
            return "-"
        if isinstance(arg, tuple):
            self.inputs[f"x{k}"] = arg
            low = self.case.low if self.case.low > 0 else self.r.uniform(-3, 0)
            grid = self.grid(0.0 if low > 0 else low, self.r.uniform(0.5, 3))
            self.grids.append(grid)
            self._parameters(f"x{k}", *grid)
            self.nodes.append(op("DequantizeLinear", f"x{k} x{k}s x{k}z", f"x{k}r"))
            return f"x{k}r"
        self.constants[f"c{k}"] = arg
        if k == 1 and self.case.op in WEIGHT_AXIS and arg.ndim > 1:
            return self._weights(arg, WEIGHT_AXIS[self.case.op])
        if self.case.op in WITH_CONSTANTS and arg.dtype == np.float32:
            self._parameters(f"c{k}", *self.grid(float(arg.min()), float(arg.max())))
            self.constants[f"c{k}"] = self.integers(arg.shape)
            self.nodes.append(op("DequantizeLinear", f"c{k} c{k}s c{k}z", f"c{k}r"))
            return f"c{k}r"
        return f"c{k}"

    def _weights(self, w: Array, axis: int | None) -> str:
        if self.case.op == "Gemm":
            axis = 0 if self.case.attributes.get("transB") else 1
        if self.case.op == "ConvTranspose" and self.case.attributes["group"] > 1:
            axis = None
        assert isinstance(axis, int) or axis is None
        each = self.r.random() < 0.6 and axis is not None and w.ndim > axis
        over = tuple(d for d in range(w.ndim) if d != axis) if each else None
        scale = np.maximum(np.abs(w).max(axis=over), 1e-6).astype(np.float32) / np.float32(127)
        wide = scale.reshape([-1 if d == axis else 1 for d in range(w.ndim)]) if each else scale
        self.constants["c1"] = np.clip(np.rint(w / wide), -127, 127).astype(np.int8)
        self.constants["c1s"] = np.asarray(scale)
        self.nodes.append(op("DequantizeLinear", "c1 c1s", "c1r", **({"axis": axis} if each else {})))
        return "c1r"

    def _parameters(self, name: str, scale: np.float32, zero: int) -> None:
        self.constants[f"{name}s"], self.constants[f"{name}z"] = np.asarray(scale), np.array(zero, self.kind)

    def quantize(self, real: str, output: str, grid: tuple[np.float32, int]) -> None:
        self._parameters(output, *grid)
        self.nodes.append(op("QuantizeLinear", f"{real} {output}s {output}z", output))
