# SPDX-License-Identifier: Apache-2.0
"""Runs the pipeline with its stages shown: a bar on a terminal, timings with -v."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import rich.progress

from tinyc.base.dataclass import dataclass
from tinyc.cli.output import Output
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import timings_text

Result = TypeVar("Result")


@dataclass
class _Shown:
    """The bar of a command. what: the step whose share is shown; the time left is that of this step."""

    bar: rich.progress.Progress
    task: rich.progress.TaskID
    what: str = ""

    def stage(self, name: str) -> None:
        self.what = ""
        self.bar.update(self.task, description=name, total=None)

    def share(self, what: str, share: float) -> None:
        if what != self.what:
            self.what = what
            self.bar.reset(self.task, total=1.0, description=what)
        self.bar.update(self.task, completed=share)


def run_stages(out: Output, work: Callable[[Progress], Result]) -> Result:
    """What `work` returns; it is given a Progress that shows each stage."""
    with out.progress() as bar:
        shown = _Shown(bar, bar.add_task("load", total=None))
        progress = Progress(on_stage=shown.stage, on_warning=out.warn, on_share=shown.share)
        result = work(progress)
    out.note(timings_text(progress.seconds))
    return result
