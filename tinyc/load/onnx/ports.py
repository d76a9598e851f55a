# SPDX-License-Identifier: Apache-2.0
"""What the numbers of an integer input mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Array
from tinyc.load.onnx.file import OnnxFile, OnnxNode

_FOLLOWED = frozenset(
    {"Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "MaxPool", "Pad", "Slice"}
)


def quant_of_input(file: OnnxFile, constant: Callable[[str], Array | None], name: str, where: Loc) -> tuple[float, int]:
    """(scale, zero point) of an integer input: those of the DequantizeLinear that reads it. TinycError if none does."""
    for node in _dequantized(file, name):
        arrays = [constant(other) for other in node.inputs[1:3] if other]
        if arrays and all(array is not None and array.size == 1 for array in arrays):
            numbers = [array.reshape(()) for array in arrays if array is not None]
            return float(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
    raise TinycError(
        f"input '{name}' is an integer tensor without a scale",
        where,
        "a DequantizeLinear (or QLinear... operator) with constant scale and zero point has to read it",
    )


def is_quantized(file: OnnxFile, name: str) -> bool:
    """Whether a DequantizeLinear reads an input, as it is or moved."""
    return any(True for _ in _dequantized(file, name))


def _dequantized(file: OnnxFile, name: str) -> Iterator[OnnxNode]:
    """Every DequantizeLinear that reads a tensor as it is or moved."""
    reached, new = {name}, [name]
    while new:
        tensor = new.pop(0)
        for node in file.nodes:
            if node.op == "DequantizeLinear" and node.inputs and node.inputs[0] == tensor:
                yield node
            if node.op in _FOLLOWED and tensor in node.inputs and node.outputs[0] not in reached:
                reached.add(node.outputs[0])
                new.append(node.outputs[0])
