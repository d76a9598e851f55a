# SPDX-License-Identifier: Apache-2.0
"""Node data in the program that it is for: Model Explorer itself, in Chromium, shows what each layer takes. `make
browser` installs it, in an environment of its own; TINYC_MODEL_EXPLORER names another program."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.browser.pages import CHROMIUM, open_chromium, tinyc
from tests.load.tflite_models import network
from tests.ops.tflite_builder import build_model
from tests.package.tools import tools_folder

playwright = pytest.importorskip("playwright.sync_api", reason="make browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: make browser"),
]


def with_fused_names() -> bytes:
    """A network whose tensors are called as converters call those of layers that they fused."""
    tensors, operators = network()
    outputs = {name for operator in operators for name in operator.outputs}
    long = {tensor.name: tensor.name for tensor in tensors} | {
        name: f"{name};{name}/BiasAdd;{name}/c" for name in outputs
    }
    renamed = [
        replace(each, inputs=tuple(long.get(n, n) for n in each.inputs), outputs=tuple(long[n] for n in each.outputs))
        for each in operators
    ]
    return build_model([replace(tensor, name=long[tensor.name]) for tensor in tensors], renamed, ["x"], [long["y"]])


@contextmanager
def served(model: Path, data: Path, folder: Path) -> Iterator[str]:
    """The address at which Model Explorer shows a model with its node data."""
    own = str(tools_folder() / "explorer" / "bin" / "model-explorer")
    program = shutil.which(os.environ.get("TINYC_MODEL_EXPLORER", own))
    if program is None:
        pytest.skip("Model Explorer is not installed: make browser")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = folder / "said.txt"
    words = [program, model, "--node_data_paths", data, "--no_open_in_browser", "--port", port]
    with said.open("w") as out:
        running = subprocess.Popen(list(map(str, words)), stdout=out, stderr=out, env={**os.environ, "PYTHONPATH": ""})
    try:
        until = time.monotonic() + 120
        while (address := re.search(r"http://localhost\S+", said.read_text())) is None:
            assert running.poll() is None, said.read_text()
            assert time.monotonic() < until, said.read_text()
            time.sleep(0.5)
        yield address[0]
    finally:
        running.kill()
        running.wait()


def test_model_explorer_shows_what_each_layer_takes(tmp_path: Path) -> None:
    """Every operator of the file, those with the long names of fused layers too, has the cost that the report has."""
    model, data = tmp_path / "net.tflite", tmp_path / "colours.json"
    model.write_bytes(with_fused_names())
    tinyc("build", model, "--board", "cortex-m4", "-o", tmp_path / "net")
    data.write_text(tinyc("report", tmp_path / "net", "--format", "model-explorer"))
    costs = sorted(each["value"] for each in json.loads(data.read_text())["results"].values())
    layers = json.loads((tmp_path / "net" / "report.json").read_text())["layers"]
    assert sum(costs) == sum(layer["cycles"] for layer in layers)
    with served(model, data, tmp_path) as address, playwright.sync_playwright() as running:
        page = open_chromium(running).new_page(viewport={"width": 1400, "height": 900})
        page.goto(address)
        page.get_by_text("Aggregated stats").wait_for(timeout=120_000)
        text = page.locator("body").inner_text()
    shown = text.partition("Node data\n")[2]
    rows = re.findall(r"^\d+\t(\w+)\t(\d+|-)$", shown, re.MULTILINE)
    operators = [(name, cost) for name, cost in rows if not name.startswith("Graph")]
    assert sorted(int(cost) for _, cost in operators if cost != "-") == costs, text
    assert [name for name, cost in operators if cost == "-"] == ["reshape"], text  # a view: no step, no cost
