# SPDX-License-Identifier: Apache-2.0
"""What every stage needs of a layer whose function is written: the layer, the proof behind its constants."""

from __future__ import annotations

from typing import Generic, TypeVar

from tinyc.base.dataclass import dataclass
from tinyc.kernels.matrix import Matrix
from tinyc.machine.thumb import Naked, Work

L = TypeVar("L")  # what the code depends on
F = TypeVar("F")  # how its sums become bytes


@dataclass(frozen=True)
class LayerPlan(Generic[L, F]):
    """How a layer is made, and the proof behind its constants."""

    layer: L
    finish: F
    matrix: Matrix


@dataclass(frozen=True)
class WrittenPlan(LayerPlan[L, F]):
    """The same with the function in assembly, and what a call executes."""

    function: Naked
    executed: Work
