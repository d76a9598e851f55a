# SPDX-License-Identifier: Apache-2.0
"""Models that are in memory: an `onnx.ModelProto`, or a `torch.nn.Module`, which PyTorch's own exporter turns into
ONNX."""

from __future__ import annotations

import importlib
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.exact import Array
from tinyc.base.extras import load_extra


def example_of(example: Any, *data: Any) -> Any:
    """What a module is run on: the example that is given, else the first sample of data that are one array, or one
    beside labels `y`."""
    if example is not None:
        return example
    for given in data:
        named = given if isinstance(given, Mapping) else {"x": given}
        arrays = [array_of(each) for name, each in named.items() if name != "y" and hasattr(each, "shape")]
        if len(arrays) == 1:
            return np.ascontiguousarray(arrays[0][:1])
    return None


def array_of(given: Any) -> Array:
    """An array of what is one, a tensor of PyTorch too, wherever it is and whatever it is part of."""
    return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)


@contextmanager
def model_file(model: object, example: Any) -> Iterator[Path]:
    """The path of a model file that lasts as long as the context; a model in memory is written as ONNX."""
    if isinstance(model, str | PathLike):
        yield Path(model)
        return
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        path = Path(folder) / "model.onnx"
        if hasattr(model, "SerializeToString"):
            path.write_bytes(model.SerializeToString())
        elif hasattr(model, "state_dict"):
            _export(model, example, path)
        else:
            hint = "give a file, an onnx.ModelProto or a torch.nn.Module"
            raise TinycError(f"a {type(model).__name__} is no model that tinyc reads", hint=hint)
        yield path


def _export(module: Any, example: Any, path: Path) -> None:
    """A torch.nn.Module by `torch.onnx.export`, as it is for inference. Raises TinycError with what PyTorch says."""
    if example is None:
        raise TinycError(
            "a torch.nn.Module says no shapes",
            hint="give calibration= or inputs= as an array, or example=, a tensor like its input",
        )
    torch = importlib.import_module("torch")
    given = example if isinstance(example, tuple) else (example,)
    inputs = tuple(torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in given)
    try:
        with for_inference(module), _quiet_exporter():
            torch.onnx.export(module, inputs, str(path), verbose=False)
            _as_one_file(path)
    except Exception as error:
        said = _first_cause(error).strip().partition("\n")[0]
        raise TinycError(f"PyTorch cannot export the module: {said}", hint="torch.onnx.export has to work") from error


@contextmanager
def for_inference(module: Any) -> Iterator[None]:
    """All parts of a torch.nn.Module compute as for inference; then each is in the mode that it was in."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """PyTorch's exporter says what it does, and which packages it does without, for every module of a search."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _first_cause(error: BaseException) -> str:
    """What the first of a chain of exceptions says."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


def _as_one_file(path: Path) -> None:
    """Brings weights into an ONNX file that the exporter wrote beside it."""
    if len(list(path.parent.iterdir())) > 1:
        onnx = load_extra("onnx", "onnx", "reading an ONNX model")
        onnx.save(onnx.load(path), path)
