# SPDX-License-Identifier: Apache-2.0
"""Row forms in assembly on emulated cores: the reference's bytes, instructions as promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from row_layers import check_rows_on_core

from tests.ops.test_row_forms import CONVS, DEPTHWISES, POOLS, SUMS, every, group
from tests.ops.weighted import Layer
from tinyc.base.numerics import Numerics


@pytest.mark.parametrize(
    ("layers", "numerics"),
    [
        pytest.param(CONVS, Numerics.OURS, marks=pytest.mark.slow, id="conv2d"),
        pytest.param(DEPTHWISES, Numerics.TFLM, id="depthwise"),
    ],
)
def test_equals_the_reference_at_the_promised_cost(layers: Mapping[str, Layer], numerics: Numerics) -> None:
    """A fourth of the layers; `test_all_layers` has all."""
    check(every(4, layers, numerics), numerics)


@pytest.mark.slow
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
@pytest.mark.parametrize("layers", [CONVS, DEPTHWISES], ids=["conv2d", "depthwise"])
def test_all_layers(layers: Mapping[str, Layer], numerics: Numerics) -> None:
    check(layers, numerics)
    check(layers, numerics, toolchain="zig", board_name="cortex-m33")


def test_rows_that_are_added_up() -> None:
    """Columns as high as the image: sums of one row after the other."""
    check({name: DEPTHWISES[name] for name in ("15x1", "6x1, to one row")}, Numerics.TFLM)


def test_rows_of_an_odd_number_of_pixels() -> None:
    """The last one's taps are in registers of the FPU."""
    check({name: CONVS[name] for name in ("1x1, odd, by fours",)}, Numerics.TFLM)


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_rows_of_depthwise_layers_with_int4_weights(numerics: Numerics) -> None:
    """By planes of all kernel rows."""
    names = "3x3, odd", "3x3", "5x5"
    layers = {name: replace(DEPTHWISES[name], bits=4, weights="least" if name == "3x3" else "random") for name in names}
    check(layers, numerics)


def check(layers: Mapping[str, Layer], numerics: Numerics, **where: str) -> None:
    for name, case, executed in check_rows_on_core(group(layers), numerics, scalar=False, **where):
        promised = case.form.cost.instructions
        if case.form.special is not None and not where:  # of portable ones, and elsewhere, it is an estimate
            assert executed == pytest.approx(promised, rel=0.1, abs=200), f"{name}: {case.name}"


def test_two_rows_per_call_take_what_they_say() -> None:
    """Of rows of one pixel copies are a tenth of all."""
    names = "1x1, one column", "1x1, two rows of a column", "1x1, odd", "1x1"
    forms = check_rows_on_core(group({name: CONVS[name] for name in names}), scalar=False)
    pairs = [(case, executed) for _, case, executed in forms if "two_rows" in case.function]
    assert len(pairs) > len(names)
    for case, executed in pairs:
        assert executed == pytest.approx(case.form.cost.instructions, rel=0.04), case.name


def test_pools_and_sums() -> None:
    check_rows_on_core(POOLS | SUMS, all_forms=True)
