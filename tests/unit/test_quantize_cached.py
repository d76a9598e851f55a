# SPDX-License-Identifier: Apache-2.0
"""What quantizing found is kept by its content, and nothing but data is read back."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.board import load_board
from tinyc.ir import stored
from tinyc.ops.conv2d import Conv2D
from tinyc.pipeline import Options, Progress, compile_model
from tinyc.quantize import Recipe, cached
from tinyc.quantize.recipe import hurried


@pytest.fixture
def model(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    nodes = [
        op("Conv", "x w b", "c", pads=[1] * 4),
        op("Relu", "c", "r"),
        op("Flatten", "r", "f"),
        op("Gemm", "f v", "y"),
    ]
    constants = {
        "w": rng.standard_normal((3, 1, 3, 3)),
        "b": rng.standard_normal(3),
        "v": rng.standard_normal((108, 4)),
    }
    graph = build(nodes, {"x": (1, 1, 6, 6)}, ["y"], {name: a.astype(np.float32) for name, a in constants.items()})
    onnx.save(graph, tmp_path / "m.onnx")
    np.savez(tmp_path / "m.calib.npz", x=rng.standard_normal((40, 1, 6, 6)).astype(np.float32))
    return tmp_path / "m.onnx"


def built(model: Path, recipe: Recipe | None = None, cache: bool = True) -> tuple[dict[str, str], list[str]]:
    """The files of the library, and the steps of quantizing that ran."""
    steps: list[str] = []
    progress = Progress(on_share=lambda what, share: steps.append(what))
    options = Options("host", recipe=recipe, cache=cache)
    return dict(compile_model(model, load_board("host"), options, progress).files), steps


def test_the_second_time_is_the_first_without_work(model: Path) -> None:
    plain, worked = built(model, cache=False)
    assert worked
    assert not (model.parent / cached.FOLDER).exists()
    assert built(model) == (plain, worked)
    assert built(model) == (plain, [])
    kept = list((model.parent / cached.FOLDER).glob("*.npz"))
    assert len(kept) == 1
    kept[0].write_bytes(kept[0].read_bytes()[:-30])
    assert built(model) == (plain, worked), "a damaged file is as good as none"


def test_another_recipe_or_other_inputs_are_something_else(model: Path) -> None:
    fast = hurried(Recipe())
    first, steps = built(model, fast)
    assert steps.count("calibration method") == 0
    assert first != built(model)[0]
    with np.load(model.with_suffix(".calib.npz")) as data:
        changed = data["x"] * 2
    np.savez(model.with_suffix(".calib.npz"), x=changed)
    assert built(model, fast)[1], "other inputs, and nothing was worked out"
    assert len(list((model.parent / cached.FOLDER).glob("*.npz"))) == 3


def test_only_so_many_are_kept(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "MOST", 2)
    for seed in range(4):
        built(model, replace(hurried(Recipe()), seed=seed))
    assert len(list((model.parent / cached.FOLDER).glob("*.npz"))) == 2


def test_a_folder_that_cannot_be_written_is_no_error(model: Path) -> None:
    (model.parent / cached.FOLDER).write_text("a file")
    assert built(model) == built(model, cache=False)


@pytest.mark.parametrize(
    "text",
    [
        '{"class": "os:path", "fields": {}}',
        '{"class": "subprocess:Popen", "fields": {"args": ["true"]}}',
        '{"class": "tinyc.base.files:write_file", "fields": {"path": "x", "data": "y"}}',
        '{"class": "tinyc.base.files:os.system", "fields": {"command": "true"}}',
        '{"enum": "tinyc.ops.conv2d:Conv2D", "value": "x"}',
        '{"array": 7}',
        "{",
    ],
)
def test_nothing_but_our_data_is_made_of_a_file(text: str) -> None:
    file = io.BytesIO()
    np.savez(file, json=np.frombuffer(text.encode(), np.uint8))
    with pytest.raises(ValueError, match="not a stored value"):
        stored.from_bytes(file.getvalue())


def test_what_is_stored_comes_back() -> None:
    value = (1, 2.5, float("inf"), "a", None, b"\0\1", True, {"k": (1,)}, Conv2D())
    assert stored.from_bytes(stored.to_bytes(value)) == value
    array = stored.from_bytes(stored.to_bytes({"a": np.arange(3, dtype=np.int8)}))["a"]
    assert array.dtype == np.int8
    assert array.tolist() == [0, 1, 2]
    assert not array.flags.writeable
    with pytest.raises(TypeError):
        stored.to_bytes(np.array([object()]))
