# SPDX-License-Identifier: Apache-2.0
"""Runs the pipeline with its stages shown: a bar on a terminal, timings with -v."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tinyc.cli.output import Output
from tinyc.pipeline import Progress
from tinyc.verify.report import timings_text

Result = TypeVar("Result")


def run_stages(out: Output, work: Callable[[Progress], Result]) -> Result:
    """What `work` returns; it is given a Progress that shows each stage."""
    with out.progress() as bar:
        task = bar.add_task("load", total=None)
        progress = Progress(
            on_stage=lambda stage: bar.update(task, description=stage, total=None),
            on_warning=out.warn,
            on_share=lambda what, share: bar.update(task, description=what, total=1.0, completed=share),
        )
        result = work(progress)
    out.note(timings_text(progress.seconds))
    return result
