# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels of one float32 tensor. (Those of two: `ops/binary.py`, which knows their loops.)"""

from __future__ import annotations

from typing import Any

from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.float32 import act_fields
from tinyc.kernel.kernel import Call, Condition, In, Kernel, Out, Params, Struct
from tinyc.kernel.site import Act, Site
from tinyc.kernel.types import in_float32


def unary(name: str, *when: Condition) -> Kernel:
    """tc_<name>_f32 for every element."""

    def lower(site: Site, p: Any) -> Call:
        act = site.attrs.act if isinstance(getattr(site.attrs, "act", None), Act) else Act()
        fields: dict[str, int | float | str] = {"n": site.y().elements, **act_fields(act)}
        fields["alpha"] = float(getattr(site.attrs, "alpha", 0.0))
        return Call((Params(), In(0), Out()), Struct(f"tc_{name}_f32_t", fields))

    return counted_kernel(f"tc_{name}_f32", lower, of_elements, when=(in_float32, *when), inplace=(0,))
