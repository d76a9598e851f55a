# SPDX-License-Identifier: Apache-2.0
"""motion: every kernel, and numbers against NumPy in reals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.target.signal_cases import count, node_of
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.ops.motion import COUNT_BITS, FEATURES, Motion, moved, root

CASES = [
    (Motion(3, 16, FEATURES, 3), 48, 0),
    (Motion(1, 12, ("std", "mean")), 12, 0),
    (Motion(2, 9, ("crossings",), 4, 1), 6, 14),
    (Motion(6, 33, (), 1, 5), 30, 200),
    (Motion(1, 2, ("std", "mean")), 2, 0),
    (Motion(1, 128, ("max", "rms", "min"), 2), 128, 0),
    (Motion(3, 32, ("mean", "crossings"), 3, 1), 60, 42),
    (Motion(2, 100, ("std",), 2), 200, 0),
    (Motion(1, 90, (), 8), 90, 0),
    (Motion(1, 1024, ("mean",), 2), 1024, 0),
    (Motion(1, 1014, (), 2), 1014, 0),
    (Motion(1, 338, (), 2), 338, 0),
]


def graph(attrs: Motion, n: int, held: int) -> Graph:
    return node_of("motion", attrs, [count("x", (n,)), *([count("held", (held,))] if held else [])])


def moves(shape: tuple[int, ...], seed: int = 4) -> list[Array]:
    """Noise, ends, silence, and both ends for long."""
    rng = np.random.default_rng(seed)
    ends = rng.choice(np.array([-32768, 32767], np.int16), shape)
    noise = rng.integers(-32768, 32768, shape).astype(np.int16)
    return [noise, ends, np.zeros(shape, np.int16), np.full(shape, -32768, np.int16), noise >> 12]


@pytest.mark.parametrize("case", [*CASES[:3], *CASES[6:9]], ids=str)
def test_kernels(case: tuple[Motion, int, int]) -> None:
    one = graph(*case)
    inputs = {name: moves(one.values[name].shape, seed) for seed, name in enumerate(one.inputs)}
    samples = [{name: arrays[k] for name, arrays in inputs.items()} for k in range(5)]
    t = case[0].transform
    of_two = ["tc_motion_spectrum_s16_mve", "tc_motion_spectrum_s16"]
    kernels = ["tc_motion_s16"] if t is None else of_two if t.is_power_of_two else ["tc_motion_mixed_s16"]
    assert check_kernels(one, samples) == kernels


@pytest.mark.parametrize("case", CASES, ids=str)
def test_numbers_are_those_of_reals(case: tuple[Motion, int, int]) -> None:
    """Less than a step of 1 / window apart; sizes of bins by what the table's and the sums' rounding makes at most."""
    attrs = case[0]
    for x in moves((4, attrs.window, attrs.axes)):
        moments, reals = moved(attrs, x).astype(float), x.astype(float)
        exact = {
            "mean": reals.mean(1),
            "rms": np.sqrt((reals**2).mean(1)),
            "std": reals.std(1),
            "min": reals.min(1),
            "max": reals.max(1),
        }
        for k, name in enumerate(attrs.features):
            if name == "crossings":
                above = attrs.window * x.astype(np.int64) >= x.sum(1, keepdims=True, dtype=np.int64)
                np.testing.assert_array_equal(moments[..., k] / 2**COUNT_BITS, (above[:, 1:] != above[:, :-1]).sum(1))
            else:
                assert np.abs(moments[..., k] / attrs.window - exact[name]).max() <= 1 / attrs.window
        spectrum = np.abs(np.fft.rfft(reals, axis=1))[:, 1 : (attrs.window - 1) // 2 + 1].transpose(0, 2, 1)
        unit = attrs.window / attrs.size_unit  # of a size
        largest = np.abs(reals - reals.mean(1, keepdims=True)).sum(1) / 32768  # what the table's rounding makes of it
        for k in range(attrs.peaks):
            bins = np.round(moments[..., len(attrs.features) + 2 * k] / 2**COUNT_BITS).astype(int)
            size = moments[..., len(attrs.features) + 2 * k + 1] / unit
            own = np.take_along_axis(spectrum, bins[..., None] - 1, -1)[..., 0]
            ranked = -np.sort(-spectrum, axis=-1)[..., k]
            assert (np.abs(size - own) <= largest * 1.5 + 3 / unit).all()
            assert (np.abs(own - ranked) <= largest * 3 + 6 / unit).all()


def test_roots() -> None:
    v = np.array([0, 1, 2, 3, 4, (1 << 61) - 1, (1 << 30) ** 2, (1 << 30) ** 2 - 1, (2**31 - 1) ** 2])
    np.testing.assert_array_equal(
        root(v), [int(np.floor(np.sqrt(float(k)))) if k < 9 else math.isqrt(int(k)) for k in v]
    )


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        (Motion(17, 8, ("mean",)), "number of axes is 17"),
        (Motion(1, 2000, ("mean",)), "the window is 2000"),
        (Motion(1, 8, ("mode",)), "no features"),
        (Motion(1, 8, ()), "no features"),
        (Motion(1, 8, (), 4), "number of peaks is 4"),
        (Motion(1, 8, ("mean",), 0, 9), "begin is 9"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_errors(attrs: Motion, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        graph(attrs, 16, 0)
