# SPDX-License-Identifier: Apache-2.0
"""The bar that a notebook shows while a function of the Python API works; elsewhere nothing is shown."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from tinyc.base.escape import visible

_REST = 0.2  # seconds between two pictures


class NotebookBar:
    """The stage, and the share of it that is done."""

    def __init__(self, handle: Any, html: Any) -> None:
        self._handle, self._html, self._drawn = handle, html, 0.0

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._draw(f"<progress></progress> {escape(visible(name))}")

    def share(self, what: str, share: float) -> None:
        """So much of it is done, from 0 to 1."""
        if time.monotonic() - self._drawn >= _REST:
            self._draw(f'<progress value="{share:.3f}"></progress> {escape(visible(what))} {share:.0%}')

    def clear(self) -> None:
        """Takes it away."""
        self._draw("")

    def _draw(self, text: str) -> None:
        self._drawn = time.monotonic()
        self._handle.update(self._html(text))


@contextmanager
def notebook_bar() -> Iterator[NotebookBar | None]:
    """The bar of a notebook, which goes when the work ends; None where there is no notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or not hasattr(shell, "kernel"):  # a terminal's shell has none
        yield None
        return
    html = ipython.display.HTML
    bar = NotebookBar(ipython.display.display(html(""), display_id=True), html)
    try:
        yield bar
    finally:
        bar.clear()
