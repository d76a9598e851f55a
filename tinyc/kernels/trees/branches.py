# SPDX-License-Identifier: Apache-2.0
"""Trees as C functions of nested branches, written for the forest: each comparison has its code and cut as literals.

With codes of the type `bits` the features are compared as they lie there; nothing is computed of them but whether one
is NaN. Of a float's bits as an integer: a float exceeds a cut of 0 or more if its bits as int32 exceed the cut's; it
does not exceed a cut below 0 if its bits as uint32 are the cut's or more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal

import numpy as np

from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    SpecializedKernel,
    Struct,
    offered,
    only_if,
)
from tinyc.kernel.site import Site
from tinyc.kernels.trees import keys
from tinyc.kernels.trees.forest import Forest, Node
from tinyc.kernels.trees.table import scratch, sums_fields

Codes = Literal["u8", "s16", "s32", "bits"]

ASKS = "trees of at most 100 levels"
ASKS_BITS = "trees of at most 100 levels; features of which NaN goes one way alone"
_MOST_DEPTH = 100  # clang takes brackets up to 256 deep
_INDENTED = 12  # levels that are shown by indenting
_CTYPES = {"u8": "uint8_t", "s16": "int16_t", "s32": "int32_t", "bits": "tc_feature_bits_t"}
_PER_VISIT, _PER_TREE, _PER_COLUMN, _PER_BITS, _FLASH = 4, 10, 4, 7, 150  # measured on Cortex-M4
_NODE_BYTES = {"u8": 7, "s16": 12, "s32": 14, "bits": 14}
_LEAF_BYTES = 4
_FEW_COLUMNS = 2  # that are added in line


def branches_kernel(codes: Codes) -> Kernel:
    """The kernel of branches that compare codes of that type."""
    offer = offered(
        partial(_lower, codes=codes),
        scratch=partial(_scratch, codes=codes),
        cost=partial(_cost, codes=codes),
        specialize=partial(_specialize, codes=codes),
    )
    asks = ASKS_BITS if codes == "bits" else f"{ASKS}{keys.asks(codes)}"
    offer = only_if(partial(_fits, codes=codes), asks, offer)
    return Kernel(f"tc_tree_branches_{codes}", offer, asks=asks, written=True)


def _fits(site: Site, p: Forest, codes: Codes) -> bool:
    """Whether the branches are not too deep to compile, and there are such codes."""
    if p.depth > _MOST_DEPTH:
        return False
    if codes == "bits":
        return len(set(p.features[:, 0])) == len(p.features)
    return keys.codes(p, codes) is not None


def _nodes(p: Forest, codes: Codes) -> tuple[Node, ...]:
    """The nodes with cuts as the branches compare them; with bits, features in the place of codes."""
    if codes != "bits":
        return keys.codes_of(p, codes).nodes
    return tuple((int(p.features[code, 0]), cut, below, above) for code, cut, below, above in p.nodes)


def _scratch(site: Site, p: Forest, codes: Codes) -> int:
    """The codes; of bits a copy of the features, for the case that one is NaN."""
    if codes != "bits":
        return scratch(site, p, codes)
    return 4 * (int(p.features[:, 0].max()) + 1) if site.x(0).dtype == "f32" else 0


def _bits_fields(site: Site, p: Forest) -> dict[str, int | float | str | Const]:
    """Of tc_feature_codes_t: all features up to the last, and what stands for NaN of each."""
    index, nan_key = p.features.T
    count = int(index.max()) + 1
    fields: dict[str, int | float | str | Const] = {"codes.n": count}
    if (nan_key != keys.NO_NUMBER).any():
        filled = np.full(count, keys.NO_NUMBER, np.int32)
        filled[index] = nan_key
        fields["codes.nan_key"] = Const(filled, "[n]", "nan_keys")
    return fields


def _lower(site: Site, p: Forest, codes: Codes) -> Call:
    """The function written for the forest."""
    coding = _bits_fields(site, p) if codes == "bits" else keys.fields(site, p, keys.codes_of(p, codes))
    sums = sums_fields(p)
    if not _has_table(p):
        sums.pop("sums.leaves", None)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_tree_branches_t", {**coding, **sums}))


def _has_table(p: Forest) -> bool:
    """Whether the branches end at rows of a table of leaves, and not at numbers."""
    return p.columns > 1 and p.vote is None


def _cost(site: Site, p: Forest, codes: Codes) -> Cost:
    """An estimate: as if every comparison held for half of the inputs."""
    if codes == "bits":
        coding, coded = _PER_BITS * (int(p.features[:, 0].max()) + 1) * (site.x(0).dtype == "f32"), 0
    else:
        coding, coded = keys.cost_of(p, keys.codes_of(p, codes))
    inner = sum(at >= 0 for root in p.roots for at, _ in p.walk(root))
    code = _NODE_BYTES[codes] * inner + _LEAF_BYTES * (inner + len(p.roots)) + 8 * len(p.roots)
    data = coded + p.rows.nbytes * _has_table(p) + 4 * p.columns
    work = coding + _PER_VISIT * p.visits + (_PER_TREE + _PER_COLUMN * p.columns * _has_table(p)) * len(p.roots)
    return Cost(int(work), code + data + _FLASH, _scratch(site, p, codes))


def _specialize(site: Site, p: Forest, codes: Codes) -> SpecializedKernel:
    """The C function of the forest, and one for each tree."""
    nodes, is_float = _nodes(p, codes), site.x(0).dtype == "f32"
    compared: Codes = "s32" if codes == "bits" and not is_float else codes
    trees = [_tree(p, nodes, root, compared, number) for number, root in enumerate(p.roots)]
    text = "\n\n".join([f"typedef {_CTYPES[codes]} @_code_t;", *trees, _whole(p, codes, is_float)])
    name = f"tc_tree_branches_{codes}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return SpecializedKernel(name, text.replace("@", name), ("tc_trees.h",))


def _tree(p: Forest, nodes: Sequence[Node], root: int, codes: Codes, number: int) -> str:
    """A function: codes -> what the leaf says."""
    lines = [f"static int32_t @_{number}(const @_code_t *x)", "{", *_branches(p, nodes, root, codes, 1), "}"]
    return "\n".join(lines)


def _branches(p: Forest, nodes: Sequence[Node], at: int, codes: Codes, depth: int) -> Iterator[str]:
    begin = "    " * min(depth, _INDENTED)
    if at < 0:
        yield f"{begin}return {_literal(_said(p, -1 - at))};"
        return
    code, cut, below, above = nodes[at]
    if codes == "bits" and cut < 0:
        yield f"{begin}if ((uint32_t)x[{code}] >= {(cut ^ 0x7FFFFFFF) & 0xFFFFFFFF}u) {{"
    else:
        yield f"{begin}if (x[{code}] <= {_literal(cut)}) {{"
    yield from _branches(p, nodes, below, codes, depth + 1)
    yield f"{begin}}}"
    yield from _branches(p, nodes, above, codes, depth)


def _said(p: Forest, leaf: int) -> int:
    """What a tree gives for a leaf: the column of its vote, its one number, or where its row begins."""
    if p.vote is not None:
        return int(np.argmax(p.leaves[leaf] != 0))
    return int(p.leaves[leaf, 0]) if p.columns == 1 else p.row_of[leaf] * p.columns


def _literal(number: int) -> str:
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)


def _whole(p: Forest, codes: Codes, is_float: bool) -> str:
    """The function of the forest: codes, trees, sums."""
    trees, leaf = range(len(p.roots)), f"int{8 * p.rows.itemsize}_t"
    if p.vote is not None:
        said, adds = "columns that the trees vote for", [f"sums[@_{n}(codes)] += {p.vote};" for n in trees]
    elif p.columns == 1:
        said, adds = "numbers that the trees end at", [f"sums[0] += @_{n}(codes);" for n in trees]
    else:
        said, adds = "rows of leaves that the trees end at", [f"@_add(leaves + @_{n}(codes), sums);" for n in trees]
        adds.insert(0, f"const {leaf} *leaves = (const {leaf} *)p->sums.leaves;")
    lines = [
        "int32_t *sums = tc_tree_begin(&p->sums, y);",
        *_coding(codes, is_float),
        *adds,
        "tc_tree_end(&p->sums, y);",
    ]
    body = "\n".join(f"    {line}" for line in lines)
    before = _add(p, leaf) if _has_table(p) else ""
    return f"""{before}/* The sums of the {said}. */
static void @(const tc_tree_branches_t *p, const void *x, int32_t *y, void *scratch)
{{
{body}
}}"""


def _coding(codes: Codes, is_float: bool) -> list[str]:
    """The statements that make `codes`."""
    if codes != "bits":
        return ["@_code_t *codes = (@_code_t *)scratch;", f"tc_feature_codes_{codes}(&p->codes, x, codes);"]
    if is_float:
        return ["const @_code_t *codes = tc_feature_bits(&p->codes, x, scratch);"]
    return ["const @_code_t *codes = (const @_code_t *)x;", "(void)scratch;"]


def _add(p: Forest, leaf: str) -> str:
    """The function that adds a row of leaves."""
    kind = "TC_NOINLINE" if p.columns > _FEW_COLUMNS else "inline"
    return f"""static {kind} void @_add(const {leaf} *leaf, int32_t *sums)
{{
    for (int32_t c = 0; c < {p.columns}; c++) {{
        sums[c] += leaf[c];
    }}
}}

"""
