# SPDX-License-Identifier: Apache-2.0
"""Small TFLite models for tests, by the writer that `tinyc quantize -o model.tflite` uses."""

from __future__ import annotations

from tinyc.export.tflite_file import TYPES, Operator, Tensor, build_model

__all__ = ["TYPES", "Operator", "Tensor", "build_model"]
