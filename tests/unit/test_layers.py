# SPDX-License-Identifier: Apache-2.0
"""The house: every room has its place, imports point one way, and nothing imports in a circle, at any depth."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tinyc"
sys.path.insert(0, str(PACKAGE.parent / "scripts"))

import house_figures  # noqa: E402
from house import FLOORS, PICTURE, picture  # noqa: E402  where rooms are placed is drawn for people too

ROOMS = [room for _, rooms in FLOORS for room in rooms]  # a room imports from those before it
DOOR = PACKAGE / "__main__.py"  # into the house: `python -m tinyc`
MODULES = sorted(set(PACKAGE.rglob("*.py")) - {DOOR})


def _name(file: Path) -> str:
    """`plan.rows.cuts` for tinyc/plan/rows/cuts.py; a package's own file has the package's name."""
    parts = file.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {_name(file) for file in MODULES}


def _imports(file: Path) -> set[str]:
    """Modules of tinyc that a file imports when it runs; those under TYPE_CHECKING only name types."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {_module(name.removeprefix("tinyc.")) for name in found if name.startswith("tinyc.")} - {"", _name(file)}


def _module(name: str) -> str:
    """The module that holds a name: itself, or what stands before its last dot."""
    return name if name in NAMES else name.rpartition(".")[0]


@cache
def _all_imports() -> Mapping[str, set[str]]:
    """Read when a test asks: every process of a run has this file."""
    return {_name(file): _imports(file) for file in MODULES}


@pytest.mark.parametrize("module", sorted(NAMES - {""}))
def test_imports_point_left(module: str) -> None:
    own = module.split(".", maxsplit=1)[0]
    for other in _all_imports()[module]:
        room = other.split(".", maxsplit=1)[0]
        assert ROOMS.index(room) <= ROOMS.index(own), f"tinyc.{module} may not import tinyc.{other}"


def test_every_room_has_its_place_and_nothing_lies_in_the_hall() -> None:
    there = {name.split(".", maxsplit=1)[0] for name in NAMES} - {""}
    assert there == set(ROOMS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "api.py"}


def test_the_picture_of_the_house_is_the_house() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make docs`"


@pytest.mark.parametrize("depth", range(1, 6))
def test_no_circles(depth: int) -> None:
    """Among rooms, among what lies in them, and so on down to modules: a file stands for its folder at the depth."""
    edges: dict[str, set[str]] = {}
    for module, others in _all_imports().items():
        own = _cut(module, depth)
        edges.setdefault(own, set()).update(_cut(other, depth) for other in others)
        edges[own].discard(own)
    assert _circle(edges) == []


def _cut(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def _circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """What is left when everything that imports nothing that is left has been taken away, again and again."""
    left = {name: set(others) & edges.keys() for name, others in edges.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


@pytest.fixture(scope="module")
def sources() -> Mapping[str, ast.Module]:
    return house_figures.trees()


def test_no_function_takes_more_than_six_parameters(sources: Mapping[str, ast.Module]) -> None:
    """But for the commands, whose parameters are their options."""
    found = [(file, function.name) for file, function in house_figures.wide(sources) if not file.startswith("cli/")]
    assert found == []


def test_a_class_name_means_one_thing(sources: Mapping[str, ast.Module]) -> None:
    """A name that begins with an underscore is its file's own business."""
    assert house_figures.duplicate_classes(sources) == {}
