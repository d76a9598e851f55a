# SPDX-License-Identifier: Apache-2.0
"""The kernels that tests of a file check run in one program.

To make a program takes ten times as long as to compile the code of one more layer. When the first such test of a file
runs, the bodies of those behind it run too; all their cases run in one program, and each test compares its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from types import CodeType

import pytest

from tests.ops import harness
from tests.ops.harness import Case, run_cases
from tinyc.ir.graph import Array


@dataclass
class Body:
    """What a test's body did. error: what it raised. outputs: of its cases that have run, by their numbers."""

    cases: list[Case] = field(default_factory=list)
    error: BaseException | None = None
    outputs: dict[int, list[list[Array]]] = field(default_factory=dict)


BODIES = pytest.StashKey[dict[pytest.Item, Body]]()  # of tests to come


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Compares what the body checked. None: the test is one of those that pytest calls."""
    if not _together(pyfuncitem):
        return None
    bodies = pyfuncitem.session.stash.setdefault(BODIES, {})
    if pyfuncitem not in bodies:
        bodies.clear()
        bodies.update((item, _body(item)) for item in _from(pyfuncitem))
        run_together(list(bodies.values()))
    body = bodies.pop(pyfuncitem)
    for number, case in enumerate(body.cases):
        case.compare(body.outputs[number] if number in body.outputs else run_cases([case])[0])
    if body.error:
        raise body.error
    return True


def _from(item: pytest.Function) -> Iterator[pytest.Function]:
    """The test and those of its file that come behind it."""
    items = item.session.items
    for other in items[items.index(item) :]:
        if other.path == item.path and isinstance(other, pytest.Function) and _together(other):
            yield other


def _together(item: pytest.Function) -> bool:
    """Whether the test checks kernels and needs nothing that is set up for it: its arguments are its parameters."""
    given = item.callspec.params.keys() if hasattr(item, "callspec") else ()
    return set(item._fixtureinfo.argnames) <= set(given) and _calls(item.function.__code__)


def _calls(code: CodeType) -> bool:
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return harness.check_kernels.__name__ in code.co_names or any(map(_calls, inner))


def _body(item: pytest.Function) -> Body:
    body = Body()
    harness.open_cases.append(body.cases)
    try:
        item.function(**(item.callspec.params if hasattr(item, "callspec") else {}))
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
        body.error = error
    finally:
        harness.open_cases.pop()
    return body


def run_together(bodies: list[Body]) -> None:
    """Outputs of all cases, but of those whose common program cannot be made or fails: each of them runs alone, so that
    the test that fails is its own."""
    cases = [(body, number, case) for body in bodies for number, case in enumerate(body.cases)]

    def kind(one: tuple[Body, int, Case]) -> tuple[str, str]:
        return one[2].numerics.name, one[2].compiler

    for _, alike in groupby(sorted(cases, key=kind), key=kind):
        same = list(alike)
        try:
            outputs = run_cases([case for _, _, case in same])
        except Exception:
            continue
        for (body, number, _), of_case in zip(same, outputs, strict=True):
            body.outputs[number] = of_case
