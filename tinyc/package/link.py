# SPDX-License-Identifier: Apache-2.0
"""Several libraries in one program: one arena, as large as the largest, and each kernel once."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import C
from tinyc.base.names import identifier
from tinyc.base.output_folder import check_replaceable, replacing
from tinyc.base.templates import render
from tinyc.board import Board, load_board
from tinyc.package.facts import Facts, read_facts
from tinyc.package.make import library_licence, selftest_header
from tinyc.package.sbom import SBOM_FILE, bill_of_linked
from tinyc.toolchain.compile import Sources, compile_library
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.size import library_size

SCHEMA = "tinyc linked 1"
_DEFINED = re.compile(r"^static [^;=({]*?\b(\w+)(?:\[\d*\])? ?[=({]", re.MULTILINE)  # a kernel, or a table of it


@dataclass(frozen=True, slots=True)
class LinkedModels:
    """What linking gave. arena_bytes: of the shared arena; state_bytes: kept apart; separate_arena_bytes: arenas of
    their own. code_bytes, const_bytes: flash of all models together; separate_code_bytes: compiled each by itself.
    The sizes of code are None where the board's compiler or its file is not there."""

    schema: str
    models: tuple[str, ...]
    board: str
    units: tuple[str, ...]
    arena_bytes: int
    state_bytes: int
    separate_arena_bytes: int
    code_bytes: int | None
    const_bytes: int | None
    separate_code_bytes: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain lists, numbers and strings; keys in a fixed order."""
        return asdict(self)


def link_libraries(folders: Sequence[Path], name: str, out: Path) -> LinkedModels:
    """Writes the libraries of several output folders of `tinyc build` as one, and runs it on this computer.

    Raises TinycError for libraries that cannot share a program, and with exit code 1 where an output differs.
    """
    if identifier(name) != name:
        raise TinycError(f"'{name}' is no name for C", hint=f"--name {identifier(name)}")
    check_replaceable(out)
    models = [read_facts(folder) for folder in folders]
    _check_together(models, name)
    units = _units(models)
    with replacing(out) as folder:
        for file, text in _files(models, units, name).items():
            (folder / file).write_text(text, encoding="utf-8")
        _prove(folder, name, _unit_names(units, name))
        sizes = _sizes(folder, models, _unit_names(units, name))
    return LinkedModels(
        SCHEMA,
        tuple(model.name for model in models),
        models[0].board_name,
        tuple(_unit_names(units, name)),
        max(model.arena_bytes for model in models),
        sum(model.state_bytes for model in models),
        sum(model.arena_bytes for model in models),
        *sizes,
    )


def _check_together(models: Sequence[Facts], name: str) -> None:
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise TinycError("two of the libraries have the same name", hint="build one of them with another --name")
    if name in names:
        raise TinycError(f"'{name}' is one of the libraries", hint="give another --name")
    if len({model.board_name for model in models}) > 1:
        boards = ", ".join(sorted({model.board_name for model in models}))
        raise TinycError(f"the libraries are for different boards: {boards}", hint="build all for one")
    seen: dict[str, str] = {}
    for model in models:
        for file, text in model.files.items():
            if seen.setdefault(file, text) != text:
                raise TinycError(
                    f"the libraries have different versions of {file}",
                    Loc(model.name),
                    "build all of them with the same version of tinyc",
                )


def _units(models: Sequence[Facts]) -> list[list[Facts]]:
    """Models that share a translation unit. Two of them whose kernels of their own have a name in common do not."""
    units: list[tuple[list[Facts], set[str]]] = []
    for model in models:
        own = set(_DEFINED.findall(model.files.get(f"{model.name}_kernels.h", "")))
        for members, names in units:
            if not own & names:
                members.append(model)
                names.update(own)
                break
        else:
            units.append(([model], own))
    return [members for members, _ in units]


def _unit_names(units: Sequence[object], name: str) -> list[str]:
    return [name if number == 1 else f"{name}_{number}" for number in range(1, len(units) + 1)]


def _files(models: Sequence[Facts], units: Sequence[Sequence[Facts]], name: str) -> dict[str, str]:
    unit_names = _unit_names(units, name)
    values = {"models": models, "name": name, "units": unit_names, "comma": C(", ")}
    files = {file: text for model in models for file, text in model.files.items()}
    files |= {f"{model.name}_selftest.h": selftest_header(model) for model in models}
    files |= {f"{unit}.c": render("link/unit.c.j2", {**values, "unit": unit, "members": members})
              for unit, members in zip(unit_names, units, strict=True)}  # fmt: skip
    for template in ("NAME.h", "NAME_arena.c", "NAME_selftest.c"):
        files[template.replace("NAME", name)] = render(f"link/{template}.j2", values)
    bill = bill_of_linked(name, [model.sbom for model in models], files)
    return files | {SBOM_FILE: json.dumps(bill, indent=2) + "\n", "LICENSE": library_licence()}


def _prove(folder: Path, name: str, units: Sequence[str]) -> None:
    """Every model in the shared arena, twice, on this computer."""
    toolchain = find_toolchain(load_board("host"))
    sources = [folder / f"{file}.c" for file in (*units, f"{name}_arena", f"{name}_selftest")]
    with tempfile.TemporaryDirectory(prefix="tinyc-") as work:
        program = Path(work) / "selftest"
        toolchain.run(["-std=c99", "-O1", *sources, "-o", program], "compiling the linked libraries for this computer")
        if subprocess.run([program], check=False).returncode != 0:
            raise TinycError("a model computes something else in the shared arena", Loc(str(folder)), exit_code=1)


def _sizes(folder: Path, models: Sequence[Facts], units: Sequence[str]) -> tuple[int | None, int | None, int | None]:
    """Code and constants of the units for the board, and code of each model by itself."""
    board = models[0].board
    if board is None:
        return None, None, None
    together = [_size(folder, unit, board) for unit in units]
    apart = [_size(folder, model.name, board) for model in models]
    return sum(code for code, _ in together), sum(const for _, const in together), sum(code for code, _ in apart)


def _size(folder: Path, unit: str, board: Board) -> tuple[int, int]:
    toolchain = find_toolchain(board)
    with tempfile.TemporaryDirectory(prefix="tinyc-") as work:
        library_object = compile_library(Sources(folder, unit), toolchain, "speed", Path(work) / "unit.o")
        size = library_size(library_object, toolchain, board, Path(work))
    return size.code_bytes, size.const_bytes
