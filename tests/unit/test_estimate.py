# SPDX-License-Identifier: Apache-2.0
"""Estimates beside proofs: arena and constants equal, instructions near, and what does not fit is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.unit.networks import Network
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.explain.estimate import OTHERS, MeasuredCosts, StepOnCore, estimate, kernel_keys, step_cost
from tinyc.kernel.counted import CountedShares
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove

PAGE = Path(__file__).resolve().parents[2] / "docs" / "estimate.md"
STACKS = Path(__file__).resolve().parents[2] / "tinyc" / "explain" / "measured_costs.json"


def network(width: int, size: int = 12) -> onnx.ModelProto:
    rng = np.random.default_rng(width)
    arrays = {
        "a": rng.standard_normal((width, 3, 3, 3)),
        "b": rng.standard_normal((width, 1, 3, 3)),
        "c": rng.standard_normal((2 * width, width, 1, 1)),
        "d": rng.standard_normal((2 * width, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "b"], ["3"], pads=[1, 1, 1, 1], group=width),
        helper.make_node("Conv", ["3", "c"], ["4"]),
        helper.make_node("GlobalAveragePool", ["4"], ["5"]),
        helper.make_node("Flatten", ["5"], ["6"]),
        helper.make_node("MatMul", ["6", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m7", "cortex-m33"])
def test_cycles_are_near_those_of_the_proof(tmp_path: Path, board: str) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(network(16, 24), path)
    options = Options(board, samples=1)
    report = prove(compile_model(path, load_board(board), options, Progress()), load_board(board), options, Progress())
    said = tinyc.estimate(path, board)
    assert report.cycles is not None
    assert said.cycles is not None
    assert abs(said.cycles / report.cycles - 1) < 0.08
    assert said.milliseconds is not None
    assert "zero wait states" in (said.cycle_error or "")


def test_cycles_of_a_core_that_has_so_many_for_each_instruction(tmp_path: Path) -> None:
    onnx.save(network(16, 24), tmp_path / "m.onnx")
    said = tinyc.estimate(tmp_path / "m.onnx", "cortex-m55")
    assert said.cycles == sum(round(1.12 * layer.instructions) for layer in said.layers)
    assert (said.cycle_error or "").startswith("Cortex-M55, zero wait states; error: median 7 %")


def test_waits_for_slow_flash_are_in_the_cycles(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(network(16, 24), path)
    board, options = load_board("nucleo-l4r5zi"), Options("nucleo-l4r5zi", prefer="ram", ram_code=0)
    program = compile_model(path, board, options, Progress()).program
    nothing_else = MeasuredCosts({}, {}, {}, {"cortex-m4": dict.fromkeys(OTHERS, (0.0,))}, {"cortex-m4": ""})
    waits = estimate("m", program, board, nothing_else).cycles
    cycles = estimate("m", program, board).cycles
    assert waits is not None
    assert cycles is not None
    assert waits == sum(step_cost(step).waits for step in program.steps)
    assert 0.05 < waits / cycles < 0.7


@pytest.mark.parametrize("name", ["raspberry-pi-pico2", "nucleo-l4r5zi", "stm32f4-discovery"])
def test_what_lies_in_ram_does_not_wait(tmp_path: Path, name: str) -> None:
    """A price for its place in RAM is in the costs by which kernels are chosen, and none of the board's cycles."""
    path = tmp_path / "m.onnx"
    onnx.save(network(16, 24), path)
    profile = profile_model(path, Options(name, samples=1), Progress(), source=False, most=1)
    assert profile.cost.cycles is not None
    assert profile.flash_waits is not None
    said = tinyc.estimate(path, name)
    assert said.cycles == pytest.approx(profile.cost.cycles + profile.flash_waits, rel=0.1)
    fast, without = (tinyc.estimate(path, name, prefer="time", ram_code=most) for most in (None, 0))
    assert without.cycles is not None
    assert fast.cycles is not None
    assert fast.cycles < without.cycles  # by default arenas of other sizes may be worth more


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("prefer", ["time", "ram"])
@pytest.mark.parametrize("width", [8, 16])
def test_an_estimate_is_near_the_proof(tmp_path: Path, width: int, prefer: Prefer) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(network(width, 24), path)
    board, options = load_board("cortex-m4"), Options("cortex-m4", samples=1, prefer=prefer)
    compiled = compile_model(path, board, options, Progress())
    report = prove(compiled, board, options, Progress())
    said = tinyc.estimate(path, "cortex-m4", prefer=prefer)
    assert said.arena_bytes == report.arena_bytes
    assert abs(said.const_bytes - report.flash.const_bytes) < 200
    assert report.instructions is not None
    assert abs(said.instructions / report.instructions - 1) < 0.08
    assert abs(said.code_bytes / report.flash.code_bytes - 1) < 0.35
    assert sum(layer.instructions for layer in said.layers) == said.instructions
    assert said.fits
    assert report.stack_bytes is not None
    assert said.stack_bytes is None or report.stack_bytes <= said.stack_bytes < report.stack_bytes + 800
    measured_kernels = json.loads(STACKS.read_text(encoding="utf-8"))["stack"]["cortex-m4"]
    assert (said.stack_bytes is None) == any(layer.kernel not in measured_kernels for layer in said.layers)


@pytest.mark.parametrize("board", ["cortex-m3", "cortex-m0plus", "riscv32imc"])
@pytest.mark.parametrize("dtype", ["s8", "s16"])
def test_layers_that_no_model_is_like_are_estimated_as_counted(tmp_path: Path, board: str, dtype: str) -> None:
    """A product with a line of numbers, and a depthwise layer of int16 that is one of `tc_conv2d_s16`."""
    shape, random = (1, 10, 10, 16), np.random.default_rng(1)
    tensors = [Tensor(name, shape, dtype, (0.02,), (0,)) for name in ("x", "y")]
    if dtype == "s8":
        line = random.integers(-128, 128, (1, 1, 10, 16)).astype(np.int8)
        constants, operator = [Tensor("c", line.shape, "s8", (0.02,), (0,), 0, line)], ("MUL", "MulOptions", {})
    else:
        w = random.integers(-127, 128, (1, 3, 3, 16)).astype(np.int8)
        bias = Tensor("b", (16,), "s64", (0.0002,), (0,), 0, random.integers(-999, 999, 16))
        constants = [Tensor("w", w.shape, "s8", (0.01,), (0,), 0, w), bias]
        window = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "DilationHFactor": 1, "DilationWFactor": 1}
        operator = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", window)
    code, options, fields = operator
    node = Operator(code, ("x", *(own.name for own in constants)), ("y",), options, fields, 2)
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model([*tensors, *constants], [node], ["x"], ["y"]))
    asked = Options(board, samples=1)
    report = prove(compile_model(path, load_board(board), asked, Progress()), load_board(board), asked, Progress())
    said = tinyc.estimate(path, board)
    assert report.instructions is not None
    assert said.cycles is not None
    assert report.cycles is not None
    assert abs(said.instructions / report.instructions - 1) < 0.16
    assert abs(said.cycles / report.cycles - 1) < 0.16


def test_the_stack_has_arrays_around_assembly(tmp_path: Path) -> None:
    """Two rows of three pixels per call: the last pixels of both, 252 channels each, and the pixel function's taps."""
    net = Network(1)
    net.input_shape = net.shape = (1, 4, 6, 3)
    net.conv(252, k=1)
    net.conv(252, groups=252)
    net.conv(252, k=1)
    net.conv(8, k=1)
    path = tmp_path / "m.onnx"
    onnx.save(net.model(), path)
    board, options = load_board("cortex-m4"), Options("cortex-m4", samples=1, prefer="time", input_rows=True)
    compiled = compile_model(path, board, options, Progress())
    assert any(special.array_bytes == 504 for special in compiled.program.specials)
    report, said = prove(compiled, board, options, Progress()), estimate("m", compiled.program, board)
    assert report.stack_bytes is not None
    assert said.stack_bytes is not None
    assert report.stack_bytes <= said.stack_bytes < report.stack_bytes + 500


def test_what_was_measured_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(network(8), path)
    board = load_board("cortex-m3")
    program = compile_model(path, board, Options("cortex-m3"), Progress()).program
    plain = estimate("m", program, board, MeasuredCosts({}, {}))
    kernel = plain.layers[0].kernel
    measured = MeasuredCosts({"cortex-m3": {kernel: (2.0, 5.0), "": (1.0, 0.0)}}, {})
    estimated = estimate("m", program, board, measured)
    assert estimated.layers[0].instructions > 1.9 * plain.layers[0].instructions
    assert estimated.cycles is None  # no kernel knows the cycles of this core
    assert estimated.milliseconds is None


def test_how_a_kernel_is_called_decides_what_it_takes() -> None:
    lines = {"k": (1.0,), "k fused": (2.0, 0.0, 3.0), "k shared": (4.0, 5.0), "": (6.0, -1000.0)}
    costs = MeasuredCosts({"core": lines}, {})

    def counted(kernel: str, title: str, steps: int) -> int:
        return costs.counted(StepOnCore("core", kernel_keys(kernel, title, steps), (100, 1, 10)))

    assert counted("k", "conv2d", 1) == 100
    assert counted("k", "conv2d", 2) == 405
    assert counted("k", "conv2d + relu", 1) == 230
    assert counted("k", "conv2d + relu", 2) == 230  # of shared ones with an activation none was measured
    assert counted("unknown", "conv2d", 1) == 0
    assert costs.counted(StepOnCore("other", kernel_keys("k", "conv2d", 1), (100, 1, 10))) == 100


def test_kernels_that_were_not_measured_on_a_core_are_as_on_one_with_the_same_code() -> None:
    costs = MeasuredCosts({"cortex-m7": {"k": (3.0,), "": (5.0,)}, "cortex-m4": {"k": (1.0,), "other": (2.0,)}}, {})
    assert costs.counted(StepOnCore("cortex-m7", kernel_keys("k", "conv2d", 1), (100, 1))) == 300
    assert costs.counted(StepOnCore("cortex-m7", kernel_keys("other", "conv2d", 1), (100, 1))) == 200
    assert costs.counted(StepOnCore("cortex-m3", kernel_keys("other", "conv2d", 1), (100, 1))) == 100


def test_what_was_counted_stands_for_what_no_proof_had() -> None:
    """Also of code that is compiled for size, where proofs of models have the kernel only as compiled for speed."""
    lines = {"a": {"": (5.0,)}, "b": {"k": (3.0,)}, "c": {"k": (3.0,)}, "c size": {"k": (4.0,)}}
    costs, keys, own = MeasuredCosts(lines, {}, cycles=lines), kernel_keys("k", "conv2d", 1), CountedShares(2.0, 1.5)
    fast = {core: StepOnCore(core, keys, (100, 1), "speed", own) for core in "abc"}
    small = {core: StepOnCore(core, keys, (100, 1), "size", own) for core in "abc"}
    assert {core: costs.counted(step) for core, step in fast.items()} == {"a": 200, "b": 300, "c": 300}
    assert {core: costs.counted(step) for core, step in small.items()} == {"a": 300, "b": 450, "c": 400}
    assert {core: costs.cycled(step) for core, step in small.items()} == {"a": 750, "b": 450, "c": 400}


def test_assembly_that_was_never_measured_is_as_other_assembly() -> None:
    """What it takes is counted in its text: compilers, which decide what code in C takes, do not matter."""
    costs = MeasuredCosts({"a": {"k": (3.0,), "": (5.0,)}, "b": {"k": (3.0,), "": (5.0,), "assembly": (2.0,)}}, {})

    def counted(core: str, kernel: str, assembly: bool) -> int:
        return costs.counted(StepOnCore(core, kernel_keys(kernel, "conv2d", 1, assembly=assembly), (100, 1)))

    assert [counted("a", "k", False), counted("a", "k", True)] == [300, 300]
    assert [counted("a", "other", False), counted("a", "other", True)] == [500, 100]
    assert [counted("b", "other", False), counted("b", "other", True)] == [500, 200]


def test_code_that_is_made_small_takes_what_was_measured_of_such() -> None:
    lines = {"core": {"k": (1.0,), "j": (2.0,), "": (9.0,)}, "core size": {"k": (3.0,), "": (5.0,)}}
    costs = MeasuredCosts(lines, {}, cycles=lines)
    for ask in (costs.counted, costs.cycled):
        fast = [ask(StepOnCore("core", kernel_keys(k, "conv2d", 1), (100, 1))) for k in "kjx"]
        taken = [fast, [ask(StepOnCore("core", kernel_keys(k, "conv2d", 1), (100, 1), "size")) for k in "kjx"]]
        assert taken == [[100, 200, 900], [300, 200, 500]]


def test_no_stack_without_measurements(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(network(8), path)
    board = load_board("cortex-m3")
    program = compile_model(path, board, Options("cortex-m3"), Progress()).program
    assert estimate("m", program, board, MeasuredCosts({}, {})).stack_bytes is None
    assert estimate("m", program, board).stack_bytes is not None


def test_what_does_not_fit_is_no_error_but_said() -> None:
    estimated = tinyc.estimate(
        network(4, 210), "cortex-m0plus", prefer="time"
    )  # the input alone is larger than its RAM
    assert not estimated.fits
    assert re.search(r"the arena takes [\d,]+ bytes, cortex-m0plus has [\d,]+ of RAM", estimated.problem or "")


def test_models_in_memory(tmp_path: Path) -> None:
    model = network(8)
    onnx.save(model, tmp_path / "m.onnx")
    of_file, in_memory = tinyc.estimate(tmp_path / "m.onnx"), tinyc.estimate(model)
    assert of_file.layers == in_memory.layers
    with pytest.raises(TinycError, match="a list is no model that tinyc reads"):
        tinyc.estimate([1])


@pytest.mark.frameworks
def test_a_torch_module(capfd: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    module = torch.nn.Sequential(
        torch.nn.Conv1d(4, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 14, 3)
    )
    estimated = tinyc.estimate(module, example=torch.randn(1, 4, 16))
    assert estimated.macs == 14 * 8 * 4 * 3 + 8 * 14 * 3
    assert module.training
    printed = capfd.readouterr()
    assert printed.out == printed.err == ""
    with pytest.raises(TinycError, match="says no shapes"):
        tinyc.estimate(module)


@pytest.mark.frameworks
def test_a_torch_module_of_two_inputs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
            self.head = torch.nn.Linear(8, 4)

        def forward(self, x: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x).mean((2, 3)) + more)

    module, example = Two(), (torch.randn(1, 3, 12, 12), torch.randn(1, 8))
    estimated = tinyc.estimate(module, "cortex-m0plus", example=example)
    torch.onnx.export(module.eval(), example, str(tmp_path / "two.onnx"), verbose=False)
    of_file = tinyc.estimate(tmp_path / "two.onnx", "cortex-m0plus")
    assert (estimated.instructions, estimated.arena_bytes) == (of_file.instructions, of_file.arena_bytes)
    with pytest.raises(TinycError, match="cannot export the module: missing a required argument: 'more'"):
        tinyc.estimate(module, example=example[0])


@pytest.mark.slow
def test_the_search_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    code = max(blocks, key=len)
    assert len(code.splitlines()) <= 45
    exec(code, {})
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows
    assert all(0 < float(row[2]) < 40 for row in rows)
