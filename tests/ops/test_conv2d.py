# SPDX-License-Identifier: Apache-2.0
"""conv2d: the reference against a slow formula, TensorFlow Lite and ONNX Runtime, every kernel against it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops import slow
from tests.ops.harness import check_kernels, run_kernel
from tests.ops.one_node import assert_equals_litert, assert_equals_tflm
from tests.ops.onnx_float import run_onnx
from tests.ops.weighted import Layer, as_tflite, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Quant, Value
from tinyc.kernel import windows
from tinyc.kernel.dsp import out_fields
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.ops import conv2d
from tinyc.ops.conv2d import Conv2D
from tinyc.reference.interpreter import run_int

ONE = Padding(1, 1, 1, 1)


def layer(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), w, **more)


LAYERS = {
    "3x3 same, relu": layer((7, 9, 3), (9, 3, 3, 3), Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "3x3 stride 2, relu6": layer((8, 7, 5), (5, 3, 3, 5), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "wide pads": layer((3, 1, 7), (4, 3, 3, 7), Conv2D(Pair(1, 2), Padding(2, 3, 1, 2)), x_zero=-128),
    "dilated": layer((9, 8, 3), (8, 3, 2, 3), Conv2D(Pair(2, 1), Padding(1, 2, 0, 1), Pair(2, 3)), x_zero=127),
    "groups": layer((5, 5, 6), (9, 3, 2, 2), Conv2D(groups=3, pad=ONE)),
    "10x4 of one channel": layer((13, 10, 1), (7, 10, 4, 1), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1))),
    "1x1": layer((7, 5, 9), (13, 1, 1, 9), y_zero=127),
    "1x1 of one pixel": layer((1, 1, 8), (3, 1, 1, 8), per_channel=False),
    "1x1 relu without bias": layer((3, 3, 64), (8, 1, 1, 64), Conv2D(act=RELU), y_zero=-100, bias=False),
    "1x1 stride 2": layer((5, 7, 4), (8, 1, 1, 4), Conv2D(Pair(2, 2), act=Act(-0.5, 0.5))),
    "nothing saturates": layer((5, 3, 5), (5, 3, 3, 5), gain=0.2),
    "factor above a half": layer((5, 3, 1), (5, 1, 1, 1), gain=90.0),
}
EXTREMES = {
    "long, largest weights": layer((1, 3, 520), (5, 1, 1, 520), weights="largest"),
    "long, signs": layer((4, 3, 64), (5, 3, 3, 64), Conv2D(act=RELU), weights="signs", y_zero=-128),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("numerics", Numerics)
def test_reference_is_the_formula(name, numerics):
    graph = graph_of(LAYERS[name])
    for sample in samples(LAYERS[name])[:2]:
        ours = run_int(graph, sample, numerics)["y"]
        np.testing.assert_array_equal(ours, slow.conv2d(graph, sample["x"], numerics))


@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
@pytest.mark.parametrize("name", ["3x3 same, relu", "3x3 stride 2, relu6", "1x1", "1x1 relu without bias"])
def test_reference_is_tflites(name, theirs):
    for seed in range(3):
        shape = (1, 32, 32, LAYERS[name].x_shape[3])
        wide = replace(LAYERS[name], x_shape=shape, seed=seed, bias=True)  # LiteRT insists on a bias
        if wide.attrs.pad == Padding(0, 0, 1, 1):
            assert wide.attrs.stride == (2, 2)  # TFLite's SAME pads an even image so
        theirs(graph_of(wide), as_tflite(wide), samples(wide)[0])


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name):
    numerics = list(Numerics)[list(LAYERS).index(name) % 3]
    names = check_kernels(graph_of(LAYERS[name]), samples(LAYERS[name]), numerics)
    pointwise = (name.startswith("1x1") and "stride" not in name) or name == "factor above a half"
    assert ("tc_conv2d_1x1_s8_dsp" in names) == pointwise
    assert ("tc_conv2d_s8_dsp" in names) == (name != "groups")
    assert names[-1] == "tc_conv2d_s8"


def test_kernels_of_groups():
    assert check_kernels(graph_of(LAYERS["groups"]), samples(LAYERS["groups"]))[-1] == "tc_conv2d_s8"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("numerics", "act", "y_zero"),
    [
        (Numerics.TFLM, Act(), -5),
        (Numerics.TFLM, RELU, -128),
        (Numerics.TFLM, RELU, 7),
        (Numerics.OURS, Act(), 127),
        (Numerics.OURS, RELU, 7),
        (Numerics.LITERT, RELU, 7),
    ],
)
def test_kernels_in_all_ways_to_finish(numerics, act, y_zero):
    one = replace(LAYERS["1x1"], attrs=Conv2D(act=act), y_zero=y_zero)
    check_kernels(graph_of(one), samples(one), numerics)


@pytest.mark.parametrize("name", EXTREMES)
def test_kernels_at_the_limits(name):
    check_kernels(graph_of(EXTREMES[name]), samples(EXTREMES[name]), Numerics.TFLM)


def test_kernels_with_a_dead_channel():
    graph = graph_of(LAYERS["1x1"])
    w, quant = graph.consts["w"].copy(), graph.values["w"].quant
    w[2] = 0
    w[3] = np.sign(w[3])
    scale = tuple(1e-12 if o in (2, 3) else s for o, s in enumerate(quant.scale))
    values = dict(graph.values) | {"w": replace(graph.values["w"], quant=Quant(scale, quant.zero, 0))}
    graph = replace(graph, values=values, consts={**graph.consts, "w": w})
    assert out_fields(conv2d.prepare(Site(graph, graph.nodes[0], Numerics.OURS)), w.reshape(13, 9))["finish"] == 1
    check_kernels(graph, samples(LAYERS["1x1"]), Numerics.OURS)


def test_kernels_with_the_least_weight():
    names = check_kernels(graph_of(replace(LAYERS["1x1"], weights="least")), samples(LAYERS["1x1"]))
    assert not {"tc_conv2d_1x1_s8_dsp", "tc_conv2d_s8_dsp"} & set(names)


@pytest.mark.parametrize("name", ["3x3 same, relu", "wide pads", "dilated", "groups", "1x1 stride 2"])
def test_float_is_onnxruntimes(name):
    one = LAYERS[name]
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in (one.x_shape, one.w_shape))
    b = rng.normal(size=one.out_c).astype(np.float32)
    a = one.attrs
    theirs = run_onnx(
        "Conv",
        [x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2), b],
        strides=list(a.stride),
        pads=list(a.pad),
        dilations=list(a.dilation),
        group=a.groups,
    )
    (ours,) = conv2d.float_ref(a, x, w, b)
    theirs = np.clip(theirs.transpose(0, 2, 3, 1), a.act.lo, a.act.hi)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "w", "attrs", "message"),
    [
        ((1, 5, 5, 3), (4, 3, 3, 2), Conv2D(), "do not fit"),
        ((1, 5, 5, 4), (3, 3, 3, 2), Conv2D(groups=2), "do not fit"),
        ((1, 2, 5, 3), (4, 3, 3, 3), Conv2D(), "does not fit the padded 2x5"),
        ((1, 5, 5, 3), (4, 3, 3, 3), Conv2D(Pair(0, 1)), "must be positive"),
        ((1, 5, 5, 3), (4, 3, 3, 3), Conv2D(pad=Padding(-1, 0, 0, 0)), "negative"),
        ((5, 5, 3), (4, 3, 3, 3), Conv2D(), "one image"),
        ((2, 5, 5, 3), (4, 3, 3, 3), Conv2D(), "one image"),
        ((1, 5, 5, 3), (3, 3, 3), Conv2D(), "[O,KH,KW,I/groups]"),
    ],
)
def test_shapes_that_do_not_fit(x, w, attrs, message):
    with pytest.raises(TinycError) as caught:
        conv2d.infer(attrs, Value("x", x, "f32"), Value("w", w, "f32"))
    assert message in str(caught.value)


def test_bias_that_does_not_fit():
    with pytest.raises(TinycError, match=r"bias 'b' has shape \[3\], expected \[4\]"):
        conv2d.infer(
            Conv2D(), Value("x", (1, 5, 5, 3), "f32"), Value("w", (4, 3, 3, 3), "f32"), Value("b", (3,), "f32")
        )


def test_accumulator_beyond_int32():
    graph = graph_of(LAYERS["1x1"])
    b = np.full(13, 2**31 - 1, np.int32)
    with pytest.raises(TinycError, match="beyond int32"):
        run_int(replace(graph, consts={**graph.consts, "b": b}), samples(LAYERS["1x1"])[0], Numerics.OURS)


def test_weights_with_a_zero_point():
    graph = graph_of(LAYERS["1x1"])
    quant = graph.values["w"].quant
    w = replace(graph.values["w"], quant=replace(quant, zero=(1,) * 13))
    with pytest.raises(TinycError, match="zero point 0"):
        run_int(replace(graph, values={**graph.values, "w": w}), samples(LAYERS["1x1"])[0], Numerics.OURS)


def test_windows_in_blocks_are_the_same_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for one row at a time; integers and, here, floats equal."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(-128, 128, (1, 9, 7, 4)), rng.integers(-127, 128, (6, 3, 3, 2))
    attrs = Conv2D(Pair(2, 1), Padding(1, 0, 2, 1), groups=2)
    whole = conv2d.float_ref(attrs, x.astype(np.float32), w.astype(np.float32))[0]
    monkeypatch.setattr(windows, "_COPIED", 1)
    np.testing.assert_array_equal(conv2d.float_ref(attrs, x.astype(np.float32), w.astype(np.float32))[0], whole)


def test_taps_inside_are_those_that_a_walk_over_the_window_finds() -> None:
    for kernel, stride, pad, dilation in ((3, 1, 1, 1), (4, 3, 2, 2), (2, 2, 0, 3), (5, 1, 4, 1)):
        window = windows.Window(Pair(kernel, 1), Pair(stride, 1), Padding(pad, 0, pad, 0), Pair(dilation, 1))
        taps = [[r * stride - pad + k * dilation for k in range(kernel)] for r in range(window.output((1, 9, 1, 1)).h)]
        expected = [sum(0 <= tap < 9 for tap in row) for row in taps]
        assert window.taps_inside((1, 9, 1, 1))[0].tolist() == expected


def test_a_window_above_the_image_reads_padding():
    """One output row of a window of one row, which lies above the image: its bytes are those of padding."""
    above = layer((2, 5, 4), (8, 1, 3, 4), Conv2D(Pair(3, 1), Padding(1, 0, 0, 0)))
    graph, inputs = graph_of(above), samples(above)[:1]
    got = run_kernel(graph, graph.nodes[0], "tc_conv2d_s8", inputs, Numerics.TFLM)
    np.testing.assert_array_equal(got[0][0], run_int(graph, inputs[0], Numerics.TFLM)["y"])
