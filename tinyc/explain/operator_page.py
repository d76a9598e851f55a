# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md from the code: what each operator is, its kernels, and which foreign operators become it.

Nothing here is a list to keep up to date: operators and kernels describe themselves, and the loaders'
importers are read as syntax trees to find which attributes they make, hence which operators.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from tinyc.kernel.kernel import Condition
from tinyc.load.tflite import IMPORTERS as TFLITE
from tinyc.load.tflite_folding import FOLDS
from tinyc.ops import all_ops
from tinyc.ops.op import Op

_IMPORTERS = "tinyc.load."  # where functions are that importers share

_HEAD = """\
# Operators

Written from the code by `make docs`; do not edit.

tinyc imports the operators of the first two tables into the operators of the third section. Of the kernels whose
conditions hold and whose instructions the core has, a layer gets the one that is worth most within the limits.
`tinyc inspect KERNEL` says what a kernel takes, `tinyc inspect MODEL` which operators a model has, `tinyc build`
which kernels they got. An operator that no kernel takes is an error at build time, with what each kernel asks for.
Nothing falls back to float.
"""


def operator_page() -> str:
    """The whole page, Markdown, ending in a newline. The same code gives the same text."""
    from tinyc.load.onnx.every import IMPORTERS as ONNX  # noqa: PLC0415
    from tinyc.load.onnx.every import LEARNING, RUNTIME  # noqa: PLC0415
    from tinyc.load.onnx.folding import FOLDABLE  # noqa: PLC0415  an optional extra: the package onnx

    folded = ", ".join(f"`{name}`" for name in sorted({*FOLDABLE, "Constant"} - ONNX.keys()))
    constant = ", ".join(f"`{name}`" for name in sorted({*FOLDS, "RANK", "ZEROS_LIKE"} - TFLITE.keys()))
    parts = [
        _HEAD,
        "## From ONNX\n",
        _imports(ONNX),
        f"\nOnly of constants, and then computed when the model is loaded: {folded}.\n",
        f"\nQuantized operators, read as DequantizeLinear, the float operator and QuantizeLinear: {_spelled()}.\n",
        "Classical learning, operators of the domain `ai.onnx.ml` ([scikit-learn](classical.md)):\n",
        _imports(LEARNING),
        "\nONNX Runtime's own operators, of the domain `com.microsoft`:\n",
        _imports(RUNTIME),
        "\n## From TFLite\n",
        _imports(TFLITE),
        f"\nOnly of constants, and then computed when the model is loaded: {constant}.\n",
        "\n## Operators and their kernels\n",
        *(_operator(op) for op in all_ops().values()),
    ]
    return "\n".join(parts)


def _spelled() -> str:
    from tinyc.load.onnx.qoperator import SPELLINGS  # noqa: PLC0415

    names = sorted(f"{domain}.{name}" if domain else name for domain, name in SPELLINGS)
    return ", ".join(f"`{name}`" for name in names)


def emitted_by(importer: Callable[..., Any], foreign: str) -> tuple[str, ...]:
    """The operators that an importer may make of the foreign operator, in the order of its source.

    Empty: it only folds constants. Operators that merely change the layout (what `Step.reshape` and
    `Step.transpose` insert) are left out.
    """
    return tuple(dict.fromkeys(_emitted(importer, foreign, set())))


def _emitted(function: Callable[..., Any], foreign: str, read: set[Callable[..., Any]]) -> Iterator[str]:
    """read: the functions that are not read again for this operator; this one joins them."""
    read.add(function)
    scope = vars(sys.modules[function.__module__])
    nodes = list(_taken(_tree(function), foreign))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    yield from _listed(nodes, scope, foreign)
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        yield from _attributes_of(call, scope)
        given = [arg for arg in call.args if isinstance(arg, ast.Name) and arg.id.startswith("_")]
        for name in (call.func, *given):  # called here, or by what is called
            called = scope.get(name.id) if isinstance(name, ast.Name) else None
            if inspect.isfunction(called) and called.__module__.startswith(_IMPORTERS) and called not in read:
                yield from _emitted(called, foreign, read)


@functools.cache
def _tree(function: Callable[..., Any]) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def _taken(tree: ast.AST, foreign: str) -> Iterator[ast.AST]:
    """The nodes of a tree without the branches that an importer shared by several operators does not take for this."""
    queue = deque([tree])
    while queue:
        node = queue.popleft()
        if isinstance(node, ast.If) and _is_skipped(node.test, foreign):
            queue.extend(node.orelse)
        else:
            yield node
            queue.extend(ast.iter_child_nodes(node))


def _is_skipped(test: ast.expr, foreign: str) -> bool:
    tests = test.values if isinstance(test, ast.BoolOp) else [test]
    both = not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.And)
    return both and any(_is_false(part, foreign) for part in tests)


def _is_false(test: ast.expr, foreign: str) -> bool:
    """Whether it is `s.node.op == "X"` or `!=`, and does not hold."""
    if not isinstance(test, ast.Compare) or not ast.unparse(test.left).endswith("node.op"):
        return False
    literal = test.comparators[0]
    if not isinstance(literal, ast.Constant):
        return False
    equal = literal.value == foreign
    return equal if isinstance(test.ops[0], ast.NotEq) else isinstance(test.ops[0], ast.Eq) and not equal


def _attributes_of(call: ast.Call, scope: Mapping[str, Any]) -> Iterator[str]:
    """The operators whose attributes a call makes: of the class itself, or of a function that says it returns them."""
    called = scope.get(call.func.id) if isinstance(call.func, ast.Name) else None
    returned = get_type_hints(called).get("return") if inspect.isfunction(called) else called
    classes = get_args(returned) or (returned,)
    yield from (op.name for kind in classes for op in all_ops().values() if op.attrs is kind)


def _listed(nodes: Iterable[ast.AST], scope: Mapping[str, Any], foreign: str) -> Iterator[str]:
    """The operators whose attributes a table has under the foreign name."""
    tables = [scope.get(node.id) for node in nodes if isinstance(node, ast.Name)]
    importers = [table[foreign] for table in tables if isinstance(table, Mapping) and foreign in table]
    entries = [part for entry in importers for part in (entry if isinstance(entry, tuple) else (entry,))]
    yield from (op.name for part in entries for op in all_ops().values() if op.attrs is type(part))


def _imports(importers: Mapping[str, Callable[..., Any]]) -> str:
    """A row for all operators that become the same and of which the same is said."""
    rows: dict[tuple[str, str], list[str]] = {}
    for foreign in sorted(importers):
        importer = importers[foreign]
        becomes = ", ".join(f"[{name}](#{name})" for name in emitted_by(importer, foreign)) or "a constant"
        rows.setdefault((becomes, _escaped(_summary(importer.__doc__))), []).append(f"`{foreign}`")
    lines = ["| operator | becomes | remarks |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {', '.join(names)} | {says[0]} | {says[1]} |" for says, names in rows.items())])


def _operator(op: Op) -> str:
    kernels = _kernels(op) if op.kernels else _without_kernel(op)
    return "\n".join([f"### {op.name}\n", f"{_escaped(summary_of(op))}\n", kernels]) + "\n"


def _without_kernel(op: Op) -> str:
    return "Costs nothing: no code, no copy." if op.view else "Has no kernel: passes fold it into its neighbours."


def _kernels(op: Op) -> str:
    """A line for the kernels of each kind of core, in the order in which they are tried."""
    by_core: dict[str, list[str]] = {}
    for kernel in op.every_kernel:
        by_core.setdefault(", ".join(sorted(kernel.isa)) or "any core", []).append(f"`{kernel.name}`")
    return "\n".join(f"* {core}: {', '.join(names)}" for core, names in by_core.items())


def condition_text(condition: Condition) -> str:
    """What a kernel asks for, in words: the condition's docstring on one line."""
    return " ".join((condition.__doc__ or condition.__name__).split())


def summary_of(op: Op) -> str:
    """What an operator is: its module's first paragraph without the operator's own name in front."""
    doc = sys.modules[op.attrs.__module__].__doc__
    return _summary(doc).removeprefix(f"{op.name}: ").removeprefix(f"{op.name} ")


def _summary(doc: str | None) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(doc or "").split("\n\n", 1)[0].split())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
