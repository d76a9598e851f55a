# SPDX-License-Identifier: Apache-2.0
"""A .tflite file as plain Python values: tensors and operators of its main subgraph, bounds checked.

Schema: tensorflow/lite/schema/schema.fbs (file identifier `TFL3`), read with the classes that flatc
generated from it (package `tflite`). They verify nothing, so every access here goes through
`reading`, and every count is compared with what a real model can have before it is looped over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import tflite
from flatbuffers.number_types import Int32Flags

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Array
from tinyc.load.damage import DAMAGED_HINT, reading
from tinyc.load.tflite_options import OptionsTable, options_of
from tinyc.load.tflite_sparse import Sparsity, sparsity_of

T = TypeVar("T")

MAGIC = b"TFL3"
MAX_ITEMS = 1 << 16  # operators, tensors or buffers; the largest published models have some thousands
MAX_SUBGRAPHS = 64
MAX_RANK = 8
_MAX_NAME, _MAX_WHOLE_NAME = 200, 4000
_BUILTIN_CODE = 10  # vtable slot of OperatorCode.builtin_code, the fourth field


def _enum(owner: Any) -> dict[int, str]:
    return {number: name for name, number in vars(owner).items() if isinstance(number, int)}


OPERATORS = _enum(tflite.BuiltinOperator)
TYPES = _enum(tflite.TensorType)
_OPTIONS = _enum(tflite.BuiltinOptions)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as the file declares it. `name`: up to the first `;`, where converters append the names of
    the layers that they fused; `whole_name` has them. `data`: raw bytes of a constant, None for an activation.

    `signature` has -1 where the exporter left a dimension open. `scale` is empty without quantization.
    """

    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    axis: int
    data: npt.NDArray[np.uint8] | None
    refused: str  # why tinyc cannot use it (variable), or ""
    is_variable: bool = False  # keeps its elements from run to run
    whole_name: str = ""
    sparsity: Sparsity | None = None  # which elements `data` has, where it does not have all


@dataclass(frozen=True, slots=True)
class StoredOperator:
    """One operator: its TFLite name, tensor indices (-1: absent optional input) and options."""

    index: int
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options_type: str
    options: OptionsTable
    where: Loc
    custom: bytes = b""  # options of a custom operator, in a format of its own


@dataclass(frozen=True, slots=True)
class TFLiteFile:
    """The main subgraph. `file` is the file's name, without its folder. others: subgraphs 1, 2 ... of a file whose main
    one calls another."""

    file: str
    tensors: tuple[StoredTensor, ...]
    operators: tuple[StoredOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    others: tuple[TFLiteFile, ...] = ()


def read_tflite(path: Path, content: bytes, signature: str | None = None) -> TFLiteFile:
    """Decode `content`, the bytes of the file at `path`. TinycError if it is no intact TFLite model. signature: the
    name of one of the file's entries; without it subgraph 0, as interpreters take it.

    Nothing of the tensors' meaning is checked here: shapes, types and quantization may be nonsense.
    Constants stay views of `content`, so the cost is bounded by the file's size.
    """
    where = Loc(path.name)
    if content[4:8] != MAGIC:
        raise TinycError(
            "not a TensorFlow Lite model: the file identifier TFL3 is missing",
            where,
            "give a .tflite file as TFLiteConverter.convert() returns it",
        )
    with reading("the model's header", where):
        model = tflite.Model.GetRootAs(content, 0)
        version, subgraphs = model.Version(), model.SubgraphsLength()
    if version != 3:
        raise TinycError(f"TFLite schema version {version}; tinyc reads version 3", where)
    if subgraphs < 1:
        raise TinycError("the model has no subgraph", where, DAMAGED_HINT)
    buffers = _each(model, "Buffers", where, lambda b: _data(b, content))
    codes = _each(model, "OperatorCodes", where, _code)
    main = _subgraph(model, _entry(model, signature, where), buffers, codes, where)
    if not any(operator.code in ("CALL_ONCE", "IF", "WHILE") for operator in main.operators):
        return main
    if subgraphs > MAX_SUBGRAPHS:
        raise TinycError(f"the file claims {subgraphs} subgraphs; at most {MAX_SUBGRAPHS} are read", where)
    others = (_subgraph(model, index, buffers, codes, where) for index in range(1, subgraphs))
    return replace(main, others=tuple(others))


def signatures_of(content: bytes, where: Loc) -> dict[str, int]:
    """Subgraphs by the names under which programs call them, those of subgraph 0 first."""
    with reading("the model's header", where):
        model = tflite.Model.GetRootAs(content, 0)
        return _signatures(model, where)


def _signatures(model: Any, where: Loc) -> dict[str, int]:
    pairs = _each(model, "SignatureDefs", where, lambda s: (_text(s.SignatureKey() or b""), s.SubgraphIndex()))
    return dict(sorted(pairs, key=lambda pair: pair[1]))


def _entry(model: Any, signature: str | None, where: Loc) -> int:
    """The subgraph of a signature."""
    if signature is None:
        return 0
    names = _signatures(model, where)
    if not 0 <= names.get(signature, -1) < min(model.SubgraphsLength(), MAX_SUBGRAPHS):
        there = f"there are {', '.join(names)}" if names else "the file has none: leave --signature out"
        raise TinycError(f"no signature of the model is called '{_text(signature.encode())}'", where, there)
    return names[signature]


def _subgraph(
    model: Any, index: int, buffers: list[npt.NDArray[np.uint8] | None], codes: list[str], where: Loc
) -> TFLiteFile:
    with reading(f"subgraph {index}" if index else "the main subgraph", where):
        graph = model.Subgraphs(index)
        inputs, outputs = _ints(graph, "Inputs"), _ints(graph, "Outputs")
    tensors = _each(graph, "Tensors", where, lambda t: t)
    decoded = tuple(_tensor(i, t, buffers, where) for i, t in enumerate(tensors))
    operators = _each(graph, "Operators", where, lambda o: o)
    return TFLiteFile(
        file=where.file,
        tensors=decoded,
        operators=tuple(_operator(i, o, codes, decoded, where) for i, o in enumerate(operators)),
        inputs=_in_range(inputs, decoded, "a graph input", where),
        outputs=_in_range(outputs, decoded, "a graph output", where),
    )


def _each(owner: Any, vector: str, where: Loc, decode: Callable[[Any], T]) -> list[T]:
    """decode(element) of a vector of tables, e.g. `Tensors`."""
    with reading(f"the list of {vector}", where):
        count = getattr(owner, f"{vector}Length")()
    if count > MAX_ITEMS:
        raise TinycError(f"the file claims {count} {vector}; at most {MAX_ITEMS} are read", where, DAMAGED_HINT)
    items = []
    for i in range(count):
        with reading(f"{vector}[{i}]", where):
            items.append(decode(getattr(owner, vector)(i)))
    return items


def _ints(owner: Any, vector: str) -> tuple[int, ...]:
    """A vector of int32 as Python ints; () where it is absent. ValueError if it is absurdly long."""
    if getattr(owner, f"{vector}Length")() > MAX_ITEMS:
        raise ValueError(vector)
    numbers = getattr(owner, f"{vector}AsNumpy")()
    return () if isinstance(numbers, int) else tuple(int(i) for i in numbers)


def _array(owner: Any, vector: str, dtype: type) -> Array:
    numbers = getattr(owner, f"{vector}AsNumpy")()
    return np.zeros(0, dtype) if isinstance(numbers, int) else numbers


def _data(buffer: Any, content: bytes) -> npt.NDArray[np.uint8] | None:
    """The bytes of a buffer: inside the flatbuffer, or appended to it (models over 2 GB)."""
    offset, size = buffer.Offset(), buffer.Size()
    if offset > 1:  # 0 and 1 mean: not used
        return np.frombuffer(content, np.uint8, size, offset)
    return None if buffer.DataLength() == 0 else buffer.DataAsNumpy()


def _code(code: Any) -> str:
    # Files from before 2020 have the number in an int8 only; later ones have 127, the number or 0 there.
    # The package's own BuiltinCode() ignores the wide field for numbers below 127, so it is read here.
    slot = code._tab.Offset(_BUILTIN_CODE)
    wide = code._tab.Get(Int32Flags, slot + code._tab.Pos) if slot else 0
    number = max(code.DeprecatedBuiltinCode(), wide)
    if number == tflite.BuiltinOperator.CUSTOM:
        custom = code.CustomCode()
        return f"CUSTOM {_text(custom or b'?')}"
    return OPERATORS.get(number, f"builtin operator {number}")


def _text(name: bytes, most: int = _MAX_NAME) -> str:
    """A name from the file, safe to print: no control characters, not endless."""
    text = name[:most].decode("utf-8", errors="replace")
    return "".join(c if c.isprintable() else "?" for c in text)


def _tensor(index: int, t: Any, buffers: list[npt.NDArray[np.uint8] | None], where: Loc) -> StoredTensor:
    with reading(f"tensor {index}", where):
        if max(t.ShapeLength(), t.ShapeSignatureLength()) > MAX_RANK:
            raise ValueError("rank")
        quant = t.Quantization()
        buffer = t.Buffer()
        refused = "is a variable" if t.IsVariable() else ""
        sparse = t.Sparsity()
        if quant is not None and quant.DetailsType() != 0:
            refused = "has a custom quantization"
        return StoredTensor(
            index=index,
            name=_text((t.Name() or b"").partition(b";")[0]) or f"tensor_{index}",
            type=TYPES.get(t.Type(), f"type {t.Type()}"),
            shape=_ints(t, "Shape"),
            signature=_ints(t, "ShapeSignature"),
            scale=np.zeros(0, np.float32) if quant is None else _array(quant, "Scale", np.float32),
            zero=np.zeros(0, np.int64) if quant is None else _array(quant, "ZeroPoint", np.int64),
            axis=0 if quant is None else quant.QuantizedDimension(),
            data=buffers[buffer] if buffer else None,  # buffer 0 is the empty one by convention
            refused=refused,
            is_variable=bool(t.IsVariable()),
            whole_name=_text(t.Name() or b"", _MAX_WHOLE_NAME),
            sparsity=None if sparse is None else sparsity_of(sparse),
        )


def _operator(index: int, o: Any, codes: list[str], tensors: tuple[StoredTensor, ...], where: Loc) -> StoredOperator:
    with reading(f"operator {index}", where):
        code = codes[o.OpcodeIndex()]
        inputs, outputs = _ints(o, "Inputs"), _ints(o, "Outputs")
        options_type = _OPTIONS.get(o.BuiltinOptionsType(), "?")
        table, newer = o.BuiltinOptions(), o.BuiltinOptions2Type() != 0
        custom = _array(o, "CustomOptions", np.uint8).tobytes()
    here = Loc(where.file, index, "", code)
    _in_range(tuple(i for i in inputs if i != -1), tensors, "an input", here)
    _in_range(outputs, tensors, "an output", here)
    if len(set(outputs)) < len(outputs):
        raise TinycError("the operator has the same output twice", here, DAMAGED_HINT)
    if outputs:
        here = Loc(where.file, index, tensors[outputs[0]].name, code)
    return StoredOperator(
        index, code, inputs, outputs, options_type, options_of(options_type, table, newer, here), here, custom
    )


def _in_range(indices: tuple[int, ...], tensors: tuple[StoredTensor, ...], what: str, where: Loc) -> tuple[int, ...]:
    for i in indices:
        if not 0 <= i < len(tensors):
            raise TinycError(f"{what} is tensor {i}, but there are {len(tensors)} tensors", where, DAMAGED_HINT)
    return indices
