# SPDX-License-Identifier: Apache-2.0
"""Commands of the pages that are not tinyc's: what they name is there, or a test that is named here types them, or
the program cannot be had for tests, and the page says what was done in its place."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinyc.sweep import Store

ROOT = Path(__file__).resolve().parents[2]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Program -> the test that types its lines, page by page.
TYPED = {
    "cmake": ("test_projects.py", "example_numbers.py"),
    "qemu-system-arm": ("test_projects.py", "example_numbers.py"),
    "build/words-cmake/words": ("test_projects.py",),
    "build/words-cpp/words": ("test_projects.py",),
    "build/listen/listen": ("example_numbers.py",),
    "cargo": ("test_projects.py",),
    "pio": ("test_projects.py",),
    "dask": ("sweep/machines.py",),
    "renode-test": ("fake_renode.py",),
}
# Program -> what the page says of it, since tests cannot have it.
OUT_OF_REACH = {
    "arduino-cli": "cannot be had",
    "west": "cannot be had for the tests",
    "idf.py": "cannot be had for the tests",
    "cbuild": "cannot be had for the tests",
    "docker": "no Docker daemon",
    "git": "mlcommons/tiny",
    "main.py": "mlcommons/tiny",
}
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]
PROGRAMS = {"make", "python", ".venv/bin/python", "pip", "apt", "sqlite3", *TYPED, *OUT_OF_REACH}


def lines(page: Path) -> Iterator[list[str]]:
    """The words of each line of a block that begins with one of the programs, lines that go on joined."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for language, block in FENCED.findall(text) if language in ("", "sh", "console")]
    shown = "\n".join([*blocks, *re.findall(r"^ {4}.*$", FENCED.sub("", text), re.MULTILINE)])
    for line in shown.replace("\\\n", " ").splitlines():
        if line.split(None, 1)[:1] and line.split(None, 1)[0] in PROGRAMS:
            yield shlex.split(re.split(r"\s+#", line)[0].strip())


COMMANDS = [(page, words) for page in PAGES for words in lines(page)]
OF = {program: [(page, words) for page, words in COMMANDS if words[0] == program] for program in PROGRAMS}


def test_the_pages_have_commands_of_each_program() -> None:
    assert [program for program in PROGRAMS if not OF[program] and program != "main.py"] == []
    assert len(COMMANDS) > 60


def test_make_has_the_targets_and_variables() -> None:
    for _, words in OF["make"]:
        folder = ROOT / words[2] if words[1] == "-C" else ROOT
        text = (folder / "Makefile").read_text(encoding="utf-8")
        for word in words[3:] if words[1] == "-C" else words[1:]:
            name, has_value, _ = word.partition("=")
            pattern = rf"\$[({{(]+{name}\b" if has_value else rf"^(?:\.PHONY:.*\b)?{re.escape(name)}\b.*"
            assert re.search(pattern, text, re.MULTILINE), words


def test_scripts_are_there_with_their_options() -> None:
    for page, words in OF["python"] + OF[".venv/bin/python"]:
        if words[1] == "main.py":
            assert OUT_OF_REACH["main.py"] in page.read_text(encoding="utf-8")
            continue
        is_package = words[1] == "-m"
        script = ROOT / words[2].replace(".", "/") / "__main__.py" if is_package else ROOT / words[1]
        text = script.read_text(encoding="utf-8")
        compile(text, str(script), "exec")
        for word in words[3:] if is_package else words[2:]:
            assert (
                not re.fullmatch(r"--\w[\w-]*", word) or f'"{word}"' in text or f"{word[2:].replace('-', '_')}:" in text
            ), words


def test_what_pip_installs_is_offered() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    for _, words in OF["pip"]:
        for asked in re.findall(r"(?:\.|tinyc)\[([\w,]+)\]", " ".join(words)):
            assert set(asked.split(",")) <= extras.keys(), words


def test_the_query_of_a_sweep(tmp_path: Path) -> None:
    ((_, words),) = OF["sqlite3"]
    with Store(tmp_path / "sweep.sqlite"):
        pass
    with sqlite3.connect(tmp_path / words[1]) as file:
        assert file.execute(words[2]).fetchall() == []


@pytest.mark.parametrize("program", TYPED)
def test_a_test_types_them(program: str) -> None:
    """The tests that are named read the pages, or run the program."""
    for name in TYPED[program]:
        (file,) = (file for folder in ("tests", "scripts") for file in (ROOT / folder).rglob(name))
        text = file.read_text(encoding="utf-8")
        assert "README.md" in text or program in text, (program, name)


@pytest.mark.parametrize("program", OUT_OF_REACH)
def test_pages_say_what_was_done_instead(program: str) -> None:
    for page, _ in OF[program]:
        assert OUT_OF_REACH[program] in " ".join(page.read_text(encoding="utf-8").split()), page


def test_no_program_is_forgotten() -> None:
    """A line of a block that begins with a program of this computer, or of PROGRAMS, is one of those above."""
    programs = PROGRAMS | {"tinyc"}
    for page in PAGES:
        text = FENCED.sub("", page.read_text(encoding="utf-8"))
        for line in re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE):
            first = line.split()[0]
            outcome = subprocess.run(
                ["bash", "-c", f"type -t -- {shlex.quote(first)}"], capture_output=True, check=False
            )
            assert outcome.stdout not in (b"file\n",) or first in programs, f"{page.name}: {line}"
