# SPDX-License-Identifier: Apache-2.0
"""`tinyc doctor`: which tools are there, and the command that installs each missing one."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tinyc.cli.listing import SENTENCE, Listing, text
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded
from tinyc.pipeline.doctor import Finding, FindingKind, examine


def command(json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """Say which compilers, emulators and packages are there, and how to install what is missing."""
    with guarded(color, json, verbose) as out:
        findings = examine()
        out.json({"findings": [asdict(finding) for finding in findings]})
        for kind in FindingKind:
            rows = Listing(*text("", "", ""), *SENTENCE, title=kind.value)
            for finding in (each for each in findings if each.kind is kind):
                rows.add("ok" if finding.is_present else "--", finding.name, finding.version, _advice(finding))
            if rows.rows:
                out.result(*[""] * (kind is not FindingKind.PACKAGE), rows)
        if not all(finding.ok for finding in findings):
            raise typer.Exit(1)


def _advice(finding: Finding) -> str:
    """What it is for, and how to install what is missing."""
    if finding.is_present or not finding.install:
        return finding.note
    return f"{' or '.join(finding.install)}  ({finding.note})"
