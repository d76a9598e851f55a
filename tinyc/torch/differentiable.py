# SPDX-License-Identifier: Apache-2.0
"""Operators on PyTorch's tensors [samples, *shape], so that gradients find their way through an integer graph.

A tensor of integers is held as what its integers are above the zero point, in float32, which holds them exactly, and
the step that they are multiples of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Shape
from tinyc.ops import is_a, op_of
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.choose import Choose
from tinyc.ops.clip import Clip
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.div import Div
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.op import Trait
from tinyc.ops.pad import Pad
from tinyc.ops.power import Power
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.reductions import reduced_axes
from tinyc.ops.requantize import Requantize
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose_conv2d import TransposeConv2D

_LEAST_BASE = 1e-12  # of a root
_NCHW, _NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True, slots=True)
class SteppedTensor:
    """Reals that are whole `steps` [samples, *shape] (float32) times one `step` (a tensor without axes)."""

    steps: Tensor
    step: Tensor

    @property
    def reals(self) -> Tensor:
        return self.steps * self.step


class _Exactly(torch.autograd.Function):
    """The second tensor, with the derivative of the first."""

    @staticmethod
    def forward(ctx: Any, smooth: Tensor, exact: Tensor) -> Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


class _Exponential(torch.autograd.Function):
    """exp(log), of a step that is learned by its logarithm. The gradient is that which moves the step in proportion
    to itself as much per iteration as LSQ does: the step's, times factor / step."""

    @staticmethod
    def forward(ctx: Any, log: Tensor, factor: float) -> Tensor:
        step = log.exp()
        ctx.save_for_backward(step)
        ctx.factor = factor
        return step

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (step,) = ctx.saved_tensors
        return gradients[0] * ctx.factor / step, None


def exactly(smooth: Tensor, exact: Tensor) -> Tensor:
    """`exact`, as if it had been computed as `smooth` was."""
    return torch.as_tensor(_Exactly.apply(smooth, exact))


def learned_step(log: Tensor, elements: int, largest: int) -> Tensor:
    """The step, from its logarithm. elements: how many numbers are multiples of it; largest: of so many steps."""
    return torch.as_tensor(_Exponential.apply(log, 1 / (elements * largest) ** 0.5))


def whole_steps(smooth: Tensor, low: float, high: float) -> Tensor:
    """The nearest whole numbers in [low, high]; between the two the derivative is 1, beyond them 0."""
    inside = smooth.clamp(low, high)
    return exactly(inside, inside.detach().round())


def _windows(a: Any, x: Tensor) -> Tensor:
    """[samples, 1, H, W, C] as [samples, C, H, W], with the border of zeros that the operator asks for."""
    pad = a.pad
    return functional.pad(x.flatten(0, 1).permute(_NCHW), (pad.left, pad.right, pad.top, pad.bottom))


def _conv2d(a: Conv2D, x: Tensor, w: Tensor) -> Tensor:
    y = functional.conv2d(_windows(a, x), w.permute(_NCHW), None, tuple(a.stride), 0, tuple(a.dilation), a.groups)
    return y.permute(_NHWC)


def _depthwise_conv2d(a: DepthwiseConv2D, x: Tensor, w: Tensor) -> Tensor:
    taps, groups = w.permute(2, 0, 1)[:, None], x.shape[-1]
    y = functional.conv2d(_windows(a, x), taps, None, tuple(a.stride), 0, tuple(a.dilation), groups)
    return y.permute(_NHWC)


def _fully_connected(a: FullyConnected, x: Tensor, w: Tensor) -> Tensor:
    return x.reshape(-1, w.shape[1]) @ w.T


def _transpose_conv2d(a: TransposeConv2D, x: Tensor, w: Tensor) -> Tensor:
    image = x.flatten(0, 1).permute(_NCHW)
    y = functional.conv_transpose2d(image, w.permute(3, 0, 1, 2), None, tuple(a.stride))
    bottom, right = (a.pad[k] + a.size[k] for k in (0, 1))
    y = functional.pad(y, (0, max(0, right - y.shape[3]), 0, max(0, bottom - y.shape[2])))
    return y[:, :, a.pad.h : bottom, a.pad.w : right].permute(_NHWC)


def _avg_pool2d(a: AvgPool2D, x: Tensor) -> Tensor:
    """Of windows whose padding does not count: sums over numbers of taps."""
    ones = _pool_sums(a, torch.ones_like(x[:1]))
    return _pool_sums(a, x) / ones


def _pool_sums(a: AvgPool2D, x: Tensor) -> Tensor:
    w = x.new_ones((*a.kernel, x.shape[-1]))
    return _depthwise_conv2d(DepthwiseConv2D(a.stride, a.pad, a.dilation), x, w)[:, None]


def _max_pool2d(a: MaxPool2D, x: Tensor) -> Tensor:
    pad = a.pad
    image = functional.pad(
        x.flatten(0, 1).permute(_NCHW), (pad.left, pad.right, pad.top, pad.bottom), value=-float("inf")
    )
    y = functional.max_pool2d(image, tuple(a.kernel), tuple(a.stride), 0, tuple(a.dilation))
    return y.permute(_NHWC)[:, None]


def _batch_matmul(a: BatchMatmul, x: Tensor, y: Tensor) -> Tensor:
    return (x.mT if a.adj_x else x) @ (y.mT if a.adj_y else y)


def _power(a: Power, x: Tensor) -> Tensor:
    """Where a root or an inverse has no finite derivative the gradient ends."""
    return torch.pow(x if a.exponent in (1.0, 2.0, 3.0) else x.clamp_min(_LEAST_BASE), a.exponent)


def _reduced(a: Any, x: Tensor, function: Callable[..., Tensor]) -> Tensor:
    return function(x, tuple(axis + 1 for axis in reduced_axes(a, x.ndim - 1)), keepdim=a.keep_dims)


def _of_name(a: Function, x: Tensor) -> Tensor:
    return NAMED[a.name](a, x)


# Of `Function`, by its name.
NAMED: Mapping[str, Callable[[Any, Tensor], Tensor]] = MappingProxyType(
    {
        "celu": lambda a, x: functional.celu(x, a.alpha),
        "elu": lambda a, x: functional.elu(x, a.alpha),
        "erf": lambda a, x: torch.erf(x),
        "exp": lambda a, x: torch.exp(x),
        "gelu": lambda a, x: functional.gelu(x),
        "gelu_tanh": lambda a, x: functional.gelu(x, approximate="tanh"),
        "mish": lambda a, x: functional.mish(x),
        "selu": lambda a, x: functional.selu(x),
        "softplus": lambda a, x: functional.softplus(x),
        "softsign": lambda a, x: functional.softsign(x),
        "swish": lambda a, x: x * torch.sigmoid(a.alpha * x),
    }
)

# Sums of products, without bias and activation, of activations and weights.
SUMS: Mapping[type, Callable[[Any, Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        Conv2D: _conv2d,
        DepthwiseConv2D: _depthwise_conv2d,
        FullyConnected: _fully_connected,
        TransposeConv2D: _transpose_conv2d,
    }
)

# Functions of reals, without activation.
FUNCTIONS: Mapping[type, Callable[..., Tensor]] = MappingProxyType(
    {
        Absolute: lambda a, x: x.abs(),
        Add: lambda a, x0, x1: x0 + x1,
        BatchMatmul: _batch_matmul,
        Div: lambda a, x0, x1: x0 / torch.where(x1 == 0, torch.ones_like(x1), x1),
        Function: _of_name,
        LogSoftmax: lambda a, x: torch.log_softmax(x, -1),
        Power: _power,
        Sum: lambda a, x: _reduced(a, x, torch.sum),
        Sub: lambda a, x0, x1: x0 - x1,
        Mul: lambda a, x0, x1: x0 * x1,
        AvgPool2D: _avg_pool2d,
        Clip: lambda a, x: x,
        HardSwish: lambda a, x: functional.hardswish(x),
        LeakyRelu: lambda a, x: functional.leaky_relu(x, float(a.alpha)),
        MaxPool2D: _max_pool2d,
        Mean: lambda a, x: _reduced(a, x, torch.mean),
        Requantize: lambda a, x: x,
        Sigmoid: lambda a, x: torch.sigmoid(x),
        Softmax: lambda a, x: torch.softmax(x * a.beta, -1),
        Tanh: lambda a, x: torch.tanh(x),
    }
)


def recurrent(a: Recurrent, x: Tensor, constants: tuple[Tensor, Tensor, Tensor, Tensor | None]) -> Tensor:
    """An LSTM or GRU over reals [samples, T, I], from no state on: [samples, T or 1, U]. constants: weights, bias,
    recurrent weights and late bias, as the operator has them."""
    w, bias, r, late = constants
    units = r.shape[1]
    firsts = (x @ w.T + bias).unflatten(-1, (units, -1)).unbind(1)
    h = c = x.new_zeros(len(x), units)
    rows = []
    for first in firsts[::-1] if a.reverse else firsts:
        p, q = first.unbind(-1), (h @ r.T).unflatten(-1, (units, -1)).unbind(-1)
        if a.cell == "lstm":
            c = torch.sigmoid(p[1] + q[1]) * c + torch.sigmoid(p[0] + q[0]) * torch.tanh(p[2] + q[2])
            h = torch.sigmoid(p[3] + q[3]) * torch.tanh(c)
        else:
            n = torch.tanh(p[2] + torch.sigmoid(p[1] + q[1]) * (q[2] if late is None else q[2] + late))
            h = n + torch.sigmoid(p[0] + q[0]) * (h - n)
        rows.append(h)
    return torch.stack(rows[::-1] if a.reverse else rows, 1) if a.sequence else h[:, None]


def check_differentiable(graph: Graph) -> None:
    """TinycError, which names the layer, where one has no form here."""
    for node in graph.nodes:
        if moves(graph, node) and not (isinstance(node.attrs, Pad) and node.attrs.value):
            continue
        unnamed = isinstance(node.attrs, Function) and node.attrs.name not in NAMED
        if isinstance(node.attrs, Recurrent):
            if any(node.inputs[5:]):
                raise TinycError("tinyc.torch cannot train a loop that begins with a state", node.where)
        elif type(node.attrs) not in {**SUMS, **FUNCTIONS} or unnamed:
            words = node.attrs.name if unnamed else node.op
            words = "a pad with another number than 0" if isinstance(node.attrs, Pad) else words
            hint = "prepare the part of the module before it, or leave training to float and use `tinyc quantize`"
            raise TinycError(f"tinyc.torch cannot train through {words}", node.where, hint)
        if type(node.attrs) in {*SUMS, Recurrent} and node.inputs[1] not in graph.consts:
            raise TinycError("tinyc.torch cannot train weights that are computed", node.where)


def moves(graph: Graph, node: Node) -> bool:
    """Whether every element of the output is one of the inputs', whatever these are: of a choice, if its mask is
    constant."""
    return is_a(node, Trait.MOVES) or (isinstance(node.attrs, Choose) and node.inputs[0] in graph.consts)


def places(graph: Graph, node: Node) -> Array:
    """Of a node that moves values: where each element of its output comes from, counted from 1 through all elements of
    its inputs one after the other; 0: it is a zero. Int64, in the output's shape."""
    arrays, count = [], 1
    for name in node.inputs:
        value = graph.values[name]
        if name in graph.consts and value.quant is None:  # which elements are picked, say
            arrays.append(graph.consts[name])
            continue
        arrays.append(np.arange(count, count + value.elements, dtype=np.float64).reshape(value.shape))
        count += value.elements
    (y,) = op_of(node).float_ref(node.attrs, *arrays)
    return np.asarray(y).astype(np.int64)


def moved(inputs: Sequence[Tensor], index: Tensor, shape: Shape) -> Tensor:
    """The elements of `inputs` [samples, ...] by `places`."""
    rows = [x.reshape(len(x), -1) for x in inputs]  # a single number has no axis but that of the samples
    flat = torch.cat(rows, 1) if len(rows) > 1 else rows[0]
    if index.numel() != flat.shape[1] or not torch.equal(index, torch.arange(1, index.numel() + 1)):
        flat = functional.pad(flat, (1, 0)).index_select(1, index)
    return flat.reshape(len(flat), *shape)
