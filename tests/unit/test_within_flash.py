# SPDX-License-Identifier: Apache-2.0
"""A limit of flash is kept by what the compiler makes of the library, whatever was estimated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.networks import random_network
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.pipeline import compiling
from tinyc.pipeline import within_flash as module
from tinyc.pipeline.progress import Progress
from tinyc.quantize import UNPROVEN

M4 = load_board("cortex-m4")
LIMIT = 10_000


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Sequence[int | None]]]:
    """What `within_flash` takes of libraries by correction, of the "usual" one without the limit, and that by which
    flash is preferred, each of (cycles, planned bytes, compiled bytes) and perhaps an arena; and the corrections that
    it asked for."""

    def run(libraries: dict[Any, tuple[int, ...]], **words: Any) -> tuple[Any, Sequence[int | None]]:
        asked: list[int | None] = []

        def library(options: Options) -> Any:
            if options.prefer == "balanced" and options.flash is not None:
                asked.append(options.flash_reserve)
            key: Any = "flash" if options.prefer == "flash" else options.flash_reserve if options.flash else "usual"
            if options.flash is None and options.prefer != "balanced":
                key = f"{options.prefer} without"
            if key not in libraries:
                raise TinycError("so little flash is not to be had")
            cycles, planned, compiled, *arena = libraries[key]
            plan = SimpleNamespace(cycles=cycles, flash_bytes=planned, arena_bytes=arena[0] if arena else 100)
            return SimpleNamespace(files={}, plan=plan, program=plan, compiled=compiled)

        monkeypatch.setattr(
            module, "_flash_bytes", lambda compiled_model, board, options, toolchain: compiled_model.compiled
        )
        monkeypatch.setattr(module, "_toolchain", lambda board, options: words.get("compiler", "gcc"))
        options = Options("cortex-m4", flash=words.get("flash", LIMIT), ram=words.get("ram"), time=words.get("time"))
        return module.within_flash(library, M4, options, Progress()), asked

    return run


def test_the_usual_library_is_taken_where_it_fits_as_built(built: Any) -> None:
    """Whatever was planned for it: a limit that it keeps changes nothing."""
    usual = (10, 11_000, LIMIT)
    library, asked = built({"usual": usual, LIMIT - 11_000: usual, None: (20, 9500, 9400)})
    assert (library.plan.cycles, asked) == (10, [LIMIT - 11_000])
    library, _ = built({"usual": (10, 11_000, LIMIT, 200), None: (20, 9500, 9400)}, ram=150)
    assert library.plan.cycles == 20
    library, _ = built({"usual": (10, 9_000, LIMIT + 1), None: (20, 9500, 9400)})
    assert library.plan.cycles == 20


def test_a_library_that_is_too_large_is_followed_by_a_smaller_one(built: Any) -> None:
    library, asked = built({None: (10, 9500, 11000), 1500: (20, 8400, 9800), 1400: (20, 8400, 9800)})
    assert (library.plan.cycles, asked) == (20, [None, 1500, 1400])


def test_a_few_bytes_too_many_are_followed_by_a_smaller_one(built: Any) -> None:
    """By less than the estimates tell apart: the first was refused, though there was a smaller one."""
    library, asked = built({None: (10, 9500, 10010), 533: (20, 8400, 9000)})
    assert (library.compiled, asked[:2]) == (9000, [None, 533])


def test_what_is_left_for_compilers_refuses_no_time(built: Any) -> None:
    """So fast it is in the last bytes alone: person detection in ST's limits by `--time 9.6M` was refused."""
    library, asked = built({0: (20, 9990, 9950)}, time="20")
    assert (library.plan.cycles, asked[:2]) == (20, [None, 0])
    with pytest.raises(TinycError, match="not to be had"):
        built({0: (20, 9990, 9950)})


def test_flash_that_is_left_is_used(built: Any) -> None:
    library, asked = built({None: (30, 9000, 8500), -500: (20, 10400, 9900)})
    assert (library.plan.cycles, asked) == (20, [None, -500])


def test_of_several_that_fit_it_is_the_best(built: Any) -> None:
    """With more bytes at hand the search may come to what is worth less."""
    library, _ = built({None: (30, 9000, 8500), -500: (40, 10400, 9990), -410: (50, 10400, 9990)})
    assert library.plan.cycles == 30


def test_where_none_fits_it_is_the_smallest(built: Any) -> None:
    """The error then says what that takes."""
    library, asked = built({None: (10, 9500, 11000), 1500: (20, 8400, 10600), 2200: (20, 8300, 10800)})
    assert library.compiled == 10600
    assert asked == [None, 1500, 2200, 2500]


def test_what_another_preference_leads_to_fits_whatever_was_estimated(built: Any) -> None:
    """Estimates said 3,328 bytes of a library of 2,056 on RISC-V's vectors, and refused it."""
    library, _ = built({"time without": (10, 16_000, LIMIT)})
    assert library.compiled == LIMIT
    library, _ = built(
        {None: (10, 9500, 11000), "flash without": (10, 16_000, 9000, 200), "ram without": (30, 9, 9)}, ram=150
    )
    assert library.plan.cycles == 30
    with pytest.raises(TinycError, match="not to be had"):
        built({"time without": (10, 16_000, LIMIT + 1)})


def test_no_compiler_no_second_library(built: Any) -> None:
    libraries = {None: (10, 9500, 11000), 1500: (20, 8400, 9800)}
    assert built(libraries, compiler=None)[1] == [None]


def test_without_a_limit_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(random_network(0).SerializeToString())
    monkeypatch.setattr(compiling, "within_flash", None)
    options = Options("cortex-m4", recipe=UNPROVEN)
    assert compiling.compile_model(model, M4, options, Progress()).files
    with pytest.raises(TypeError):
        compiling.compile_model(model, M4, replace(options, flash=LIMIT), Progress())


def test_between_what_fits_and_what_does_not_it_is_looked_for(built: Any) -> None:
    """A compiler makes less or more of some kernels than of others."""
    libraries = {None: (30, 9000, 8800), -200: (10, 10100, 10300), 200: (30, 9100, 8700), 400: (20, 9550, 9990)}
    library, asked = built(libraries)
    assert asked == [None, -200, 200, 400]
    assert library.plan.cycles == 20


def test_no_flash_is_bought_with_more_ram_than_there_is(built: Any) -> None:
    libraries = {None: (30, 9000, 8500), -500: (20, 10400, 9900, 300)}
    assert built(libraries, ram=200)[0].plan.cycles == 30
    assert built(libraries, ram=300)[0].plan.cycles == 20
