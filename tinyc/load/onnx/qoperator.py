# SPDX-License-Identifier: Apache-2.0
"""QOperator models: every integer operator spelled as DequantizeLinear, the float operator, QuantizeLinear.

Source: ONNX operator reference (QLinearConv, QLinearMatMul) and ONNX Runtime's contrib operators
(domain com.microsoft). What comes out is ordinary ONNX, so one path imports both ways of writing a quantized model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from onnx import AttributeProto, TensorProto, helper

from tinyc.base.errors import TinycError
from tinyc.load.onnx.file import MICROSOFT, OnnxNode, as_node
from tinyc.load.onnx.running import check_attributes

_LAST_TO_FIRST, _FIRST_TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


class Spelled:
    """The nodes that take the place of one; their tensors are called after the node's output."""

    def __init__(self, node: OnnxNode, opset: int) -> None:
        self.node = node
        self.opset = opset
        self.nodes: list[OnnxNode] = []

    def input(self, index: int) -> str:
        """The tensor that the node reads there; "" if it is absent."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def add(self, op: str, inputs: Sequence[str], suffix: str = "", **attributes: Any) -> str:
        """A node of the standard domain, and its output: the replaced node's, or that name and `:suffix`."""
        output = f"{self.node.outputs[0]}:{suffix}" if suffix else self.node.outputs[0]
        given = {k: v for k, v in attributes.items() if not isinstance(v, AttributeProto)}
        proto = helper.make_node(op, list(inputs), [output], **given)
        proto.attribute.extend(v for v in attributes.values() if isinstance(v, AttributeProto))
        self.nodes.append(as_node(proto, self.node))
        return output

    def reals(self, at: int, suffix: str, axis: int | None = None) -> str:
        """DequantizeLinear of the (tensor, scale, zero point) that start at input `at`."""
        given = {} if axis is None else {"axis": axis}
        names = [self.input(at + k) for k in range(3)]
        return self.add("DequantizeLinear", names if names[2] else names[:2], suffix, **given)

    def integers(self, real: str, at: int) -> None:
        """QuantizeLinear to the (scale, zero point) that start at input `at`: the last node."""
        self.add("QuantizeLinear", [real, *filter(None, (self.input(at), self.input(at + 1)))])

    def attributes(self, *names: str) -> dict[str, Any]:
        """Those of the node's attributes that the float operator has too."""
        return {name: self.node.attributes[name] for name in names if name in self.node.attributes}


def _conv(s: Spelled) -> None:
    x, w = s.reals(0, "x"), s.reals(3, "w", axis=0)
    inputs = [x, w]
    if s.input(8):
        scale = s.add("Mul", [s.input(1), s.input(4)], "b_scale")
        inputs.append(s.add("DequantizeLinear", [s.input(8), scale], "b", axis=0))
    attributes = s.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    s.integers(s.add("Conv", inputs, "real", **attributes), 6)


def _matmul(s: Spelled) -> None:
    s.integers(s.add("MatMul", [s.reals(0, "a"), s.reals(3, "b")], "real"), 6)


def _gemm(s: Spelled) -> None:
    transposed = s.node.int_("transB", 0)
    inputs = [s.reals(0, "a"), s.reals(3, "b", axis=0 if transposed else 1)]
    if s.input(6):
        scale = s.add("Mul", [s.input(1), s.input(4)], "c_scale")
        inputs.append(s.add("DequantizeLinear", [s.input(6), scale], "c", axis=0))
    if s.node.float_("alpha", 1.0) != 1:
        raise TinycError("QGemm with an alpha other than 1 cannot be compiled", s.node.where)
    s.integers(s.add("Gemm", inputs, "real", **s.attributes("transA", "transB")), 7)


def _binary(s: Spelled) -> None:
    op = s.node.op.removeprefix("QLinear")
    s.integers(s.add(op, [s.reals(0, "a"), s.reals(3, "b")], "real"), 6)


def _softmax(s: Spelled) -> None:
    """The attribute `opset` says which Softmax it is: until 12 over all axes from `axis` on, since 13 along one."""
    if (s.node.int_("opset", s.opset) < 13) != (s.opset < 13):
        raise TinycError(
            f"QLinearSoftmax of operator set {s.node.int_('opset', 0)} in a model of {s.opset} cannot be compiled",
            s.node.where,
            "quantize the model again, from a float model of opset 13 or later",
        )
    s.integers(s.add("Softmax", [s.reals(0, "x")], "real", **s.attributes("axis")), 3)


def _unary(s: Spelled) -> None:
    op = s.node.op.removeprefix("QLinear")
    s.integers(s.add(op, [s.reals(0, "x")], "real", **s.attributes("alpha", "axis", "axes", "keepdims")), 3)


def _pool(s: Spelled) -> None:
    op = s.node.op.removeprefix("QLinear")
    last = s.node.int_("channels_last", 0)
    x = s.reals(0, "x")
    if last:
        x = s.add("Transpose", [x], "nchw", perm=_LAST_TO_FIRST)
    attributes = s.attributes("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
    y = s.add(op, [x], "real", **attributes)
    s.integers(s.add("Transpose", [y], "nhwc", perm=_FIRST_TO_LAST) if last else y, 3)


def _concat(s: Spelled) -> None:
    count = (len(s.node.inputs) - 2) // 3
    parts = [s.reals(2 + 3 * k, f"x{k}") for k in range(count)]
    s.integers(s.add("Concat", parts, "real", **s.attributes("axis")), 0)


def _centred(s: Spelled, at: int, zero: int, suffix: str, by: str = "") -> str:
    """The integers of an input less those of its zero point, as floats. by: what several zero points are for, "rows" of
    a matrix or "filters" of a convolution; a Sub alone takes them for the last axis."""
    x = s.add("Cast", [s.input(at)], f"{suffix}_real", to=TensorProto.FLOAT)
    if not s.input(zero):
        return x
    z = s.add("Cast", [s.input(zero)], f"{suffix}_zero", to=TensorProto.FLOAT)
    if by == "filters":  # all axes the other way round, whatever their number
        turned = s.add("Sub", [s.add("Transpose", [x], f"{suffix}_last"), z], f"{suffix}_less")
        return s.add("Transpose", [turned], f"{suffix}_centred")
    if by == "rows":
        z = s.add("Reshape", [z, s.add("Constant", [], f"{suffix}_rows", value_ints=[-1, 1])], f"{suffix}_column")
    return s.add("Sub", [x, z], f"{suffix}_centred")


def _matmul_integer(s: Spelled) -> None:
    """Products of integers, in float32: exact as long as no sum leaves 24 bits."""
    y = s.add("MatMul", [_centred(s, 0, 2, "a", "rows"), _centred(s, 1, 3, "b")], "real")
    s.add("Cast", [y], to=TensorProto.INT32)


def _conv_integer(s: Spelled) -> None:
    """As MatMulInteger."""
    attributes = s.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    y = s.add("Conv", [_centred(s, 0, 2, "x"), _centred(s, 1, 3, "w", "filters")], "real", **attributes)
    s.add("Cast", [y], to=TensorProto.INT32)


def _same(s: Spelled) -> None:
    """com.microsoft's own QuantizeLinear and DequantizeLinear, older than the 16 and 4 bits of the standard's."""
    s.add(s.node.op, [name for name in s.node.inputs if name], **s.attributes("axis"))


SPELLINGS: Mapping[tuple[str, str], Callable[[Spelled], None]] = MappingProxyType(
    {
        ("", "QLinearConv"): _conv,
        (MICROSOFT, "QLinearConv"): _conv,
        ("", "QLinearMatMul"): _matmul,
        ("", "ConvInteger"): _conv_integer,
        ("", "MatMulInteger"): _matmul_integer,
        (MICROSOFT, "QGemm"): _gemm,
        (MICROSOFT, "QLinearAdd"): _binary,
        (MICROSOFT, "QLinearMul"): _binary,
        (MICROSOFT, "QLinearSigmoid"): _unary,
        (MICROSOFT, "QLinearLeakyRelu"): _unary,
        (MICROSOFT, "QLinearSoftmax"): _softmax,
        (MICROSOFT, "QLinearReduceMean"): _unary,
        (MICROSOFT, "QLinearAveragePool"): _pool,
        (MICROSOFT, "QLinearGlobalAveragePool"): _pool,
        (MICROSOFT, "QLinearConcat"): _concat,
        (MICROSOFT, "QuantizeLinear"): _same,
        (MICROSOFT, "DequantizeLinear"): _same,
    }
)


def spelled_out(nodes: Iterable[OnnxNode], opset: int) -> tuple[OnnxNode, ...]:
    """The nodes with every integer operator replaced. TinycError for one that asks for what the float one lacks."""
    operators: list[OnnxNode] = []
    for node in nodes:
        spelling = SPELLINGS.get((node.domain, node.op))
        if spelling is None:
            operators.append(node)
            continue
        if not node.outputs or not node.outputs[0]:
            raise TinycError("the node has no output", node.where)
        spelled = Spelled(node, opset)
        spelling(spelled)
        check_attributes(node, opset)
        operators.extend(spelled.nodes)
    return tuple(operators)
