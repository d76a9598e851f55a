# SPDX-License-Identifier: Apache-2.0
"""BatchNormalization -> mul and add with constants per channel, which the passes fold into their neighbours."""

from __future__ import annotations

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.mul import Mul


@imports("BatchNormalization", ignores=("momentum",))
def batch_normalization(s: OnnxStep) -> None:
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, per axis 1, as x * factor + offset."""
    x = s.value(0)
    gamma, beta, mean, variance = (s.weights(index).astype(np.float64) for index in range(1, 5))
    if s.node.flag("training_mode", False) or (s.opset < 14 and any(s.node.outputs[1:])):
        raise TinycError(
            "batch normalization in training mode cannot be compiled", s.where, "export the model for inference"
        )
    if len(x.shape) < 2 or any(a.shape != (x.shape[1],) for a in (gamma, beta, mean, variance)):
        raise TinycError(f"scale, bias, mean and variance do not fit input {list(x.shape)}", s.where)
    spread = variance + s.node.float_("epsilon", 1e-5)
    if (spread <= 0).any():
        raise TinycError("the variance is negative or zero", s.where, "the model is damaged")
    factor = gamma / np.sqrt(spread)
    scaled = s.insert([x, s.const(_per_channel(factor, len(x.shape)), 1)], Mul(), "scaled")
    offset = s.const(_per_channel(beta - mean * factor, len(x.shape)), 2)
    s.emit([scaled, offset], Add())


def _per_channel(array: Array, rank: int) -> Array:
    """[C] as it broadcasts against a tensor [N,C,...] of the given rank."""
    return array.reshape(-1, *(1,) * (rank - 2))
