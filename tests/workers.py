# SPDX-License-Identifier: Apache-2.0
"""Tests in several processes that collect once: `pytest --processes N`.

The process that has imported and collected all tests forks the others, and runs none itself. It hands out the tests:
each worker begins with a part of the list of its own, so that what tests share is made only a few times; then whoever
is done helps. A worker that dies fails the test that it ran, and another takes its place.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

# A BLAS library has a thread for each core, which wait by counting: beside other tests that is time of theirs. It reads
# the number when it is loaded, with numpy, which is after this plugin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_TERMINAL = "terminalreporter"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", type=int, metavar="N", help="run tests in so many processes")


def pytest_configure(config: pytest.Config) -> None:
    if processes := config.getoption("--processes"):
        config.pluginmanager.register(Workers(processes))


@dataclass(slots=True, eq=False)
class Worker:
    """A process as the one that hands out tests sees it. tests: numbers of those that are left to it. given: of those
    that it was told, the first of which it runs; None is the end."""

    pid: int
    connection: Connection
    tests: deque[int]
    given: deque[int | None] = field(default_factory=deque)


class Workers:
    """The plugin of the process that collects."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._workers: list[Worker] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """In place of pytest's own loop."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        if reporter := session.config.pluginmanager.getplugin(_TERMINAL):
            reporter.showfspath = False  # files would alternate
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # is one for all
        count = min(self._processes, len(session.items))
        cuts = [len(session.items) * part // max(count, 1) for part in range(count + 1)]
        try:
            for first, after in pairwise(cuts):
                self._fork(session, deque(range(first, after)))
            while self._workers:
                for connection in wait([worker.connection for worker in self._workers]):
                    self._hear(session, next(one for one in self._workers if one.connection is connection))
        finally:
            for worker in self._workers:
                worker.connection.close()  # it ends when it wants to say something
                os.waitpid(worker.pid, 0)
        return True

    def _fork(self, session: pytest.Session, tests: deque[int]) -> None:
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self._workers:
                other.connection.close()
            _work(session, theirs)
        theirs.close()
        worker = Worker(pid, ours, tests)
        self._workers.append(worker)
        for _ in range(2):  # a test is told before the one that precedes it runs: fixtures live until none needs them
            self._give(worker)

    def _give(self, worker: Worker) -> None:
        """Tells the worker its next test, or one of the worker that has most left, or that there is none."""
        if worker.given and worker.given[-1] is None:
            return
        if not worker.tests:
            richest = max(self._workers, key=lambda other: len(other.tests))
            taken = len(richest.tests) - len(richest.tests) // 2
            worker.tests.extend(reversed([richest.tests.pop() for _ in range(taken)]))
        test = worker.tests.popleft() if worker.tests else None
        worker.given.append(test)
        with suppress(BrokenPipeError):  # `_hear` sees that it is gone
            worker.connection.send(test)

    def _hear(self, session: pytest.Session, worker: Worker) -> None:
        """Does what a message says."""
        hook = session.config.hook
        try:
            kind, said = worker.connection.recv()
        except (EOFError, ConnectionResetError):
            self._gone(session, worker)
            return
        if kind == "report":
            hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=said))
        elif kind == "warning":
            text, file, line, when, nodeid, location = said
            message = warnings.WarningMessage(Warning(text), Warning, file, line)
            hook.pytest_warning_recorded.call_historic(
                kwargs={"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
            )
        else:
            item = session.items[_number(worker.given.popleft())]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            self._give(worker)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _gone(self, session: pytest.Session, worker: Worker) -> None:
        """A worker has ended: because it was told so, or in the midst of a test."""
        self._workers.remove(worker)
        worker.connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        if worker.given and worker.given[0] is not None:
            item = session.items[_number(worker.given.popleft())]
            why = f"the process that ran this test ended with {status}"
            report = pytest.TestReport(
                nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed", longrepr=why, when="call"
            )
            session.config.hook.pytest_runtest_logreport(report=report)
            worker.tests.extendleft(reversed([test for test in worker.given if test is not None]))
            if worker.tests:
                self._fork(session, worker.tests)
        elif status:
            raise RuntimeError(f"a process of tests ended with {status} after its tests")


def _number(test: int | None) -> int:
    assert test is not None
    return test


class _Reporter:
    """The plugin of a worker: what its tests say goes to the process that collected them."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config, self._connection = config, connection

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        if when != "runtest":  # known before it was forked
            return
        text = f"{warning_message.category.__name__}: {warning_message.message}"
        said = (text, warning_message.filename, warning_message.lineno, when, nodeid, location)
        self._connection.send(("warning", said))


def _work(session: pytest.Session, connection: Connection) -> None:
    """Runs the tests that it is told, and ends the process."""
    status = 1
    try:
        config = session.config
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its files are the other process's too
        capture.start_global_capturing()
        capture.suspend_global_capture()
        config.pluginmanager.unregister(name=_TERMINAL)
        config.pluginmanager.register(_Reporter(config, connection))
        test = connection.recv()
        while test is not None:
            after = connection.recv()
            item, following = session.items[test], None if after is None else session.items[after]
            gc.disable()  # a test may have enabled it
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if following is None or following.path != item.path:
                _forget()
            connection.send(("done", None))
            test = after
        status = 0
    except (EOFError, ConnectionError, KeyboardInterrupt):
        pass  # nobody wants more
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _forget() -> None:
    """Frees the cycles that the tests of a file have left. Whatever else there is stays for long: models, sources and
    what functions cache. To look through that again and again was 4 % of the time of all tests."""
    gc.collect()
    gc.freeze()
