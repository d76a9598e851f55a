# SPDX-License-Identifier: Apache-2.0
"""tree_ensemble: the sum of the leaves that decision trees reach, one sum per column, in integers of one scale.

Input 0 is a row of features, float32 or int32. Constants, all int32: features [V,2] (index in the row, and the key that
stands for NaN), nodes [N,4] (code v, cut c, child where the key of feature v is at most c, child else; a child below 0
is leaf -1 - child), roots [T] (nodes), leaves [L,C], base [C], which every sum begins with. What a key is:
`kernels/trees/keys.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Site, Type
from tinyc.kernels.trees.branches import branches_kernel
from tinyc.kernels.trees.forest import Forest
from tinyc.kernels.trees.keys import keys_of
from tinyc.kernels.trees.table import steps_kernel, table_kernel
from tinyc.ops.op import Op, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class TreeEnsemble:
    """complement: of one column; a column before it holds this number less the sum."""

    complement: int | None = None


def infer(
    a: TreeEnsemble, x: Value, features: Value, nodes: Value, roots: Value, leaves: Value, base: Value
) -> Sequence[Type]:
    columns = leaves.channels
    if x.dtype not in ("f32", "s32") or x.elements != x.channels:
        raise TinycError(f"tree_ensemble of {x.dtype} {list(x.shape)}: one row of float32 or int32 features")
    if features.shape[1:] != (2,) or nodes.shape[1:] != (4,) or len(roots.shape) != 1:
        raise TinycError(
            f"tree_ensemble with nodes {list(nodes.shape)} and features {list(features.shape)} do not fit together"
        )
    if base.shape != (columns,) or (a.complement is not None and columns != 1):
        raise TinycError(f"tree_ensemble with leaves {list(leaves.shape)} and a base {list(base.shape)}")
    return [Type((1, columns + (a.complement is not None)), "s32")]


def float_ref(
    a: TreeEnsemble, x: Array, features: Array, nodes: Array, roots: Array, leaves: Array, base: Array
) -> tuple[Array, ...]:
    index, nan_key = features.T
    row, sums = x.reshape(-1)[index], base.copy()
    keys = np.where(np.isnan(row), nan_key, keys_of(row))
    for root in roots:
        at = int(root)
        while at >= 0:
            code, cut, below, above = nodes[at]
            at = int(below if keys[code] <= cut else above)
        sums += leaves[-1 - at]
    if a.complement is not None:
        sums = np.concatenate([a.complement - sums, sums])
    return (sums.astype(np.int32)[None],)


def prepare(site: Site) -> Forest:
    """The forest; TinycError if a sum could leave int32."""
    if not all(site.is_const(k) for k in range(1, 6)):
        raise TinycError("tree_ensemble takes constant trees", site.node.where)
    features, nodes, roots, leaves, base = (site.const(k) for k in range(1, 6))
    forest = Forest.of(features, nodes, roots, leaves, base, site.attrs.complement)
    if forest.most >= 2**31:
        raise TinycError("tree_ensemble: its sums leave int32", site.node.where)
    return forest


def int_ref(p: Forest, *arrays: Array) -> tuple[Array, ...]:
    return float_ref(TreeEnsemble(p.complement), *arrays)


OP = Op(
    name="tree_ensemble",
    attrs=TreeEnsemble,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        *(branches_kernel(codes) for codes in ("bits", "u8", "s16", "s32")),
        *(steps_kernel(bits) for bits in (8, 16)),
        *(table_kernel(codes) for codes in ("u8", "s16", "s32")),
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
