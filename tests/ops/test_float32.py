# SPDX-License-Identifier: Apache-2.0
"""float32 kernels: the bytes of the reference, on the host with sanitizers, and its errors beside exact mathematics."""

from __future__ import annotations

import ctypes
import math
import platform
import subprocess
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.ops.float32_layers import BINARY, NUMBERS, OTHERS, UNARY, Layer, every_layer, other_cases
from tests.ops.harness import OneStepPlan, check_kernels, run_plan
from tests.ops.sanitized import COMPILER
from tinyc.base import float32
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.paths import runtime_dir
from tinyc.choose.select import select
from tinyc.ir.graph import Array, Graph, Node, Value, read_only
from tinyc.kernel.site import RELU6, Act, Padding, Pair
from tinyc.ops import all_ops, op_with
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.reference.interpreter import run_float, run_int

CPU = Path("/proc/cpuinfo").read_text(errors="replace") if Path("/proc/cpuinfo").is_file() else ""


def graph_of(layers: list[Layer], rng: np.random.Generator) -> Graph:
    """A graph of layers side by side, each with inputs of its own."""
    values: dict[str, Value] = {}
    consts: dict[str, Array] = {}
    nodes, inputs = [], []
    for number, layer in enumerate(layers):
        names = tuple(f"x{number}_{k}" for k in range(len(layer.inputs)))
        for k, (name, shape) in enumerate(zip(names, layer.inputs, strict=True)):
            values[name] = Value(name, shape, "f32")
            if k < layer.moving:
                inputs.append(name)
            else:
                consts[name] = read_only(rng.standard_normal(shape).astype(np.float32))
        op = op_with(layer.attrs)
        (kind,) = op.infer(layer.attrs, *(values[name] for name in names))
        values[f"y{number}"] = Value(f"y{number}", kind.shape, kind.dtype)
        nodes.append(Node(f"n{number}", op.name, names, (f"y{number}",), layer.attrs))
    outputs = tuple(node.outputs[0] for node in nodes)
    return Graph("float32", tuple(inputs), outputs, tuple(nodes), values, consts)


def numbers(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Of all sizes, some of them special."""
    flat = rng.standard_normal(int(np.prod(shape))).astype(np.float32)
    flat[::7] *= np.float32(30)
    flat[1::11] = (rng.standard_normal(len(flat[1::11])) * 10.0 ** rng.integers(-44, 5, len(flat[1::11]))).astype("f4")
    special = np.float32([0.0, -0.0, 0.5, -1.5, 88.7, -87.4, -103.9, -104.1, 1e-45, 8388609, 0.625, 1e30, -1e30])
    flat[: min(len(flat) // 2, len(special))] = special[: min(len(flat) // 2, len(special))]
    return flat.reshape(shape)


def assert_kernels(layers: list[Layer], compiler: str = COMPILER, isa: frozenset[str] = frozenset()) -> None:
    """That the C library has the reference's bytes, where they are numbers."""
    rng = np.random.default_rng(len(layers))
    graph = graph_of(layers, rng)
    inputs = [{name: numbers(graph.values[name].shape, rng) for name in graph.inputs} for _ in range(2)]
    choices = select(graph, isa, Numerics.OURS)
    plan = OneStepPlan(graph, max(choice.scratch_bytes for choice in choices.values()))
    got = run_plan(graph, choices, plan, inputs, Numerics.OURS, compiler)
    with np.errstate(all="ignore"):
        reference = [run_int(graph, sample, Numerics.OURS) for sample in inputs]
    for arrays, want in zip(got, reference, strict=True):
        for node, array in zip(graph.nodes, arrays, strict=True):
            expected = want[node.outputs[0]]
            assert expected.dtype == np.float32
            real = ~np.isnan(expected)
            assert np.array_equal(np.isnan(array), ~real), node
            assert array[real].tobytes() == expected[real].tobytes(), node


@pytest.mark.parametrize("compiler", ["clang", pytest.param("gcc", marks=pytest.mark.slow)])
def test_elementwise_kernels(compiler):
    layers = [Layer(attrs, (NUMBERS,)) for attrs in UNARY] + [Layer(attrs, (NUMBERS, NUMBERS), 2) for attrs in BINARY]
    assert_kernels(layers, compiler)


@pytest.mark.parametrize("compiler", ["clang", pytest.param("gcc", marks=pytest.mark.slow)])
def test_other_kernels(compiler):
    assert_kernels(OTHERS, compiler)


def test_every_operator_with_a_float_reference_is_tried():
    tried = {op_with(layer.attrs).name for layer in every_layer()} | {graph.nodes[0].op for graph in other_cases()}
    assert tried >= {op.name for op in all_ops().values() if op.float32 is not None}


def test_reference_is_near_what_the_operator_means():
    """The exact order of operations against the plain reference in float64, which is the same on every processor."""
    rng = np.random.default_rng(3)
    layers = OTHERS + [Layer(attrs, (NUMBERS,)) for attrs in UNARY]
    graph = graph_of(layers, rng)
    sample = {name: np.abs(rng.standard_normal(graph.values[name].shape)).astype("f4") for name in graph.inputs}
    exact, arrays = run_int(graph, sample, Numerics.OURS), graph.consts | sample
    for node in graph.nodes:
        wide = [None if name is None else np.asarray(arrays[name], np.float64) for name in node.inputs]
        meant = all_ops()[node.op].float_ref(node.attrs, *wide)[0]
        np.testing.assert_allclose(exact[node.outputs[0]], meant, rtol=2e-5, atol=2e-6, err_msg=node.op)


def test_fma_rounds_once():
    """Against rationals: results of any size, subnormal, of sums that cancel, and near halves."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 2**32, 600, np.uint32).view(np.float32) for _ in range(2))
    small = (rng.standard_normal(600) * 1e-20).astype(np.float32)
    with np.errstate(all="ignore"):
        cases = [
            (x, y, np.roll(x, 1)),
            (x, y, -(x * y)),
            (small, small, np.float32(1e-45) * np.arange(600, dtype="f4")),
        ]
    halves = np.float32(1) + np.arange(600, dtype=np.float32) * np.float32(2**-12)
    cases.append((halves, halves, np.full(600, 2.0**-60, np.float32)))
    for a, b, c in cases:
        got = float32.fma(a, b, c)
        for one, other, third, result in zip(a, b, np.broadcast_to(c, a.shape), got, strict=True):
            if np.isfinite([one, other, third, result]).all():
                exact = Fraction(float(one)) * Fraction(float(other)) + Fraction(float(third))
                assert _is_nearest(result, exact), (one, other, third)


def test_fma_of_c_is_that_of_python(tmp_path: Path) -> None:
    """In integers, as cores without the instruction have it: sums of every size, and products half way between two
    floats, beside which an addend of any size decides."""
    rng = np.random.default_rng(1)
    x, y, z = (rng.integers(0, 2**32, 20_000, np.uint32).view(np.float32) for _ in range(3))
    odd = (2 * rng.integers(2**11, 2**12, 20_000) + 1).astype(np.float32)  # products have 25 or 26 bits, the last a 1
    tiny = np.ldexp(rng.choice([-1.0, 1.0], 20_000), rng.integers(-100, 0, 20_000)).astype(np.float32)
    a, b, c = (np.concatenate(both) for both in ((x, odd), (y, np.roll(odd, 1)), (z, tiny)))
    (tmp_path / "fma.c").write_text(
        '#include "tc_float.h"\n'
        "void run(int n, const float *a, const float *b, const float *c, float *y);\n"
        "void run(int n, const float *a, const float *b, const float *c, float *y)\n"
        "{ for (int i = 0; i < n; i++) y[i] = tc_fma(a[i], b[i], c[i]); }\n"
    )
    folders = [f"-I{runtime_dir() / room}" for room in ("base", "float32")]
    command = ["gcc", "-std=c99", "-O2", "-mno-fma", *folders, "-shared", "-fPIC", "fma.c", "-o", "fma.so"]
    if platform.machine() not in ("x86_64", "AMD64"):
        command.remove("-mno-fma")
    subprocess.run(command, cwd=tmp_path, check=True)
    sums = np.empty_like(a)
    ctypes.CDLL(str(tmp_path / "fma.so")).run(len(a), *(ctypes.c_void_p(v.ctypes.data) for v in (a, b, c, sums)))
    with np.errstate(all="ignore"):
        exact = float32.fma(a, b, c)
    real = ~np.isnan(exact)
    assert np.array_equal(np.isnan(sums), ~real)
    np.testing.assert_array_equal(sums[real].view(np.int32), exact[real].view(np.int32))


def _is_nearest(result: np.float32, exact: Fraction) -> bool:
    """Whether no other float32 is nearer, and of two the result is the even one."""
    error = abs(exact - Fraction(float(result)))
    for towards in (-np.inf, np.inf):
        other = np.nextafter(result, np.float32(towards))
        gap = abs(exact - Fraction(float(other))) if np.isfinite(other) else error + 1
        if gap < error or (gap == error and int(result.view(np.int32)) & 1):
            return False
    return True


# Function, range, and the most units in the last place by which it may differ from the reals: docs/float32.md says it.
ERRORS = [
    (float32.exp, np.exp, (-103.0, 88.7), 1.0),
    (float32.log, np.log, (1e-30, 1e30), 1.0),
    (float32.sigmoid, lambda v: 1 / (1 + np.exp(-v)), (-80.0, 20.0), 2.5),
    (float32.tanh, np.tanh, (-9.0, 9.0), 1.5),
    (float32.expm1, np.expm1, (-20.0, 2.0), 4.0),
    (float32.softplus, lambda v: np.logaddexp(0, v), (-80.0, 20.0), 3.0),
    (lambda v: float32.sin_or_cos(v, 0), np.sin, (-1000.0, 1000.0), 2.0),
    (lambda v: float32.sin_or_cos(v, 1), np.cos, (-1000.0, 1000.0), 2.0),
    (float32.sqrt, np.sqrt, (0.0, 1e6), 0.5),
    (float32.erf, np.vectorize(math.erf), (-1.0, 1.0), 2.5),
    (float32.tan, np.tan, (-1000.0, 1000.0), 3.5),
    (float32.atan, np.arctan, (-1e6, 1e6), 2.5),
    (float32.asin, np.arcsin, (-1.0, 1.0), 2.5),
    (float32.acos, np.arccos, (-1.0, 1.0), 1.5),
    (float32.sinh, np.sinh, (-89.4, 89.4), 2.5),
    (float32.cosh, np.cosh, (-89.4, 89.4), 2.5),
    (float32.asinh, np.arcsinh, (-1e12, 1e12), 3.5),
    (float32.acosh, np.arccosh, (1.0, 1e12), 3.5),
    (float32.atanh, np.arctanh, (-0.99999, 0.99999), 3.5),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors_of_functions(case):
    mine, theirs, (lo, hi), most = ERRORS[case]
    rng = np.random.default_rng(case)
    x = np.concatenate([rng.uniform(lo, hi, 20000), rng.uniform(max(lo, -1.0), max(lo, -1.0) + 2, 20000)])
    x = x[x <= hi].astype(np.float32)
    exact = theirs(x.astype(np.float64))
    unit = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    assert (np.abs(mine(x) - exact) / unit).max() <= most


def test_twins_of_assembly():
    """What the functions in assembly compute, in plain C."""
    assert_kernels([layer for layer in OTHERS if len(layer.inputs) > 1 and layer.moving == 1], isa=frozenset({"fpu"}))


def test_layers_that_remember_and_indices():
    """lstm, svdf, argmax and compare: on the host with sanitizers, and the first two near what they mean."""
    for graph in list(other_cases())[:4]:
        rng = np.random.default_rng(7)
        sample = {name: rng.standard_normal(graph.values[name].shape).astype(np.float32) for name in graph.inputs}
        check_kernels(graph, [sample], Numerics.OURS)
        exact, meant = run_int(graph, sample, Numerics.OURS), run_float(graph, sample)
        for name in graph.outputs:
            np.testing.assert_allclose(exact[name], meant[name], rtol=2e-5, atol=2e-6)


EAGER = "-std=gnu11 -O2 -ffp-contract=fast"  # what may be contracted is


@pytest.mark.skipif("fma" not in CPU, reason="needs a processor with FMA")
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_compilers_find_nothing_to_contract(compiler):
    """With the instruction, and leave to use it: the bytes of the software that stands for it."""
    layers = [Layer(attrs, (NUMBERS,)) for attrs in UNARY]
    assert_kernels([*layers, *OTHERS], f"{compiler} {EAGER} -mfma")


def random_layers(seed: int, count: int) -> list[Layer]:
    """Convolutions, depthwise and dense layers, and pools of any shape."""
    rng = np.random.default_rng(seed)
    layers: list[Layer] = []
    while len(layers) < count:
        number = rng.integers
        pads = Padding(*(int(n) for n in number(0, 3, 4)))
        stride, kernel = Pair(*(int(n) for n in number(1, 4, 2))), [int(n) for n in number(1, 5, 2)]
        act = (Act(), Act(0.0), RELU6, Act(-0.5, 0.5))[int(number(4))]
        shape = (1, *(int(n) for n in number(2, 9, 2)), int(number(1, 20)))
        out_c = int(number(1, 21))
        kinds = (
            Layer(Conv2D(stride, pads, act=act), (shape, (out_c, *kernel, shape[3]), (out_c,))),
            Layer(DepthwiseConv2D(stride, pads, act=act), (shape, (*kernel, shape[3]), (shape[3],))),
            Layer(FullyConnected(act), ((shape[1], shape[3]), (out_c, shape[3]), (out_c,))),
            Layer(MaxPool2D(Pair(*kernel), stride, pads, act=act), (shape,)),
            Layer(AvgPool2D(Pair(*kernel), stride, pads, act=act), (shape,)),
        )
        layer = kinds[int(number(5))]
        values = [Value(f"x{k}", size, "f32") for k, size in enumerate(layer.inputs)]
        try:
            op_with(layer.attrs).infer(layer.attrs, *values)
        except TinycError:
            continue  # a window that misses the image
        layers.append(layer)
    return layers


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("isa", [frozenset(), frozenset({"fpu"})], ids=["portable", "blocks"])
def test_random_layers(seed, isa):
    assert_kernels(random_layers(seed, 24), isa=isa)


def test_some_random_layers():
    assert_kernels(random_layers(23, 14)[-4:], isa=frozenset({"fpu"}))
