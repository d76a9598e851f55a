# SPDX-License-Identifier: Apache-2.0
"""Every option and command that a sentence of tinyc names is there: in hints, warnings, reports and docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import tinyc
from tinyc.cli.app import COMMANDS, load_command

OF_ALL = {"--help", "--help-all", "--json-schema", "--version"}  # which no command declares
PACKAGE = Path(tinyc.__file__).parent


def sentences() -> list[tuple[str, str]]:
    """Texts of more than a word, with where they stand."""
    return [
        (node.value, f"{file.relative_to(PACKAGE)}:{node.lineno}")
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]


def test_what_sentences_name_is_there() -> None:
    options = {
        option
        for name in COMMANDS
        for each in load_command(name).params
        for option in (*each.opts, *each.secondary_opts)
    }
    texts = sentences()
    named = [(option, where) for text, where in texts for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)]
    assert len(named) > 200
    assert [(option, where) for option, where in named if option not in options | OF_ALL] == []
    commands = [(command, where) for text, where in texts for command in re.findall(r"`tinyc ([a-z]+)", text)]
    assert len(commands) > 100
    assert [(command, where) for command, where in commands if command not in COMMANDS] == []
