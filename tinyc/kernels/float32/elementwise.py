# SPDX-License-Identifier: Apache-2.0
"""Elementwise kernels of one float32 tensor. (Those of two: `ops/binary.py`, which knows their loops.)"""

from __future__ import annotations

from typing import Any

from tinyc.kernel.float32 import act_fields, in_float32
from tinyc.kernel.kernel import Call, Condition, Cost, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Act, Site


def unary(name: str, each: int, *when: Condition) -> Kernel:
    """tc_<name>_f32 for every element; each: instructions of one, an estimate."""

    def lower(site: Site, p: Any) -> Call:
        act = site.attrs.act if isinstance(getattr(site.attrs, "act", None), Act) else Act()
        fields: dict[str, int | float | str] = {"n": site.y().elements, **act_fields(act)}
        fields["alpha"] = float(getattr(site.attrs, "alpha", 0.0))
        return Call((Params(), In(0), Out()), Struct("tc_unary_f32_t", fields))

    def cost(site: Site, p: Any) -> Cost:
        return Cost(each * site.y().elements, 0, 0)

    return Kernel(f"tc_{name}_f32", offered(lower, cost=cost), when=(in_float32, *when), inplace=(0,))
