# SPDX-License-Identifier: Apache-2.0
"""`tinyc doctor`: which tools are there, and the command that installs each missing one."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded, table
from tinyc.pipeline.doctor import examine


def command(json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """Say which compilers, emulators and packages are there, and how to install what is missing."""
    with guarded(color, json, verbose) as out:
        findings = examine()
        out.json({"findings": [asdict(finding) for finding in findings]})
        rows = table("", "", "tool", "version", "purpose or how to install")
        for finding in findings:
            advice = finding.note if finding.found else f"{' or '.join(finding.install)}  ({finding.note})"
            rows.add_row("ok" if finding.found else "--", finding.name, finding.version, advice)
        out.result(rows)
        if not all(finding.ok for finding in findings):
            raise typer.Exit(1)
