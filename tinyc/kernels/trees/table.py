# SPDX-License-Identifier: Apache-2.0
"""Trees as a table of nodes, walked by one loop: 4 bytes a node for cuts of 8 bits, 6 for 16, 8 for 32.

A node says which code it compares with which cut, which of its children are leaves, and one number: how many nodes
behind the first child, which is the next node, the second is; or which leaf it ends at. Leaves take no node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, DType
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernels.trees import keys
from tinyc.kernels.trees.forest import Forest, Node

ASKS = "at most 65,536 nodes; at most 16,384 leaves, and nodes below one child, of the whole forest"
_MOST_NODES, _MOST_REF = 1 << 16, 1 << 14
_BELOW_IS_LEAF, _ABOVE_IS_LEAF = 1, 2  # bits 0 and 1 of a node's `ref`
_NODE_BYTES = {"u8": 4, "s16": 6, "s32": 8}
_STEP_NODE_BYTES = {8: 4, 16: 6}


@dataclass(frozen=True, slots=True)
class Entry:
    """A node in the table. kind: bits that say which children are leaves."""

    code: int
    cut: int
    kind: int
    ref: int


def table_kernel(dtype: DType) -> Kernel:
    """The kernel that walks a table of nodes which compare codes of that type."""
    cost = CountedCost(
        f"tc_tree_ensemble_{dtype}", partial(_of_walks, dtype=dtype), flash=partial(_table_bytes, dtype=dtype)
    )
    offer = offered(partial(_lower, dtype=dtype), scratch=partial(scratch, dtype=dtype), cost=cost)
    asks = f"{ASKS}{keys.asks(dtype)}"
    return Kernel(f"tc_tree_ensemble_{dtype}", only_if(partial(_fits, dtype=dtype), asks, offer), asks=asks)


def scratch(site: Site, p: Forest, dtype: DType) -> int:
    """The codes."""
    return len(p.features) * keys.codes_of(p, dtype).bytes_each


def _fits(site: Site, p: Forest, dtype: DType) -> bool:
    """Whether the numbers of all nodes have room, and there are such codes."""
    return keys.codes(p, dtype) is not None and _has_room(p, p.nodes)


def _has_room(p: Forest, own: Sequence[Node]) -> bool:
    """Whether the numbers of all nodes have room."""
    nodes = [node for tree in _trees(p, own) for node in tree]
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
    kind = _BELOW_IS_LEAF * (below < 0) | _ABOVE_IS_LEAF * (above < 0)
    if below < 0 and above < 0 and p.few_leaves:
        return Entry(code, cut, kind, p.row_of[-1 - below] | p.row_of[-1 - above] << 7)
    if below < 0 and above < 0:
        return Entry(code, cut, kind, p.row_of_pair[-1 - below, -1 - above])
    if kind:
        leaf = p.row_of[-1 - min(below, above)]
        return Entry(code, cut, kind, leaf << 7 if p.few_leaves and kind == _ABOVE_IS_LEAF else leaf)
    return Entry(code, cut, kind, place[above] - place[at] - 1)


def _words(nodes: Sequence[Entry], node_bytes: int) -> tuple[Array, str]:
    """The nodes as the kernels hold them, and what that is."""
    code, cut, ref = np.array([(n.code, n.cut, n.ref << 2 | n.kind) for n in nodes], np.int64).T
    if node_bytes == 4:
        return (ref | code << 16 | cut << 24).astype(np.uint32), "[nodes] ref, code << 16, cut << 24"
    if node_bytes == 6:
        return np.stack([code, cut, ref], axis=1).astype(np.uint16), "[nodes][3] code, cut, ref"
    return np.stack([cut, (ref | code << 16)], axis=1).astype(np.uint32).view(np.int32), "[nodes][2] cut, ref and code"


def sums_fields(p: Forest) -> dict[str, int | float | str | Const]:
    """What every kernel knows of leaves and sums: tc_tree_sums_t."""
    entries: dict[str, int | float | str | Const] = {
        "columns": p.columns,
        "few_leaves": int(p.few_leaves),
        "complements": int(p.complement is not None),
        "complement": p.complement or 0,
        "base": Const(p.base.astype(np.int32), "[columns]", "base"),
    }
    if p.vote is not None:
        entries["vote"] = p.vote
    elif p.entries is not None:
        entries |= {
            "column_bits": p.entries.bits,
            "row_starts": Const(p.entries.starts, "[rows + 1]", "row_starts"),
            "entries": Const(p.entries.words, "number << column_bits, column", "entries"),
        }
    else:
        entries |= {"leaf_bytes": p.rows.itemsize, "leaves": Const(p.rows, "[rows][columns]", "leaves")}
    return {f"sums.{name}": field for name, field in entries.items()}


def sums_bytes(p: Forest) -> int:
    """Of constants."""
    if p.vote is not None:
        return 4 * p.columns
    return 4 * p.columns + (p.entries.nbytes if p.entries is not None else p.rows.nbytes)


def of_sums(p: Forest) -> Units:
    """Rows that are added, of as many trees, and numbers of them; a vote is neither."""
    trees = len(p.roots)
    if p.vote is not None or p.columns == 1:
        return {"vote": trees}
    if p.entries is not None:
        return {"row": trees, "entry": trees * len(p.entries.words) // len(p.rows)}
    return {"row": trees, "column": trees * p.columns}


def of_visits(p: Forest) -> Units:
    """Comparisons, as if each held for half of the inputs, and trees."""
    return {"visit": round(p.visits), "tree": len(p.roots)}


def _nodes_fields(p: Forest, nodes: Sequence[Node], node_bytes: int) -> dict[str, int | float | str | Const]:
    """What every kernel knows of its nodes."""
    trees = _trees(p, nodes)
    words, layout = _words([node for tree in trees for node in tree], node_bytes)
    starts = np.cumsum([0, *map(len, trees[:-1])])
    return {
        "trees": len(trees),
        "starts": Const(starts.astype(np.uint16), "[trees] first nodes", "tree_starts"),
        "nodes": Const(words, layout, "nodes"),
    }


def _lower(site: Site, p: Forest, dtype: DType) -> Call:
    """tc_tree_ensemble_u8, _s16 and _s32."""
    codes = keys.codes_of(p, dtype)
    nodes = _nodes_fields(p, codes.nodes, _NODE_BYTES[dtype])
    fields = {**keys.fields(site, p, codes), **sums_fields(p), **nodes}
    return Call((Params(), In(0), Out(), Scratch()), Struct(f"tc_tree_ensemble_{dtype}_t", fields))


def _of_walks(site: Site, p: Forest, dtype: DType) -> Units:
    return {**keys.of_codes(p, keys.codes_of(p, dtype)), **of_visits(p), **of_sums(p)}


def _table_bytes(site: Site, p: Forest, dtype: DType) -> int:
    return keys.code_bytes(p, keys.codes_of(p, dtype)) + _walked_bytes(p, _NODE_BYTES[dtype])


def _walked_bytes(p: Forest, node_bytes: int) -> int:
    """Of nodes, roots and leaves."""
    return node_bytes * p.inner + 2 * len(p.roots) + sums_bytes(p)


def steps_kernel(bits: int) -> Kernel:
    """The kernel that walks a table of nodes which compare features as they lie with cuts of so many bits."""
    name = f"tc_tree_ensemble_bits_u{bits}"
    cost = CountedCost(name, _of_steps, flash=lambda site, p: _walked_bytes(p, _STEP_NODE_BYTES[bits]))
    offer = offered(partial(_lower_steps, bits=bits), scratch=_scratch_steps, cost=cost)
    asks = f"{ASKS}; features of which NaN goes one way alone; thresholds, as bits, of {bits} bits and a shift"
    return Kernel(name, only_if(partial(_fits_steps, bits=bits), asks, offer), asks=asks)


def _fits_steps(site: Site, p: Forest, bits: int) -> bool:
    key_steps = keys.steps(site, p, bits)
    return key_steps is not None and keys.bits_count(p) <= 1 << bits and _has_room(p, key_steps.nodes)


def _steps_of(site: Site, p: Forest, bits: int) -> keys.KeySteps:
    key_steps = keys.steps(site, p, bits)
    assert key_steps is not None
    return key_steps


def _scratch_steps(site: Site, p: Forest) -> int:
    return keys.bits_scratch(site, p)


def _lower_steps(site: Site, p: Forest, bits: int) -> Call:
    """tc_tree_ensemble_bits_u8 and _bits_u16."""
    key_steps = _steps_of(site, p, bits)
    fields = {
        **keys.bits_fields(site, p),
        **sums_fields(p),
        **_nodes_fields(p, key_steps.nodes, _STEP_NODE_BYTES[bits]),
        "base": key_steps.base,
        "shift": key_steps.shift,
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct(f"tc_tree_ensemble_bits_u{bits}_t", fields))


def _of_steps(site: Site, p: Forest) -> Units:
    return {**keys.of_bits(site, p), **of_visits(p), **of_sums(p)}
