# SPDX-License-Identifier: Apache-2.0
"""4-bit weights of finer grain in the picture classifier (ic): what accuracy they would leave, and in how many bytes.

    python bench/finer_weights.py MODELS PICTURES.npz

PICTURES: `fit` and `test`, [n,32,32,3] of 0 to 255; variants of the first are learned from, the second measured.
Simulated: scales for each row and each so many input channels (on a grid of 8 bits, 24 dB below the error of 4), and
rows of 4 and of 8 bits in one layer, those with the largest error per weight in 8; for comparison whole layers by the
same measure. And what bounds them all: float weights between int8 activations, int8 weights, and int4 weights learned
from the very pictures that are measured. Ranges `mse`, learned rounding. Bytes: of weights, and one for each scale
beyond the first of a row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from tinyc.base.exact import precise_product
from tinyc.ir.arrays import load_npz
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.passes.weights import out_axis
from tinyc.quantize import layerwise
from tinyc.quantize.augment import augmented
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.layerwise import LEVELS, Memo, layers
from tinyc.quantize.recipe import FittingData, SettledRecipe, carry_out, draft_of, drafts, rounded_to_nearest
from tinyc.quantize.rounding import Doubles, Moments, Rounded, best_scale, diagonals, learn
from tinyc.quantize.search import with_float_weights
from tinyc.quantize.simulate import Batch, sqnr_db

Learn = Callable[..., Rounded]
Rows = npt.NDArray[np.bool_]
_PLAN = SettledRecipe("mse", equalize=False, learned=True)
_SHARE, _SWEEPS, _DAMPING = 0.55, 12, 0.1
_FOUR, _EIGHT = LEVELS[4], LEVELS[8]


class Trial:
    """A float model, pictures to measure on, and those to learn from: `part` of the file."""

    def __init__(self, path: Path, pictures: Path, part: str = "fit") -> None:
        self.graph: Graph = normalize(load_model(path))
        (name,) = self.graph.inputs
        held, shape = load_npz(pictures), self.graph.values[name].shape
        fit, self.test = ({name: held[of].astype(np.float32).reshape(-1, *shape)} for of in (part, "test"))
        calibration = Calibration(fit, pictures.name, True, path)
        varied = augmented(self.graph, calibration, 0)
        self.draft = draft_of(drafts(self.graph, varied), _PLAN)
        self.data = FittingData(calibration, varied)
        self.names = [node.name for node in layers(self.draft.graph)]
        shapes = [self.draft.graph.values[node.inputs[1]].shape for node in layers(self.draft.graph)]
        axes = [out_axis(node) for node in layers(self.draft.graph)]
        self.channels = [shape[-1] for shape in shapes]  # that go in
        self.rows = [shape[axis] for shape, axis in zip(shapes, axes, strict=True)]
        self.taps = [int(np.prod(shape)) // rows for shape, rows in zip(shapes, self.rows, strict=True)]
        self.weights = sum(rows * taps for rows, taps in zip(self.rows, self.taps, strict=True))
        self.reference = self._run(self.graph)

    def _run(self, graph: Graph) -> Array:
        (output,) = Batch(graph).run(self.test).values()
        return np.asarray(output.reshape(len(output), -1))

    def show(self, kind: str, size: float, each: Sequence[Learn]) -> None:
        """Learn the layers' weights by `each` in turn, and print a row of the table."""
        turns = iter(each)
        with patch.object(layerwise, "learn", lambda *args, **options: next(turns)(*args[:3])):
            integer = carry_out(_PLAN, self.draft, self.data, dict.fromkeys(self.names, 8), memo=Memo(felt=True))
        self._print(kind, f"{size:,.0f}", self._run(integer))

    def show_activations(self, kind: str) -> None:
        """The row of float weights between integer activations."""
        batch = with_float_weights(self.draft.graph, rounded_to_nearest(self.draft, _PLAN.method))
        (output,) = batch.run(self.test).values()
        self._print(kind, "", output.reshape(len(output), -1))

    def _print(self, kind: str, size: str, output: Array) -> None:
        same = 100 * float((output.argmax(axis=1) == self.reference.argmax(axis=1)).mean())
        sys.stdout.write(f"| {kind} | {size} | {sqnr_db(self.reference, output):.1f} | {same:.1f} |\n")
        sys.stdout.flush()


def four(w: Doubles, bias: Doubles, m: Moments) -> Rounded:
    return learn(w, bias, m, _FOUR)


def eight(w: Doubles, bias: Doubles, m: Moments) -> Rounded:
    return learn(w, bias, m, _EIGHT, fixed=np.maximum(np.abs(w).max(axis=2), 1e-9) / 127)


def mixed(wide: Rows) -> Learn:
    """Rows of 4 bits, and of 8 where `wide` says so."""

    def learn_rows(w: Doubles, bias: Doubles, m: Moments) -> Rounded:
        narrow, more = four(w, bias, m), eight(w, bias, m)
        here = wide.reshape(w.shape[:2])
        return Rounded(
            np.where(here[:, :, None], more.q, narrow.q),
            np.where(here, more.scale, narrow.scale),
            np.where(here, more.bias, narrow.bias),
        )

    return learn_rows


def grouped(channels: int, size: int) -> Learn:
    """4 bits, a scale for each row and each `size` of so many input channels: coordinate descent from the nearest."""

    def learn_rows(w: Doubles, bias: Doubles, m: Moments) -> Rounded:
        if channels <= size or w.shape[2] % channels:
            return four(w, bias, m)
        diagonal = diagonals(m.h).mean(axis=1)
        damping = (_DAMPING * np.maximum(diagonal, 1e-12))[:, None, None] * np.eye(w.shape[2])
        h, c = m.h + damping, precise_product(w, (m.cross + damping).transpose(0, 2, 1))
        parts = [np.arange(w.shape[2]) % channels // size == part for part in range(-(-channels // size))]
        scale = np.empty_like(w)
        for part in parts:
            scale[:, :, part] = best_scale(w[:, :, part], h[:, part][:, :, part], _FOUR)[:, :, None]
        q = np.clip(np.rint(w / scale), *_FOUR)
        for _ in range(_SWEEPS):
            _descend(q, scale, h, c)
            for part in parts:
                _fit(q, scale, h, c, part)
        widest = np.abs(q * scale).max(axis=2) / 127
        mean = (scale * q * m.x_mean[:, None, :]).sum(axis=2)
        float_means = (w * m.f_mean[:, None, :]).sum(axis=2)
        return Rounded(np.rint(q * scale / widest[:, :, None]), widest, bias + float_means - mean)

    return learn_rows


def _descend(q: Doubles, scale: Doubles, h: Doubles, c: Doubles) -> None:
    """As `rounding.descend`, with a scale for each weight; in place."""
    gradient = precise_product(q * scale, h) - c
    for k in range(q.shape[2]):
        s = scale[:, :, k]
        better = np.clip(np.rint(q[:, :, k] - gradient[:, :, k] / (h[:, None, k, k] * s)), *_FOUR)
        delta = (better - q[:, :, k]) * s
        q[:, :, k] = better
        gradient += delta[:, :, None] * h[:, None, k, :]


def _fit(q: Doubles, scale: Doubles, h: Doubles, c: Doubles, part: Rows) -> None:
    """The best scale of one part of each row beside all others; in place."""
    whole = q * scale
    own = np.where(part, whole, 0.0)
    power = (own * precise_product(own, h)).sum(axis=2)
    match = (own * (c - precise_product(whole - own, h))).sum(axis=2)
    scale[:, :, part] *= np.where((power > 0) & (match > 0), match / np.maximum(power, 1e-300), 1.0)[:, :, None]


def errors(scales: list[Doubles]) -> Learn:
    """4 bits; `scales` gets each row's error per weight."""

    def learn_rows(w: Doubles, bias: Doubles, m: Moments) -> Rounded:
        rounded = four(w, bias, m)
        off = rounded.q * rounded.scale[:, :, None] - w
        scales.append((off * precise_product(off, m.h)).sum(axis=2).ravel() / w.shape[2])
        return rounded

    return learn_rows


def widest(trial: Trial, scales: Sequence[Doubles], whole: bool) -> tuple[list[Rows], float]:
    """Rows of each layer that get 8 bits within _SHARE, and the bytes of all; whole: layers as a whole."""
    wide = [np.zeros(rows, np.bool_) for rows in trial.rows]
    if whole:
        items = [(float(each.mean()), k, slice(None), len(each)) for k, each in enumerate(scales)]
    else:
        items = [(float(e), k, slice(i, i + 1), 1) for k, each in enumerate(scales) for i, e in enumerate(each)]
    size = trial.weights / 2
    for _, layer, at, rows in sorted(items, key=lambda item: -item[0]):
        more = rows * trial.taps[layer] / 2
        if size + more <= _SHARE * trial.weights:
            wide[layer][at], size = True, size + more
    return wide, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("pictures", type=Path)
    given = parser.parse_args()
    path = given.models / "mlperf_tiny" / "ic_fp32.onnx"
    trial = Trial(path, given.pictures)
    trial.show_activations("float weights, int8 activations")
    trial.show("int8", trial.weights, [eight] * len(trial.names))
    errors_of_rows: list[Doubles] = []
    trial.show("int4", trial.weights / 2, [errors(errors_of_rows)] * len(trial.names))
    for size in (16, 8):
        scales = sum(rows * (-(-n // size) - 1) for rows, n in zip(trial.rows, trial.channels, strict=True))
        each = [grouped(channels, size) for channels in trial.channels]
        trial.show(f"int4, scales for {size} channels", trial.weights / 2 + scales, each)
    for kind, whole in (("layers of 4 and 8 bits", True), ("rows of 4 and 8 bits", False)):
        wide, total = widest(trial, errors_of_rows, whole)
        trial.show(kind, total, [mixed(rows) for rows in wide])
    seen = Trial(path, given.pictures, part="test")
    seen.show("int4, learned from the pictures measured", seen.weights / 2, [four] * len(seen.names))


if __name__ == "__main__":
    main()
