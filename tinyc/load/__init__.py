# SPDX-License-Identifier: Apache-2.0
"""A model file, ONNX or TFLite, becomes a graph: foreign names, opsets and layouts end here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.base.extras import load_extra
from tinyc.base.limits import check_activations, check_macs
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Site
from tinyc.load.problems import read_bytes
from tinyc.load.states import Asked
from tinyc.ops import op_of

_OTHERS = (  # first bytes of what people give by mistake -> what it is, what to do
    (b"\x89HDF", "a Keras HDF5 model", "convert it with tf.lite.TFLiteConverter, or with tf2onnx"),
    (
        b"PK\x03\x04",
        "a zip archive (.keras or PyTorch)",
        "convert Keras with TFLiteConverter, PyTorch with torch.onnx.export",
    ),
    (b"\x80\x02", "a Python pickle (PyTorch)", "export the model with torch.onnx.export"),
    (b"version https://git-lfs", "a Git LFS pointer, not the model itself", "run `git lfs pull`"),
    (b"<", "a web page or XML", "download the raw file"),
)


def load_model(
    path: Path,
    outputs: Sequence[str] = (),
    states: Asked | None = None,
    scaled: Callable[[Graph], Graph] | None = None,
    signature: str | None = None,
) -> Graph:
    """The graph of an .onnx or .tflite file, checked. outputs: tensors of the file that are the model's outputs in the
    place of its own; what only others need is not looked at. states: inputs and outputs that the model keeps by itself;
    None: none. Of a .tflite file only those that the user names. scaled: gives what a quantized .onnx file leaves in
    float scales of its own. signature: of a .tflite file that has several, the one that is taken; else its first.

    TinycError if the file is missing, a folder, empty, of another kind or damaged, or with a list of
    the operators that tinyc cannot import.
    """
    load, _ = _loader(path)
    try:
        graph = load(path, outputs, states, scaled, signature)
        _check_size(graph)
        return graph
    except TinycError as error:
        raise _advised(error) from error


def _check_size(graph: Graph) -> None:
    """Raise TinycError if the model is beyond what tinyc computes with."""
    computed = (value for name, value in graph.values.items() if name not in graph.consts)
    check_activations((value.name, value.shape, value.loc) for value in computed)
    macs = 0
    for node in graph.nodes:
        kernel = getattr(node.attrs, "kernel", ())  # of a pooling operator, whose taps are looked at one by one, too
        taps = math.prod(kernel) * graph.values[node.outputs[0]].elements if kernel else 0
        macs += op_of(node).macs(Site(graph, node, Numerics.OURS)) + taps
        check_macs(macs, node.where)


def is_onnx(path: Path) -> bool:
    """Whether `load_model` takes the file for ONNX rather than TFLite. TinycError if it is neither."""
    return _kind(path) == "onnx"


def is_own(path: Path) -> bool:
    """Whether `tinyc quantize` or `tinyc.torch` wrote the file. A message begins with its version and its producer."""
    with path.open("rb") as file:
        return b"\x12\x05tinyc" in file.read(16)


def other_signatures(path: Path) -> str:
    """Of a .tflite file with several entries which is taken where none is asked for, and what others there are; else
    ""."""
    if is_onnx(path):
        return ""
    from tinyc.load.tflite_file import signatures_of  # noqa: PLC0415  a large package

    taken, *others = [*map(visible, signatures_of(read_bytes(path), Loc(path.name))), ""]
    rest = ", ".join(name for name in others if name)
    return f"of several signatures '{taken}' is taken; --signature takes another: {rest}" if rest else ""


def unsupported(path: Path, outputs: Sequence[str] = (), signature: str | None = None) -> list[TinycError]:
    """What keeps the model from being imported, one entry per operator; [] if nothing does. outputs, signature: as
    `load_model` has them.

    Raises TinycError only if the file cannot be read as a model at all.
    """
    _, problems = _loader(path)
    return [_advised(problem) for problem in problems(path, outputs, signature)]


def _advised(error: TinycError) -> TinycError:
    """The error with what to do next: what its importer says, else where to look."""
    if error.hint:
        return error
    operator = error.where is not None and error.where.op
    hint = (
        "docs/operators.md says what tinyc takes of this operator" if operator else "export or convert the model again"
    )
    return error.but(hint=hint)


_Scaled = Callable[[Graph], Graph] | None
_Load = Callable[[Path, Sequence[str], Asked | None, _Scaled, str | None], Graph]
_Problems = Callable[[Path, Sequence[str], str | None], list[TinycError]]


def _loader(path: Path) -> tuple[_Load, _Problems]:
    # Imported when needed: each loader brings a large package that the other does without.
    if _kind(path) == "tflite":
        from tinyc.load.tflite import load_tflite, unsupported_tflite  # noqa: PLC0415

        return lambda path, outputs, states, _, name: load_tflite(path, outputs, states, name), unsupported_tflite
    load_extra("onnx", "onnx", "reading an ONNX model", Loc(path.name))
    from tinyc.load.onnx import load_onnx, unsupported_onnx  # noqa: PLC0415

    def load_one(path: Path, outputs: Sequence[str], states: Asked | None, scaled: _Scaled, name: str | None) -> Graph:
        _no_signature(path, name)
        return load_onnx(path, outputs, states, scaled)

    def problems(path: Path, outputs: Sequence[str], name: str | None) -> list[TinycError]:
        _no_signature(path, name)
        return unsupported_onnx(path, outputs)

    return load_one, problems


def _no_signature(path: Path, name: str | None) -> None:
    if name is not None:
        raise TinycError("ONNX files have no signatures", Loc(path.name), "leave --signature out")


def _kind(path: Path) -> str:
    start = read_bytes(path)[:64]
    suffix = path.suffix.lower()
    if start[4:8] == b"TFL3":
        return "tflite"
    for magic, what, hint in _OTHERS:
        if start.startswith(magic):
            raise TinycError(f"this is {what}; tinyc reads .onnx and .tflite files", Loc(path.name), hint)
    if suffix in (".onnx", ".tflite"):
        return suffix[1:]
    raise TinycError(
        f"unknown kind of model '{suffix or path.name}'",
        Loc(path.name),
        "tinyc reads .onnx and .tflite files",
    )
