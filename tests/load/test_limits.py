# SPDX-License-Identifier: Apache-2.0
"""Files of a few hundred bytes that ask for gigabytes or hours: refused by what their shapes say, with the figure."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.load.onnx_models import build, op
from tests.load.tflite_models import act, numbers
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base import limits
from tinyc.base.errors import TinycError
from tinyc.base.limits import Constants, check_activations, check_products
from tinyc.load import load_model

LIMIT = "beyond tinyc's limit of"
MOST_BYTES = 600 << 20  # that a process needs in all, its packages included, to refuse them all


def _folded(*nodes: onnx.NodeProto, **constants: object) -> onnx.ModelProto:
    """x plus the sum of what the nodes make of constants: `big`."""
    ends = [op("ReduceSum", "big", "sum", keepdims=0), op("Add", "x sum", "y")]
    return build([*nodes, *ends], {"x": (1, 3)}, ["y"], {name: np.asarray(c) for name, c in constants.items()})


def _filled(size: int, name: str = "big") -> onnx.NodeProto:
    return op("ConstantOfShape", "shape", name)


def _doubled(times: int) -> list[onnx.NodeProto]:
    names = [f"d{i}" for i in range(times)] + ["big"]
    return [op("Concat", f"{a} {a}", b, axis=0) for a, b in zip(["c", *names], names, strict=False)]


def _many(count: int, size: int) -> onnx.ModelProto:
    """As many activations of that size."""
    nodes = [op("Expand", "x shape", "t0")]
    nodes += [op("Sigmoid", f"t{i}", f"t{i + 1}") for i in range(count)]
    return build(nodes, {"x": (1, 1)}, [f"t{count}"], {"shape": np.array([1, size])})


def _declared(dims: tuple[int, ...], external: str = "") -> onnx.ModelProto:
    """Weights of that shape, whose elements the file does not hold."""
    model = build([op("MatMul", "x w", "y")], {"x": (1, 3)}, ["y"], {"w": np.zeros((3, 3), np.float32)})
    tensor = model.graph.initializer[0]
    tensor.dims[:] = dims
    if external:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=external)
    return model


def _shared(count: int) -> onnx.ModelProto:
    """So many constants of a megabyte that all are the same bytes of one file."""
    nodes = [op("Mul", f"{'x' if i == 0 else f't{i - 1}'} w{i}", f"t{i}") for i in range(count)]
    model = build(nodes, {"x": (1, 1)}, [f"t{count - 1}"])
    for i in range(count):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=(1 << 18,))
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="shared.bin")
        model.graph.initializer.append(tensor)
    return model


HUGE = {"shape": [16000, 16000]}
ONNX: dict[str, Callable[[], onnx.ModelProto]] = {
    "filled": lambda: _folded(_filled(0), **HUGE),
    "expanded": lambda: _folded(op("Expand", "c shape", "big"), c=np.ones(1, np.float32), **HUGE),
    "tiled": lambda: _folded(op("Tile", "c shape", "big"), c=np.ones((2, 2), np.float32), shape=[9000, 9000]),
    "counted": lambda: _folded(op("Range", "a b c", "big"), a=0, b=1 << 40, c=1),
    "one of many": lambda: _folded(op("OneHot", "i n v", "big"), i=np.arange(9), n=1 << 30, v=np.float32([0, 1])),
    "padded": lambda: _folded(op("Pad", "c pads", "big"), c=np.ones((2, 2), np.float32), pads=[0, 0, 1 << 15, 1 << 15]),
    "doubled": lambda: _folded(*_doubled(40), c=np.ones(1, np.float32)),
    "outer": lambda: _folded(op("Mul", "a b", "big"), a=np.ones((1, 9000), "f"), b=np.ones((9000, 1), "f")),
    "outer product": lambda: _folded(op("MatMul", "a b", "big"), a=np.ones((9000, 1), "f"), b=np.ones((1, 9000), "f")),
    "input": lambda: build([op("Relu", "x", "y")], {"x": (1, 3, 40000, 40000)}, ["y"]),
    "activation": lambda: _many(1, limits.MAX_ELEMENTS + 1),
    "activations": lambda: _many(40, 1 << 20),
    "window": lambda: build(
        [op("MaxPool", "x", "y", kernel_shape=[2**31] * 2, pads=[2**30] * 4)], {"x": (1, 1, 3, 3)}, ["y"]
    ),
    "windows": lambda: build(
        [op("AveragePool", "x", "y", kernel_shape=[1000, 1000])], {"x": (1, 1, 3000, 3000)}, ["y"]
    ),
    "macs": lambda: build(
        [op("ConstantOfShape", "shape", "w"), op("Conv", "x w", "y", pads=[150] * 4)],
        {"x": (1, 16, 600, 600)},
        ["y"],
        {"shape": np.array([16, 16, 200, 200])},
    ),
    "resized": lambda: build(
        [op("Resize", "x - - size", "y")], {"x": (1, 1, 3, 3)}, ["y"], {"size": np.array([1, 1, 32000, 32000])}
    ),
    "declared": lambda: _declared((1 << 20, 1 << 20)),
    "declared, in another file": lambda: _declared((1 << 13, 1 << 13), "other.bin"),
    "shared": lambda: _shared(300),
}
"""What a thing asks for -> the model."""


def _of_constants(code: str, *inputs: Tensor, options: str = "", **fields: object) -> bytes:
    """A TFLite model whose operator has only constants."""
    tensors = [*inputs, Tensor("r", (3,), "s32"), act("x", 1, 3), act("y", 1, 3)]
    names = tuple(tensor.name for tensor in inputs)
    folded = Operator(code, names, ("r",), options, fields) if options else Operator(code, names, ("r",))
    reshape = Operator("RESHAPE", ("x", "r"), ("y",), "ReshapeOptions")
    return build_model(tensors, [folded, reshape], ["x"], ["y"])


_WIDE, _HIGH = numbers("w", [list(range(9000))]), numbers("h", [[i] for i in range(9000)])
TFLITE: dict[str, Callable[[], bytes]] = {
    "filled": lambda: _of_constants("FILL", numbers("a", [1 << 15] * 2), numbers("b", [1])),
    "broadcast": lambda: _of_constants("BROADCAST_TO", numbers("a", [1]), numbers("b", [1 << 15] * 2)),
    "outer": lambda: _of_constants("MUL", _WIDE, _HIGH),
    "chosen": lambda: _of_constants("SELECT_V2", Tensor("c", (1,), "bool", data=np.ones(1, np.bool_)), _WIDE, _HIGH),
    "gathered": lambda: _of_constants("GATHER", _WIDE, _HIGH, options="GatherOptions", Axis=0, BatchDims=0),
    "input": lambda: build_model(
        [act("x", 1, 5000, 5000), act("y", 1, 5000, 5000)], [Operator("RELU", ("x",), ("y",))], ["x"], ["y"]
    ),
}


def _write(folder: Path) -> list[Path]:
    """All of them as files."""
    for name, model in ONNX.items():
        onnx.save(model(), folder / f"{name}.onnx")
    for name, content in TFLITE.items():
        (folder / f"{name}.tflite").write_bytes(content())
    for name, size in (("other.bin", 1 << 20), ("shared.bin", 1 << 20)):
        with (folder / name).open("wb") as file:
            file.truncate(size)
    return sorted([*folder.glob("*.onnx"), *folder.glob("*.tflite")])


def _refusals(files: list[Path]) -> list[str]:
    said = []
    for file in files:
        try:
            load_model(file)
        except TinycError as error:
            said.append(str(error))
        else:
            raise AssertionError(f"{file.name} was loaded")
    return said


def test_each_is_refused_with_its_figure(tmp_path: Path) -> None:
    for file in _write(tmp_path):
        with pytest.raises(TinycError) as caught:
            load_model(file)
        other = {"declared, in another file": "ends before"}
        expected = other.get(file.stem, LIMIT) if file.suffix == ".onnx" else LIMIT
        assert expected in str(caught.value), file.name


def test_nothing_of_that_size_is_made(tmp_path: Path) -> None:
    files = _write(tmp_path)
    child = subprocess.run(
        [sys.executable, __file__, *map(str, files)], capture_output=True, text=True, check=False, env=os.environ
    )
    assert child.returncode == 0, child.stderr
    refused, largest = map(int, child.stdout.split())
    assert refused == len(files)
    assert largest < MOST_BYTES


def test_products_have_a_limit(tmp_path: Path) -> None:
    square = _folded(op("ConstantOfShape", "shape", "a"), op("MatMul", "a a", "big"), shape=[4000, 4000])
    file = tmp_path / "m.onnx"
    onnx.save(square, file)
    with pytest.raises(TinycError, match=r"constant 'big' takes 64,000,000,000 multiplications"):
        load_model(file)
    check_products("c", limits.MAX_PRODUCTS, None)
    with pytest.raises(TinycError, match=f"{limits.MAX_PRODUCTS:,}"):
        check_products("c", limits.MAX_PRODUCTS + 1, None)


def test_limits_hold_up_to_the_last_element() -> None:
    side = limits.MAX_ELEMENTS
    assert 2 * side == limits.MAX_ACTIVATIONS
    check_activations([("a", (side,), None), ("b", (1, side), None)])
    with pytest.raises(TinycError, match="'b' of shape"):
        check_activations([("a", (1,), None), ("b", (side + 1,), None)])
    with pytest.raises(TinycError, match="together"):
        check_activations([("a", (side,), None), ("b", (side,), None), ("c", (1,), None)])
    constants = Constants.folded()
    for name in "ab":
        constants.take(name, (2, side // 2), None)
    with pytest.raises(TinycError, match="computed up to 'c' together"):
        constants.take("c", (1,), None)


def _nested(depth: int) -> bytes:
    """An If in the branch of an If in the branch ...: fields 1 (node), 5 (attribute), 6 (graph) in each other."""

    def field(number: int, content: bytes) -> bytes:
        size, digits = len(content), b""
        while size >= 128:
            digits, size = digits + bytes([size & 127 | 128]), size >> 7
        return bytes([number << 3 | 2]) + digits + bytes([size]) + content

    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + b"\xa0\x01\x05" + field(6, graph)
        graph = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + field(5, attribute))
    opset = field(8, field(1, b"") + b"\x10\x11")
    return (
        b"\x08\x08"
        + field(
            7,
            graph
            + field(11, helper.make_tensor_value_info("x", 1, [1]).SerializeToString())
            + field(12, helper.make_tensor_value_info("y", 1, [1]).SerializeToString()),
        )
        + opset
    )


@pytest.mark.parametrize("depth", [10, 30, 10_000])
def test_graphs_in_graphs_in_graphs(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(_nested(depth))
    with pytest.raises(TinycError):
        load_model(file)


def _peak_bytes() -> int:
    """Of this program. What getrusage says begins with what the process that started it had, which Linux keeps."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    count = len(_refusals([Path(name) for name in sys.argv[1:]]))
    print(count, _peak_bytes())
