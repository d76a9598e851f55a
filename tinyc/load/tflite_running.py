# SPDX-License-Identifier: Apache-2.0
"""One TFLite operator after the other: computed now, or imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tinyc.base.errors import TinycError
from tinyc.load.looked import not_understood
from tinyc.load.tflite_file import StoredOperator, StoredTensor
from tinyc.load.tflite_folding import FOLDS, fold
from tinyc.load.tflite_graph import TfliteBuilder, TfliteStep
from tinyc.load.tflite_ops import IGNORED, IMPORTERS, Importer
from tinyc.ops.concat import Concat
from tinyc.ops.slice import whole

_MOST_IMAGES = 64
# Which input is the image, of operators whose kernels take one.
_OF_IMAGES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D", "MAX_POOL_2D"), 0),
        **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE"), 0),
        "TRANSPOSE_CONV": 2,
    }
)


def import_operator(builder: TfliteBuilder, operator: StoredOperator) -> None:
    """Add what the operator computes to the graph, or remember it as a constant. TinycError where it cannot be
    imported, FollowUpError where it reads what could not."""
    step = TfliteStep(builder, operator)
    if _is_batch(step):
        _one_by_one(step)
        return
    folded = fold(step)
    if not folded:
        _importer(operator, builder)(step)
    _check_looked_at(step, folded)


def _is_batch(s: TfliteStep) -> bool:
    """Whether the operator takes several images, and its kernels take one."""
    at = _OF_IMAGES.get(s.operator.code)
    if at is None or not s.has(at) or len(s.operator.outputs) != 1:
        return False
    x = s.builder.activations.get(s.tensor(at).index)
    return x is not None and len(x.shape) == 4 and 1 < x.shape[0] <= _MOST_IMAGES


def _one_by_one(s: TfliteStep) -> None:
    """The operator for each image of a batch, and their results side by side again."""
    at, builder, y = _OF_IMAGES[s.operator.code], s.builder, s.declared()
    x, stored, out = s.value(at), s.tensor(at), s.out_tensor()
    parts = []
    for image in range(x.shape[0]):
        first = builder.include([_of_one(stored), _of_one(out)])
        part = s.between(f"image{image}", (1, *x.shape[1:]), x)
        s.insert((x,), whole(x.shape, 0, image, 1), part)
        builder.define(first, part)
        inputs = tuple(first if k == at else index for k, index in enumerate(s.operator.inputs))
        import_operator(builder, replace(s.operator, inputs=inputs, outputs=(first + 1,)))
        parts.append(builder.activations[first + 1])
    s.emit(parts, Concat(0), replace(y, shape=(len(parts), *parts[0].shape[1:])))


def _of_one(tensor: StoredTensor) -> StoredTensor:
    """The tensor with one image."""
    signature = (1, *tensor.signature[1:]) if tensor.signature else ()
    return replace(tensor, shape=(1, *tensor.shape[1:]), signature=signature)


def _check_looked_at(s: TfliteStep, folded: bool) -> None:
    """Options and inputs that nobody has looked at must mean nothing to the operator."""
    code = s.operator.code
    meaningless = IGNORED.get(code, frozenset())
    for name in s.operator.options.unseen():
        if name not in meaningless:
            raise not_understood(f"it has an option '{name}'", code, s.where)
    for index, tensor in enumerate(s.operator.inputs):
        if tensor != -1 and not folded and index not in s.looked_at | meaningless:
            raise not_understood(f"it has an input {index} ('{s.tensor(index).name}')", code, s.where)


_CONTROL = "it runs as often as the data say: unroll it when the model is converted (Keras: unroll=True)"
_SEARCH = "end the model before it and do it in the program: its time and memory depend on the data"
_SIGNAL = "compute the features in the program, and convert the network behind them"
_CONSTANT = "only numbers that are known when the model is loaded are computed: give the model fixed shapes"
_VELA = "Vela has compiled the file for an Ethos-U: give the file from before Vela"
_FLEX = "convert without SELECT_TF_OPS: it is an operator of TensorFlow itself, not of TensorFlow Lite"
# What to do where an operator has no importer, by how its name begins; the first that fits.
_HINTS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("CUSTOM TFLite_Detection_PostProcess", "NON_MAX_SUPPRESSION", "WHERE", "UNIQUE"), _SEARCH),
        **dict.fromkeys(("CUSTOM AudioSpectrogram", "CUSTOM Mfcc"), _SIGNAL),
        "CUSTOM Flex": _FLEX,
        "CUSTOM ethos-u": _VELA,
        **dict.fromkeys(("CUSTOM Posenet", "CUSTOM posenet"), _SEARCH),
        "CUSTOM CIRCULAR_BUFFER": "give the model the whole window, and build it with --incremental: docs/memory.md",
        "CUSTOM": "an operator of your own: spell it in standard ones, or end the model before it",
        **dict.fromkeys(("BIDIRECTIONAL_SEQUENCE", "RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"), _CONTROL),
    }
)


def _importer(operator: StoredOperator, builder: TfliteBuilder) -> Importer:
    if operator.code in IMPORTERS:
        return IMPORTERS[operator.code]
    if operator.code in FOLDS:
        raise TinycError(f"operator {operator.code} of computed values is not supported", operator.where, _CONSTANT)
    hints = (hint for name, hint in _HINTS.items() if operator.code.startswith(name))
    hint = next(hints, "docs/operators.md lists the operators that tinyc imports")
    tensors = (builder.file.tensors[index] for index in operator.inputs if index != -1)
    read = [tensor.name for tensor in tensors if tensor.data is None and tensor.index not in builder.file.inputs]
    if hint == _SEARCH and read:
        hint += f"; --outputs '{','.join(read)}' ends it there"
    raise TinycError(f"operator {operator.code} is not supported", operator.where, hint)
