# SPDX-License-Identifier: Apache-2.0
"""What float32 layers share: how an operator computes in float32, exactly, and the fields of its kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.site import Act, Site


def _attrs(site: Site) -> Any:
    return site.attrs


@dataclass(frozen=True, slots=True)
class Float32:
    """An operator on float32 tensors, as its C kernels compute it, bit for bit.

    ref(params, *arrays) -> outputs: the order of operations is the definition, where `Op.float_ref`
    says only what is meant.
    prepare(site) -> params, for the reference and the kernels. Absent optional inputs are passed as None.
    """

    ref: Callable[..., tuple[Array, ...]]
    prepare: Callable[[Site], Any] = _attrs


def bits_of(real: float) -> int:
    """The bits of a float32 as C's int32_t: infinity has no literal."""
    return int(np.float32(real).view(np.int32))


def act_fields(act: Act) -> dict[str, int]:
    """Struct fields lo and hi."""
    return {"lo": bits_of(act.lo), "hi": bits_of(act.hi)}
