# SPDX-License-Identifier: Apache-2.0
"""What models of ai.onnx.ml do with their sums at last (`post_transform`)."""

from __future__ import annotations

import math

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import OnnxStep
from tinyc.ops.add import Add
from tinyc.ops.function import Function
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub

_WINITZKI = 0.147  # of the approximation to the inverse error function that ONNX Runtime computes


def emit_transformed(s: OnnxStep, sums: Value, post: str, output: int) -> None:
    """Output `output` of the node: the sums, float32, after the transform."""
    if post == "NONE":
        s.emit([sums], Reshape(sums.shape), output=output)
    elif post == "LOGISTIC":
        s.emit([sums], Sigmoid(), output=output)
    elif post == "SOFTMAX":
        s.emit([sums], Softmax(), output=output)
    elif post == "PROBIT" and sums.elements == 1:
        emit_probit(s, sums, output)
    else:
        raise TinycError(f"{post} of {sums.elements} sums is not supported", s.where)


def emit_probit(s: OnnxStep, p: Value, output: int) -> None:
    """The quantile of the normal distribution, sqrt(2) erfinv(2 p - 1), erfinv as Winitzki approximates it."""

    def number(what: str, held: float) -> Value:
        return s.builder.add_const(f"{s.node.outputs[0]}:{what}", np.array(held, np.float32))

    double = s.insert([p, number("two", 2.0)], Mul(), "double")
    z = s.insert([double, number("minus_one", -1.0)], Add(), "centred")
    one = number("one", 1.0)
    # (1 - z) (1 + z)
    sides = s.insert([s.insert([one, z], Sub(), "right"), s.insert([z, one], Add(), "left")], Mul(), "sides")
    log = s.insert([sides], Function("log"), "log")
    half = s.insert([log, number("half", 0.5)], Mul(), "half_log")
    v = s.insert([half, number("offset", 2 / (math.pi * _WINITZKI))], Add(), "v")
    scaled = s.insert([log, number("inverse", 1 / _WINITZKI)], Mul(), "scaled_log")
    inner = s.insert([s.insert([v, v], Mul(), "v_squared"), scaled], Sub(), "inner")
    outer = s.insert([s.insert([inner], Power(0.5), "root"), v], Sub(), "outer")
    size = s.insert([s.insert([outer], Power(0.5), "erfinv"), number("root_two", math.sqrt(2))], Mul(), "size")
    s.emit([size, s.insert([z], Function("sign"), "sign")], Mul(), output=output)
