# SPDX-License-Identifier: Apache-2.0
"""The metric that a user asks for, by its name or as a function of theirs, and the labels that it takes."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.ir.graph import Array, Graph
from tinyc.quantize.metrics import METRICS
from tinyc.reference.samples import as_classes

_FUNCTION = re.compile(r"^(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)$")
_SIGNATURE = (
    "it is called with outputs, labels and inputs, each [samples, ...], and returns one number; more is better. "
    "Leave samples out there, or mend it"
)
_DIGITS = 9  # that figures are compared by: the last ones are another on another processor


@dataclass(frozen=True, slots=True)
class Judge:
    """A metric of one model's outputs. larger: whether more is better. is_own: the function is the user's."""

    name: str
    function: Callable[..., Any]
    larger: bool
    is_own: bool
    graph: Graph

    def figure(self, outputs: Mapping[str, Array], labels: Array | None, inputs: Mapping[str, Array]) -> float:
        """The metric of samples: outputs and inputs [samples, *shape] by name. TinycError for what is no finite number,
        and for whatever the function raises."""
        if labels is None and not self.is_own:
            message = f"--metric {self.name} needs labels, and the data have no 'y' for each sample"
            raise TinycError(message, hint="give an .npz file with 'y' beside the inputs")
        y = {name: _alone(self.graph, name, outputs[name]) for name in self.graph.outputs}
        x = {name: _alone(self.graph, name, inputs[name]) for name in self.graph.inputs}
        if labels is not None and (classes := as_classes(self.graph, labels)) is not None:
            labels = classes
        truth = None if labels is None else _seen(labels)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # one JSON object is all that stdout may get
                value = self.function(_plain(y), truth, _plain(x))
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            said = f"{type(error).__name__}: {error}{_line_of(error)}" if self.is_own else str(error)
            raise TinycError(f"the metric failed: {said}", Loc(self.name), self._hint) from error
        if isinstance(value, np.ndarray | np.generic) and np.ndim(value) == 0:
            value = np.asarray(value).item()
        if not isinstance(value, Real) or isinstance(value, bool):
            message = f"the metric returned {_said(value)}, and no number"
            raise TinycError(message, Loc(self.name), self._hint)
        if not np.isfinite(float(value)):
            message = f"the metric returned {float(value)}, which is no finite number"
            raise TinycError(message, Loc(self.name), self._hint)
        return float(value)

    def score(self, outputs: Mapping[str, Array], labels: Array | None, inputs: Mapping[str, Array]) -> float:
        """`figure` as what is to be as large as may be."""
        figure = self.figure(outputs, labels, inputs)
        return float(f"{figure if self.larger else -figure:.{_DIGITS}g}")

    @property
    def _hint(self) -> str:
        return _SIGNATURE if self.is_own else "docs/quantize.md says what labels it takes; or give your own function"


def judge_of(metric: str | Callable[..., float], graph: Graph) -> Judge:
    """The judge for a metric's name, for `file.py:function`, or for a function. The file is run as it is, here and only
    here: nothing looks for one. TinycError for a name that there is not, and for a file or function that is absent."""
    if not isinstance(metric, str):
        return Judge(getattr(metric, "__name__", "metric"), metric, larger=True, is_own=True, graph=graph)
    metric_names = {name.lower(): name for name in METRICS}
    if metric.lower() in metric_names:
        name = metric_names[metric.lower()]
        return Judge(name, *METRICS[name], is_own=False, graph=graph)
    match = _FUNCTION.match(metric)
    if match is None:
        near = difflib.get_close_matches(metric, METRICS, 1, 0.5)
        hint = f"there are {', '.join(METRICS)}, or give FILE.py:FUNCTION" + (f"; near: {near[0]}" if near else "")
        raise TinycError(f"--metric: there is no metric '{metric}'", hint=hint)
    file = Path(match["file"])
    label = f"{file.name}:{match['name']}"
    return Judge(label, _loaded(file, match["name"], label), larger=True, is_own=True, graph=graph)


def is_own(metric: str | Callable[..., float] | None) -> bool:
    """Whether a metric is a function of the user's."""
    return metric is not None and (not isinstance(metric, str) or _FUNCTION.match(metric) is not None)


def _loaded(file: Path, name: str, label: str) -> Callable[..., Any]:
    """A function of a file. Its folder can be imported from, after all others."""
    try:
        source = read_text(file)
    except (OSError, UnicodeDecodeError) as error:
        hint = "--metric FILE.py:FUNCTION; the file is looked for where you are"
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TinycError(f"--metric: the file cannot be read: {reason}", Loc(str(file)), hint) from error
    module = types.ModuleType(file.stem)
    module.__file__ = str(file)
    sys.path.append(str(file.resolve().parent))
    sys.modules.setdefault(file.stem, module)  # dataclasses and pickle look there
    try:
        with contextlib.redirect_stdout(sys.stderr):
            exec(compile(source, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        message = f"--metric: the file fails as it is loaded: {type(error).__name__}: {error}{_line_of(error)}"
        raise TinycError(message, Loc(str(file)), "mend it: it is run to find the function") from error
    finally:
        sys.path.pop()
        if sys.modules.get(file.stem) is module:
            del sys.modules[file.stem]
    function = module.__dict__.get(name)
    if not callable(function):
        there = [each for each, value in module.__dict__.items() if inspect.isfunction(value)]
        hint = f"it has {', '.join(there)}" if there else "it has no function"
        raise TinycError(f"--metric: there is no function '{name}' in the file", Loc(label), hint)
    return function


def _line_of(error: BaseException) -> str:
    """Where in the user's file it arose, innermost."""
    if isinstance(error, SyntaxError):
        return ""
    trace, line = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.endswith(".py") and not file.startswith(str(Path(__file__).parents[1])):
            line = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return line


def _alone(graph: Graph, name: str, array: Array) -> Array:
    """[samples, ...] without the axis of the batch."""
    shape = graph.values[name].shape
    return _seen(array.reshape(len(array), *shape[1:]) if shape[:1] == (1,) else array)


def _seen(array: Array) -> Array:
    """A view that cannot be written to: what a function changes would be measured with."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _plain(tensors: Mapping[str, Array]) -> Array | Mapping[str, Array]:
    return next(iter(tensors.values())) if len(tensors) == 1 else tensors


def _said(value: Any) -> str:
    return f"an array {list(value.shape)}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
