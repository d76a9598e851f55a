# SPDX-License-Identifier: Apache-2.0
"""What quantizing found is kept by its content in the user's cache, and nothing but data is read back."""

from __future__ import annotations

import io
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc.board import load_board
from tinyc.ir import stored
from tinyc.ops.conv2d import Conv2D
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe, hurried
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress
from tinyc.quantize import cached


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are kept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a worker of tests ends without what is for the end
    monkeypatch.setenv("TINYC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / cached.FOLDER


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


def test_the_second_time_is_the_first_without_work(model: Path, folder: Path) -> None:
    plain, worked = built(model, cache=False)
    assert worked
    assert not folder.exists()
    assert built(model) == (plain, worked)
    assert built(model) == (plain, [])
    (cached_file,) = folder.glob("*.npz")
    cached_file.write_bytes(cached_file.read_bytes()[:-30])
    assert built(model) == (plain, worked), "a damaged file is as good as none"
    assert sorted(path.name for path in model.parent.iterdir()) == ["cache", "m.calib.npz", "m.onnx"]


def test_what_another_tinyc_has_stored_is_not_taken(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, worked = built(model)
    monkeypatch.setattr(cached, "source_digest", lambda: "another")
    assert built(model) == (plain, worked)
    assert built(model) == (plain, [])


def test_what_comes_with_a_model_is_not_read(model: Path, folder: Path) -> None:
    """Whoever gives a model away could decide its weights, and the proof would be of them."""
    plain, worked = built(model, cache=False)
    held = stored.from_bytes(_stored_by(model, folder))
    weights = {name: np.zeros_like(array) for name, array in held.graph.consts.items()}
    forged = stored.to_bytes(replace(held, graph=replace(held.graph, consts=weights)))
    (cached_file,) = folder.glob("*.npz")
    (model.parent / ".tinyc-cache").mkdir()
    for place in (folder, model.parent / ".tinyc-cache"):
        (place / cached_file.name).write_bytes(forged)
        (place / f"m-{cached_file.name[:32]}.npz").write_bytes(forged)
    assert built(model) == (plain, worked)


def _stored_by(model: Path, folder: Path) -> bytes:
    built(model)
    (cached_file,) = folder.glob("*.npz")
    return cached_file.read_bytes()


def test_another_recipe_or_other_inputs_are_something_else(model: Path, folder: Path) -> None:
    fast = hurried(Recipe())
    first, steps = built(model, fast)
    assert steps.count("calibration method") == 0
    assert first != built(model)[0]
    with np.load(model.with_suffix(".calib.npz")) as data:
        changed = data["x"] * 2
    np.savez(model.with_suffix(".calib.npz"), x=changed)
    assert built(model, fast)[1], "other inputs, and nothing was worked out"
    assert len(list(folder.glob("*.npz"))) == 3


def test_only_so_many_are_kept(model: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "MOST", 2)
    for seed in range(4):
        built(model, replace(hurried(Recipe()), seed=seed))
    assert len(list(folder.glob("*.npz"))) == 2


def test_a_folder_that_cannot_be_written_is_no_error(model: Path, folder: Path) -> None:
    folder.parent.write_text("a file")
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
