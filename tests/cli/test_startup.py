# SPDX-License-Identifier: Apache-2.0
"""What the command line imports before it knows what to do: little, so that `tinyc --help` answers at once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tinyc.cli.app import COMMANDS, load_command

OWN = {"tinyc", "tinyc.cli", "tinyc.cli.app", "tinyc.cli.main", "tinyc.cli.parameters"}
PAGE = {"tinyc.base", "tinyc.base.dataclass", "tinyc.base.errors", "tinyc.base.escape", "tinyc.cli.usage"}
PAGE |= {"tinyc.cli.listing", "tinyc.cli.output"}  # what lays out a page of help, and an error
HEAVY = {"numpy", "onnx", "onnxruntime", "tflite", "google", "jinja2", "unicorn", "capstone", "elftools", "serial"}
HEAVY |= {"pydantic"}  # by which typer converts words that are not what they stand for
SHOW = "import atexit, json, sys\natexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))\n"


@pytest.mark.parametrize("words", [["--version"], ["--help"], [], ["no-such-command"], ["--no-such-option"]])
def test_a_bare_command_imports_nothing_large(words: list[str]) -> None:
    code = SHOW + "from tinyc.cli.main import main\nmain()\n"
    ran = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    modules = set(json.loads(ran.stderr.splitlines()[-1]))
    ours = {name for name in modules if name.split(".", maxsplit=1)[0] == "tinyc"}
    assert OWN <= ours <= (OWN if words == ["--version"] else OWN | PAGE)
    assert not {name.split(".", maxsplit=1)[0] for name in modules} & HEAVY


def test_importing_the_package_imports_nothing_large() -> None:
    ran = subprocess.run([sys.executable, "-c", SHOW + "import tinyc"], capture_output=True, text=True, check=True)
    modules = set(json.loads(ran.stderr.splitlines()[-1]))
    assert not {name.split(".", maxsplit=1)[0] for name in modules} & HEAVY


def test_a_command_imports_no_converters_of_words() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SHOW + "from tinyc.cli.main import main\nmain()\n", "boards", "cortex-m4"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(json.loads(ran.stderr.splitlines()[-1])) & HEAVY


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    first = (load_command(name).help or "").split("\n\n", maxsplit=1)[0]
    assert " ".join(first.split()) == COMMANDS[name]
