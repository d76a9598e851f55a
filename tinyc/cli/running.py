# SPDX-License-Identifier: Apache-2.0
"""Runs the pipeline with its stages shown: a bar on a terminal, timings with -v."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import rich.progress

from tinyc.base.dataclass import dataclass
from tinyc.cli.output import Output
from tinyc.options.recipe import Effort
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import timings_text

Result = TypeVar("Result")


@dataclass
class _Shown:
    """The bar of a command. what: the step whose share is shown; the time left is that of this step. patience: seconds
    of quantizing after which `--effort fast` is told of; None where that is asked for. began: when quantizing did."""

    bar: rich.progress.Progress
    task: rich.progress.TaskID
    patience: float | None
    what: str = ""
    began: float | None = None

    def stage(self, name: str) -> None:
        self.what = ""
        self.began = time.monotonic() if name.endswith(_QUANTIZING) else None
        self.bar.update(self.task, description=name, total=None)

    def share(self, what: str, share: float) -> None:
        if what != self.what:
            self.what = what
            self.bar.reset(self.task, total=1.0, description=what, is_even=what.rpartition(": ")[2] in _EVEN)
        is_long = self.began is not None and self.patience is not None and time.monotonic() - self.began > self.patience
        self.bar.update(self.task, completed=share, description=f"{what} ({_HURRY})" if is_long else what)


_QUANTIZING = "quantize"  # a stage
_EVEN = ("reference", "run", "accuracy")  # steps whose parts are samples: each takes as long as another
_HURRY = "--effort fast takes a tenth"
PATIENCE = 10.0  # seconds


def run_stages(out: Output, work: Callable[[Progress], Result], effort: Effort = "fast") -> Result:
    """What `work` returns; it is given a Progress that shows each stage. effort: with which it quantizes."""
    with out.progress() as bar:
        shown = _Shown(bar, bar.add_task("load", total=None), PATIENCE if effort == "full" else None)
        progress = Progress(on_stage=shown.stage, on_warning=out.warn, on_share=shown.share)
        result = work(progress)
    out.note(timings_text(progress.seconds))
    return result
