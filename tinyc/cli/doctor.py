"""`tinyc doctor`: which tools are there, and the command that installs each missing one."""

from __future__ import annotations

from dataclasses import asdict

import typer

from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded, table
from tinyc.doctor import examine


def command(json: Json = False, verbose: Verbose = False, color: ColorOption = Color.AUTO) -> None:
    """Say which compilers, emulators and packages are there, and how to install what is missing."""
    with guarded(color, json, verbose) as out:
        findings = examine()
        out.json({"findings": [asdict(finding) for finding in findings]})
        rows = table("", "", "tool", "version", "purpose or how to install")
        for finding in findings:
            rows.add_row("ok" if finding.version else "--", finding.name, finding.version or "", finding.note)
        out.result(rows)
        if not all(finding.version for finding in findings if finding.required):
            raise typer.Exit(1)
