# SPDX-License-Identifier: Apache-2.0
"""Triangular factors of positive definite matrices, stacks of them [G,K,K], the same bits on every processor.

LAPACK's are as good, but their last bits are the processor's. Blocks of _WIDTH columns are done one column after the
other; what the others make of them are products of `exact.precise_product`.
"""

from __future__ import annotations

import numpy as np

from tinyc.base.exact import Doubles, precise_product

_WIDTH = 48


def cholesky(h: Doubles) -> Doubles:
    """The lower triangle L with L L' = h. LinAlgError where there is none."""
    left = np.array(h, np.float64)
    size = left.shape[1]
    for first in range(0, size, _WIDTH):
        last = min(first + _WIDTH, size)
        for k in range(first, last):
            pivot = left[:, k, k]
            if not (pivot > 0).all():
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            left[:, k:, k] /= np.sqrt(pivot)[:, None]
            column = left[:, k + 1 :, k]
            left[:, k + 1 :, k + 1 : last] -= column[:, :, None] * column[:, None, : last - k - 1]
        if last < size:
            panel = left[:, last:, first:last]
            left[:, last:, last:] -= precise_product(panel, panel.transpose(0, 2, 1))
    return np.tril(left)


def lower_inverse(lower: Doubles) -> Doubles:
    """The inverse of a lower triangle."""
    size = lower.shape[1]
    inverse = np.zeros_like(lower)
    for first in range(0, size, _WIDTH):
        last = min(first + _WIDTH, size)
        rows = slice(first, last)
        inverse[:, rows, rows] = np.eye(last - first)
        if first:
            inverse[:, rows, :first] = -precise_product(lower[:, rows, :first], inverse[:, :first, :first])
        for k in range(first, last):
            inverse[:, k, :last] /= lower[:, k, k, None]
            inverse[:, k + 1 : last, :last] -= lower[:, k + 1 : last, k, None] * inverse[:, k, None, :last]
    return inverse


def inverse_factor(h: Doubles) -> Doubles:
    """The upper triangle R with R'R = the inverse of h. LinAlgError if h is not positive definite."""
    return lower_inverse(cholesky(h[:, ::-1, ::-1]))[:, ::-1, ::-1]
