# SPDX-License-Identifier: Apache-2.0
"""Integer graphs as files for other runtimes: QDQ ONNX and int8 TFLite."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.base.files import write_file
from tinyc.export.file_scales import as_in_files
from tinyc.export.tflite_int8 import to_tflite
from tinyc.ir.graph import Graph

__all__ = ["FORMATS", "as_in_files", "save", "to_onnx", "to_tflite"]


def to_onnx(graph: Graph) -> bytes:
    """The graph as QDQ ONNX: `tinyc.export.onnx_qdq`. TinycError where the package onnx is not installed."""
    load_extra("onnx", "onnx", "writing an ONNX model")
    from tinyc.export import onnx_qdq  # noqa: PLC0415  an optional extra

    return onnx_qdq.to_onnx(graph)


FORMATS: Mapping[str, Callable[[Graph], bytes]] = MappingProxyType({".onnx": to_onnx, ".tflite": to_tflite})


def _otherwise(graph: Graph, refused: str) -> str:
    """What to do where a format refuses the graph: another one where that takes it."""
    ways = []
    for suffix, write in FORMATS.items():
        if suffix != refused:
            with suppress(TinycError):
                write(graph)
                ways.append(f"save as {suffix}")
    return "; ".join([*ways, "--outputs NAME ends the model before it, and without -o no file is saved"])


def save(graph: Graph, path: Path) -> None:
    """Write the integer graph in the format that the file's name asks for; nothing is written if it cannot be
    expressed there. TinycError for another ending, or an operator that the format lacks."""
    write = FORMATS.get(path.suffix.lower())
    if write is None:
        raise TinycError(f"there is no format for '{path.suffix}'", Loc(str(path)), f"there are: {', '.join(FORMATS)}")
    files = as_in_files(graph)
    try:
        written = write(files)
    except TinycError as error:
        raise error.hinted(_otherwise(files, path.suffix.lower())) from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, written)
    except OSError as error:
        message = f"cannot write the model: {error.strerror}"
        raise TinycError(message, Loc(str(path)), "choose another file with -o") from error
