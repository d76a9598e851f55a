# SPDX-License-Identifier: Apache-2.0
"""Float networks quantized by onnxruntime.quantization, as users bring them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime import quantization

from tinyc.ir.graph import Array


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, data: Mapping[str, Array]) -> None:
        count = len(next(iter(data.values())))
        self._rows: Iterator[dict[str, Array]] = iter(
            {name: array[i : i + 1] for name, array in data.items()} for i in range(count)
        )

    def get_next(self) -> dict[str, Array] | None:
        return next(self._rows, None)


def in_qdq(model: onnx.ModelProto, data: Mapping[str, Array], folder: Path, seed: int) -> onnx.ModelProto:
    """The model in QDQ or QOperator form; types, symmetry and channels by the seed."""
    rng = np.random.default_rng([seed, 77])
    kinds, styles = quantization.QuantType, quantization.QuantFormat
    options: dict[str, Any] = {
        "quant_format": styles.QDQ if rng.random() < 0.75 else styles.QOperator,
        "activation_type": (kinds.QInt8, kinds.QUInt8)[rng.integers(2)],
        "weight_type": kinds.QInt8,
        "per_channel": bool(rng.random() < 0.7),
    }
    source, quantized_file = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, source)
    quantization.quantize_static(source, quantized_file, _Reader(data), **options)
    return onnx.load(quantized_file)
