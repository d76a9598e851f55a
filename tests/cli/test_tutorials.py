# SPDX-License-Identifier: Apache-2.0
"""The tutorials, page by page: their Python runs, their commands run, in the order in which a reader meets them.

Where a framework is not installed, a model of the same inputs stands for what it would export, and the rest of the page
runs. A command with --port, `tinyc flash` and a program that somebody else linked want what no test has.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import pytest

from tests.cli.test_docs_commands import FENCED
from tests.load.onnx_forests import Trees
from tests.load.onnx_forests import model as forest_model
from tests.load.onnx_models import build, op
from tinyc.cli.main import main
from tinyc.options.build import Options
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.quantizing import quantize_file

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("tutorial-*.md"))
OUT_OF_REACH = ("tinyc flash", "--port", "--elf")
Kind = Literal["python", "c", "command"]


def parts(page: Path) -> Iterator[tuple[Kind, str]]:
    """Snippets and commands, in order."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(rf"{FENCED.pattern}|^    (tinyc [^\n]*)$", text, FENCED.flags):
        language, snippet, command = match.groups()
        if command:
            yield "command", command
        elif language in ("python", "c"):
            yield language, snippet


def _motor() -> None:
    """A dense network of the same inputs, quantized by tinyc."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(32, 3)).astype(np.float32)
    nodes = [op("MatMul", "x w", "s"), op("Softmax", "s", "y")]
    onnx.save(build(nodes, {"x": (1, 32)}, ["y"], {"w": w}), "motor.onnx")
    x = rng.normal(size=(200, 32)).astype(np.float32)
    np.savez("motor.test.npz", x=x, y=(x @ w).argmax(1))
    options = Options("host", calibration=Path("motor.test.npz"), effort="fast")
    quantize_file(Path("motor.onnx"), options, None, Path("motor.tflite"), Progress())


def _garden() -> None:
    trees = Trees(np.random.default_rng(3), 4, range(3)).grow(5, 4, 0.25, lambda rng: rng.integers(0, 3) / 8)
    node = onnx.helper.make_node(
        *("TreeEnsembleClassifier", ["x"], ["label", "probabilities"]),
        **(trees.attributes("class") | {"domain": "ai.onnx.ml", "classlabels_int64s": [0, 1, 2]}),
    )
    outputs = [("label", onnx.TensorProto.INT64), ("probabilities", onnx.TensorProto.FLOAT)]
    onnx.save(forest_model([node], 4, outputs), "garden.onnx")
    np.savez("garden.test.npz", x=np.nan_to_num(trees.samples(40)).clip(-9, 9))


def _gestures() -> None:
    """Of the page's Python what PyTorch does; what tinyc does with it runs as it is."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(3, 3, 5)).astype(np.float32)
    nodes = [op("Conv", "x w", "c"), op("GlobalAveragePool", "c", "p"), op("Flatten", "p", "y")]
    model = build(nodes, {"x": (1, 3, 64)}, ["y"], {"w": w})
    x = rng.normal(size=(128, 3, 64)).astype(np.float32)
    import tinyc  # noqa: PLC0415  as the page does

    tinyc.build(model, "arduino-nano-33-ble", name="gestures", calibration=x, inputs=x)


STAND_INS: dict[str, tuple[str, Callable[[], None]]] = {
    "tutorial-pytorch": ("torch", _gestures),
    "tutorial-keras": ("keras", _motor),
    "tutorial-scikit-learn": ("sklearn", _garden),
}


def run(line: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_runs_from_its_first_line_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    framework, stand_in = STAND_INS.get(page.stem, ("", lambda: None))
    is_there = not framework or importlib.util.find_spec(framework) is not None
    if not is_there:
        stand_in()
    names: dict[str, Any] = {}
    commands = 0
    for kind, text in parts(page):
        if kind == "python" and is_there:
            exec(compile(text, page.name, "exec"), names)
        elif kind == "c":
            compiles(text)
        elif kind == "command" and not any(words in text for words in OUT_OF_REACH):
            line = text if is_there else re.sub(r" --min-top1 \d+", "", text)
            assert run(line) == 0, line
            commands += 1
    assert commands >= 2


def compiles(snippet: str) -> None:
    """C against the library that was just built."""
    name = re.search(r'#include "(\w+)\.h"', snippet)[1]  # type: ignore[index]
    Path("snippet.c").write_text(f"#include <stdint.h>\nvoid decide(const int8_t *scores);\n{snippet}")
    words = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-Ibuild/{name}", "-fsyntax-only", "snippet.c"]
    subprocess.run(words, check=True)


def test_every_page_has_a_picture_and_is_in_the_readme() -> None:
    assert len(PAGES) == 5
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in PAGES:
        assert "](images/" in page.read_text(encoding="utf-8")
        assert f"docs/{page.name}" in readme
