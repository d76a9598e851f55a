# SPDX-License-Identifier: Apache-2.0
"""What scripts of bench/ replace in tinyc to measure without it is there: no quick test runs them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"


def patches(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """(module, name in it, attribute) of each `patch.object(name, "attribute", ...)`, of names that tinyc has."""
    homes = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tinyc")
        for alias in node.names
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="object"), args=[ast.Name(id=name), ast.Constant(value=str(attribute)), *_]
            ) if name in homes:
                yield (*homes[name], attribute)


def test_what_benchmarks_replace_is_there() -> None:
    replaced = [
        (file.name, *patch)
        for file in sorted(BENCH.glob("*.py"))
        for patch in patches(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert len(replaced) > 5
    for file, module, name, attribute in replaced:
        home = importlib.import_module(module)
        place = getattr(home, name) if hasattr(home, name) else importlib.import_module(f"{module}.{name}")
        assert hasattr(place, attribute), (file, name, attribute)
