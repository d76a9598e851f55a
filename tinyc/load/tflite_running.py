# SPDX-License-Identifier: Apache-2.0
"""One TFLite operator after the other: computed now, or imported."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tinyc.base.errors import TinycError
from tinyc.load.looked import not_understood
from tinyc.load.tflite_file import StoredOperator
from tinyc.load.tflite_folding import FOLDS, fold
from tinyc.load.tflite_graph import TfliteBuilder, TfliteStep
from tinyc.load.tflite_ops import IGNORED, IMPORTERS, Importer


def import_operator(builder: TfliteBuilder, operator: StoredOperator) -> None:
    """Add what the operator computes to the graph, or remember it as a constant. TinycError where it cannot be
    imported, FollowUpError where it reads what could not."""
    step = TfliteStep(builder, operator)
    folded = fold(step)
    if not folded:
        _importer(operator, builder)(step)
    _check_looked_at(step, folded)


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
        **dict.fromkeys(("IF",), _CONTROL),
        **dict.fromkeys(
            ("CUSTOM TFLite_Detection_PostProcess", "NON_MAX_SUPPRESSION", "TOPK_V2", "WHERE", "UNIQUE"), _SEARCH
        ),
        **dict.fromkeys(("RFFT2D", "COMPLEX_ABS", "CUSTOM AudioSpectrogram", "CUSTOM Mfcc"), _SIGNAL),
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
