# SPDX-License-Identifier: Apache-2.0
"""A front end before a window model with `--incremental`: what the whole window gives, from only what is new."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.pushing import expected, pushed, random_chunks
from tests.frontend.sounds import recordings, voice
from tests.unit.networks import Network
from tests.unit.stream_cases import NUMERICS
from tests.unit.test_stream_incremental import network, residual
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.frontend import load_frontend
from tinyc.ir.check import check
from tinyc.ir.graph import Graph
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove
from tinyc.plan.rows import sliding, without_time_padding
from tinyc.reference.interpreter import prepare_int

BANDS = 8
FRONT = f'kind = "logmel"\nwindow_ms = 12\nstep_ms = 8\n[mel]\nbands = {BANDS}\n[log]\nkind = "log10"\nfloor = 1e-9\n'


def front_file(folder: Path, hop: int = 1) -> str:
    path = folder / "front.toml"
    path.write_text(f"hop = {hop}\n{FRONT}")
    return str(path)


@cache
def model_bytes(padded: int, stride: int) -> bytes:
    """Frames [1, 1, 13, BANDS] through two convolutions over time, the second of every moment; ONNX."""
    net = Network(7)
    net.input_shape = net.shape = (1, 1, 13, BANDS)
    net.add("Conv", net.x, net.constant(3, 1, 3, 3, scale=0.3), pads=[padded, 1, padded, 1], strides=[stride, 2])
    net.relu()
    net.shape = (1, 3, (13 + 2 * padded - 3) // stride + 1, BANDS // 2)
    net.add("Conv", net.x, net.constant(4, 3, 2, 3, scale=0.3), pads=[0, 1, 0, 1])
    net.shape = (1, 4, net.shape[2] - 1, net.shape[3])
    net.add("GlobalAveragePool", net.x)
    net.add("Flatten", net.x)
    net.add("Gemm", net.x, net.constant(3, 4, scale=3.0), net.constant(3), transB=1)
    return net.model().SerializeToString()


def model(folder: Path, padded: int = 0, stride: int = 1) -> Path:
    path = folder / "unit.onnx"
    path.write_bytes(model_bytes(padded, stride))
    rng = np.random.default_rng(2)
    np.savez(folder / "unit.calib.npz", x=rng.normal(-6, 3, (16, 1, 13, BANDS)).astype(np.float32))
    return path


@pytest.mark.parametrize(
    ("graph", "hop"),
    [
        *((network(False), hop) for hop in (1, 3, 11)),
        *((network(True), hop) for hop in (2, 4)),
        *((without_time_padding(residual(kind)), hop) for kind, hop in (("plain", 3), ("both", 2), ("strided", 2))),
    ],
)
def test_the_graph_of_a_run_gives_the_outputs_of_whole_windows(graph: Graph, hop: int) -> None:
    """Also where branches are cropped, and where a window is no number of hops."""
    assert check_sliding(graph, hop) >= 4


def check_sliding(graph: Graph, hop: int) -> int:
    """Every output of a long stream against the whole window, by the reference; how many there were."""
    slid = sliding(graph, candidates(graph, frozenset(), NUMERICS), hop)
    check(slid.graph, "incremental", all_ops())
    (name,), x, taken = graph.inputs, graph.values[graph.inputs[0]], slid.graph.values[graph.inputs[0]].shape
    row = x.elements // slid.window
    stream = np.random.default_rng(4).integers(-128, 128, (slid.window + 5 * hop, row)).astype(np.int8)
    ends = range(hop, len(stream) + 1, hop)
    given = ({name: stream[end - hop : end].reshape(taken)} for end in ends)
    whole, compared = prepare_int(graph, NUMERICS), 0
    for end, run in zip(ends, prepare_int(slid.graph, NUMERICS).sequence(given), strict=True):
        if end >= slid.window:
            reference = whole({name: stream[end - slid.window : end].reshape(x.shape)})
            for out in graph.outputs:
                np.testing.assert_array_equal(run[out], reference[out])
            compared += 1
    return compared


@pytest.mark.parametrize(("hop", "stride"), [(1, 1), (4, 2)])
def test_pushed_samples_give_the_outputs_of_whole_windows(hop: int, stride: int, tmp_path: Path) -> None:
    """The library of what is new against the Python features and the model on whole windows, in C with sanitizers."""
    path, file = model(tmp_path, stride=stride), front_file(tmp_path, hop)
    front = load_frontend(file)
    integers = make_integers(path, load_board("host"), Options("host"), Progress())
    samples = np.concatenate([voice(0.25), recordings(0.2)["ends"], np.zeros(1000, np.int16), voice(0.1)])
    reference = [run.tobytes() for run in expected(integers.graph, front, samples, integers.numerics)]
    assert len(set(reference)) > 5
    streams = [(samples, random_chunks(front.step * hop)), (samples[:5000], itertools.repeat(1))]
    outputs = pushed(path, file, streams, tmp_path, 2)
    by_ones = outputs[len(reference) :]
    assert outputs == [*reference, *reference[: len(by_ones)]]
    assert len(by_ones) > 3


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m0plus", "riscv32imc"])
def test_on_the_boards(board: str, tmp_path: Path) -> None:
    path, file = model(tmp_path, stride=2), front_file(tmp_path)
    options = Options(board, frontend=file, incremental=2, hop=2, samples=10)
    compiled = compile_model(path, load_board(board), options, Progress())
    report = prove(compiled, load_board(board), options, Progress())
    assert report.passed
    whole = compile_model(path, load_board(board), Options(board, frontend=file_with_hop(tmp_path, 2)), Progress())
    assert compiled.front is not None
    assert whole.front is not None
    assert compiled.front.runs == whole.front.runs == 7
    assert sum(step.macs for step in compiled.program.steps) < sum(step.macs for step in whole.program.steps)


def file_with_hop(folder: Path, hop: int) -> str:
    (folder / "hop").mkdir()
    return front_file(folder / "hop", hop)


def test_a_model_that_pads_in_time_is_refused(tmp_path: Path) -> None:
    path, file, board = model(tmp_path, padded=1), front_file(tmp_path), load_board("host")
    with pytest.raises(TinycError, match="pads in time, 1 rows before and 1 after") as caught:
        make_integers(path, board, Options("host", frontend=file, incremental=2), Progress())
    assert caught.value.where is not None


@pytest.mark.parametrize(
    ("options", "hop", "word"),
    [
        (Options("host", incremental=1), 1, "has its rows on axis 2, not on axis 1"),
        (Options("host", incremental=2, hop=2), 3, "--hop 2, but `hop = 3`"),
        (Options("host", incremental=2, input_rows=True), 1, "takes samples, not rows"),
        (Options("host", incremental=2, hop=14), 1, "but a call gives it"),
        (Options("host", hop=2), 1, "options of --incremental"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Options, hop: int, word: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=word):
        make_integers(
            model(tmp_path), load_board("host"), replace(options, frontend=front_file(tmp_path, hop)), Progress()
        )
