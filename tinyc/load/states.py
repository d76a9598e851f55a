# SPDX-License-Identifier: Apache-2.0
"""State that a model file has as inputs and outputs: which of them are pairs, by what the user says or by their names,
and the graph that keeps it by itself."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import visible
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, State, Value
from tinyc.ops import node_of
from tinyc.ops.requantize import Requantize

NONE = "none"  # in the place of pairs: inputs and outputs stay what they are
Sizes = tuple[int | None, ...]

# Words that say what a tensor is for, and those that only tell before from after.
_REMEMBERED = frozenset(
    {"state", "states", "h", "c", "hidden", "cell", "cache", "cached", "caches", "mem", "memory", "buffer", "buf"}
    | {"context", "ctx", "hx", "cx", "rnn", "lstm", "gru", "history", "carry"}
)
_MARKS = frozenset(
    {"in", "input", "i", "prev", "previous", "last", "old", "init", "initial", "past", "before", "cur", "current"}
    | {"out", "output", "o", "new", "next", "n", "nxt", "updated", "update", "final", "present", "after"}
)
_HINT = "say which, --state in:out for each pair, or --state none to leave inputs and outputs as they are"


@dataclass(frozen=True, slots=True)
class StatePair:
    """A model's input, and the tensor that the next run gets there."""

    name: str
    after: str


@dataclass(frozen=True, slots=True)
class StatePort:
    """An input or output as the file declares it; None for sizes that it leaves open, or all of them. kind: of its
    elements, None where the file does not say."""

    name: str
    sizes: Sizes | None
    kind: int | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says of state. words: `in:out` each, `none`, or nothing, for pairs by name. initial: an .npz file
    with what inputs begin with, by their names; zeros for the others."""

    words: tuple[str, ...] = ()
    initial: Path | None = None


def pairs_of(
    asked: Asked, inputs: Sequence[StatePort], outputs: Sequence[StatePort], where: Loc
) -> tuple[StatePair, ...]:
    """The pairs that the user names, or that have such names. TinycError for words that are no pairs, inputs that there
    are not, and names that may be paired in several ways."""
    if asked.words == (NONE,):
        return ()
    if not asked.words:
        by_name = _by_name(inputs, outputs, where)
        return by_name if len(by_name) < len(inputs) else ()
    pairs = tuple(_pair(word, inputs, where) for word in asked.words)
    for names in ([pair.name for pair in pairs], [pair.after for pair in pairs]):
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise TinycError(
                f"--state names '{visible(twice[0])}' twice", where, "each input and output is one state's"
            )
    if len(pairs) == len(inputs):
        raise TinycError("all inputs of the model would be state", where, "leave one out of --state")
    return pairs


def _pair(word: str, inputs: Sequence[StatePort], where: Loc) -> StatePair:
    names = [port.name for port in inputs]
    for at in [k for k, letter in enumerate(word) if letter == ":"]:  # names may have colons of their own
        if word[:at] in names and word[at + 1 :]:
            return StatePair(word[:at], word[at + 1 :])
    if ":" not in word:
        raise TinycError(f"--state '{visible(word)}' is no pair", where, "write input:output, or none")
    name = word.partition(":")[0]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.3)
    listed = f"inputs: {', '.join(map(visible, near or names))}"
    raise TinycError(f"--state: the model has no input '{visible(name)}'", where, listed)


def _by_name(inputs: Sequence[StatePort], outputs: Sequence[StatePort], where: Loc) -> tuple[StatePair, ...]:
    """Inputs and outputs called alike but for words like `in`, `out`, `new`, `n`, of one shape and type."""
    by_name: dict[str, str] = {}
    for key in (_key, _short_key):
        left = [port for port in inputs if port.name not in by_name]
        free = [port for port in outputs if port.name not in by_name.values()]
        fits = {port.name: [o.name for o in free if _fit(port, o) and key(port.name) == key(o.name)] for port in left}
        for name, afters in fits.items():
            rivals = [other for other, theirs in fits.items() if set(theirs) & set(afters)]
            if len(afters) > 1 or len(rivals) > 1:
                several = (
                    f"input '{visible(name)}' with output '{visible(afters[0])}' or '{visible(afters[1])}'"
                    if len(afters) > 1
                    else f"output '{visible(afters[0])}' with input '{visible(rivals[0])}' or '{visible(rivals[1])}'"
                )
                raise TinycError(f"state could pair {several}", where, _HINT)
            by_name.update(dict.fromkeys([name], afters[0]) if afters else {})
    return tuple(StatePair(port.name, by_name[port.name]) for port in inputs if port.name in by_name)


def _fit(a: StatePort, b: StatePort) -> bool:
    """Whether both may have one shape and type, and are called like something that lasts."""
    if not (_REMEMBERED & set(_key(a.name)) and _REMEMBERED & set(_key(b.name))):
        return False
    if None not in (a.kind, b.kind) and a.kind != b.kind:
        return False
    if a.sizes is None or b.sizes is None:
        return True
    same = (None in (m, n) or m == n for m, n in zip(a.sizes, b.sizes, strict=False))
    return len(a.sizes) == len(b.sizes) and all(same)


def _key(name: str) -> tuple[str, ...]:
    """The words of a name that tell it from others: `in_state_x`, `out_state_x` -> (state, x); `hn` -> (h)."""
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)]
    words = [word[:-1] if word in ("hn", "cn") else word for word in words]
    return tuple(word for word in words if word not in _MARKS)


def _short_key(name: str) -> tuple[str, ...]:
    """Without a 0 at the end: `h0` is what `hn` follows."""
    words = _key(name)
    return words[:-1] if words[-1:] == ("0",) else words


def with_states(graph: Graph, pairs: Sequence[StatePair], initial: Path | None = None) -> Graph:
    """The graph that keeps each pair as a state. Outputs that are states are no outputs any more, unless there are no
    others. TinycError where a pair differs in shape or type, or the file of initial values does not fit."""
    if not pairs and initial is not None:
        message = "no input is a state that the file of initial values could be for"
        raise TinycError(message, Loc(str(initial)), "leave --state-init out, or name the states: --state in:out")
    if not pairs:
        return graph
    held = {} if initial is None else load_npz(initial)
    for key in held:
        if key not in {pair.name for pair in pairs}:
            names = ", ".join(pair.name for pair in pairs)
            raise TinycError(f"'{visible(key)}' is no state", Loc(str(initial)), f"states: {names}")
    states = []
    for pair in pairs:
        graph, after = _alike(graph, pair)
        value = graph.values[pair.name]
        states.append(State(pair.name, after, _begins(value, held.get(pair.name), initial)))
    afters = {pair.after for pair in pairs}
    outputs = tuple(name for name in graph.outputs if name not in afters) or graph.outputs
    inputs = tuple(name for name in graph.inputs if name not in {pair.name for pair in pairs})
    return replace(graph, inputs=inputs, outputs=outputs, states=(*graph.states, *states))


def _alike(graph: Graph, pair: StatePair) -> tuple[Graph, str]:
    """The graph, and the value that replaces the input: the output, or of integers with other scales, it rescaled."""
    if pair.after not in graph.producer():
        raise TinycError(
            f"--state: no operator of the model makes '{visible(pair.after)}'", graph.values[pair.name].loc, _HINT
        )
    before, after = graph.values[pair.name], graph.values[pair.after]
    if before.shape != after.shape or (before.quant is None) != (after.quant is None):
        raise TinycError(
            f"state '{visible(pair.name)}' {before.dtype} {list(before.shape)} and '{visible(pair.after)}' "
            f"{after.dtype} {list(after.shape)} are no pair",
            after.loc or before.loc,
            _HINT,
        )
    if (before.dtype, before.quant) == (after.dtype, after.quant):
        return graph, pair.after
    state = replace(before, name=f"{pair.after}:state", loc=after.loc)
    origin = graph.producer()[pair.after].origin
    node = node_of(Requantize(before.dtype), (pair.after,), (state.name,), origin)
    return replace(graph, nodes=(*graph.nodes, node), values={**graph.values, state.name: state}), state.name


def _begins(value: Value, given: Array | None, source: Path | None) -> bytes:
    """The bytes that a state begins with: zeros, or what the file has, as reals of a float model or its integers."""
    kind = NUMPY_DTYPE[value.dtype]
    zero = 0 if value.quant is None or len(value.quant.zero) != 1 else value.quant.zero[0]
    if given is None:
        return np.full(value.shape, zero, kind).tobytes()
    if given.size != value.elements or not np.can_cast(given.dtype, kind, "same_kind") or not np.isfinite(given).all():
        message = (
            f"'{visible(value.name)}' is {given.dtype} {list(given.shape)}, the state {value.dtype} {list(value.shape)}"
        )
        raise TinycError(message, Loc(str(source)), "give one finite number for each of the state's")
    return np.ascontiguousarray(given.astype(kind)).tobytes()


def said(graph: Graph, asked: Asked) -> str:
    """What was found by name, in words; nothing where there is nothing to say."""
    if asked.words or not graph.states:
        return ""
    pairs = ", ".join(f"'{visible(s.name)}' (next: '{visible(s.after)}')" for s in graph.states)
    return f"taken for state by their names: {pairs}; --state none leaves them inputs and outputs"
