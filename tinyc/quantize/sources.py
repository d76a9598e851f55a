# SPDX-License-Identifier: Apache-2.0
"""Where calibration inputs come from: a file of arrays, a folder of arrays or pictures, or a Python function."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tinyc.base.errors import Loc, TinycError
from tinyc.base.extras import load_extra
from tinyc.base.files import plain_file
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Fit, Pictures
from tinyc.reference.pictures import PICTURES
from tinyc.reference.samples import Samples, fit_samples

ARRAYS = frozenset({".npy", ".npz"})
_FUNCTION = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")


def load_source(where: Path, graph: Graph, pictures: Pictures | None = None) -> Samples:
    """The samples at `where` that fit the float graph's inputs.

    A file: see `load_samples`. A folder: every .npy or .npz in it is a sample or several, or every picture is one, in
    the order of their names; of a model with state every file is a sequence. `module:function`: what the function
    returns, called without arguments: an array [samples, ...], arrays by input name, or an iterable of samples.
    TinycError if there is nothing that fits.
    """
    name = str(where)
    if not where.exists() and _FUNCTION.match(name):
        return fit_samples(_called(name, graph), graph, name)
    if where.is_dir():
        arrays, starts = _folder(where, graph, pictures or Pictures())
        return replace(fit_samples(arrays, graph, name), starts=starts if graph.states else ())
    return fit_samples(load_npz(where), graph, name)


def _called(name: str, graph: Graph) -> dict[str, Array]:
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        returned = getattr(importlib.import_module(module), function)()
        if isinstance(returned, Mapping):
            return {key: np.asarray(array) for key, array in returned.items()}
        if isinstance(returned, np.ndarray):
            return {_only_input(graph, name): returned}
        return _stacked(list(returned), graph, name)
    except TinycError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise TinycError(
            f"the calibration function failed: {type(error).__name__}: {error}",
            Loc(name),
            "it takes no arguments and returns an array, arrays by input name, or samples",
        ) from error
    finally:
        sys.path.pop(0)


def _stacked(samples: Iterable[Any], graph: Graph, source: str) -> dict[str, Array]:
    """Samples one by one, as arrays by input name."""
    rows = [row if isinstance(row, Mapping) else {_only_input(graph, source): row} for row in samples]
    if not rows:
        raise TinycError("there are no samples", Loc(source), "give one at least")
    return {key: np.stack([np.asarray(row[key]) for row in rows]) for key in rows[0]}


def _only_input(graph: Graph, source: str) -> str:
    if len(graph.inputs) != 1:
        names = ", ".join(graph.inputs)
        raise TinycError(f"the model has several inputs: {names}", Loc(source), "give arrays by these names")
    return graph.inputs[0]


def _folder(folder: Path, graph: Graph, pictures: Pictures) -> tuple[dict[str, Array], tuple[int, ...]]:
    """The arrays of all files, and where each file's begin."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    arrays = [path for path in files if path.suffix.lower() in ARRAYS]
    images = [path for path in files if path.suffix.lower() in PICTURES]
    if arrays and images:
        raise TinycError("the folder holds both arrays and pictures", Loc(str(folder)), "keep one kind in it")
    if not arrays and not images:
        kinds = ", ".join(sorted(ARRAYS | PICTURES))
        raise TinycError("the folder holds no samples", Loc(str(folder)), f"files that count: {kinds}")
    if images:
        return {_only_input(graph, str(folder)): _images(images, folder, graph, pictures)}, ()
    parts = [_one_file(path, graph) for path in arrays]
    keys = parts[0].keys()
    if any(part.keys() != keys for part in parts):
        names = ", ".join(graph.inputs)
        raise TinycError("the files hold arrays of different names", Loc(str(folder)), f"each needs: {names}")
    try:
        ends = np.cumsum([len(next(iter(part.values()))) for part in parts])
        return {key: np.concatenate([part[key] for part in parts]) for key in keys}, (0, *map(int, ends[:-1]))
    except ValueError as error:
        hint = "every array of a name needs the same shape, but for the first axis"
        raise TinycError(f"the files do not fit together: {error}", Loc(str(folder)), hint) from error


def _one_file(path: Path, graph: Graph) -> dict[str, Array]:
    """The arrays of a file, each with a sample axis; one sample may come without."""
    held = load_npz(path)
    if set(held) == {"arr_0"} and len(graph.inputs) == 1:
        held = {graph.inputs[0]: held["arr_0"]}
    arrays = {}
    for key, array in held.items():
        value = graph.values.get(key)
        shapes = (value.shape, value.shape[1:]) if value is not None else ()
        arrays[key] = array[None] if array.shape in shapes or array.ndim == 0 else array
    return arrays


def _images(files: list[Path], folder: Path, graph: Graph, pictures: Pictures) -> Array:
    """Pictures as the only input takes them: [samples, *shape without the batch axis]."""
    image_of = load_extra("PIL.Image", "pictures", "reading pictures", Loc(str(folder)))
    height, width, colors, channels_first = _picture_shape(graph, folder)
    arrays = []
    for path in files:
        try:
            with image_of.open(plain_file(path)) as opened:
                picture = opened.convert("L" if colors == 1 else "RGB")
                pixels = np.asarray(_resized(picture, height, width, pictures.fit), np.float32)
        except Exception as error:  # whatever the reader of its format raises
            hint = "leave it out of the folder, or save it again"
            raise TinycError("this is not a readable picture", Loc(str(path)), hint) from error
        arrays.append(pixels.reshape(height, width, colors))
    mean, std = np.asarray(pictures.mean, np.float32), np.asarray(pictures.std, np.float32)
    x = (np.stack(arrays) - mean) / std
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if channels_first else np.asarray(x)


def _picture_shape(graph: Graph, folder: Path) -> tuple[int, int, int, bool]:
    """(height, width, colors, whether colors come first) of the only input."""
    shape = graph.values[_only_input(graph, str(folder))].shape
    if len(shape) == 4 and shape[3] in (1, 3):
        return shape[1], shape[2], shape[3], False
    if len(shape) == 4 and shape[1] in (1, 3):
        return shape[2], shape[3], shape[1], True
    message = f"the model takes {list(shape)}, which is no picture with 1 or 3 colors"
    raise TinycError(message, Loc(str(folder)), "give a folder of .npy or .npz files, or an .npz file")


def _resized(picture: Any, height: int, width: int, fit: Fit) -> Any:
    if fit == "crop":
        share = min(picture.width / width, picture.height / height)
        w, h = width * share, height * share
        left, top = (picture.width - w) / 2, (picture.height - h) / 2
        return picture.resize((width, height), box=(left, top, left + w, top + h), resample=2)
    return picture.resize((width, height), resample=2)
