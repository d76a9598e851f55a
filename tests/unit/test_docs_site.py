# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: every page has its section, the reference has every command and name, nothing leads
nowhere. And what else a repository shows its users: forms for issues, a workflow to copy."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tinyc
from tests.cli.test_cli import write_model
from tinyc.cli import app

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import docs_site  # noqa: E402  a script

WORKFLOW = ROOT / "examples" / "ci" / "verify-model.yml"


def test_every_page_is_in_one_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = docs_site.sections()
    assert len(named) == len(set(named))
    assert all((ROOT / name).is_file() for name in named if name not in docs_site.WRITTEN)
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    listed = docs_site.configuration()
    assert all(listed.count(f"      - {name}\n") == 1 for name in pages)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "new.md").write_text("# New\n")
    (tmp_path / "mkdocs.yml").write_text(listed)
    monkeypatch.setattr(docs_site, "ROOT", tmp_path)
    assert docs_site.configuration() == f"{listed}  - More:\n      - docs/new.md\n"


def test_the_reference_has_every_command_option_and_name() -> None:
    commands, names = docs_site.cli_page(), docs_site.api_page()
    for name in app.COMMANDS:
        part = commands.partition(f"\n## tinyc {name}\n")[2].partition("\n## ")[0]
        for each in app.load_command(name).params:
            assert all(f"`{option}`" in part for option in each.opts if option.startswith("-")), (name, each.opts)
    for name in tinyc.__all__:
        assert name.startswith("_") or f"\n## tinyc.{name}\n" in names
    assert "calibration" in names.partition("\n## tinyc.build\n")[2].partition("\n## ")[0]
    rows = [line for line in commands.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 4 for line in rows)


def build(out: Path) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, str(ROOT / "scripts" / "docs_site.py"), str(out)]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_the_site_is_built_strictly(tmp_path: Path) -> None:
    done = build(tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for name in docs_site.sections():
        html = tmp_path / "site" / name.replace("README.md", "index.html").replace(".md", ".html")
        assert html.is_file(), name
    assert (tmp_path / "site" / "docs" / "images" / "report.png").is_file()
    text = "".join(page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html"))
    assert "fonts.googleapis" not in text


@pytest.mark.slow
def test_a_link_that_leads_nowhere_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = docs_site.cli_page
    monkeypatch.setattr(docs_site, "cli_page", lambda: written() + "\n[nowhere](build.md#no-such-heading)\n")
    with pytest.raises(SystemExit):
        docs_site.build(tmp_path / "site")


def read_yaml(file: Path) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def test_forms_for_issues_are_forms() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [form.stem for form in forms] == ["config", "defect", "model"]
    for form in forms[1:]:
        held = read_yaml(form)
        assert {"name", "description", "body"} <= set(held)
        assert len({part["id"] for part in held["body"]}) == len(held["body"])
        for part in held["body"]:
            assert part["type"] in ("textarea", "input", "dropdown")
            assert part["attributes"]["label"]
            assert part["type"] != "dropdown" or part["attributes"]["options"]


def test_the_workflow_is_one() -> None:
    held = read_yaml(WORKFLOW)
    assert held[True] == ["push", "pull_request"]  # YAML 1.1 takes the word `on` for true
    steps = held["jobs"]["verify"]["steps"]
    assert all(("uses" in step) != ("run" in step) for step in steps)
    assert held["env"]["TINYC"].startswith(f"wheels/tinyc-{tinyc.__version__}-py3-none-any.whl[")  # no free name


def test_the_projects_own_workflow_runs_what_its_pages_name() -> None:
    jobs = read_yaml(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == [
        "bash .ci/run",
        "make site",
    ]


@pytest.mark.slow
def test_the_commands_of_the_workflow_run_in_their_order(tmp_path: Path) -> None:
    """All but the installation, as bash runs them, with a small model under the names that it has."""
    if shutil.which("bash") is None or importlib.util.find_spec("ziglang") is None:
        pytest.skip("bash or ziglang is not installed")
    held = read_yaml(WORKFLOW)
    (tmp_path / "models").mkdir()
    write_model(tmp_path / held["env"]["MODEL"])
    x = np.random.default_rng(1).standard_normal((6, 2, 6, 5)).astype(np.float32)
    np.savez(tmp_path / held["env"]["CALIBRATION"], x=x)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "tinyc").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tinyc.cli.main "$@"\n')
    (bin_folder / "tinyc").chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, **held["env"], "PATH": path, "PYTHONPATH": str(ROOT)}
    for step in held["jobs"]["verify"]["steps"]:
        if "run" in step and not step["run"].startswith("pip "):
            call = ["bash", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{step['run']}\n{done.stderr}"
    assert (tmp_path / "build" / "model.html").is_file()
    assert 'failures="0"' in (tmp_path / "results.xml").read_text()
    assert (tmp_path / "model.sarif").is_file()


@pytest.mark.frameworks
def test_the_lines_for_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    snippet = text.partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    layers = [
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(144, 3),
    ]
    names = {"model": torch.nn.Sequential(*layers), "samples": torch.randn(20, 1, 8, 8)}
    exec(compile(snippet, "start.md", "exec"), names)
    assert tinyc.build("kws.onnx", "host", calibration="calib.npz").report.passed


@pytest.mark.frameworks
def test_the_lines_for_tensorflow_s_converter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tf = pytest.importorskip("tensorflow")
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    snippet = text.partition("```text\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            tf.keras.Input((12, 10, 1)),
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.DepthwiseConv2D(3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4, activation="softmax"),
        ]
    )
    samples = np.random.default_rng(0).standard_normal((40, 12, 10, 1)).astype(np.float32)
    exec(compile(snippet, "start.md", "exec"), {"tf": tf, "model": model, "samples": samples})
    assert tinyc.build("kws_int8.tflite", "host").report.passed
