# SPDX-License-Identifier: Apache-2.0
"""The node tests of the onnx package: which operators tinyc computes, which it refuses and why.

    python bench/onnx_conformance.py [--only RE] [--each] [--check]     # writes docs/conformance.md

Every case of onnx.backend.test.case.node is a model of one operator, or of the function that ONNX defines it by, with
inputs and outputs. It is compiled to C for the host, and the integer or float32 reference, which every kernel equals
bit for bit (tests/), runs on the inputs:

    exact      every output equal
    float32    floats, compiled with --precision float32, as close as the case itself asks for
    quantized  no float32 kernel, or one that is not as close: int8, calibrated with the inputs; within BOUND of the
               output's range
    loaded     shapes, ranges and windows, which are known when the model is loaded: every output equal
    refused    by name and reason, before anything is compiled
    failed     other numbers, or an internal error

Inputs are inputs of the model where tinyc takes them so. Where it does not, all but the first one or two are constants
of the model, as weights, shapes and axes are in practice.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import re
import sys
import tempfile
import textwrap
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper
from onnx.backend.test.case import node

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph, Value
from tinyc.load import load_model
from tinyc.load.onnx.file import read_onnx
from tinyc.load.onnx.importing import OnnxBuilder
from tinyc.load.onnx.running import import_node
from tinyc.ops.signals import COUNT
from tinyc.options.build import Options, Precision
from tinyc.passes import normalize
from tinyc.pipeline.compiling import Compiled, compile_integers, compile_model
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.precision import is_float
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

PAGE = Path(__file__).resolve().parents[1] / "docs" / "conformance.md"
BOUND = 0.05  # of the range of an output, for int8: two per cent are usual
PASSED = ("exact", "float32", "quantized", "loaded")
WAYS = (*PASSED, "refused", "failed")
_OF_SHAPES = re.compile(  # what models compute of shapes and of constants, never of their data
    r"test_(blackmanwindow|constantofshape|eyelike|hammingwindow|hannwindow|melweightmatrix|range|shape|size)"
)
# Reasons by their words, and what the page calls them; the first that fits.
REASONS = (
    (r"element type|takes floats|float8|beyond|FLOAT|INT\d|STRING", "element types"),
    (r"not a tensor|is no tensor", "sequences, optionals and maps"),
    (r"is not supported", "operators that tinyc does not have"),
    (r"variable size|no shape|impossible shape|is empty|at least 1|every size", "shapes that are open or empty"),
    (r"must be a? ?constants?|is computed|computed from the data", "weights, shapes or axes that are computed"),
    (r"batch", "batches"),
)


@dataclass(frozen=True)
class Result:
    """What became of a case. constants: how many inputs were constants. reason: of what was refused or failed."""

    name: str
    operator: str
    way: str
    constants: int = 0
    reason: str = ""


class RefusedError(Exception):
    """Tinyc says no."""


def chosen(pattern: str, modules: Sequence[str] = ()) -> list[Any]:
    """The node cases whose names fit, in the order of their names. modules: of onnx.backend.test.case.node, whose cases
    alone are made; () for all."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for module in modules:
            importlib.import_module(f"{node.__name__}.{module}")  # makes its cases as it is imported
        test_cases = node._NodeTestCases if modules else node.collect_testcases(None)
    return sorted((case for case in test_cases if re.search(pattern, case.name)), key=lambda case: str(case.name))


def operator_of(model: ModelProto) -> str:
    """Of a function that is spelled out, the operator that it spells out: test_<operator>_..._expanded."""
    names = Counter(n.op_type for n in model.graph.node if n.op_type != "Constant")
    return next(iter(names)) if len(names) == 1 else "(expanded or joined)"


def with_constants(model: ModelProto, arrays: Sequence[Any], count: int) -> ModelProto:
    """The model with all inputs from number `count` on as initializers."""
    closed = ModelProto()
    closed.CopyFrom(model)
    for info, array in list(zip(model.graph.input, arrays, strict=True))[count:]:
        closed.graph.initializer.append(numpy_helper.from_array(np.asarray(array), info.name))
    del closed.graph.input[count:]
    return closed


def run_case(case: Any, folder: Path) -> Result:
    """One case, with as many inputs as tinyc takes."""
    operator = operator_of(case.model)
    inputs, reference = (list(map(_array, side)) for side in case.data_sets[0])
    reason, tried = "", sorted({len(inputs), *(n for n in (2, 1) if n < len(inputs))}, reverse=True)
    for count in tried:
        try:
            if not all(isinstance(array, np.ndarray | np.generic) for array in inputs):
                raise RefusedError("an input is not a tensor")
            tolerance = (case.rtol, case.atol)
            way = run_model(with_constants(case.model, inputs, count), inputs[:count], reference, tolerance, folder)
            return Result(case.name, operator, way, len(inputs) - count)
        except (RefusedError, TinycError) as error:
            reason = error.message if isinstance(error, TinycError) else str(error)
        except Exception:  # an internal error is a failure, whatever it is
            return Result(case.name, operator, "failed", len(inputs) - count, traceback.format_exc(limit=-6))
    way = when_loaded(case, inputs, reference, folder) if _OF_SHAPES.match(case.name) else "refused"
    return Result(case.name, operator, way, len(inputs) if way == "loaded" else 0, reason if way == "refused" else "")


def when_loaded(case: Any, inputs: Sequence[Any], reference: Sequence[Any], folder: Path) -> str:
    """`loaded` where tinyc knows all outputs before it compiles anything, of computed inputs or of constants."""
    tensors = [array for array in (*inputs, *reference) if isinstance(array, np.ndarray | np.generic)]
    if len(tensors) < len(inputs) + len(reference):
        return "refused"
    for count in (len(inputs), 0):
        model = with_constants(case.model, inputs, count)
        if not count:  # a model has inputs
            model.graph.input.append(onnx.helper.make_tensor_value_info("of no use", TensorProto.FLOAT, [1]))
        path = folder / "case.onnx"
        onnx.save(model, path)
        with contextlib.suppress(TinycError):
            constant = constant_outputs(path)
            if all(a is not None and _same(a, np.asarray(b)) for a, b in zip(constant, reference, strict=True)):
                return "loaded"
    return "refused"


def constant_outputs(path: Path) -> list[Array | None]:
    """The outputs that are known when the model is loaded; None for the others."""
    file = read_onnx(path, path.read_bytes())
    builder = OnnxBuilder(file)
    for info in file.inputs:
        builder.add_input(info)
    for one in file.nodes:
        import_node(builder, one)
    return [builder.constant(name) for name in file.outputs]


def _same(output: Array, theirs: Array) -> bool:
    near = np.asarray(theirs, np.float32) if _is_real(theirs) else theirs
    equal = np.allclose(output, near, rtol=1e-6, atol=1e-7) if _is_real(theirs) else np.array_equal(output, theirs)
    return output.shape == theirs.shape and bool(equal)


def _array(data: Any) -> Any:
    """Tensors, however the case holds them."""
    return numpy_helper.to_array(data) if isinstance(data, TensorProto) else data


def run_model(
    model: ModelProto, inputs: Sequence[Any], reference: Sequence[Any], tolerance: tuple[float, float], folder: Path
) -> str:
    """How the model passes; RefusedError, or AssertionError where it gives other numbers."""
    path = folder / "case.onnx"
    onnx.save(model, path)
    graph = normalize(load_model(path))
    data = {info.name: np.asarray(a) for info, a in zip(model.graph.input, inputs, strict=True)}
    arrays = {name: _typed(graph.values[name], data[name]) for name in graph.inputs}
    floats = is_float(graph)
    try:
        precision: Precision = "float32" if floats else "integer"
        compiled = compile_graph(path, Options(board="host", precision=precision, states=("none",)))
        return _compared(_run(compiled, arrays, reference), reference, tolerance)
    except (TinycError, AssertionError):
        if not floats:
            raise
    return _quantized(path, arrays, reference, folder)


def _compared(outputs: Sequence[Array], reference: Sequence[Any], tolerance: tuple[float, float]) -> str:
    """`exact`, or `float32` where they are close; AssertionError where they are not."""
    pairs = [
        (ours, np.reshape(np.asarray(theirs), ours.shape)) for ours, theirs in zip(outputs, reference, strict=True)
    ]
    if all(np.array_equal(a, b, equal_nan=_is_real(b)) for a, b in pairs):
        return "exact"
    for ours, theirs in pairs:
        half = {2: 1e-3 if theirs.dtype == np.float16 else 1e-2}.get(theirs.dtype.itemsize, 0.0)
        rtol, atol = max(tolerance[0], half), max(tolerance[1], 1e-5)
        np.testing.assert_allclose(ours, theirs.astype(np.float64), rtol=rtol, atol=atol)
    return "float32"


def compile_graph(path: Path, options: Options) -> Compiled:
    """The C text; of floats that are quantized without a word on calibration data."""
    board = load_board(options.board)
    return compile_integers(make_integers(path, board, options, Progress()), board, options, Progress())


def _is_real(array: Any) -> bool:
    return bool(np.asarray(array).dtype.kind in "fc")


def _typed(value: Value, array: Array) -> Array:
    """An input as the library takes it: floats of any width as float32, or as the integers that stand for them."""
    if value.quant is not None and array.dtype.kind == "f":
        scale, zero = value.quant.per_tensor
        lo, hi = INT_RANGE[value.dtype]
        array = np.clip(np.rint(array / np.float32(scale)) + zero, lo, hi)
    elif value.dtype != "f32" and not np.array_equal(array.astype(NUMPY_DTYPE[value.dtype]), array):
        raise RefusedError(f"an input has numbers beyond {value.dtype}")
    return array.astype(NUMPY_DTYPE[value.dtype]).reshape(value.shape)


def _run(compiled: Compiled, arrays: dict[str, Array], reference: Sequence[Any]) -> list[Array]:
    """The outputs, as reals where those are wanted."""
    graph = compiled.graph
    given = {name: _relaid(compiled, name, arrays[name]) for name in graph.inputs}
    computed = run_int(graph, given, compiled.program.numerics)
    return [
        _reals(graph, name, computed[name]) if np.asarray(theirs).dtype.kind == "f" else computed[name]
        for name, theirs in zip(graph.outputs, reference, strict=True)
    ]


def _relaid(compiled: Compiled, name: str, array: Array) -> Array:
    """An input with its axes as the library takes them."""
    perm = compiled.program.input_perms.get(name)
    return array if perm is None else array.transpose(perm)


def _quantized(path: Path, arrays: dict[str, Array], reference: Sequence[Any], folder: Path) -> str:
    """In int8, calibrated with the case's own inputs."""
    calibration = folder / "calibration.npz"
    batches: dict[str, Any] = {name: array[None] for name, array in arrays.items()}
    np.savez(calibration, **batches)
    compiled = compile_model(
        path, load_board("host"), Options(board="host", calibration=calibration, states=("none",)), Progress()
    )
    graph = compiled.graph
    given = {}
    for name in graph.inputs:
        value, real = graph.values[name], _relaid(compiled, name, arrays[name])
        given[name] = _typed(value, real)
    computed = run_int(graph, given, compiled.program.numerics)
    for name, theirs in zip(graph.outputs, reference, strict=True):
        ours, real = _reals(graph, name, computed[name]), np.reshape(theirs, computed[name].shape).astype(np.float64)
        span = max(float(real.max() - min(real.min(), 0)), -float(real.min()), 1e-9)
        np.testing.assert_allclose(ours, real, rtol=0, atol=BOUND * span)
    return "quantized"


def _reals(graph: Graph, name: str, array: Array) -> Array:
    quant = graph.values[name].quant
    return array if quant is None or quant == COUNT else quant.dequantize(array)


def run_all(cases: Sequence[Any]) -> list[Result]:
    """The cases' results, in their order."""
    with tempfile.TemporaryDirectory() as held, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [run_case(case, Path(held)) for case in cases]


def kind_of(reason: str) -> str:
    """The page's words for a reason."""
    return next(
        (name for pattern, name in REASONS if re.search(pattern, reason)), "others: what an operator's row says"
    )


def page(results: Sequence[Result]) -> str:
    """docs/conformance.md."""
    ways = Counter(result.way for result in results)
    passed = sum(ways[way] for way in PASSED)
    kinds = Counter(kind_of(result.reason) for result in results if result.way == "refused")
    lines = [
        *("# Conformance with ONNX", "", "Written by `python bench/onnx_conformance.py`; do not edit.", ""),
        f"The onnx package {onnx.__version__} has {len(results):,} node tests: models of one operator with inputs and"
        " outputs. tinyc",
        f"passes {passed:,}, refuses {ways['refused']:,} by name and reason, and fails {ways['failed']}.",
        *("", "| | cases | |", "|---|---|---|"),
        f"| exact | {ways['exact']:,} | every output equal |",
        f"| float32 | {ways['float32']:,} | `--precision float32`, as close as the case asks for |",
        f"| quantized | {ways['quantized']:,} | int8, within {BOUND:.0%} of the output's range |",
        f"| loaded | {ways['loaded']:,} | known when the model is loaded, as shapes, ranges and windows are |",
        f"| refused | {ways['refused']:,} | before anything is compiled |",
        f"| failed | {ways['failed']:,} | other numbers, or an internal error |",
        *("", "Each case is compiled to C for the host and run by the reference that the kernels equal bit for bit."),
        "Inputs are inputs of the model where tinyc takes them so; else all but the first one or two are constants of"
        " the model,",
        f"as weights, shapes and axes are in practice ({sum(r.constants > 0 for r in results):,} cases). The package"
        " makes the outputs of",
        "float cases with NumPy, whose last bits depend on the computer: on another a few are float32 that are exact"
        " here.",
        *("", "Why cases are refused:", "", "| reason | cases |", "|---|---|"),
        *(f"| {name} | {count:,} |" for name, count in kinds.most_common()),
        *("", "## Operators", "", f"| operator | cases | {' | '.join(WAYS)} | the first refusal |"),
        f"|---|---|{'---|' * len(WAYS)}---|",
        *(_row(name, [r for r in results if r.operator == name]) for name in sorted({r.operator for r in results})),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, results: Sequence[Result]) -> str:
    ways = Counter(result.way for result in results)
    refused = next((result.reason for result in results if result.way == "refused"), "")
    shown = textwrap.shorten(refused, 90, placeholder=" ...", break_long_words=False, break_on_hyphens=False)
    shown = shown.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
    counts = " | ".join(str(ways[way] or "") for way in WAYS)
    return f"| {name} | {len(results)} | {counts} | {shown} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name has this (a regular expression)")
    parser.add_argument("--each", action="store_true", help="print every case")
    parser.add_argument(
        "--check", action="store_true", help="say whether the page is what the code gives; write nothing"
    )
    arguments = parser.parse_args()
    results = run_all(chosen(arguments.only))
    for result in results:
        if arguments.each or result.way == "failed":
            print(f"{result.way:10}{result.name} {result.operator} [{result.constants}] {result.reason[-900:]}")
    print(dict(Counter(result.way for result in results)))
    if not arguments.only and not arguments.check:
        PAGE.write_text(page(results), encoding="utf-8")
    stale = arguments.check and PAGE.read_text(encoding="utf-8") != page(results)
    return 1 if stale or any(result.way == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
