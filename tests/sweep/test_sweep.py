# SPDX-License-Identifier: Apache-2.0
"""`tinyc sweep`: the jobs of a file, a real scheduler with workers in processes of their own, what survives a kill."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
import typer
from typer.testing import CliRunner

from tests.load.onnx_models import build, op
from tests.sweep import work
from tests.sweep.machines import Machines
from tinyc.base.errors import TinycError
from tinyc.base.source import source_digest
from tinyc.cli.sweep import command
from tinyc.sweep import Cluster, Job, ResultRow, Store, load_sweep, run_job, run_sweep
from tinyc.sweep.job import SentFile

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="the package distributed is not installed")
ROOT = Path(__file__).resolve().parents[2]
MODEL = b"a model"


def jobs(count: int, board: str = "host") -> list[Job]:
    file = SentFile("m.onnx", hashlib.sha256(MODEL).hexdigest())
    return [Job(file, board, "prove", (("seed", number),), source=source_digest()) for number in range(count)]


CONTENTS = {hashlib.sha256(MODEL).hexdigest(): MODEL}


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    pool = Machines(tmp_path)
    yield pool
    pool.end()


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(machines: Machines, tmp_path: Path) -> None:
    """Of twelve jobs on two workers; one of these dies in the middle of a job, which another one does again."""
    asked, notes = jobs(12, str(tmp_path / "notes")), tmp_path / "notes"
    machines.worker()
    victim = machines.worker()
    import distributed  # noqa: PLC0415  half a second, which only this test needs

    with distributed.Client(machines.address, set_as_default=False) as client:
        client.wait_for_workers(2)
    seen: list[str] = []

    def heard(row: ResultRow, left: int) -> None:
        seen.append(row.key)
        if len(seen) >= 2 and f" {victim.pid}\n" in notes.read_text():
            victim.kill()

    with Store(tmp_path / "r.sqlite") as store:
        assert run_sweep(asked, CONTENTS, store, Cluster(machines.address), heard, work.noted) == 12
        rows = store.rows(job.key for job in asked)
    assert [row.key for row in rows] == [job.key for job in asked]
    assert {row.status for row in rows} == {"passed"}
    assert len(seen) == len(set(seen)) == 12
    began = [line.split() for line in notes.read_text().splitlines()]
    assert {process for _, process in began} >= {str(victim.pid)}
    twice = [key for key, _ in began if [other for other, _ in began].count(key) > 1]
    assert len(twice) <= 2, "nothing but what the dead worker had in hand ran again"


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_said_and_the_next_run_goes_on(machines: Machines, tmp_path: Path) -> None:
    asked = jobs(10, str(tmp_path / "notes"))
    machines.worker()

    def heard(row: ResultRow, left: int) -> None:
        if left == 6:
            machines.running[0].kill()

    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(TinycError, match="the scheduler went away with 6 jobs"):
            run_sweep(asked, CONTENTS, store, Cluster(machines.address), heard, work.noted)
        stored = {row.key for row in store.rows(job.key for job in asked)}
        assert len(stored) == 4
        before = (tmp_path / "notes").read_text().splitlines()
        (tmp_path / "again").mkdir()
        other = Machines(tmp_path / "again")
        try:
            other.worker()
            assert run_sweep(asked, CONTENTS, store, Cluster(other.address), work=work.noted) == 6
        finally:
            for process in other.running:
                process.kill()
        after = [line.split()[0] for line in (tmp_path / "notes").read_text().splitlines()[len(before) :]]
        assert not stored & set(after), "what was written is not done again"
        assert len(store.rows(job.key for job in asked)) == 10


@pytest.mark.slow
def test_what_ends_its_worker_is_a_row_and_tried_again(tmp_path: Path) -> None:
    """On this machine's own workers, which Dask starts again. Jobs beside it, or done and not fetched, lose nothing."""
    asked = jobs(4)
    with Store(tmp_path / "r.sqlite") as store:
        assert run_sweep(asked, CONTENTS, store, Cluster(workers=1), work=work.fatal) == 4
        rows = store.rows(job.key for job in asked)
        assert [row.status for row in rows] == ["passed", "crashed", "passed", "passed"]
        assert "KilledWorker" in (rows[1].reason or "")
        assert run_sweep(asked, CONTENTS, store, Cluster(workers=1), work=work.nothing) == 1
        assert {row.status for row in store.rows(job.key for job in asked)} == {"passed"}
        assert run_sweep(asked, CONTENTS, store, Cluster(workers=1), work=work.fatal) == 0


@pytest.mark.slow
def test_a_job_is_not_blamed_for_its_neighbours(tmp_path: Path) -> None:
    """Its worker dies twice beside them, so Dask gives it up, and once alone: then it passes."""
    asked = jobs(3, str(tmp_path))
    with Store(tmp_path / "r.sqlite") as store:
        assert run_sweep(asked, CONTENTS, store, Cluster(workers=1), work=work.unlucky) == 3
        assert {row.status for row in store.rows(job.key for job in asked)} == {"passed"}
    assert (tmp_path / asked[0].key).read_text() == "x" * 4


@pytest.mark.slow
def test_a_thousand_jobs(tmp_path: Path) -> None:
    """All processes together take less than 20 ms of CPU for a job that does nothing."""
    asked = jobs(1000)
    before = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    with Store(tmp_path / "r.sqlite") as store:
        assert run_sweep(asked, CONTENTS, store, Cluster(workers=1), work=work.nothing) == 1000
        assert len(store.rows(job.key for job in asked)) == 1000
    after = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    assert (after - before) / 1000 < 0.02


def test_no_scheduler_there(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store, pytest.raises(TinycError, match="no Dask scheduler at tcp"):
        run_sweep(jobs(1), CONTENTS, store, Cluster("tcp://127.0.0.1:9", patience=0.2))


def test_a_worker_with_another_tinyc_says_so() -> None:
    row = run_job(replace(jobs(1)[0], source="0"), CONTENTS)
    assert row.status == "crashed"
    assert "another tinyc" in (row.reason or "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two models, and a sweep of both for two boards and two preferences."""
    rng = np.random.default_rng(0)
    for name, channels in (("small", 2), ("large", 5)):
        nodes = [op("Conv", "x w b", "c", pads=[1] * 4), op("Relu", "c", "y")]
        constants = {"w": rng.standard_normal((channels, 1, 3, 3)), "b": rng.standard_normal(channels)}
        graph = build(nodes, {"x": (1, 1, 6, 6)}, ["y"], {k: a.astype(np.float32) for k, a in constants.items()})
        onnx.save(graph, tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((4, 1, 6, 6)).astype(np.float32))
    (tmp_path / "s.toml").write_text(
        'models = ["*.onnx"]\nboards = ["host", "cortex-m4"]\nkind = "estimate"\n'
        '[options]\nprefer = ["time", "ram"]\n[calibration]\n"*" = "data.npz"\n'
    )
    return tmp_path


def sweep(folder: Path, *words: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(command)
    ran = CliRunner().invoke(app, [str(folder / "s.toml"), "--workers", "1", *words])
    return ran.exit_code, ran.output


@pytest.mark.slow
def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINYC_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)
    code, said = sweep(folder, "--json")
    report = json.loads(said)
    assert code == 0
    assert report["ran"] == len(report["rows"]) == 8
    assert {row["status"] for row in report["rows"]} == {"estimated"}
    assert {(row["model"], row["board"], row["options"]) for row in report["rows"]} >= {
        ("large.onnx", "cortex-m4", "--prefer ram")
    }
    again = json.loads(sweep(folder, "--json")[1])
    assert (again["ran"], again["rows"]) == (0, report["rows"])
    assert sweep(folder, "--format", "github") == (0, "::notice title=tinyc sweep::8 of 8 passed\n")
    assert 'tests="8" failures="0"' in sweep(folder, "--format", "junit")[1]
    code, table = sweep(folder, "--csv")
    assert table.splitlines()[0].startswith("key,model,board,kind,options,status,reason,seconds,instructions")
    assert len(table.splitlines()) == 9
    with sqlite3.connect(folder / "s.sqlite") as file:
        assert file.execute("SELECT count(*) FROM results").fetchone() == (8,)


def test_a_proof_in_a_worker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One job that passes and one that is refused; its reason is in its row."""
    monkeypatch.setenv("TINYC_CACHE", str(folder / "cache"))
    text = 'models = ["small.onnx"]\nboards = ["host"]\n[options]\nram = [100000, 1]\n'
    text += '[inputs]\nsmall = "data.npz"\n'
    (folder / "s.toml").write_text(text)
    loaded = load_sweep(folder / "s.toml")
    good, bad = (run_job(job, loaded.contents) for job in loaded.jobs)
    assert (good.status, bad.status) == ("passed", "refused")
    assert json.loads(good.report or "")["verify"]["mismatches"] == 0
    assert "RAM" in (bad.reason or "") or "arena" in (bad.reason or "")


def test_the_file_of_the_page(folder: Path) -> None:
    page = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")
    (folder / "s.toml").write_text(page.split("```toml\n")[1].split("```")[0])
    (folder / "zoo").mkdir()
    for name in ("kws.onnx", "zoo/a.tflite", "kws.calib.npz", "test.npz"):
        (folder / name).write_bytes(name.encode())
    shutil.copy(ROOT / "boards" / "cortex-m4.toml", folder / "our-board.toml")
    loaded = load_sweep(folder / "s.toml")
    assert len(loaded.jobs) == 2 * 3 * 2 * 2
    assert {len(job.files) for job in loaded.jobs} == {2, 3, 4}
    assert len(loaded.contents) == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models = [", "no sweep"),
        ("boards = ['host']", "models: a list of names is needed"),
        ("models = ['small.onnx']", "boards: a list of names is needed"),
        ("models = ['none.onnx']\nboards = ['host']", "cannot read .*none.onnx"),
        ("models = ['*.tflite']\nboards = ['host']", "no file matches"),
        ("models = ['small.onnx']\nboards = ['cortex-m9']", "cortex-m9"),
        ("models = ['small.onnx']\nboards = ['host']\nkinds = 1", "there is no key 'kinds'"),
        ("models = ['small.onnx']\nboards = ['host']\nkind = 'guess'", "kind is 'guess'"),
        ("models = ['small.onnx']\nboards = ['host']\n[options]\nmemori = 'min'", "there is no 'memori'"),
        ("models = ['small.onnx']\nboards = ['host']\n[options]\nprefer = ['tiny']", "tiny"),
        ("models = ['small.onnx']\nboards = ['host']\n[options]\nhop = '1'", "hop is '1'"),
        ("models = ['small.onnx']\nboards = ['host']\n[inputs]\nother = 'data.npz'", "there is no model 'other'"),
        ("models = ['small.onnx']\nboards = ['host']\n[options]\nnumerics = 'x'", "numerics|Numerics"),
    ],
)
def test_a_file_that_is_wrong(folder: Path, text: str, message: str) -> None:
    (folder / "s.toml").write_text(text)
    with pytest.raises(TinycError, match=message):
        load_sweep(folder / "s.toml")


def test_results_elsewhere(folder: Path) -> None:
    (folder / "r.sqlite").write_text("no database, but a text that is long enough to be read as one" * 20)
    with pytest.raises(TinycError, match="no file of results"):
        Store(folder / "r.sqlite")


@pytest.mark.slow
def test_an_interrupted_sweep_keeps_its_rows(folder: Path) -> None:
    """Ctrl-C: the rows that were written are there, and the exit code says interrupted."""
    (folder / "s.toml").write_text(
        'models = ["small.onnx"]\nboards = ["host"]\nkind = "estimate"\n[options]\nhop = [1]\n'
        f"flash = {list(range(10**6, 10**6 + 4000))}\n"
    )
    command = [sys.executable, "-m", "tinyc.cli.main", "sweep", str(folder / "s.toml"), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TINYC_CACHE": str(folder / "cache")}
    running = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    results = folder / "s.sqlite"
    while running.poll() is None and not (results.exists() and _count(results) > 3):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=120)[1]
    assert running.returncode == 130, said
    assert "Traceback" not in said
    assert 3 < _count(results) < 400


def _count(file: Path) -> int:
    try:
        with sqlite3.connect(file) as opened:
            return int(opened.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.Error:
        return 0
