# SPDX-License-Identifier: Apache-2.0
"""Einsum: diagonals, sums, transposes and products of matrices, one operand after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.picking import picked
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.sum import Sum
from tinyc.ops.transpose import Transpose

_ELLIPSIS = "0123456789"  # letters of the axes that an ellipsis stands for, counted from the last


@dataclass(frozen=True, slots=True)
class _Term:
    """A tensor with a letter for each of its axes."""

    x: Value
    letters: str

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.letters, self.x.shape, strict=True))


@imports("Einsum")
def einsum(s: OnnxStep) -> None:
    """Any number of tensors, ellipses, diagonals, sums."""
    terms, result = _parsed(s)
    terms = [_diagonals(s, term) for term in terms]
    done, *others = [_narrowed(s, term, terms) for term in terms]
    while others:
        second, *others = others
        later = set(result).union(*(term.letters for term in others))
        done = _product(s, _summed(s, done, later | set(second.letters)), second, later)
    done = _summed(s, done, set(result))
    s.emit([done.x], Transpose(tuple(done.letters.index(c) for c in result)))


def _parsed(s: OnnxStep) -> tuple[list[_Term], str]:
    """(the operands, the letters of the result). TinycError where letters, axes and sizes do not fit."""
    text = s.node.text("equation", "").replace(" ", "")
    inputs, arrow, result = text.partition("->")
    wrong = TinycError(f"Einsum '{text[:40]}' does not fit its inputs", s.where)
    given = inputs.split(",")
    if len(given) != s.input_count:
        raise wrong
    terms = []
    for index, letters in enumerate(given):
        x, (before, dots, after) = s.value(index), letters.partition("...")
        more = len(x.shape) - len(before) - len(after)
        if (more and not dots) or not 0 <= more <= len(_ELLIPSIS) or not (before + after + "a").isalpha():
            raise wrong
        terms.append(_Term(x, before + _ELLIPSIS[:more][::-1] + after))
    used = "".join(term.letters for term in terms)
    shared = "".join(c for c in _ELLIPSIS[::-1] if c in used)
    result = result.replace("...", shared) if arrow else shared + _once(used)
    sizes: dict[str, set[int]] = {}
    for term in terms:
        for letter, size in zip(term.letters, term.x.shape, strict=True):
            sizes.setdefault(letter, set()).add(size)
    if len(set(result)) < len(result) or not set(result) <= set(used):
        raise wrong
    if any(len(lengths - {1}) > 1 for lengths in sizes.values()):
        raise wrong
    return terms, result


def _once(letters: str) -> str:
    """Those that stand there once, in the order of the alphabet: the result where none is written."""
    return "".join(c for c in sorted(set(letters)) if c.isalpha() and letters.count(c) == 1)


def _diagonals(s: OnnxStep, term: _Term) -> _Term:
    """The term with each letter once: of two axes with the same letter, their diagonal."""
    x, letters = term.x, term.letters
    for c in sorted(set(letters)):
        while letters.count(c) > 1:
            first, second = [k for k, letter in enumerate(letters) if letter == c][:2]
            if x.shape[first] != x.shape[second]:
                raise TinycError(
                    f"the diagonal of axes {first} and {second} of {list(x.shape)} cannot be compiled", s.where
                )
            rest = [k for k in range(len(letters)) if k not in (first, second)]
            size, shape = x.shape[first], tuple(x.shape[k] for k in rest)
            moved = s.transpose(x, (*rest, first, second), "diagonal_last")
            flat = s.reshape(moved, (*shape, size * size), "joined")
            x = s.insert([flat], picked(flat.shape, len(rest), range(0, size * size, size + 1)), "diagonal")
            letters = "".join(letters[k] for k in rest) + c
    return _Term(x, letters)


def _narrowed(s: OnnxStep, term: _Term, terms: Sequence[_Term]) -> _Term:
    """The term without axes of one element that are larger in another term: those are broadcast."""
    most = {c: max(other.sizes.get(c, 1) for other in terms) for c in term.letters}
    axes = [k for k, c in enumerate(term.letters) if term.x.shape[k] == most[c]]
    x = s.reshape(term.x, tuple(term.x.shape[k] for k in axes), "narrow")
    return _Term(x, "".join(term.letters[k] for k in axes))


def _summed(s: OnnxStep, term: _Term, letters: Set[str]) -> _Term:
    """The term with the other letters summed over."""
    axes = tuple(k for k, c in enumerate(term.letters) if c not in letters)
    if not axes:
        return term
    return _Term(s.insert([term.x], Sum(axes, False), "summed"), "".join(c for c in term.letters if c in letters))


def _product(s: OnnxStep, a: _Term, b: _Term, shared: Set[str]) -> _Term:
    """The product of matrices of two terms; letters of both that nobody wants are summed over."""
    b = _summed(s, b, shared | set(a.letters))
    sizes = a.sizes | b.sizes
    both = [c for c in a.letters if c in b.letters and c in shared]
    rows = [c for c in a.letters if c not in b.letters]
    columns = [c for c in b.letters if c not in a.letters]
    inner = [c for c in a.letters if c in b.letters and c not in shared]
    first = _matrix(s, a, (both, rows, inner), "a")
    second = _matrix(s, b, (both, inner, columns), "b")
    product = s.insert([first, second], BatchMatmul(), "product")
    letters = [*both, *rows, *columns]
    return _Term(s.reshape(product, tuple(sizes[c] for c in letters), "apart"), "".join(letters))


def _matrix(s: OnnxStep, term: _Term, order: tuple[list[str], ...], name: str) -> Value:
    """The term with the letters of each group joined to one axis."""
    moved = s.transpose(term.x, tuple(term.letters.index(c) for group in order for c in group), f"{name}_moved")
    return s.reshape(moved, tuple(math.prod(term.sizes[c] for c in group) for group in order), name)
