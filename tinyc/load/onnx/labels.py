# SPDX-License-Identifier: Apache-2.0
"""The class that a classifier names: the largest score, the first of equals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, Value
from tinyc.load.onnx.importing import OnnxStep
from tinyc.ops.argmax import ArgMax
from tinyc.ops.gather import Gather


def class_labels(s: OnnxStep, ints: str) -> tuple[int, ...]:
    """The classes in the order of their scores, `ints` being their attribute; of texts their indices."""
    texts, numbers = s.node.all_texts("classlabels_strings"), s.node.all_ints(ints).tolist()
    if not numbers:
        s.builder.name_texts(s.node.outputs[0], texts)
    labels = tuple(numbers) or tuple(range(len(texts)))
    lo, hi = INT_RANGE["s32"]
    if not labels or min(labels) < lo or max(labels) > hi:
        raise TinycError(f"classes {list(labels)[:8]} cannot be compiled", s.where, "number the classes with 32 bits")
    return labels


def emit_label(s: OnnxStep, scores: Value, labels: Sequence[int]) -> None:
    """The first output of a classifier, int32 [1]."""
    if scores.shape[-1] != len(labels):
        raise TinycError(f"{scores.shape[-1]} scores for {len(labels)} classes do not fit together", s.where)
    if s.node.outputs[0] not in s.builder.read:
        return
    if tuple(labels) == tuple(range(len(labels))):
        s.emit([scores], ArgMax(1))
        return
    index = s.insert([scores], ArgMax(1), "index")
    table = s.builder.add_const(f"{s.node.outputs[0]}:classes", np.array(labels, np.int32))
    s.emit([table, index], Gather(0))
