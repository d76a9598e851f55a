# SPDX-License-Identifier: Apache-2.0
"""How the pipeline says where it is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace

from tinyc.base.dataclass import dataclass


@dataclass
class Progress:
    """Seconds of each stage, and a callback that hears a stage begin. The pipeline's only mutable value."""

    on_stage: Callable[[str], None] = lambda stage: None
    on_warning: Callable[[str], None] = lambda message: None
    on_share: Callable[[str, float], None] = lambda what, share: None  # of a long stage: what, and how much is done
    seconds: dict[str, float] = field(default_factory=dict)

    def counted(self, what: str, of: int) -> Callable[[], None]:
        """To be called when each of the `of` parts of a stage is done."""
        done = itertools.count(1)
        return lambda: self.on_share(what, next(done) / of)

    def within(self, what: str) -> Progress:
        """For one of many: `what` stands before its stages. Seconds are counted together."""
        return replace(
            self,
            on_stage=lambda stage: self.on_stage(f"{what}: {stage}"),
            on_share=lambda stage, share: self.on_share(f"{what}: {stage}", share),
        )

    def warning_once(self) -> Progress:
        """For what is done several times: each warning is said the first time."""
        said: set[str] = set()

        def warn(message: str) -> None:
            if message not in said:
                said.add(message)
                self.on_warning(message)

        return replace(self, on_warning=warn)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self.on_stage(name)
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
