# SPDX-License-Identifier: Apache-2.0
"""The decorator whose methods are written late, beside the standard library's: classes of one text behave alike."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tinyc.base.dataclass import dataclass

TEXT = '''
from __future__ import annotations
from dataclasses import KW_ONLY, field
from typing import ClassVar, Generic, TypeVar
from functools import cached_property

T = TypeVar("T")

@dataclass
class Plain:
    """Said."""
    a: int
    b: list[int] = field(default_factory=list)
    c: str = "c"

@dataclass(frozen=True, slots=True)
class Frozen:
    kind: ClassVar[int] = 3
    a: int
    b: tuple[int, ...] = ()
    c: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

@dataclass(frozen=True, slots=True)
class Derived(Frozen):
    d: str = "d"

    def __post_init__(self) -> None:
        object.__setattr__(self, "d", self.d + "!")

@dataclass(frozen=True, slots=True)
class Lone:
    a: object

@dataclass(frozen=True, slots=True)
class Late:
    a: int
    size: int = field(init=False)
    _: KW_ONLY
    b: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.a * 2)

@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Frozen):
    e: int = 5

@dataclass(frozen=True, eq=False)
class Same:
    a: int

    @cached_property
    def twice(self) -> int:
        return 2 * self.a

@dataclass(slots=True)
class Changed:
    a: int = 1

@dataclass(frozen=True, slots=True)
class Own:
    a: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.a % 2 == other.a % 2

    def __hash__(self) -> int:
        return self.a % 2

    def __repr__(self) -> str:
        return "own"

@dataclass(frozen=True)
class Of(Generic[T]):
    a: T

class Inherits(Frozen):
    """No dataclass itself."""
'''
CONSTRUCTIONS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", (1,), {}),
    ("Plain", (1, [2], "d"), {}),
    ("Plain", (), {"a": 3}),
    ("Frozen", (1,), {}),
    ("Frozen", (1, (2, 3)), {"c": {"x": 1}}),
    ("Derived", (1,), {}),
    ("Derived", (1, (), {}, "e"), {}),
    ("Lone", (7,), {}),
    ("Late", (4,), {}),
    ("Late", (4,), {"b": 9}),
    ("Named", (1,), {"e": 6}),
    ("Same", (1,), {}),
    ("Changed", (), {}),
    ("Own", (3,), {}),
    ("Of", ("t",), {}),
    ("Inherits", (1, (5,)), {}),
]
WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", (), {}),
    ("Frozen", (1, (), {}, 4), {}),
    ("Late", (1, 2), {}),
    ("Named", (1, (), {}, 6), {}),
    ("Lone", (1,), {"a": 2}),
    ("Changed", (), {"b": 1}),
]


@pytest.fixture
def twins() -> Iterator[tuple[types.ModuleType, types.ModuleType]]:
    """The classes by the standard library, and by tinyc; nothing of them used yet."""
    modules = []
    for name, decorator in (("by_library", dataclasses.dataclass), ("by_tinyc", dataclass)):
        module = types.ModuleType(name)
        sys.modules[name] = module  # pickle looks there
        module.__dict__["dataclass"] = decorator
        exec(compile(TEXT, name, "exec"), module.__dict__)
        modules.append(module)
    yield modules[0], modules[1]
    for module in modules:
        del sys.modules[module.__name__]


ASKED: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "equal": lambda one: one == copy.copy(one),
    "other": lambda one: one == 3,
    "another": lambda one: [one == dataclasses.replace(one, a=8), one != dataclasses.replace(one, a=8)],
    "hashable": lambda one: type(one).__hash__ is None,
    "hash": lambda one: hash(one) == hash(copy.copy(one)) if type(one).__hash__ is not None else None,
    "fields": lambda one: [(each.name, each.init, each.compare, each.kw_only) for each in dataclasses.fields(one)],
    "asdict": dataclasses.asdict,
    "is": dataclasses.is_dataclass,
    "match": lambda one: type(one).__match_args__,
    "pickle": lambda one: repr(pickle.loads(pickle.dumps(one))),
    "slots": lambda one: [getattr(one, "__slots__", None), hasattr(one, "__dict__")],
    "default": lambda one: (
        [getattr(type(one), name, None) for name in ("b", "c")] if not hasattr(one, "__slots__") else 0
    ),
    "set": lambda one: setattr(one, "a", 5),
    "delete": lambda one: delattr(one, "a"),
    "doc": lambda one: (type(one).__doc__ or "")[:5] == "Said.",
    "name": lambda one: (type(one).__name__, type(one).__qualname__, type(one).__module__[:2]),
}


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize(("name", "values", "named"), CONSTRUCTIONS)
def test_behaves_as_the_standard_library_s(
    twins: tuple[types.ModuleType, types.ModuleType],
    name: str,
    values: tuple[Any, ...],
    named: dict[str, Any],
    question: str,
) -> None:
    theirs, ours = (_answer(module, name, values, named, ASKED[question]) for module in twins)
    assert ours == theirs


@pytest.mark.parametrize(("name", "values", "named"), WRONG)
def test_refuses_what_the_standard_library_refuses(
    twins: tuple[types.ModuleType, types.ModuleType], name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    theirs, ours = (_answer(module, name, values, named, repr) for module in twins)
    assert theirs[0] == "TypeError"
    assert ours == theirs


def _answer(
    module: types.ModuleType, name: str, values: tuple[Any, ...], named: dict[str, Any], ask: Callable[[Any], Any]
) -> Any:
    """What comes out, or the class of the exception, with its words where they are no address."""
    try:
        answer = ask(getattr(module, name)(*values, **named))
    except Exception as error:
        words = str(error) if isinstance(error, TypeError) else ""
        return type(error).__name__, words
    return answer if not hasattr(answer, "__dataclass_fields__") else repr(answer)


def test_nothing_is_written_before_the_first_use(twins: tuple[types.ModuleType, types.ModuleType]) -> None:
    ours = twins[1].Frozen
    assert "__dataclass_fields__" in vars(ours)
    assert type(vars(ours)["__dataclass_fields__"]).__name__ == "_Asked"
    ours(1)
    assert isinstance(vars(ours)["__dataclass_fields__"], dict)
    assert getattr(vars(ours)["__eq__"], "is_first_call", False)
    assert ours(1) == ours(1)
    assert not getattr(vars(ours)["__eq__"], "is_first_call", False)


def test_the_first_question_may_be_one_of_a_class_that_is_derived(
    twins: tuple[types.ModuleType, types.ModuleType],
) -> None:
    theirs, ours = ([each.name for each in dataclasses.fields(module.Derived)] for module in twins)
    assert ours == theirs == ["a", "b", "c", "d"]


def test_tinyc_has_no_other_dataclasses() -> None:
    package = Path(__file__).resolve().parents[2] / "tinyc"
    wrong = [
        str(file.relative_to(package))
        for file in sorted(package.rglob("*.py"))
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.startswith("from dataclasses import")
        and "dataclass" in line.split("import")[1].replace(",", " ").split()
    ]
    assert not wrong, "take `dataclass` of tinyc.base.dataclass: that of the standard library makes imports slow"
