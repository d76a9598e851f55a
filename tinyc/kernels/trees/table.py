# SPDX-License-Identifier: Apache-2.0
"""Trees as a table of nodes, walked by one loop: 4 bytes a node for uint8 codes, 6 for int16, 8 for keys.

A node says which code it compares with which cut, which of its children are leaves, and one number, `ref`: how many
nodes further on the second child is, the first being the next node; or which leaf it ends at. Leaves take no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tinyc.ir.graph import Array, DType
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, Scratch, Struct, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernels.trees import keys
from tinyc.kernels.trees.forest import Forest, Node

ASKS = "at most 65,536 nodes; at most 16,384 leaves, and nodes below one child, of the whole forest"
_MOST_NODES, _MOST_REF = 1 << 16, 1 << 14
_FIRST_IS_LEAF, _SECOND_IS_LEAF = 1, 2  # bits 14 and 15 of a node's last 16 bits
_NODE_BYTES = {"u8": 4, "s16": 6, "s32": 8}
_PER_VISIT, _PER_TREE, _PER_COLUMN, _FLASH = 12, 22, 9, 220  # measured on Cortex-M4


@dataclass(frozen=True, slots=True)
class Entry:
    """A node in the table. kind: bits that say which children are leaves."""

    code: int
    cut: int
    kind: int
    ref: int


def table_kernel(dtype: DType) -> Kernel:
    """The kernel that walks a table of nodes which compare codes of that type."""
    offer = offered(
        partial(_lower, dtype=dtype), scratch=partial(scratch, dtype=dtype), cost=partial(_cost, dtype=dtype)
    )
    asks = f"{ASKS}{keys.asks(dtype)}"
    return Kernel(f"tc_tree_ensemble_{dtype}", only_if(partial(_fits, dtype=dtype), asks, offer), asks=asks)


def scratch(site: Site, p: Forest, dtype: DType) -> int:
    """The codes."""
    return len(p.features) * keys.codes_of(p, dtype).bytes_each


def _fits(site: Site, p: Forest, dtype: DType) -> bool:
    """Whether the numbers of all nodes have room, and there are such codes."""
    if keys.codes(p, dtype) is None:
        return False
    nodes = [node for tree in _trees(p, p.nodes) for node in tree]
    return len(nodes) <= _MOST_NODES and max(node.ref for node in nodes) < _MOST_REF


def _trees(p: Forest, nodes: Sequence[Node]) -> list[list[Entry]]:
    """The nodes of each tree, in order of the walk. nodes: the forest's, whose cuts may be ranks."""
    return [_tree(p, nodes, root) for root in p.roots]


def _tree(p: Forest, nodes: Sequence[Node], root: int) -> list[Entry]:
    order = [at for at, _ in p.walk(root) if at >= 0]
    place = {at: k for k, at in enumerate(order)}
    return [_node(p, nodes[at], at, place) for at in order]


def _node(p: Forest, node: Node, at: int, place: dict[int, int]) -> Entry:
    code, cut, below, above = node
    kind = _FIRST_IS_LEAF * (below < 0) | _SECOND_IS_LEAF * (above < 0)
    if below < 0 and above < 0 and p.few_leaves:
        return Entry(code, cut, kind, p.row_of[-1 - below] | p.row_of[-1 - above] << 7)
    if below < 0 and above < 0:
        return Entry(code, cut, kind, p.row_of_pair[-1 - below, -1 - above])
    if kind:
        return Entry(code, cut, kind, p.row_of[-1 - min(below, above)])
    return Entry(code, cut, kind, place[above] - place[at])


def _words(nodes: Sequence[Entry], dtype: str) -> tuple[Array, str]:
    """The nodes as the kernel of the codes' type holds them, and what that is."""
    code, cut, ref = np.array([(n.code, n.cut, n.kind << 14 | n.ref) for n in nodes], np.int64).T
    if dtype == "u8":
        return (code | cut << 8 | ref << 16).astype(np.uint32), "[nodes] code, cut << 8, ref << 16"
    if dtype == "s16":
        return np.stack([code, cut, ref], axis=1).astype(np.uint16), "[nodes][3] code, cut, ref"
    return np.stack([cut, (code | ref << 16)], axis=1).astype(np.uint32).view(np.int32), "[nodes][2] cut, code and ref"


def sums_fields(p: Forest) -> dict[str, int | float | str | Const]:
    """What every kernel knows of leaves and sums: tc_tree_sums_t."""
    made: dict[str, int | float | str | Const] = {
        "columns": p.columns,
        "few_leaves": int(p.few_leaves),
        "complements": int(p.complement is not None),
        "complement": p.complement or 0,
        "base": Const(p.base.astype(np.int32), "[columns]", "base"),
    }
    if p.vote is None:
        made |= {"leaf_bytes": p.rows.itemsize, "leaves": Const(p.rows, "[leaves][columns]", "leaves")}
    else:
        made["vote"] = p.vote
    return {f"sums.{name}": field for name, field in made.items()}


def _lower(site: Site, p: Forest, dtype: DType) -> Call:
    """tc_tree_ensemble_u8, _s16 and _s32."""
    found = keys.codes_of(p, dtype)
    trees = _trees(p, found.nodes)
    words, layout = _words([node for tree in trees for node in tree], dtype)
    starts = np.cumsum([0, *map(len, trees[:-1])])
    fields = {
        **keys.fields(site, p, found),
        **sums_fields(p),
        "trees": len(trees),
        "starts": Const(starts.astype(np.uint16), "[trees] first nodes", "tree_starts"),
        "nodes": Const(words, layout, "nodes"),
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct(f"tc_tree_ensemble_{dtype}_t", fields))


def _cost(site: Site, p: Forest, dtype: DType) -> Cost:
    """An estimate: as if every comparison held for half of the inputs."""
    found = keys.codes_of(p, dtype)
    coding, coded = keys.cost_of(p, found)
    nodes = sum(at >= 0 for root in p.roots for at, _ in p.walk(root))
    data = coded + _NODE_BYTES[dtype] * nodes + 2 * len(p.roots) + p.rows.nbytes * (p.vote is None) + 4 * p.columns
    columns = p.columns if p.vote is None else 0
    work = coding + _PER_VISIT * p.visits + (_PER_TREE + _PER_COLUMN * columns) * len(p.roots)
    return Cost(int(work), data + _FLASH, scratch(site, p, dtype))
