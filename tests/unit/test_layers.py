"""Imports point one way: a module imports only from groups to the left of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tinyc"
GROUPS = [
    {"errors", "escape"},
    {"paths", "numerics", "names", "fixedpoint", "line", "knapsack", "limits", "one_thread", "templates", "files"},
    {"board", "board_parts", "board_table", "board_words", "ir"},
    {"kernels", "timing"},
    {"ops", "codegen"},  # an operator lists the kernels that codegen writes from its integers
    {"load", "passes", "reference", "samples", "arrays"},
    {"quantize", "select", "plan"},
    {"stream"},
    {"lower", "lower_rows", "memory", "inspection", "operator_page", "shrink", "memory_map", "memory_plot"},
    {"boundaries"},
    {"emit"},
    {"build"},
    {"run", "flash"},
    {"verify", "report", "output_folder", "doctor", "accuracy", "cycles", "native", "onboard", "export", "diagnosis"},
    {"pipeline"},
    {"bench", "ondevice", "selftest", "quantizing"},
    {"api"},
    {"cli"},
]
RANK = {name: rank for rank, group in enumerate(GROUPS) for name in group}
MODULES = sorted(PACKAGE.rglob("*.py"))


def _group(module: str) -> str:
    return module.split(".")[1] if module.startswith("tinyc.") else ""


def _imports(file: Path) -> list[str]:
    """Modules that a file imports when it runs; those under TYPE_CHECKING only name types."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "tinyc":
            found += [f"tinyc.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return [name for name in found if name.startswith("tinyc.")]


@pytest.mark.parametrize("file", MODULES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_imports_point_left(file: Path) -> None:
    own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in RANK, f"give '{own}' a place in GROUPS"
    for module in _imports(file):
        other = _group(module)
        if other in ("", "__version__"):
            continue
        assert RANK[other] <= RANK[own], f"{own} may not import {module}"


def test_every_group_member_exists() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_")}
    assert set(RANK) <= there
