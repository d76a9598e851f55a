"""The generated text of a small model, as a stranger reads it. `pytest tests/golden --update-golden` rewrites it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tinyc.base.errors import Loc
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.emit.library import Info, emit_library
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.mean import Mean
from tinyc.ops.softmax import Softmax
from tinyc.plan import plan_graph

GOLDEN = Path(__file__).parent / "tiny"


def small_graph() -> Graph:
    """conv 3x3 stride 2 with padding -> mean -> fully connected -> softmax; hostile names."""
    w = ((np.arange(2 * 3 * 3 * 1) * 37) % 255 - 127).reshape(2, 3, 3, 1).astype(np.int8)
    fc = np.array([[100, -50], [-7, 127], [1, 0]], np.int8)
    consts = {
        "w": w,
        "b": np.array([120, -77], np.int32),
        "fc": fc,
        "fcb": np.array([3, 2, 1], np.int32),
    }
    values = [
        Value("x*/evil", (1, 5, 4, 1), "s8", Quant((0.05,), (-3,))),
        Value("w", w.shape, "s8", Quant((0.01, 0.02), (0, 0), 0)),
        Value("b", (2,), "s32"),
        Value("conv", (1, 3, 2, 2), "s8", Quant((0.07,), (-128,))),
        Value("mean", (1, 2), "s8", Quant((0.06,), (-120,))),
        Value("fc", fc.shape, "s8", Quant((0.03,), (0,))),
        Value("fcb", (3,), "s32"),
        Value("logits", (1, 3), "s8", Quant((0.2,), (5,))),
        Value("y", (1, 3), "s8", Quant((1 / 256,), (-128,))),
    ]
    loc = [
        Loc("tiny.tflite", i, f"layer/{i}", op)
        for i, op in enumerate(["CONV_2D", "MEAN", "FULLY_CONNECTED", "SOFTMAX"])
    ]
    conv = Conv2D(Pair(2, 2), Padding(1, 1, 1, 1), act=RELU)
    nodes = (
        Node("layer/0", "conv2d", ("x*/evil", "w", "b"), ("conv",), conv, (loc[0],)),
        Node("layer/1", "mean", ("conv",), ("mean",), Mean((1, 2)), (loc[1],)),
        Node("layer/2", "fully_connected", ("mean", "fc", "fcb"), ("logits",), FullyConnected(), (loc[2],)),
        Node("layer/3", "softmax", ("logits",), ("y",), Softmax(), (loc[3],)),
    )
    fixed = {name: read_only(array) for name, array in consts.items()}
    return Graph("tiny", ("x*/evil",), ("y",), nodes, {value.name: value for value in values}, fixed)


# Not the fastest: what they are written by is the same for every layer, and the golden text short.
PORTABLE = {"layer/0": "tc_conv2d_s8", "layer/2": "tc_fully_connected_s8"}


def emitted() -> dict[str, str]:
    graph = small_graph()
    choices = select(graph, frozenset(), Numerics.TFLM, PORTABLE)
    program = lower(graph, plan_graph(graph, choices), Numerics.TFLM, "Tiny!")
    return emit_library(program, Info("tiny.tflite", "ab" * 32, "cortex-m0plus", "0.0.0"))


@pytest.mark.parametrize("name", ["tiny.h", "tiny.c", "tiny_weights.h"])
def test_generated_text(name: str, request: pytest.FixtureRequest) -> None:
    text = emitted()[name]
    if request.config.getoption("--update-golden"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / name).write_text(text)
    assert text == (GOLDEN / name).read_text()


def test_only_the_kernels_in_use_are_copied() -> None:
    kernels = {name for name in emitted() if name.startswith("tc_")}
    assert kernels == {
        "tc_begin.h",
        "tc_compiler.h",
        "tc_end.h",
        "tc_math.h",
        "tc_rows.h",
        "tc_conv2d_s8.h",
        "tc_mean_s8.h",
        "tc_fully_connected_s8.h",
        "tc_softmax_fixed.h",
        "tc_softmax_s8.h",
    }


def test_names_cannot_end_a_comment() -> None:
    assert "x*/evil" not in emitted()["tiny.h"]
