# SPDX-License-Identifier: Apache-2.0
"""Exact fast convolutions on an emulated Cortex-M4: bytes equal to the reference, counts as promised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from one_layer import check_on_core, check_together, counts_together, offer_of, together

from tests.ops.harness import HOST_ISA, OneStepPlan, run_plan
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.kernel.kernel import Offer
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.fast import winograd
from tinyc.kernels.fast.bilinear import F2, F4, S2, S24, BilinearForm
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.winograd import BANDS, NAMES, kernel_name
from tinyc.kernels.matrix import GROUP
from tinyc.ops.conv2d import Conv2D, prepare
from tinyc.reference.interpreter import run_int

ROUNDINGS = [Numerics.TFLM, Numerics.OURS]
ONE = Padding(1, 1, 1, 1)
SLOW_S24 = pytest.param(S24, marks=pytest.mark.slow, id="s24")


def layer(x, out_c, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(pad=ONE), (1, *x), (out_c, 3, 3, x[2]), **more)


LAYERS = {
    "whole tiles": layer((8, 16, 8), 8, Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "odd sizes": layer((7, 9, 8), 4, x_zero=-128),
    "one pixel": layer((1, 1, 4), 4),
    "one row": layer((1, 5, 4), 4, x_zero=127),
    "one column": layer((3, 1, 4), 4),
    "three channels": layer((8, 8, 3), 8, Conv2D(pad=ONE, act=RELU6)),
    "one channel": layer((5, 17, 1), 4),
    "six channels": layer((9, 7, 6), 4, bias=False),
    "valid": layer((9, 11, 4), 4, Conv2D()),
    "wide pads": layer((4, 5, 4), 4, Conv2D(pad=Padding(2, 2, 1, 3))),
    "many channels": layer((4, 6, 72), 12, Conv2D(pad=ONE, act=RELU), per_channel=False),
    "loop over the channels": layer((4, 5, 136), 4),
}


def strided(one: Layer, form: BilinearForm) -> Layer:
    return replace(one, attrs=replace(one.attrs, stride=Pair(form.stride, form.stride)))


def site_of(one: Layer, numerics: Numerics = Numerics.TFLM) -> Site:
    graph = graph_of(one)
    return Site(graph, graph.nodes[0], numerics)


def for_rounding(names: Sequence[str], numerics: Numerics) -> list[str]:
    """Every other layer: half of all for one rounding, half for the other."""
    return [name for name in names if list(LAYERS).index(name) % 2 == ROUNDINGS.index(numerics)]


def check_all(layers: Sequence[Layer], kernel: str, numerics: Numerics = Numerics.TFLM) -> list[int]:
    """All layers with the kernel, side by side in one firmware; the instructions of each."""
    return counts_together([(graph_of(one), samples(one), kernel) for one in layers], numerics)


def check_on_host(layers: Sequence[Layer], kernel: str, numerics: Numerics) -> None:
    """All layers with the kernel's twin in C, side by side in one program."""
    graph, inputs, kernels = together([(graph_of(one), samples(one), kernel) for one in layers])
    choices = select(graph, HOST_ISA, numerics, prefer=kernels)
    plan = OneStepPlan(graph, {name: choice.scratch_bytes for name, choice in choices.items()})
    for sample, outputs in zip(inputs, run_plan(graph, choices, plan, inputs, numerics), strict=True):
        reference = run_int(graph, sample, numerics)
        for name, y in zip(graph.outputs, outputs, strict=True):
            np.testing.assert_array_equal(y, reference[name])


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("form", [F2, F4, S2, S24], ids=lambda form: form.name)
def test_equals_the_reference(form: BilinearForm, numerics: Numerics) -> None:
    layers = [strided(LAYERS[name], form) for name in for_rounding(list(LAYERS), numerics)]
    check_all(layers, NAMES[form.name], numerics)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("form", [F2, F4, S2, S24], ids=lambda form: form.name)
def test_portable_twin_equals_the_reference(form: BilinearForm, numerics: Numerics) -> None:
    """On this computer, with sanitizers."""
    layers = [strided(LAYERS[name], form) for name in ("odd sizes", "one pixel", "six channels", "valid", "wide pads")]
    check_on_host(layers, NAMES[form.name], numerics)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("form", [F2, F4, S2, SLOW_S24], ids=lambda form: form.name)
def test_at_the_limits(form: BilinearForm, numerics: Numerics) -> None:
    one = strided(replace(LAYERS["odd sizes"], bias=False, per_channel=False), form)
    layers = [replace(one, weights=weights) for weights in ("largest", "signs", "least")]
    check_all(layers, NAMES[form.name], numerics)


WAYS = {
    Numerics.TFLM: [(Act(), -5), (RELU, -128)],
    Numerics.OURS: [(Act(), 9)],
    Numerics.LITERT: [(RELU6, 20)],
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", WAYS)
@pytest.mark.parametrize("form", [F2, F4, S2, SLOW_S24], ids=lambda form: form.name)
def test_ways_to_finish(form: BilinearForm, numerics: Numerics) -> None:
    ways = [layer((5, 7, 4), 8, Conv2D(pad=ONE, act=act), y_zero=zero, seed=7) for act, zero in WAYS[numerics]]
    check_all([strided(one, form) for one in ways], NAMES[form.name], numerics)


@pytest.mark.slow
def test_zig_builds_it() -> None:
    for form in (F2, F4, S2, S24):
        one = strided(LAYERS["odd sizes"], form)
        check_on_core(graph_of(one), samples(one)[:2], NAMES[form.name], toolchain="zig")


def test_sums_that_could_overflow_are_refused() -> None:
    """F4 raises sums by 2^4 and 9 at most: 264 channels of +-127 leave int32, and no input need show it."""
    site = site_of(layer((4, 5, 264), 4))
    assert winograd.plan(site, prepare(site), F2, inline=False) is not None
    assert winograd.plan(site, prepare(site), F4, inline=False) is None


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("form", [F4, S2, S24], ids=lambda form: form.name)
def test_code_for_every_product(form: BilinearForm, numerics: Numerics) -> None:
    names = ["whole tiles", "odd sizes", "one row", "three channels", "six channels", "wide pads"]
    layers = [strided(LAYERS[name], form) for name in for_rounding(names, numerics)]
    counts = check_all(layers, kernel_name(form, inline=True), numerics)
    for one, count in zip(layers, counts, strict=True):
        promised, rolled = (_promised(site_of(one, numerics), form, inline) for inline in (True, False))
        assert abs(count - promised) < 0.015 * promised + 60
        assert promised < rolled


FAST = {kernel.name: kernel for kernel in winograd.KERNELS}


def _promised(site: Site, form: BilinearForm, inline: bool, packed: bool = False) -> int:
    """Instructions."""
    return offer_of(FAST[kernel_name(form, inline, packed)], site).cost.instructions


def narrow(name: str, form: BilinearForm) -> Layer:
    """With int4 weights."""
    return strided(replace(LAYERS[name], bits=4), form)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize(("form", "inline"), [(F2, False), (S2, False), (S2, True)])
def test_packed_factors_of_int4_weights(form: BilinearForm, inline: bool, numerics: Numerics) -> None:
    """Two output channels over each other: less flash than factors of int16."""
    names = for_rounding(["whole tiles", "odd sizes", "one pixel", "three channels"], numerics)
    layers = [narrow(name, form) for name in names]
    counts = check_all(layers, kernel_name(form, inline, packed=True), numerics)
    for one, count in zip(layers, counts, strict=True):
        site = site_of(one, numerics)
        promised = _promised(site, form, inline, packed=True)
        assert abs(count - promised) < 0.015 * promised + 60
        packed, wide = (_tiles(site, form, inline, way) for way in (True, False))
        assert packed.group_words - GROUP == (wide.group_words - GROUP) / 2


@pytest.mark.parametrize("form", [F2, F4, S2, SLOW_S24], ids=lambda form: form.name)
def test_int4_weights_in_int16_factors(form: BilinearForm) -> None:
    one = narrow("odd sizes", form)
    check_on_core(graph_of(one), samples(one), NAMES[form.name])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("act", "numerics"), [(Act(), Numerics.TFLM), (RELU, Numerics.OURS)])
@pytest.mark.parametrize("form", [F2, S2], ids=lambda form: form.name)
def test_packed_factors_at_the_limits(form: BilinearForm, numerics: Numerics, act: Act) -> None:
    """On the core, and the twin on this computer."""
    one = replace(narrow("odd sizes", form), per_channel=False, bias=act == RELU)
    one = replace(one, attrs=replace(one.attrs, act=act), y_zero=-128 if act == RELU else 9)
    layers = [replace(one, weights=weights) for weights in ("largest", "signs", "all least")]
    name = kernel_name(form, inline=False, packed=True)
    check_all(layers, name, numerics)
    check_on_host(layers, name, numerics)


NARROW = [F2, F4, S2]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("way", BANDS)
@pytest.mark.parametrize("form", NARROW, ids=lambda form: form.name)
def test_weights_that_stay_int8(form: BilinearForm, way: str, numerics: Numerics) -> None:
    """Their factors are made when the layer runs: first of all, or for each band of tile rows."""
    band = {"w8": 0, "w8_band": 1}.get(way, BANDS[way])  # the least rows of tiles, less one
    high = layer((form.stride * form.m * (band + 1) + 3, 9, 6), 36, Conv2D(pad=ONE, act=RELU), y_zero=-128)
    names = for_rounding([name for name in LAYERS if way in ("w8", "w8_band")], numerics)
    layers = [strided(one, form) for one in (high, *(LAYERS[name] for name in names))]
    layers = [one for one in layers if way == "w8" or one.w_shape[0] > GROUP]
    counts = check_all(layers, kernel_name(form, way=way), numerics)
    for one, count in zip(layers, counts, strict=True):
        promised = offer_of(FAST[kernel_name(form, way=way)], site_of(one, numerics)).cost.instructions
        assert abs(count - promised) < 0.015 * promised + 60


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("numerics", ROUNDINGS)
@pytest.mark.parametrize("form", NARROW, ids=lambda form: form.name)
def test_weights_that_stay_int8_at_the_limits(form: BilinearForm, numerics: Numerics) -> None:
    """On the core, and the twin on this computer."""
    one = strided(replace(LAYERS["odd sizes"], bias=False, per_channel=False), form)
    layers = [replace(one, weights=weights) for weights in ("largest", "signs", "least")]
    layers.append(strided(layer((5, 6, 6), 8), form))
    check_all(layers, kernel_name(form, way="w8"), numerics)
    check_on_host(layers, kernel_name(form, way="w8"), numerics)
    check_on_host(layers[-1:], kernel_name(form, way="w8_band"), numerics)


def random_layer(rng: np.random.Generator, form: BilinearForm) -> Layer:
    """Sizes down to one pixel and one channel, pads of any side, zero points and weights at the ends."""

    def pick(*values):
        return values[rng.integers(len(values))]

    pads, h, w = rng.integers(0, 3, 4).tolist(), *rng.integers(1, 12, 2).tolist()
    h, w = max(h, 3 - sum(pads[::2])), max(w, 3 - sum(pads[1::2]))
    act = pick(Act(), RELU, RELU6)
    one = layer(
        (h, w, pick(1, 2, 3, 4, 5, 7, 16, 17, 21)),
        pick(4, 8, 12, 20, 36),
        Conv2D(pad=Padding(*pads), act=act),
        x_zero=pick(-128, 127, 3),
        y_zero=pick(-128, -5) if act in (RELU, RELU6) else pick(-128, 127, -5),
        bias=pick(True, False),
        per_channel=pick(True, False),
        weights=pick("random", "random", "largest", "signs", "least", "all least"),
        gain=pick(1.0, 0.1, 8.0),
        bits=pick(8, 8, 4),
    )
    return strided(one, form)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_layers_whose_weights_stay_int8(seed: int) -> None:
    """Whatever of them a kernel takes, all in one firmware, on cores of three kinds."""
    rng = np.random.default_rng(seed)
    numerics = list(WAYS)[seed % len(WAYS)]
    cases = []
    for form, way in [(form, way) for form in NARROW for way in BANDS] * 2:
        one = random_layer(rng, form)
        kernel, site = FAST[kernel_name(form, way=way)], site_of(one, numerics)
        if all(condition(site) for condition in kernel.when) and isinstance(kernel.offer(site, prepare(site)), Offer):
            cases.append((graph_of(one), samples(one), kernel.name))
    assert len(cases) > 3
    check_together(cases[:8], numerics, board_name=("cortex-m4", "cortex-m7", "cortex-m33")[seed // 4])


def test_factors_of_int8_weights_are_not_packed() -> None:
    for form in (F2, S2):
        site = site_of(strided(LAYERS["whole tiles"], form))
        assert winograd.plan(site, prepare(site), form, inline=False, packed=True) is None


def test_ninefold_sums_are_scaled_where_they_fit() -> None:
    """F4 makes nine times the sums: the multiplier takes them as they are, unless they could leave int32."""
    few, many = (site_of(layer((4, 5, channels), 4)) for channels in (4, 200))
    assert not _tiles(few, F4).divided
    assert _tiles(many, F4).divided


def _tiles(site: Site, form: BilinearForm, inline: bool = False, packed: bool = False) -> Tiles:
    work = winograd.plan(site, prepare(site), form, inline, packed)
    assert work is not None
    return work.tiles


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("form", [F2, F4, S2, S24], ids=lambda form: form.name)
def test_costs_are_as_promised(form: BilinearForm) -> None:
    """To within the loop over the tiles."""
    layers = [strided(LAYERS[name], form) for name in ("whole tiles", "many channels", "three channels")]
    for one, count in zip(layers, check_all(layers, NAMES[form.name]), strict=True):
        promised = _promised(site_of(one), form, inline=False)
        assert abs(count - promised) < 0.015 * promised + 60
