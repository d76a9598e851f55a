# SPDX-License-Identifier: Apache-2.0
"""Exact fast convolutions: 3 taps along one dimension with fewer products than taps times outputs.

A form turns n inputs and 3 weights into P products, each of a sum of inputs and a sum of weights, and sums
products to m outputs. Everything is integer: where the usual form divides, the outputs come out as multiples
(`unit` of them, times a power of two that differs from output to output). Two dimensions nest: P * P products
for m * m outputs. Modulo 2^32 all of it is exact; only the two factors of each product must fit int16, and the
multiples of the sums int32.

`f2`, `f4`: m = 2 and 4, stride 1, by Toom-Cook interpolation at 0, 1, -1, (2, -2,) infinity (the minimal
filtering algorithms of Winograd). `s2`: m = 2, stride 2: outputs share the product of their common input. `s4`: m = 4,
stride 2: the two outer taps are a filter over every other input, interpolated at 0, 1, -1, 2, infinity; the middle
tap takes a product for each output. `s24`: rows by s2, columns by s4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array

_NARROW_SCALE = 1

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class BilinearForm:
    """sum over p of sums[a][p] * (inputs[p] . x) * (weights[p] . w) = unit * 2^raised[a] * (output a).

    Output a is the sum over k of x[stride * a + k] * w[k]. shared: the product that every output contains
    2^raised[a] times: a value added there is added to every output. columns: in two dimensions, the form of columns
    where it is another one than that of rows.
    """

    name: str
    stride: int
    inputs: Rows
    weights: Rows
    sums: Rows
    unit: int
    raised: tuple[int, ...]
    shared: int
    columns: BilinearForm | None = None

    @property
    def across(self) -> BilinearForm:
        """Of columns."""
        return self.columns or self

    @property
    def m(self) -> int:
        """Outputs."""
        return len(self.sums)

    @property
    def n(self) -> int:
        """Inputs."""
        return len(self.inputs[0])

    @property
    def products(self) -> int:
        return len(self.inputs)

    @property
    def largest_input(self) -> int:
        """The largest factor made of int8 inputs, in two dimensions."""
        down, across = (max(sum(map(abs, row)) for row in form.inputs) for form in (self, self.across))
        return 128 * down * across

    @property
    def scale(self) -> int:
        """log2 of the multiple of the least raised output, in two dimensions, once the odd factor is divided out."""
        return (self.unit * self.across.unit // self.odd).bit_length() - 1

    @property
    def narrow_scale(self) -> int:
        """The same where weights stay int8 in flash: of all channels, so much that requantizations are proved."""
        return max(self.scale, _NARROW_SCALE)

    @property
    def odd(self) -> int:
        """The odd factor of sums in two dimensions: 1, 3 or 9."""
        multiple = self.unit * self.across.unit
        return multiple // (multiple & -multiple)

    @property
    def most_raised(self) -> int:
        """In two dimensions."""
        return max(self.raised) + max(self.across.raised)


F2 = BilinearForm(
    name="f2",
    stride=1,
    inputs=((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
    weights=((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, -2)),
    sums=((1, 1, 1, 0), (0, 1, -1, 1)),
    unit=2,
    raised=(0, 0),
    shared=1,
)
F4 = BilinearForm(
    name="f4",
    stride=1,
    inputs=(
        (4, 0, -5, 0, 1, 0),
        (0, -4, -4, 1, 1, 0),
        (0, 4, -4, -1, 1, 0),
        (0, -2, -1, 2, 1, 0),
        (0, 2, -1, -2, 1, 0),
        (0, 4, 0, -5, 0, 1),
    ),
    weights=((6, 0, 0), (-1, -1, -1), (-1, 1, -1), (1, 2, 4), (1, -2, 4), (0, 0, 6)),
    sums=((1, 4, 4, 1, 1, 0), (0, 2, -2, 1, -1, 0), (0, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 1)),
    unit=6,
    raised=(2, 1, 0, 0),
    shared=1,
)
S2 = BilinearForm(
    name="s2",
    stride=2,
    inputs=((1, 0, -1, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0), (0, 0, -1, 0, 1)),
    weights=((1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 1, 0), (0, 0, 1)),
    sums=((1, 1, 1, 0, 0), (0, 0, 1, 1, 1)),
    unit=1,
    raised=(0, 0),
    shared=2,
)
S4 = BilinearForm(
    name="s4",
    stride=2,
    inputs=(
        (2, 0, -1, 0, -2, 0, 1, 0, 0),
        (0, 0, -2, 0, -1, 0, 1, 0, 0),
        (0, 0, 2, 0, -3, 0, 1, 0, 0),
        (0, 0, -1, 0, 0, 0, 1, 0, 0),
        (0, 0, 2, 0, -1, 0, -2, 0, 1),
        *(tuple(int(x == 2 * a + 1) for x in range(9)) for a in range(4)),
    ),
    weights=((3, 0, 0), (-3, 0, -3), (-1, 0, 1), (1, 0, 2), (0, 0, 6), *((0, 6, 0),) * 4),
    sums=(
        (1, 1, 1, 1, 0, 1, 0, 0, 0),
        (0, 1, -1, 2, 0, 0, 1, 0, 0),
        (0, 1, 1, 4, 0, 0, 0, 1, 0),
        (0, 1, -1, 8, 1, 0, 0, 0, 1),
    ),
    unit=6,
    raised=(0, 0, 0, 0),
    shared=1,
)
S24 = replace(S2, name="s24", columns=S4)
FORMS = (F2, F4, S2, S4)
# One row of inputs that hold all three rows of the kernel as channels of their own.
ALONG_ROWS = BilinearForm("one_row", 1, ((1,),), ((1,),), ((1,),), 1, (0,), 0, columns=F4)
# Three taps by three products: one output row, where rows and columns nest.
ROW = BilinearForm(
    "row", 1, ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((1, 1, 1),), 1, (0,), 0
)


def nested_factors(w: Array, down: BilinearForm, across: BilinearForm) -> npt.NDArray[np.int64]:
    """The weights' side of every product, int64[O, products of rows, products of columns, C]; w [O, 3, 3, C]. down,
    across: forms of rows and of columns."""
    rows = np.einsum("ik,okxc->oixc", np.array(down.weights, np.int64), w.astype(np.int64))
    factors: npt.NDArray[np.int64] = np.einsum("jx,oixc->oijc", np.array(across.weights, np.int64), rows)
    return factors
