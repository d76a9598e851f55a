# SPDX-License-Identifier: Apache-2.0
"""Pictures by Matplotlib, which is optional: the format, the file, and what is said when something is missing."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.base.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")


@contextmanager
def drawing(path: Path, inches: tuple[float, float]) -> Iterator[Figure]:
    """A figure of that width and height that is written to `path` at the end; the same drawing gives the same file.

    Raises TinycError if Matplotlib is missing, the format is unknown or the file cannot be written.
    """
    check_format(path)
    matplotlib = check_drawing()
    from matplotlib.figure import Figure  # noqa: PLC0415 (slow to import, and optional)

    with matplotlib.rc_context({"svg.hashsalt": "tinyc", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=inches, layout="constrained")
        yield figure
        try:
            metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
            drawn = io.BytesIO()
            figure.savefig(drawn, dpi=150, metadata=metadata, format=path.suffix.lower()[1:])
            write_file(path, drawn.getvalue())
        except OSError as error:
            message = f"the picture cannot be written: {error.strerror}"
            raise TinycError(message, Loc(str(path)), "choose another file with --plot") from error


def check_drawing() -> ModuleType:
    """Matplotlib. Raises TinycError if it is not installed."""
    return load_extra("matplotlib", "plot", "drawing")


def check_format(path: Path) -> None:
    """Raise TinycError unless `plot_map` can draw into a file of this name."""
    if path.suffix.lower() not in FORMATS:
        raise TinycError(f"{path}: no format for '{path.suffix}'", hint=f"name it {', '.join(FORMATS)}")
