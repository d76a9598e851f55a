# SPDX-License-Identifier: Apache-2.0
"""Verdicts in the formats of other tools, `--format` of every command that gives one."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.output import Output
from tinyc.explain.documents import Case, github, junit, verdict_case
from tinyc.verify.report import Verify


class CasesFormat(StrEnum):
    """Formats in which verdicts can be printed."""

    JUNIT = "junit"
    GITHUB = "github"


CasesOption = Annotated[
    CasesFormat | None,
    typer.Option("--format", help="Print the verdict as this: JUnit's XML, GitHub's annotations.", show_default=False),
]


def print_cases(out: Output, form: CasesFormat | None, command: str, suite: str, cases: Sequence[Case]) -> None:
    """Prints them where a format was asked for. suite: what they are of."""
    if form is CasesFormat.GITHUB:
        out.document(github(command, cases))
    elif form is CasesFormat.JUNIT:
        out.document(junit(command, suite, cases))


def print_verdict(
    out: Output,
    form: CasesFormat | None,
    command: str,
    model: str,
    board: str,
    told: Verify | TinycError | None,
) -> None:
    """Of one proof: what it came to, None if nothing was run, or why it could not run."""
    error = told if isinstance(told, TinycError) else None
    verify = told if isinstance(told, Verify) else None
    print_cases(out, form, command, f"{model} on {board}", [verdict_case(model, board, verify, error)])
