# SPDX-License-Identifier: Apache-2.0
"""One small function per TFLite operator. To add one: write it, with `@imports("ITS_NAME")` above."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import MAX_ELEMENTS
from tinyc.base.requantize import quantize_array, round_half_away
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Value
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.kernel.windows import Window
from tinyc.load.tflite_arrays import dtype_of, elements, is_unsigned
from tinyc.load.tflite_counts import of_two, on_counts
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_options import OptionsTable
from tinyc.load.tflite_phases import Phases, reshaped
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.lookup import Lookup
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose

Importer = Callable[[TfliteStep], None]
IMPORTERS: dict[str, Importer] = {}
IGNORED: dict[str, frozenset[str | int]] = {}  # by operator

_ACTS = {0: Act(), 1: RELU, 2: Act(-1.0, 1.0), 3: RELU6}  # schema enum ActivationFunctionType
_ACT_NAMES = {4: "TANH", 5: "SIGN_BIT"}
_SAME = 0  # schema enum Padding; 1 is VALID


def imports(*codes: str, ignores: Iterable[str | int] = ()) -> Callable[[Importer], Importer]:
    """Register the function as the importer of the TFLite operators called so.

    `ignores`: options (as the schema calls them) and inputs by index that change nothing in what it emits; see
    `load.looked`.
    """

    def register(importer: Importer) -> Importer:
        for code in codes:
            assert code not in IMPORTERS, code
            IMPORTERS[code] = importer
            IGNORED[code] = frozenset(ignores)
        return importer

    return register


def fused(options: OptionsTable) -> Act:
    """The activation fused into an operator."""
    kind = options["FusedActivationFunction"]
    if kind not in _ACTS:
        raise TinycError(f"fused activation {_ACT_NAMES.get(kind, kind)} cannot be compiled", options.where)
    return _ACTS[kind]


def geometry(options: OptionsTable, x: Value, kernel: Pair, dilated: bool = False) -> tuple[Pair, Padding, Pair]:
    """(stride, explicit padding, dilation). SAME puts the odd row or column at the bottom or right."""
    stride = Pair(options["StrideH"], options["StrideW"])
    dilation = Pair(options["DilationHFactor"], options["DilationWFactor"]) if dilated else Pair(1, 1)
    if min(*stride, *dilation, *kernel) < 1:
        sizes = f"kernel {tuple(kernel)}, stride {tuple(stride)} and dilation {tuple(dilation)}"
        raise TinycError(f"{sizes} must be positive", options.where)
    if options["Padding"] != _SAME:
        window = Window(kernel, stride, Padding(0, 0, 0, 0), dilation).within(x.shape)
        return window.stride, window.pad, window.dilation
    _, in_h, in_w, in_c = x.shape
    top, bottom = geometry_of_same(in_h, kernel.h, stride.h, dilation.h)
    left, right = geometry_of_same(in_w, kernel.w, stride.w, dilation.w)
    if (in_h + top + bottom) * (in_w + left + right) * in_c > MAX_ELEMENTS:
        size = f"{tuple(kernel)} with dilation {tuple(dilation)}"
        raise TinycError(f"a window of {size} pads the image beyond {MAX_ELEMENTS} elements", options.where)
    windows = Window(kernel, stride, Padding(top, left, bottom, right), dilation).within(x.shape)
    return windows.stride, windows.pad, windows.dilation


def geometry_of_same(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """SAME padding (before, after) of an axis with ceil(size / stride) windows."""
    total = max((math.ceil(size / stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


@imports("CONV_2D", ignores=("quantized_bias_type",))  # the tensor has its type
def conv_2d(s: TfliteStep) -> None:
    o, phases = s.options("Conv2DOptions"), _phases(s)
    x = s.image(0) if phases is None else phases.one()
    w = s.weights(1, x, axis=0)
    _weights_of(s, w, 4)
    stride, pad, dilation = geometry(o, x, Pair(*w.shape[1:3]), dilated=True)
    groups = max(x.shape[3] // w.shape[3], 1)
    inputs, attrs = (x, w, s.bias(2, x, w)), Conv2D(stride, pad, dilation, groups, fused(o))
    if phases is None:
        s.emit(inputs, attrs)
    else:
        s.defer(phases.layered(s, inputs, attrs))


def _phases(s: TfliteStep) -> Phases | None:
    """Input 0 if it is phases of an image that are not in the graph yet."""
    deferred = s.deferred
    return deferred if isinstance(deferred, Phases) and len(s.tensor(0).shape) == 4 else None


@imports("DEPTHWISE_CONV_2D", ignores=("quantized_bias_type",))
def depthwise_conv_2d(s: TfliteStep) -> None:
    o, phases = s.options("DepthwiseConv2DOptions"), _phases(s)
    x = s.image(0) if phases is None else phases.one()
    shape = s.tensor(1).shape
    if len(shape) != 4 or shape[0] != 1:
        raise TinycError(f"depthwise weights have shape {list(shape)}, expected [1, height, width, channels]")
    w = s.weights(1, x, axis=2, shape=shape[1:])
    if o["DepthMultiplier"] * x.shape[3] != w.shape[2]:
        sizes = f"{x.shape[3]} channels times {o['DepthMultiplier']} are not the {w.shape[2]} of the weights"
        raise TinycError(f"depth multiplier: {sizes}", s.where)
    stride, pad, dilation = geometry(o, x, Pair(*w.shape[:2]), dilated=True)
    inputs, attrs = (x, w, s.bias(2, x, w)), DepthwiseConv2D(stride, pad, dilation, fused(o))
    if phases is None:
        s.emit(inputs, attrs)
    else:
        s.defer(phases.layered(s, inputs, attrs))


# Inputs are quantized at run time only beside float activations, which are float here.
@imports("FULLY_CONNECTED", ignores=("asymmetric_quantize_inputs", "quantized_bias_type"))
def fully_connected(s: TfliteStep) -> None:
    o, x = s.options("FullyConnectedOptions"), s.value(0)
    w = s.weights(1, x, axis=0)
    _weights_of(s, w, 2)
    if o["WeightsFormat"] != 0:
        raise TinycError("the weights are shuffled for a desktop kernel")
    attrs = FullyConnected(fused(o), bool(o["KeepNumDims"]))
    if w.shape[1] % x.channels and x.elements % w.shape[1] == 0 and not attrs.keep_dims:
        x = reshaped(s, x, (x.elements // w.shape[1], w.shape[1]), "rows")  # the format says nothing of the last axis
    s.emit((x, w, s.bias(2, x, w)), attrs)


def _weights_of(s: TfliteStep, w: Value, rank: int) -> None:
    if len(w.shape) != rank:
        raise TinycError(f"weights '{w.name}' have shape {list(w.shape)}, expected rank {rank}", s.where)


def _pool(s: TfliteStep) -> tuple[Value, Pair, Pair, Padding, Act]:
    o, x = s.options("Pool2DOptions"), s.image(0)
    kernel = Pair(o["FilterHeight"], o["FilterWidth"])
    stride, pad, _ = geometry(o, x, kernel)
    return x, kernel, stride, pad, fused(o)


@imports("AVERAGE_POOL_2D")
def average_pool_2d(s: TfliteStep) -> None:
    x, kernel, stride, pad, act = _pool(s)
    s.emit((x,), AvgPool2D(kernel, stride, pad, act=act, halves_up=is_unsigned(s.tensor(0))))


@imports("MAX_POOL_2D")
def max_pool_2d(s: TfliteStep) -> None:
    x, kernel, stride, pad, act = _pool(s)
    s.emit((x,), MaxPool2D(kernel, stride, pad, act=act))


@imports("MEAN")
def mean(s: TfliteStep) -> None:
    axes = s.numbers(1)
    s.emit((s.value(0),), Mean(axes, bool(s.options("ReducerOptions")["KeepDims"])))


@imports("PAD", "PADV2")
def pad(s: TfliteStep) -> None:
    x, pads = s.value(0), s.numbers(1)
    if len(pads) != 2 * len(x.shape):
        raise TinycError(f"{len(pads)} paddings for a tensor of rank {len(x.shape)} do not fit together", s.where)
    fill = 0.0
    if s.has(2):
        fill = _one(s, s.reals(2, "the padding value"))
    s.emit((x,), Pad(pads[0::2], pads[1::2], fill))


def _one(s: TfliteStep, array: Array) -> float:
    """The element of an array that has one."""
    if array.size != 1:
        raise TinycError(f"{array.size} padding values where one belongs", s.where)
    return float(array.reshape(-1)[0])


def _in_one_scale(s: TfliteStep, index: int) -> Value:
    """An input of a concatenation of uint8, whose scales may differ: LiteRT's numbers in that of the output."""
    x, y = s.value(index), s.declared()
    if not is_unsigned(s.out_tensor()) or x.quant is None or y.quant is None or x.quant == y.quant:
        return x
    (x_scale, x_zero), (y_scale, y_zero) = x.quant.per_tensor, y.quant.per_tensor
    factor = np.float32(x_scale) * (np.float32(1) / np.float32(y_scale))
    offset = np.float32(-(x_zero + 128)) * factor
    steps = round_half_away(np.arange(256, dtype=np.float32) * factor + offset).astype(np.int64)
    scaled = s.between(f"scaled{index}", x.shape, y)
    s.insert((x, s.builder.table(scaled, np.clip(steps + y_zero, *INT_RANGE["s8"]))), Lookup(), scaled)
    return scaled


@imports("CONCATENATION")
def concatenation(s: TfliteStep) -> None:
    o = s.options("ConcatenationOptions")
    act = fused(o)
    constants = [s.constant(i) for i in range(s.input_count)]
    xs = [_in_one_scale(s, i) for i, array in enumerate(constants) if array is None or array.size]
    attrs = Concat(o["Axis"])
    if act == Act():
        s.emit(xs, attrs)
    else:
        y = s.declared()
        joined = s.between("concat", y.shape, y)
        s.insert(xs, attrs, joined)
        s.emit((joined,), Clip(act), y)


@imports("RESHAPE", "SQUEEZE", "EXPAND_DIMS", ignores=("new_shape", "squeeze_dims", 1))
def reshape(s: TfliteStep) -> None:
    """The output's own shape says it all: what `new_shape` or `axis` ask for was resolved by the exporter. Where it
    left sizes open, a shape that is computed of constants says it."""
    x, deferred = s.constant(0), s.deferred
    if deferred is not None:
        shape = _new_shape(s, math.prod(deferred.shape))
        same = deferred.reshaped(s, shape)
    else:
        shape, same = _new_shape(s, s.value(0).elements if x is None else x.size), None
    if same is not None:
        s.defer(same)
    elif x is not None and x.size == elements(s.out_tensor(), s.where):
        s.fold(x.reshape(shape))
    else:
        s.emit((s.value(0),), Reshape(shape))


def _new_shape(s: TfliteStep, count: int) -> tuple[int, ...]:
    """The output's shape; an open size is what the others leave of `count` elements."""
    declared = s.out_tensor()
    if -1 not in declared.signature:
        return declared.shape
    is_given = s.operator.code == "RESHAPE" and s.has(1) and s.constant(1) is not None
    sizes = s.numbers(1) if is_given else declared.signature
    if sizes.count(-1) > 1:
        return declared.shape
    others = math.prod(size for size in sizes if size != -1)
    return tuple(count // max(others, 1) if size == -1 else size for size in sizes)


@imports("TRANSPOSE")
def transpose(s: TfliteStep) -> None:
    s.emit((s.value(0),), Transpose(s.numbers(1)))


@imports("RELU")
def relu(s: TfliteStep) -> None:
    s.emit((s.value(0),), Clip(RELU))


@imports("RELU6")
def relu6(s: TfliteStep) -> None:
    s.emit((s.value(0),), Clip(RELU6))


@imports("RELU_N1_TO_1")
def relu_n1_to_1(s: TfliteStep) -> None:
    s.emit((s.value(0),), Clip(Act(-1.0, 1.0)))


@imports("LOGISTIC")
def logistic(s: TfliteStep) -> None:
    s.emit((s.value(0),), Sigmoid())


@imports("TANH")
def tanh(s: TfliteStep) -> None:
    s.emit((s.value(0),), Tanh())


@imports("SOFTMAX")
def softmax(s: TfliteStep) -> None:
    beta = float(s.options("SoftmaxOptions")["Beta"])
    if not (math.isfinite(beta) and beta > 0):
        raise TinycError(f"softmax with beta {beta} cannot be compiled", s.where)
    x = s.value(0)
    widened = x.dtype == "s8" and s.out_tensor().type == "INT16"
    s.emit((x,), Softmax(beta, widened))


@imports("QUANTIZE")
def quantize(s: TfliteStep) -> None:
    """Of a constant: its integers, as files trained with quantization and converted without have them."""
    x, y, held = s.value(0), s.declared(), s.constant(0)
    if x.dtype == "f32" and held is not None and y.quant is not None and y.quant.axis is None:
        lo, hi = INT_RANGE[y.dtype]
        integers = quantize_array(held, *y.quant.per_tensor, lo, hi)
        s.fold(integers.astype(NUMPY_DTYPE[y.dtype]))
    elif x.dtype == "f32":
        s.emit((x,), Quantize(y.dtype), y)
    else:
        s.emit((x,), Requantize(y.dtype), y)


@imports("DEQUANTIZE")
def dequantize(s: TfliteStep) -> None:
    """A constant (float16 weights, mostly) is dequantized when the model is loaded."""
    if s.constant(0) is not None:
        s.fold(s.reals(0, "the constant"))
    else:
        s.emit((s.value(0),), Dequantize())


@imports("DENSIFY")
def densify(s: TfliteStep) -> None:
    """Of a sparse constant: its elements, with 0 for those that are not stored."""
    s.fold(s.required_constant(0, "the sparse tensor"))


@imports("SHAPE", ignores=("out_type",))  # the tensor has its type
def shape_of(s: TfliteStep) -> None:
    """Shapes are known when the model is loaded, so what is computed from them is constant."""
    dtype = NUMPY_DTYPE[dtype_of(s.out_tensor(), s.where)]
    s.fold(np.array(s.value(0).shape, dtype))


@imports("ADD", ignores=("pot_scale_int16",))
def add(s: TfliteStep) -> None:
    act = fused(s.options("AddOptions"))
    if not on_counts(s, "add", act):
        s.emit((s.value(0), s.value(1)), Add(act))


@imports("SUB", ignores=("pot_scale_int16",))
def sub(s: TfliteStep) -> None:
    act = fused(s.options("SubOptions"))
    if not (act == Act() and of_two(s, "sub")):
        s.emit((s.value(0), s.value(1)), Sub(act))


@imports("MUL")
def mul(s: TfliteStep) -> None:
    act = fused(s.options("MulOptions"))
    if not on_counts(s, "mul", act):
        s.emit((s.value(0), s.value(1)), Mul(act))


@imports("HARD_SWISH")
def hard_swish(s: TfliteStep) -> None:
    s.emit((s.value(0),), HardSwish())


@imports("LEAKY_RELU")
def leaky_relu(s: TfliteStep) -> None:
    alpha = float(s.options("LeakyReluOptions")["Alpha"])
    if not math.isfinite(alpha):
        raise TinycError(f"LEAKY_RELU with alpha {alpha} cannot be compiled", s.where)
    s.emit((s.value(0),), LeakyRelu(alpha))
