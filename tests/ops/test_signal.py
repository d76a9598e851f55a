# SPDX-License-Identifier: Apache-2.0
"""Signal operators: kernels against the reference, and the reference against TensorFlow Lite Micro."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyc
from tests.ops.harness import HOST_ISA, OneStepPlan, run_plan, usable_kernels
from tests.ops.runtimes import tflm_sequence
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.target.signal_cases import bank, gains, signal_cases
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Value
from tinyc.load.tflite import load_tflite
from tinyc.ops.signal_square_root import roots
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int, run_int

CASES = list(signal_cases())
RUNS = 9
KINDS = 8  # of samples
STORED = Path(__file__).resolve().parents[3] / "shared" / "frontend"


def samples(graph: Graph) -> Iterator[Mapping[str, Array]]:
    """Random, silent, at both ends, small, and of single peaks; some with a -32768 among small ones."""
    rng = np.random.default_rng(11)
    for kind in range(KINDS):
        arrays = {}
        for name in graph.inputs:
            value = graph.values[name]
            info = np.iinfo(NUMPY_DTYPE[value.dtype])
            drawn = rng.integers(info.min, info.max, value.shape, info.dtype, endpoint=True)
            small = rng.integers(0, 40 if value.shape else 4, value.shape).astype(info.dtype)  # counts of steps
            peak = np.zeros(value.shape, info.dtype)
            peak.flat[value.elements // 2] = info.min if info.min else info.max
            shifted = drawn // info.dtype.type(1 << rng.integers(0, 8 * info.dtype.itemsize - 1))
            ends = np.where(drawn > info.max // 2, info.max, info.min).astype(info.dtype)
            arrays[name] = (drawn, drawn * 0, ends, small, peak, peak + small, shifted, -small)[kind].astype(info.dtype)
        yield {name: np.asarray(array).reshape(graph.values[name].shape) for name, array in arrays.items()}


def side_by_side() -> tuple[Graph, dict[str, str], list[dict[str, Array]]]:
    """All cases with all their kernels in one graph, the kernel of each node, and the inputs: one compilation for
    all."""
    nodes: list[Node] = []
    values: dict[str, Value] = {}
    consts: dict[str, Array] = {}
    prefer: dict[str, str] = {}
    inputs: list[dict[str, Array]] = [{} for _ in range(KINDS)]
    for number, case in enumerate(CASES):
        (node,) = case.nodes
        kernels = usable_kernels(case, node, Numerics.TFLM)
        assert kernels, node
        for name in (*case.inputs, *case.consts):
            values[f"c{number}_{name}"] = replace(case.values[name], name=f"c{number}_{name}")
        consts |= {f"c{number}_{name}": array for name, array in case.consts.items()}
        for sample, drawn in zip(inputs, samples(case), strict=True):
            sample.update({f"c{number}_{name}": array for name, array in drawn.items()})
        for kernel in kernels:
            new_outputs = tuple(f"c{number}_{kernel}_{y}" for y in node.outputs)
            values |= {new: replace(case.values[y], name=new) for new, y in zip(new_outputs, node.outputs, strict=True)}
            taken = tuple(f"c{number}_{x}" for x in node.inputs)
            nodes.append(Node(f"c{number}_{kernel}", node.op, taken, new_outputs, node.attrs))
            prefer[nodes[-1].name] = kernel
    outputs = tuple(y for node in nodes for y in node.outputs)
    return Graph("all", tuple(inputs[0]), outputs, tuple(nodes), values, consts), prefer, inputs


@pytest.mark.parametrize("compiler", ["clang", pytest.param("gcc", marks=pytest.mark.slow)])
def test_kernels(compiler: str) -> None:
    graph, prefer, inputs = side_by_side()
    choices = select(graph, HOST_ISA, Numerics.TFLM, prefer=prefer)
    plan = OneStepPlan(graph, max(choice.scratch_bytes for choice in choices.values()))
    outputs = run_plan(graph, choices, plan, inputs, Numerics.TFLM, compiler)
    with np.errstate(over="ignore"):
        by_reference = [run_int(graph, sample, Numerics.TFLM) for sample in inputs]
    for arrays, reference in zip(outputs, by_reference, strict=True):
        for name, array in zip(graph.outputs, arrays, strict=True):
            np.testing.assert_array_equal(array, reference[name], err_msg=name)


def test_roots_are_the_nearest_integers() -> None:
    """At squares, half way between two, and at the ends of 32 and 64 bits."""
    near = [k * k + d for k in (1, 2, 255, 46340, 65535, 65536, 2**31, 2**32 - 1) for d in (-1, 0, 1, k - 1, k, k + 1)]
    x = np.array([v for v in (*near, 0, 2**32 - 1, 2**32, 2**64 - 1) if v < 2**64], np.uint64)
    for v, root in zip(x.tolist(), roots(x).tolist(), strict=True):
        top = 65535 if v < 2**32 else 2**32 - 1
        assert root == min(
            next(r for r in (math.isqrt(v), math.isqrt(v) + 1) if abs(r * r - v) <= abs((r + 1) ** 2 - v)), top
        )


def of_file(
    tmp_path: Path, code: str, fields: Mapping[str, Any], tensors: Sequence[Tensor], outputs: Sequence[str]
) -> tuple[bytes, Graph]:
    """A model of one custom operator, as bytes and as tinyc imports it."""
    free = [t.name for t in tensors if t.name not in outputs and t.data is None]
    named = tuple(t.name for t in tensors if t.name not in outputs)
    operator = Operator(f"CUSTOM {code}", named, tuple(outputs), "", fields)
    content = build_model(tensors, [operator], free, outputs)
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    return content, load_tflite(path)


def assert_runs_are_tflms(content: bytes, graph: Graph, inputs: Sequence[Sequence[Array]], valid: bool = False) -> None:
    """Every run of a sequence; where the second output says that the first is not there, only that it says so."""
    theirs = tflm_sequence(content, inputs)
    named = [dict(zip(graph.inputs, sample, strict=True)) for sample in inputs]
    for run, (ours, expected) in enumerate(zip(prepare_int(graph, Numerics.TFLM).sequence(named), theirs, strict=True)):
        for index, name in reversed(list(enumerate(graph.outputs))):
            if valid and index == 0 and not ours[graph.outputs[1]]:
                continue
            np.testing.assert_array_equal(ours[name].reshape(-1), expected[index].reshape(-1), f"run {run}, {name}")


def counts(seed: int, *shape: int, dtype: type = np.int16) -> list[Array]:
    """Runs of random numbers: whole range, small, the ends, silence."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype)
    runs = []
    for run in range(RUNS):
        x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        top = np.where(x > info.max // 2, info.max, info.min)
        runs.append((x, x >> (3 * run % 15), top, x * 0)[run % 4].astype(dtype))
    return runs


TFLM: dict[str, tuple[str, dict[str, Any], list[Tensor], list[str]]] = {
    "window": (
        "SignalWindow",
        {"shift": 9},
        [
            Tensor("x", (2, 40), "s16"),
            Tensor("w", (40,), "s16", data=np.random.default_rng(3).integers(-4096, 4097, 40).astype(np.int16)),
            Tensor("y", (2, 40), "s16"),
        ],
        ["y"],
    ),
    "auto scale": (
        "SignalFftAutoScale",
        {},
        [Tensor("x", (33,), "s16"), Tensor("y", (33,), "s16"), Tensor("b", (), "s32")],
        ["y", "b"],
    ),
    "rfft 16": (
        "SignalRfft",
        {"T": 7, "fft_length": 32},
        [Tensor("x", (2, 27), "s16"), Tensor("y", (2, 34), "s16")],
        ["y"],
    ),
    "rfft 32": (
        "SignalRfft",
        {"T": 2, "fft_length": 64},
        [Tensor("x", (64,), "s32"), Tensor("y", (66,), "s32")],
        ["y"],
    ),
    "irfft 16": (
        "SignalIrfft",
        {"T": 7, "fft_length": 32},
        [Tensor("x", (2, 34), "s16"), Tensor("y", (2, 32), "s16")],
        ["y"],
    ),
    "irfft 32": (
        "SignalIrfft",
        {"T": 2, "fft_length": 16},
        [Tensor("x", (18,), "s32"), Tensor("y", (16,), "s32")],
        ["y"],
    ),
    "log": (
        "SignalFilterBankLog",
        {"input_correction_bits": 3, "output_scale": 64},
        [Tensor("x", (21,), "u32"), Tensor("y", (21,), "s16")],
        ["y"],
    ),
    "subtraction": (
        "SignalFilterBankSpectralSubtraction",
        {
            "alternate_one_minus_smoothing": 15401,
            "alternate_smoothing": 983,
            "clamping": True,
            "min_signal_remaining": 819,
            "num_channels": 9,
            "one_minus_smoothing": 15975,
            "smoothing": 409,
            "smoothing_bits": 10,
            "spectral_subtraction_bits": 14,
        },
        [Tensor("x", (9,), "u32"), Tensor("y", (9,), "u32"), Tensor("n", (9,), "u32")],
        ["y", "n"],
    ),
    "pcan": (
        "SignalPCAN",
        {"snr_shift": 6},
        [
            Tensor("x", (17,), "u32"),
            Tensor("noise", (17,), "u32"),
            Tensor("lut", (125,), "s16", data=gains()),
            Tensor("y", (17,), "u32"),
        ],
        ["y"],
    ),
    "root": (
        "SignalFilterBankSquareRoot",
        {},
        [Tensor("x", (17,), "u64"), Tensor("b", (), "s32"), Tensor("y", (17,), "u32")],
        ["y"],
    ),
    "framer": (
        "SignalFramer",
        {"frame_size": 20, "frame_step": 6, "prefill": False},
        [Tensor("x", (2, 12), "s16"), Tensor("y", (2, 2, 20), "s16"), Tensor("v", (), "bool")],
        ["y", "v"],
    ),
    "filled framer": (
        "SignalFramer",
        {"frame_size": 20, "frame_step": 6, "prefill": True},
        [Tensor("x", (12,), "s16"), Tensor("y", (2, 20), "s16"), Tensor("v", (), "bool")],
        ["y", "v"],
    ),
    "stacker": (
        "SignalStacker",
        {"num_channels": 5, "stacker_left_context": 2, "stacker_right_context": 2, "stacker_step": 3},
        [Tensor("x", (5,), "s16"), Tensor("y", (25,), "s16"), Tensor("v", (), "bool")],
        ["y", "v"],
    ),
    "delay": ("SignalDelay", {"delay_length": 11}, [Tensor("x", (2, 7), "s16"), Tensor("y", (2, 7), "s16")], ["y"]),
    "overlap add": (
        "SignalOverlapAdd",
        {"T": 7, "frame_step": 6},
        [Tensor("x", (2, 3, 16), "s16"), Tensor("y", (2, 18), "s16")],
        ["y"],
    ),
}


@pytest.mark.parametrize("name", TFLM)
def test_runs_are_tflms(name: str, tmp_path: Path) -> None:
    code, fields, tensors, outputs = TFLM[name]
    content, graph = of_file(tmp_path, code, fields, tensors, outputs)
    free = [t for t in tensors if t.name not in outputs and t.data is None]
    columns = [counts(k, *t.shape, dtype=NUMPY_DTYPE[t.dtype]) for k, t in enumerate(free)]
    if name == "root":
        columns[1] = [np.asarray(run % 15, np.int32) for run in range(RUNS)]
    assert_runs_are_tflms(content, graph, list(zip(*columns, strict=True)), valid="v" in outputs)


def test_filter_bank_and_energy_are_tflms(tmp_path: Path) -> None:
    """Behind each other, so that bins without energy are read with weight 0 only."""
    tables, arrays = bank(6, 33, padding=1)
    tensors = [
        Tensor("x", (66,), "s16"),
        Tensor("e", (33,), "u32"),
        *(Tensor(t.name, t.shape, "s16", data=arrays[t.name]) for t in tables),
        Tensor("y", (6,), "u64"),
        Tensor("b", (), "s32"),
        Tensor("r", (6,), "u32"),
    ]
    names = tuple(t.name for t in tables)
    operators = [
        Operator("CUSTOM SignalEnergy", ("x",), ("e",), "", {"start_index": 2, "end_index": 32}),
        Operator("CUSTOM SignalFilterBank", ("e", *names), ("y",), "", {"num_channels": 6}),
        Operator("CUSTOM SignalFilterBankSquareRoot", ("y", "b"), ("r",)),
    ]
    content = build_model(tensors, operators, ["x", "b"], ["r"])
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    columns = counts(5, 66), [np.asarray(run, np.int32) for run in range(RUNS)]
    assert_runs_are_tflms(content, load_tflite(path), list(zip(*columns, strict=True)))


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "step": ("framer", {"frame_step": 0}, "a step is shorter than a frame"),
    "long step": ("framer", {"frame_step": 20}, "a step is shorter than a frame"),
    "uneven": ("framer", {"frame_step": 5}, "whole steps"),
    "length": ("rfft 16", {"fft_length": 24}, "power of two"),
    "huge": ("rfft 16", {"fft_length": 1 << 20}, "power of two"),
    "too short": ("rfft 16", {"fft_length": 16}, "takes no lines"),
    "float": ("rfft 16", {"T": 0}, "float32 is not supported"),
    "kind": ("rfft 16", {"T": 2}, "declared for int32"),
    "strange kind": ("overlap add", {"T": 99}, "type 99"),
    "shift": ("window", {"shift": 32}, "must lie in"),
    "channels": ("subtraction", {"num_channels": 8}, "declared for 8 channels"),
    "bits": ("subtraction", {"smoothing_bits": -1}, "must lie in"),
    "context": ("stacker", {"stacker_left_context": -1}, "frames before"),
    "stride": ("stacker", {"stacker_step": 6}, "must lie in"),
    "no delay": ("delay", {"delay_length": 0}, "a delay of 0"),
    "correction": ("log", {"input_correction_bits": 40}, "must lie in"),
    "unknown": ("log", {"input_colour": 1}, "input_colour"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_attributes_are_errors(name: str, tmp_path: Path) -> None:
    case, changed, says = BAD[name]
    code, fields, tensors, outputs = TFLM[case]
    with pytest.raises(TinycError, match=says) as error:
        of_file(tmp_path, code, {**fields, **changed}, tensors, outputs)
    assert error.value.where is not None


@pytest.mark.parametrize("name", TFLM)
def test_missing_attributes_are_errors(name: str, tmp_path: Path) -> None:
    code, fields, tensors, outputs = TFLM[name]
    if fields:
        with pytest.raises(TinycError, match="has no attribute"):
            of_file(tmp_path, code, dict(list(fields.items())[1:]), tensors, outputs)


@pytest.mark.parametrize("path", sorted((STORED / "ops").glob("*int*.tflite")) or [None], ids=lambda p: p and p.stem)
def test_stored_runs(path: Path | None) -> None:
    """Recorded runs of TensorFlow Lite Micro, where they are at hand."""
    if path is None:
        pytest.skip("no ../shared/frontend")
    stored, graph = np.load(path.with_suffix(".npz")), load_tflite(path)
    x = graph.values[graph.inputs[0]]
    runs = prepare_int(graph, Numerics.TFLM).sequence({x.name: a.reshape(x.shape)} for a in stored["x"])
    for ours, expected in zip(runs, stored["y"], strict=True):
        np.testing.assert_array_equal(ours[graph.outputs[0]].reshape(-1), expected.reshape(-1))


RECORDINGS = [path for path in sorted((STORED / "signal").glob("*.npz")) if path.stem != "tables"]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("path", RECORDINGS or [None], ids=lambda p: p and p.stem)
def test_the_audio_preprocessor(path: Path | None) -> None:
    """TensorFlow Lite Micro's own model of these operators gives its recorded features, frame after frame."""
    if path is None:
        pytest.skip("no ../shared/frontend")
    graph = load_tflite(STORED / "signal" / "audio_preprocessor_int8.tflite")
    (x,) = graph.inputs
    with np.load(path) as stored:
        pcm, expected, window, step = (stored[k] for k in ("pcm", "features_int8", "window", "step"))
    frames = np.lib.stride_tricks.sliding_window_view(pcm, int(window))[:: int(step)]
    runs = prepare_int(graph, Numerics.TFLM).sequence({x: frame[None]} for frame in frames)
    np.testing.assert_array_equal([run[graph.outputs[0]] for run in runs], expected)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", ["cortex-m4", "host", "cortex-m0plus", "cortex-m55", "riscv32imc"])
def test_the_library_of_the_audio_preprocessor_with_floats(board: str) -> None:
    """Integers as far as the logarithm, then float32: every float that TensorFlow Lite Micro gives."""
    file = STORED / "signal" / "audio_preprocessor_float.tflite"
    if not file.is_file():
        pytest.skip("no ../shared/frontend")
    with np.load(STORED / "signal" / "noisy_speech_0.npz") as stored:
        frames = np.lib.stride_tricks.sliding_window_view(stored["pcm"], 480)[::320][:40]
        expected = stored["features_float"][:40]
    assert tinyc.verify(file, board, inputs=frames, expect=expected, precision="float32").passed
    with pytest.raises(TinycError, match="computes with integers only") as refused:
        tinyc.verify(file, board, inputs=frames)
    assert "--precision float32" in (refused.value.hint or "")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("board", ["cortex-m4", "host", "cortex-m0plus", "cortex-m55", "riscv32imc"])
def test_the_library_of_the_audio_preprocessor(board: str) -> None:
    file = STORED / "signal" / "audio_preprocessor_int8.tflite"
    if not file.is_file():
        pytest.skip("no ../shared/frontend")
    with np.load(STORED / "signal" / "noisy_speech_0.npz") as stored:
        frames = np.lib.stride_tricks.sliding_window_view(stored["pcm"], 480)[::320][:40]
        expected = stored["features_int8"][:40]
    assert tinyc.verify(file, board, inputs=frames, expect=expected).passed


def chain(tmp_path: Path, cut: tuple[int, int], pad: int = 0) -> tuple[bytes, Graph]:
    """Energies of bins 2 to 7 of 9 with all but the bins `cut` set to `pad`, as TensorFlow Lite Micro's own front ends
    do it, their logarithms, and these scaled to int8."""
    begin, end = cut
    number = {"mul": 256, "add": 333, "div": 666, "rest": -128, "most": 127, "least": -128}
    tensors = [
        Tensor("x", (18,), "s16"),
        Tensor("e", (9,), "u32"),
        Tensor("i", (9,), "s32"),
        *(Tensor(f"at{k}", (1,), "s32", data=np.array([v], np.int32)) for k, v in enumerate((begin, end, 1))),
        Tensor("c", (end - begin,), "s32"),
        Tensor("before", (begin,), "s32", data=np.full(begin, pad, np.int32)),
        Tensor("behind", (9 - end,), "s32", data=np.zeros(9 - end, np.int32)),
        Tensor("j", (9,), "s32"),
        Tensor("u", (9,), "u32"),
        Tensor("l", (9,), "s16"),
        *(Tensor(f"s{k}", (9,), "s32") for k in range(7)),
        *(Tensor(name, (), "s32", data=np.array(value, np.int32)) for name, value in number.items()),
        Tensor("y", (9,), "s8"),
    ]
    act = {"FusedActivationFunction": 0}
    operators = [
        Operator("CUSTOM SignalEnergy", ("x",), ("e",), "", {"start_index": 2, "end_index": 7}),
        Operator("CAST", ("e",), ("i",)),
        Operator("STRIDED_SLICE", ("i", "at0", "at1", "at2"), ("c",), "StridedSliceOptions"),
        Operator("CONCATENATION", ("before", "c", "behind"), ("j",), "ConcatenationOptions", {"Axis": 0, **act}),
        Operator("CAST", ("j",), ("u",)),
        Operator("CUSTOM SignalFilterBankLog", ("u",), ("l",), "", {"input_correction_bits": 0, "output_scale": 64}),
        Operator("CAST", ("l",), ("s0",)),
        Operator("MUL", ("s0", "mul"), ("s1",), "MulOptions", act),
        Operator("ADD", ("add", "s1"), ("s2",), "AddOptions", act),
        Operator("DIV", ("s2", "div"), ("s3",), "DivOptions", act),
        Operator("ADD", ("s3", "rest"), ("s4",), "AddOptions", act),
        Operator("MINIMUM", ("s4", "most"), ("s5",), "MaximumMinimumOptions"),
        Operator("MAXIMUM", ("s5", "least"), ("s6",), "MaximumMinimumOptions"),
        Operator("CAST", ("s6",), ("y",)),
    ]
    content = build_model(tensors, operators, ["x"], ["y"])
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    return content, load_tflite(path)


@pytest.mark.parametrize(("cut", "pad", "left"), [((2, 7), 0, 3), ((1, 8), 0, 3), ((3, 7), 0, 7), ((2, 7), 5, 7)])
def test_zeroing_and_steps_are_joined_where_nothing_changes(
    cut: tuple[int, int], pad: int, left: int, tmp_path: Path
) -> None:
    content, graph = chain(tmp_path, cut, pad)
    short = normalize(graph)
    assert len(short.nodes) == left
    samples = [{"x": x} for x in counts(6, 18)]
    for ours, expected in zip(*(prepare_int(g, Numerics.TFLM).sequence(samples) for g in (short, graph)), strict=True):
        np.testing.assert_array_equal(ours["y"], expected["y"])
    if cut[0] >= 2 and cut[1] <= 7:  # else its interpreter reads bins that it has not written
        assert_runs_are_tflms(content, short, [[sample["x"]] for sample in samples])
