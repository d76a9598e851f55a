# SPDX-License-Identifier: Apache-2.0
"""Trees as C functions of nested branches, written for the forest: each comparison has its code and cut as literals.

With codes of the type `bits` the features are compared as they lie there; nothing is computed of them but whether one
is NaN. Of a float's bits as an integer: a float exceeds a cut of 0 or more if its bits as int32 exceed the cut's; it
does not exceed a cut below 0 if its bits as uint32 are the cut's or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Call,
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
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.trees import keys
from tinyc.kernels.trees.code_size import Codes, bytes_on, counts_of
from tinyc.kernels.trees.forest import Forest, Node
from tinyc.kernels.trees.table import of_sums, of_visits, scratch, sums_bytes, sums_fields

ASKS = "trees of at most 100 levels"
ASKS_BITS = "trees of at most 100 levels; features of which NaN goes one way alone"
_MOST_DEPTH = 100  # clang takes brackets up to 256 deep
_INDENTED = 12  # levels that are shown by indenting
_CTYPES = {"u8": "uint8_t", "s16": "int16_t", "s32": "int32_t", "bits": "tc_feature_bits_t"}
_FEW_COLUMNS = 4  # that are added in line
_MOST_IN_PLACE = 2000  # nodes of one function


def branches_kernel(codes: Codes) -> Kernel:
    """The kernel of branches that compare codes of that type."""
    offer = offered(
        partial(_lower, codes=codes),
        scratch=partial(_scratch, codes=codes),
        cost=CountedCost(
            f"tc_tree_branches_{codes}", partial(_of_branches, codes=codes), flash=partial(_flash_bytes, codes=codes)
        ),
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
        return keys.bits_fit(p)
    return keys.codes(p, codes) is not None


def _nodes(p: Forest, codes: Codes) -> tuple[Node, ...]:
    """The nodes with cuts as the branches compare them."""
    return keys.bits_of(p) if codes == "bits" else keys.codes_of(p, codes).nodes


def _scratch(site: Site, p: Forest, codes: Codes) -> int:
    return keys.bits_scratch(site, p) if codes == "bits" else scratch(site, p, codes)


def _lower(site: Site, p: Forest, codes: Codes) -> Call:
    """The function written for the forest."""
    coding = keys.bits_fields(site, p) if codes == "bits" else keys.fields(site, p, keys.codes_of(p, codes))
    sums = sums_fields(p)
    if not p.has_table:
        sums.pop("sums.leaves", None)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_tree_branches_t", {**coding, **sums}))


def _of_branches(site: Site, p: Forest, codes: Codes) -> Units:
    coding = keys.of_bits(site, p) if codes == "bits" else keys.of_codes(p, keys.codes_of(p, codes))
    visits = of_visits(p)
    trees, sums = len(p.roots), of_sums(p)
    sums = {"row": trees, "column": trees} if "vote" in sums else sums  # which is one number
    rest = {"visit": visits["visit"]} if _in_place(p) else {**visits, **sums}
    return {**coding, **rest}


def _flash_bytes(site: Site, p: Forest, codes: Codes) -> int:
    coded = 0 if codes == "bits" else keys.code_bytes(p, keys.codes_of(p, codes))
    return _code_bytes(site, p, codes) + coded + sums_bytes(p) * p.has_table


def _code_bytes(site: Site, p: Forest, codes: Codes) -> int:
    """What a compiler makes of the branches and of the functions of tc_trees.h that they need, as `code_size.py`
    has measured it."""
    counts = counts_of(_nodes(p, codes), p.roots, partial(_said, p))
    is_float = site.x(0).dtype == "f32"
    return bytes_on(site.isa).of(counts, codes, is_float=is_float, in_place=_in_place(p))


def _specialize(site: Site, p: Forest, codes: Codes) -> SpecializedKernel:
    """The C function of the forest; unless it is in place, also one for each tree."""
    nodes, is_float = _nodes(p, codes), site.x(0).dtype == "f32"
    compared: Codes = "s32" if codes == "bits" and not is_float else codes
    typedef = f"typedef {_CTYPES[codes]} @_code_t;"
    if _in_place(p):
        texts = [
            typedef,
            _whole_in_place(p, codes, [_nested(nodes, root, compared, partial(_added, p)) for root in p.roots]),
        ]
    else:
        trees = [_tree(p, nodes, root, compared, number) for number, root in enumerate(p.roots)]
        texts = [typedef, *trees, _whole(p, codes)]
    function = LayerFunction("/* Trees as branches: tc_trees.h. */", driver="\n\n".join(texts))
    named = function.named(f"tc_tree_branches_{codes}", "tc_trees.h")
    return replace(named, compiled_bytes=_code_bytes(site, p, codes))


def _in_place(p: Forest) -> bool:
    """Whether the sums are variables to which branches add: few, and of a function that compilers take quickly."""
    return (p.columns == 1 or (p.vote is not None and p.columns <= _FEW_COLUMNS)) and p.inner <= _MOST_IN_PLACE


def _nested(nodes: Sequence[Node], at: int, codes: Codes, leaf: Callable[[int], str], depth: int = 1) -> Iterator[str]:
    """Branches down to the leaves, which are statements."""
    begin = "    " * min(depth, _INDENTED)
    if at < 0:
        yield f"{begin}{leaf(-1 - at)}"
        return
    _, _, below, above = nodes[at]
    yield f"{begin}if ({_compared(nodes[at], codes)}) {{"
    yield from _nested(nodes, below, codes, leaf, depth + 1)
    yield f"{begin}}} else {{"
    yield from _nested(nodes, above, codes, leaf, depth + 1)
    yield f"{begin}}}"


def _added(p: Forest, leaf: int) -> str:
    """The statement that adds a leaf to sum_0, sum_1, ..."""
    if p.vote is not None:
        return f"sum_{_said(p, leaf)} += {p.vote};"
    return f"sum_0 += {_literal(_said(p, leaf))};"


def _compared(node: Node, codes: Codes) -> str:
    """The C expression that holds where the child below is next."""
    code, cut, _, _ = node
    if codes == "bits" and cut < 0:
        return f"(uint32_t)x[{code}] >= {(cut ^ 0x7FFFFFFF) & 0xFFFFFFFF}u"
    return f"x[{code}] <= {_literal(cut)}"


def _tree(p: Forest, nodes: Sequence[Node], root: int, codes: Codes, number: int) -> str:
    """A function: codes -> what the leaf says. One of its own, so that a leaf is a number and a return."""
    head = f"static TC_NOINLINE int32_t @_{number}(const @_code_t *x)"
    return "\n".join([head, "{", *_nested(nodes, root, codes, lambda leaf: f"return {_literal(_said(p, leaf))};"), "}"])


def _said(p: Forest, leaf: int) -> int:
    """What a tree gives for a leaf: the column of its vote, its one number, or its row."""
    return int(p.leaves[leaf, 0]) if p.columns == 1 else p.row_of[leaf]


def _literal(number: int) -> str:
    return "(-2147483647 - 1)" if number == -(2**31) else str(number)


def _whole_in_place(p: Forest, codes: Codes, trees: Sequence[Iterator[str]]) -> str:
    """The function of the forest: codes, trees that add to variables, sums."""
    sums = range(p.columns)
    lines = [
        *_begin(codes),
        *(f"int32_t sum_{c} = sums[{c}];" for c in sums),
    ]
    after = [*(f"sums[{c}] = sum_{c};" for c in sums), "tc_tree_end(&p->sums, y);"]
    body = [*(f"    {line}" for line in lines), ""]
    for tree in trees:
        body += tree
        body += (f"    TC_FORGET(sum_{c});" for c in sums)
    body += ["", *(f"    {line}" for line in after)]
    return _function("leaves that the trees end at", body)


def _whole(p: Forest, codes: Codes) -> str:
    """The function of the forest: codes, trees, sums."""
    trees = range(len(p.roots))
    if p.vote is not None:
        said, adds = "columns that the trees vote for", [f"sums[@_{n}(x)] += {p.vote};" for n in trees]
    elif p.columns == 1:
        said, adds = "numbers that the trees end at", [f"sums[0] += @_{n}(x);" for n in trees]
    else:
        said, adds = "rows of leaves that the trees end at", [f"@_add(&p->sums, @_{n}(x), sums);" for n in trees]
    lines = [*_begin(codes), *adds, "tc_tree_end(&p->sums, y);"]
    return (_add(p) if p.has_table else "") + _function(said, [f"    {line}" for line in lines])


def _function(said: str, body: Sequence[str]) -> str:
    text = "\n".join(body)
    return f"""/* The sums of the {said}. */
static void @(const tc_tree_branches_t *p, const void *features, int32_t *y, void *scratch)
{{
{text}
}}"""


def _begin(codes: Codes) -> list[str]:
    """The statements that make `x`, what the branches compare, and `sums`."""
    sums = "int32_t *sums = tc_tree_begin(&p->sums, y);"
    if codes == "bits":
        return [sums, "const @_code_t *x = tc_feature_bits(&p->codes, features, scratch);"]
    return [
        sums,
        "@_code_t *x = (@_code_t *)scratch;",
        f"tc_feature_codes_{codes}(&p->codes, features, x);",
    ]


def _add(p: Forest) -> str:
    """The function that adds a row of leaves."""
    kind = "TC_NOINLINE" if p.columns > _FEW_COLUMNS else "inline"
    leaf = f"int{8 * p.rows.itemsize}_t"
    if p.entries is not None:
        body = f"    tc_tree_add_entries(p, row, {p.entries.bits}, sums);"
    else:
        body = f"""    const {leaf} *leaf = (const {leaf} *)p->leaves + {p.columns} * row;

    for (int32_t c = 0; c < {p.columns}; c++) {{
        sums[c] += leaf[c];
    }}"""
    return f"""static {kind} void @_add(const tc_tree_sums_t *p, int32_t row, int32_t *sums)
{{
{body}
}}

"""
