# SPDX-License-Identifier: Apache-2.0
"""The proof of fast requantization: thresholds by brute force, proved constants on every accumulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multipliers, requantize
from tinyc.kernel.windows import ConvParams, accumulator_bounds
from tinyc.kernels import requantize as requantizing
from tinyc.kernels.finish import finish_bytes, finish_int16, finish_packed, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import (
    ScalingConstants,
    Shifts,
    Steps,
    best_slope,
    interval,
    solve,
    steps_between,
    without_add,
)

ROUNDINGS = [Rounding.SINGLE, Rounding.DOUBLE]


def params(factors, bias, y_zero=-128, y_min=-128, y_max=127, rounding=Rounding.DOUBLE) -> ConvParams:
    mult, shift = quantize_multipliers(np.array(factors))
    empty = np.zeros((len(factors), 1), np.int8)
    return ConvParams(None, empty, np.array(bias, np.int32), mult, shift, 0, y_zero, y_min, y_max, rounding)


def random_layer(seed: int, y_zero: int, rounding: Rounding, spread: float = 4.0) -> tuple[ConvParams, np.ndarray]:
    rng = np.random.default_rng(seed)
    taps = rng.integers(-127, 128, (8, 9)).astype(np.int64)
    factors = 0.004 * spread ** rng.uniform(-1, 1, 8)
    return params(factors, rng.integers(-5000, 5000, 8), y_zero, rounding=rounding), taps


def steps_of(p: ConvParams, taps: np.ndarray) -> Steps:
    """As a matrix has them, whose channels come in fours."""
    return steps_between(p.rescale, *accumulator_bounds(taps, p.bias.astype(np.int64)))


def definition(p: ConvParams, acc: np.ndarray) -> np.ndarray:
    y = requantize(acc, p.mult[:, None], p.shift[:, None], p.rounding) + p.y_zero
    return np.clip(y, p.y_min, p.y_max)


def all_accumulators(steps: Steps) -> np.ndarray:
    """[O, span] from the least to the greatest, the last repeated where a channel has fewer."""
    span = int((steps.high - steps.low).max()) + 1
    return np.minimum(steps.low[:, None] + np.arange(span), steps.high[:, None])


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("y_zero", [-128, 3, 127])
def test_thresholds_are_where_the_definition_steps(y_zero, rounding):
    p, taps = random_layer(1, y_zero, rounding)
    steps = steps_of(p, taps)
    acc = all_accumulators(steps)
    outputs = definition(p, acc)
    for i, v in enumerate(steps.outputs):
        reached = outputs >= v
        first = np.where(reached.any(axis=1), acc[np.arange(len(acc)), reached.argmax(axis=1)], 2**40)
        np.testing.assert_array_equal(steps.has_reach[:, i], reached.any(axis=1))
        np.testing.assert_array_equal(steps.has_below[:, i], ~reached[:, 0])
        inside = steps.has_reach[:, i]
        np.testing.assert_array_equal(steps.reach[inside, i], first[inside])
        between = inside & steps.has_below[:, i]
        np.testing.assert_array_equal(steps.below[between, i], first[between] - 1)


@pytest.mark.quick_cases(16)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize(("y_zero", "y_min"), [(-128, -128), (5, -128), (-20, -20)])
@pytest.mark.parametrize("fit", [finish_wide, finish_packed, finish_bytes, finish_int16])
def test_proved_constants_serve_every_accumulator(fit, y_zero, y_min, rounding, seed):
    p, taps = random_layer(seed, y_zero, rounding)
    p = replace(p, y_min=y_min)
    finish = fit(Matrix(p, taps))
    assert finish is not None
    acc = all_accumulators(steps_of(p, taps))
    low, high = finish.requant.clamp or (-128, 127)
    got = np.clip(np.clip(finish.scaling.outputs(acc), -128, 127), low, high)
    np.testing.assert_array_equal(got, definition(p, acc))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("spread", [1.5, 30.0])
@pytest.mark.parametrize("fit", [finish_packed, finish_bytes, finish_int16])
def test_channels_with_relu_add_the_same(fit, spread, rounding, seed):
    p, taps = random_layer(seed, -128, rounding, spread)
    finish = fit(Matrix(p, taps))
    assert finish.requant.base is not None
    based = slice(0, None, 2 if finish.requant.packed else 1)
    assert set(finish.scaling.add[based]) == {finish.requant.base}
    assert finish.constants_of_groups(4).shape == (2, 6 if finish.requant.packed else 4)


@pytest.mark.parametrize("y_zero", [-128, -5, 60])
@pytest.mark.parametrize("factor", [0.0004, 0.003, 0.02])
def test_one_scale_needs_no_constants_of_a_channel(factor, y_zero):
    _, taps = random_layer(3, y_zero, Rounding.DOUBLE)
    p = params([factor] * 8, range(-400, 400, 100), y_zero)
    finish = finish_packed(Matrix(p, taps))
    assert finish.requant.common
    assert (finish.requant.sign, finish.constants_of_groups(8).shape) == (y_zero != -128, (1, 0))
    assert len(set(finish.scaling.mult)) == len(set(finish.scaling.add)) == 1
    acc = all_accumulators(steps_of(p, taps))
    np.testing.assert_array_equal(np.clip(finish.scaling.outputs(acc), -128, 127), definition(p, acc))


def test_a_channel_of_another_scale_has_its_own():
    _, taps = random_layer(3, -128, Rounding.DOUBLE)
    assert not finish_packed(Matrix(params([0.003] * 7 + [0.004], [0] * 8), taps)).requant.common


@pytest.mark.parametrize("seed", range(6))
def test_nudges_alone_serve_every_accumulator(seed):
    p, taps = random_layer(seed, -128, Rounding.DOUBLE, 1.5)
    every = np.full(8, 11)
    finish = finish_wide(Matrix(p, taps), 11, lambda steps: every)
    steps = steps_of(p, taps)
    nudged = without_add(finish.scaling, steps, 8)
    assert finish.scaling.add.any()
    assert not nudged.add.any()
    acc = all_accumulators(steps)
    np.testing.assert_array_equal(np.clip(nudged.outputs(acc), -128, 127), definition(p, acc))
    half = without_add(finish.scaling, steps, 5)
    assert not half.add[:5].any()
    np.testing.assert_array_equal(half.add[5:], finish.scaling.add[5:])


def test_a_constant_channel_needs_its_add():
    p = params([1e-9, 0.01], [4_000, 7])
    steps = steps_of(p, np.array([[100, -100], [3, 50]], np.int64)).without_dead()
    scaling = solve(p.rescale, steps, Shifts(np.array([11, 11]), np.array([15, 15]), False), np.ones(2, np.int64))
    assert scaling is not None
    assert without_add(scaling, steps, 2) is None


def test_relu_needs_no_sign_and_general_double_rounding_does():
    relu, general = (random_layer(2, y_zero, Rounding.DOUBLE, 1.05) for y_zero in (-128, 0))
    assert not finish_wide(Matrix(*relu)).requant.sign
    assert finish_wide(Matrix(*general)).requant.sign


def test_layers_with_other_scales_share_their_shift():
    """Equal shifts are equal code."""
    ways = {finish_wide(Matrix(*random_layer(seed, -128, Rounding.SINGLE, 1.5))).requant for seed in range(6)}
    assert len(ways) == 1


def test_wrong_constants_are_not_proved():
    p, taps = random_layer(3, -128, Rounding.DOUBLE)
    steps = steps_of(p, taps)
    scaling = finish_wide(Matrix(p, taps)).scaling
    assert scaling.equals(steps).all()
    for bent in (
        replace(scaling, add=scaling.add + 512),
        replace(scaling, nudge=scaling.nudge + (1 << 20)),
        replace(scaling, mult=scaling.mult - scaling.mult // 64),
    ):
        assert not bent.equals(steps).any()


def test_a_channel_without_thresholds_is_a_constant():
    p = params([1e-9, 0.01], [40_000_000, 7])
    taps = np.array([[100, -100], [3, 50]], np.int64)
    finish = finish_wide(Matrix(*_padded(p, taps)))
    assert finish.live.tolist() == [False, True, False, False]
    acc = np.array([[40_000_000 - 200], [0], [0], [0]])
    assert np.clip(finish.scaling.outputs(acc)[0, 0], -128, 127) == definition(p, acc[:2])[0, 0]


def _padded(p: ConvParams, taps: np.ndarray) -> tuple[ConvParams, np.ndarray]:
    spare = 4 - len(taps)
    wide = replace(
        p,
        bias=np.pad(p.bias, (0, spare)),
        mult=np.pad(p.mult, (0, spare)),
        shift=np.pad(p.shift, (0, spare), constant_values=-1),
    )
    return wide, np.pad(taps, ((0, spare), (0, 0)))


def test_no_solution_is_none():
    """A factor above 2^8 makes thresholds closer than the multiplier of any scale can tell apart."""
    p = params([300.0] * 4, [0] * 4)
    taps = np.full((4, 2), 100, np.int64)
    assert finish_packed(Matrix(p, taps)) is None


def test_shifts_beyond_the_instruction_are_refused():
    p, taps = random_layer(5, -128, Rounding.SINGLE)
    steps = steps_of(p, taps)
    zeros = np.zeros(8, np.int64)
    assert solve(p.rescale, steps, Shifts(zeros, zeros + 23, False), zeros + 1) is None
    assert solve(p.rescale, steps, Shifts(zeros, zeros - 1, False), zeros + 1) is None


def test_registers_that_overflow_are_not_proved():
    p, taps = random_layer(6, -128, Rounding.SINGLE)
    steps = steps_of(p, taps)
    far = replace(steps, high=steps.high + 2**31)
    scaling = finish_wide(Matrix(p, taps)).scaling
    assert isinstance(scaling, ScalingConstants)
    assert not scaling.fits(far).any()


def test_channels_in_blocks_are_proved_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    p, taps = random_layer(5, -3, Rounding.DOUBLE)
    steps, finish = steps_of(p, taps), finish_wide(Matrix(p, taps))
    monkeypatch.setattr(requantizing, "_TOGETHER", 3)
    assert len(taps) > 3
    parts, by_parts = steps_of(p, taps), finish_wide(Matrix(p, taps))
    np.testing.assert_array_equal(parts.reach, steps.reach)
    np.testing.assert_array_equal(parts.below, steps.below)
    assert finish is not None
    assert by_parts is not None
    for name in ("scale", "shift", "mult", "add", "nudge"):
        np.testing.assert_array_equal(getattr(by_parts.scaling, name), getattr(finish.scaling, name))


@pytest.mark.parametrize("seed", range(4))
def test_no_multiplier_leaves_more_offsets_than_the_best(seed: int) -> None:
    """Of channels whose multipliers have very different sizes, so that their searches take very different times."""
    p, taps = random_layer(seed, 3, Rounding.SINGLE, 200.0)
    steps, zeros = steps_of(p, taps), np.zeros(8, np.int64)
    start = ScalingConstants(zeros, zeros + 6, p.mult.astype(np.int64) >> 8 + zeros, zeros, zeros, sign=False)
    best = best_slope(start, steps, np.arange(8))

    def width(mult: np.ndarray) -> np.ndarray:
        least, greatest = interval(replace(start, mult=mult), steps)
        return greatest - least

    near = np.maximum(start.mult >> 9, 8)
    for share in [*np.linspace(-1, 1, 101)]:
        other = np.clip(start.mult + (share * near).astype(np.int64), 0, 2**31 - 1)
        assert (width(other) <= width(best.mult)).all()
    for step in range(-4, 5):
        assert (width(np.clip(best.mult + step, start.mult - near, start.mult + near)) <= width(best.mult)).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_nearest_nudge_is_that_of_trying_one_after_the_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = rng.integers(1 << 29, 1 << 32, 40)
    greatest = rng.integers(-(1 << 50), 1 << 50, 40)
    room = rng.integers(-1, 1 << 20, 40)
    counts = np.arange(1, (1 << 17) + 1)
    order = np.append(0, np.stack([-counts, counts], axis=1).ravel())
    far = 0
    for g, r, s in zip(greatest, room, step, strict=True):
        good = ((g - order * s) & (2**32 - 1)) <= r
        nearest = int(order[good.argmax()]) if good.any() else None
        (nudge,), (count,) = requantizing._near_nudge(np.array([g]), np.array([r]), np.array([s]))
        if nudge:
            assert count == nearest
        else:
            count = requantizing._far_nudge(int(g), int(r), int(s))
            assert count == nearest or (nearest is None and abs(count) > 1 << 17)
            far += nearest is not None
    assert far > 10
