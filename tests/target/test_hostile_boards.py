# SPDX-License-Identifier: Apache-2.0
"""Files for a board with a hostile name, description and machine: structured as those for a harmless one.

Board files cannot have such texts (tests/unit/test_board.py); a Board that a program makes can.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from renode_text import read_repl

from tests.hostile_names import HOSTILE
from tinyc.base.errors import TinycError
from tinyc.base.templates import render
from tinyc.board import Board, load_board
from tinyc.run import renode
from tinyc.toolchain.compile import Sources
from tinyc.toolchain.compilers import Toolchain, find_toolchain

PLAIN = load_board("cortex-m4")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """write(board, machine) -> the text of every Renode file; the firmware is left out."""

    def firmware(sources: Sources, *_: object) -> Path:
        (tmp_path / "renode" / "parts").mkdir(parents=True, exist_ok=True)
        elf = tmp_path / "renode" / "parts" / "toy.elf"
        elf.touch()
        return elf

    monkeypatch.setattr(renode, "build_vectors", firmware)

    def written(board: Board, machine: str) -> dict[str, str]:
        expected = renode.Expected([[b"\1"]], [[b"\2"]], 1234, machine)
        nothing = Toolchain("none", "gcc", "0", ())
        renode.write_renode(tmp_path / "renode", Sources(tmp_path, "toy"), board, nothing, tmp_path, expected)
        return {f.name: f.read_text(encoding="utf-8") for f in (tmp_path / "renode").iterdir() if f.suffix != ".elf"}

    return written


def structure(text: str, tmp_path: Path) -> list[tuple[object, ...]]:
    """Every statement of a robot file but comments, by Robot Framework's own parser."""
    api = pytest.importorskip("robot.api", reason="Robot Framework is not installed: pip install robotframework")
    (tmp_path / "x.robot").write_text(text, encoding="utf-8")
    statements: list[tuple[object, ...]] = []
    for section in api.get_model(str(tmp_path / "x.robot")).sections:
        statements.append((type(section).__name__,))
        for block in section.body:
            for item in (block, *getattr(block, "body", [])):
                tokens = getattr(item, "data_tokens", ()) if type(item).__name__ != "Comment" else ()
                statements.append((type(item).__name__, *(token.value for token in tokens)))
                assert not getattr(item, "errors", ())
    return statements


def test_renode_files(write, tmp_path: Path) -> None:
    harmless = write(PLAIN, "QEMU")
    structure_there = structure(harmless["test.robot"], tmp_path)
    assert len(structure_there) > 20
    for name in HOSTILE:
        files = write(replace(PLAIN, name=name, description=name), name)
        assert {file: text.count("\n") for file, text in files.items()} == {
            file: text.count("\n") for file, text in harmless.items()
        }
        assert structure(files["test.robot"], tmp_path) == structure_there
        assert read_repl(files["board.repl"]) == read_repl(harmless["board.repl"])
        (name_line, *commands), (_, *commands_there) = (text["run.resc"].split("\n") for text in (files, harmless))
        assert name_line.startswith(":name: toy on ")
        assert commands == commands_there


def test_linker_script_and_setup() -> None:
    """The tokens outside comments are the same."""
    try:
        compiler = find_toolchain(load_board("host")).command
    except TinycError as error:
        pytest.skip(error.message)
    board = load_board("nucleo-f746zg")

    def text_of(name: str) -> str:
        script = render("firmware/firmware.ld.j2", {"board": name, "memory": board.memory, "ram_code": True})
        return script + render("firmware/board_setup.c.j2", {"board": name, "steps": board.setup}).replace("#", "")

    command = [*compiler, "-E", "-P", "-trigraphs", "-Wall", "-Werror", "-x", "c", "-"]
    ran = [
        subprocess.run(command, input="".join(map(text_of, names)), capture_output=True, text=True, check=True).stdout
        for names in (HOSTILE, ["board"] * len(HOSTILE))
    ]
    assert ran[0] == ran[1]
    assert "Reset_Handler" in ran[0]
