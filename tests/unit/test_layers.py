# SPDX-License-Identifier: Apache-2.0
"""The house: every room has its place, imports point one way, and nothing imports in a circle, at any depth."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tinyc"
sys.path.insert(0, str(PACKAGE.parent / "scripts"))

import house_figures  # noqa: E402
from house import FLOORS, PICTURE, picture  # noqa: E402  where rooms are placed is drawn for people too

ROOMS = [room for _, rooms in FLOORS for room in rooms]  # a room imports from those before it
DOOR = "__main__.py"  # into the house: `python -m tinyc`

Imports = Mapping[str, set[str]]  # modules of tinyc that each of its modules imports


@pytest.fixture(scope="module")
def sources() -> Mapping[str, ast.Module]:
    return house_figures.trees()


@pytest.fixture(scope="module")
def imports(sources: Mapping[str, ast.Module]) -> Imports:
    trees = {_name(file): tree for file, tree in sources.items() if file != DOOR}
    return {name: _imports(name, tree, trees.keys()) for name, tree in trees.items()}


def _name(file: str) -> str:
    """`plan.rows.cuts` for plan/rows/cuts.py; a package's own file has the package's name."""
    parts = Path(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(own: str, tree: ast.Module, names: Collection[str]) -> set[str]:
    """Modules of tinyc that one imports when it runs; those under TYPE_CHECKING only name types. A name that is no
    module is in the module that stands before its last dot."""
    modules = set()
    for node in _running(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    inside = {name.removeprefix("tinyc.") for name in modules if name.startswith("tinyc.")}
    return {name if name in names else name.rpartition(".")[0] for name in inside} - {"", own}


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        yield child
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield other
                yield from _running(other)
        else:
            yield from _running(child)


def test_imports_point_left(imports: Imports) -> None:
    """One test for all modules, as every process that had a part of them would read all."""
    places = {room: place for place, room in enumerate(ROOMS)}
    wrong = [
        f"tinyc.{module} may not import tinyc.{other}"
        for module, others in imports.items()
        for other in others
        if module and places[_cut(other, 1)] > places[_cut(module, 1)]
    ]
    assert wrong == []


def test_every_room_has_its_place_and_nothing_lies_in_the_hall(imports: Imports) -> None:
    there = {_cut(name, 1) for name in imports} - {""}
    assert there == set(ROOMS)
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "api.py"}


def test_the_picture_of_the_house_is_the_house() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run `make docs`"


def test_no_circles(imports: Imports) -> None:
    """Among rooms, among what lies in them, and so on down to modules: a file stands for its folder at the depth."""
    for depth in range(1, 6):
        edges: dict[str, set[str]] = {}
        for module, others in imports.items():
            own = _cut(module, depth)
            edges.setdefault(own, set()).update(_cut(other, depth) for other in others)
            edges[own].discard(own)
        assert _circle(edges) == [], depth


def _cut(module: str, depth: int) -> str:
    return ".".join(module.split(".")[:depth])


def _circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """What is left when everything that imports nothing that is left has been taken away, again and again."""
    left = {name: set(others) & edges.keys() for name, others in edges.items()}
    while free := [name for name, others in left.items() if not others & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def test_no_function_takes_more_than_six_parameters(sources: Mapping[str, ast.Module]) -> None:
    """But for the commands, whose parameters are their options."""
    many = [(file, function.name) for file, function in house_figures.wide(sources) if not file.startswith("cli/")]
    assert many == []


def test_a_name_says_what_a_value_is(sources: Mapping[str, ast.Module]) -> None:
    """Not that somebody found, made or kept it."""
    assert house_figures.participles(sources) == {}
    for folder in ("tests", "bench", "scripts"):
        assert house_figures.participles(house_figures.trees(PACKAGE.parent / folder)) == {}, folder


def test_participles_are_told_from_other_names() -> None:
    text = "import a.known as b\nclass KnownCore: x = unknown\ndef f(only_made): return found_.y._kept(wanted=FOUND)"
    sentence = "def test_a_fault_is_found(): pass"
    assert house_figures.participles({"a.py": ast.parse(text), "b.py": ast.parse(sentence)}) == {
        "a.py": ["FOUND", "KnownCore", "_kept", "found_", "only_made", "wanted"]
    }


def test_a_class_name_means_one_thing(sources: Mapping[str, ast.Module]) -> None:
    """A name that begins with an underscore is its file's own business."""
    assert house_figures.duplicate_classes(sources) == {}
