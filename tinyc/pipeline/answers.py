# SPDX-License-Identifier: Apache-2.0
"""From the bytes of an output to what it says: `tinyc run` of a recording or of pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Graph, Labels, Value

_SURE = 0.5  # what the only output of a model has to reach
_LABELS = "labels"  # their key in an .npz file
_MOST_LETTERS = 1 << 16
_LABELS_HINT = f"give a text file of one label a line, or an .npz with an array '{_LABELS}': one for each output"


def reals_of(value: Value, data: bytes) -> npt.NDArray[np.float64]:
    numbers = np.frombuffer(data, NUMPY_DTYPE[value.dtype]).astype(np.float64)
    if value.quant is None:
        return numbers
    return value.quant.reals(numbers.reshape(value.shape)).ravel()


def answer(labels: Labels, reals: npt.NDArray[np.float64]) -> tuple[str | None, float | None]:
    """The label of the highest score, and that score, of the output's reals [elements].

    Label None: the only score is below a half. Where the output is the class itself (`by_value`), its label and None;
    its number, if it has none.
    """
    if labels.by_value:
        place = int(reals[0])
        return (labels.texts[place] if 0 <= place < len(labels.texts) else str(place)), None
    best = int(reals.argmax())
    sure = len(reals) > 1 or reals[best] >= _SURE
    return (labels.texts[best] if sure else None), round(float(reals[best]), 4)


def labels_of(labels: Path | None, graph: Graph) -> Labels:
    """What the first output says: of an .npz file the array `labels`, else lines of a text; without a file the model's
    own; else numbers. Texts for each element, or for each class where the output is a class (one integer
    without a scale). TinycError where a file cannot be read or does not fit."""
    output, own = graph.values[graph.outputs[0]], graph.labels.get(graph.outputs[0])
    counts = output.quant is None and output.dtype in INT_RANGE and output.elements == 1
    is_class = own.by_value if own is not None else counts
    if labels is None:
        numbers = () if is_class else tuple(str(index) for index in range(output.elements))
        return own or Labels(numbers, is_class)
    where = Loc(str(labels))
    try:
        held = load_npz(labels).get(_LABELS) if labels.suffix == ".npz" else read_text(labels)[:_MOST_LETTERS]
    except OSError as error:
        raise TinycError(f"cannot read the labels: {error.strerror}", where, _LABELS_HINT) from error
    except UnicodeDecodeError as error:
        raise TinycError("the labels are not UTF-8 text", where, _LABELS_HINT) from error
    if held is None:
        raise TinycError(f"the file has no array '{_LABELS}'", where, _LABELS_HINT)
    names = held.split("\n") if isinstance(held, str) else [str(name) for name in held.reshape(-1)]
    names = [name.strip() for name in names if name.strip()]
    if len(names) != output.elements and not is_class:
        message = f"there are {len(names)} labels; the model's output '{output.name}' has {output.elements} elements"
        raise TinycError(message, where, _LABELS_HINT)
    return Labels(tuple(names), is_class)
