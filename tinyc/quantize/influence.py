# SPDX-License-Identifier: Apache-2.0
"""How an error in a layer's sums moves the model's outputs, so that rounding spends its freedom where it is felt.

Around the float model, a change E of the weights of output channel o moves the outputs of a sample by E . J, where
J = sum over windows p of d(output) / d(sum of o at p) times the window x_p. The rows J take the place of windows in
rounding.py: the quadratic form then is the squared error of the *outputs* (the Gauss-Newton approximation; see Nagel
et al., 2020, section 3, and Li et al., "BRECQ", 2021, who use the squared gradients instead), in which windows behind
a closed relu do not count and those that add up do. Errors of different channels are taken as independent: that they
could cancel holds for the calibration samples only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.exact import gram, precise_product, product
from tinyc.ir.graph import Array, Graph, Node
from tinyc.ops import is_a
from tinyc.ops.batched import active
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.op import Trait
from tinyc.passes.weights import has_weights, weights_of, windows_of
from tinyc.quantize.batched import backward, differentiable
from tinyc.quantize.calibration import spread
from tinyc.quantize.factors import cholesky
from tinyc.quantize.rounding import Doubles, Moments, diagonals
from tinyc.quantize.simulate import Batch

_SHARE = 0.8  # of the error at the outputs in what rounding minimizes; the rest is that of the layer's own sums
_MOST_ELEMENTS = 2**27  # of all derivatives together: 512 MiB; of fewer samples rounding learns what others do not have
_MOST_WORK = 2**30  # channels x taps^3, above which a layer has one quadratic form for all channels
_ROWS_PER_TAP = 8  # fewer say more about the samples than about the layer
_CHUNK = 2**18  # elements of rows that are multiplied at once: they stay in the cache
_RESOLVED = 1e-9  # of the squares, below which their variance is noise
_PROBES = 16  # directions in the space of outputs that are followed, per sample
_ROWS = 1024  # directions of all samples, where they are drawn because there are more outputs: more tell nothing new
_SEED = 0  # of directions drawn where there are more outputs


@dataclass(frozen=True, slots=True)
class Influence:
    """slopes[layer] [samples, directions, positions, channels]: derivatives of the outputs, in units of their
    variation, by the layer's sums. samples: indices of the calibration samples they were taken at."""

    samples: list[int]
    slopes: Mapping[str, Array]

    def moments(self, node: Node, w: Array, x: Array, x_float: Array, plain: Moments) -> Moments | None:
        """Moments with a group per output channel, of the error at the outputs; None: the plain ones have to do.

        plain: of the layer's windows, over all samples x.
        """
        slopes = self.slopes.get(node.name)
        rules = weights_of(node)
        groups = rules.groups(node.attrs, x.shape[-1])
        rows = rules.as_rows(w, groups)
        channels, taps = rows.shape[0] * rows.shape[1], rows.shape[2]
        if slopes is None or channels * taps**3 > _MOST_WORK or (groups > 1 and isinstance(node.attrs, Conv2D)):
            return None
        if slopes.shape[0] * slopes.shape[1] < _ROWS_PER_TAP * taps:
            return None
        if slopes.shape[2] == 1:  # rows of one sample are multiples of its only window, so one stands for all
            slopes = np.sqrt(np.square(slopes, dtype=np.float64).sum(axis=1, keepdims=True))
        bias = slopes.sum(axis=2, dtype=np.float64).transpose(2, 0, 1).reshape(channels, -1)
        windows = windows_of(node, w)
        a, f = (summed(slopes, windows(values[self.samples], None), groups) for values in (x, x_float))
        at_once = max(1, _CHUNK // max(1, a[0].size))
        parts = [slice(first, first + at_once) for first in range(0, channels, at_once)]
        h, cross = (np.concatenate(m) for m in zip(*(_of_rows(a[c], f[c], bias[c]) for c in parts), strict=True))
        return _blended(h, cross, plain, channels // groups)


def _of_rows(a: Doubles, f: Doubles, bias: Doubles) -> tuple[Doubles, Doubles]:
    """(h, cross) [channels, K, K] of rows J, of integers and of floats, [channels, rows, K], in place: of what a bias,
    felt as [channels, rows] says, leaves of them."""
    safe = np.maximum(np.square(bias).sum(axis=1)[:, None], 1e-30)
    squares = np.square(a).sum(axis=(1, 2))[:, None, None]
    for rows in (a, f):
        mean = (bias[:, :, None] * rows).sum(axis=1) / safe
        np.subtract(rows, bias[:, :, None] * mean[:, None, :], out=rows)
    h = gram(a, a)
    # Of a channel that is felt in one sample only, the bias takes all error: what is left is what subtraction lost.
    return np.where(_trace(h) > _RESOLVED * squares, h, 0.0), gram(a, f)


def _trace(m: Doubles) -> Doubles:
    return np.ascontiguousarray(diagonals(m)).sum(axis=1)[:, None, None]


def _blended(h: Doubles, cross: Doubles, plain: Moments, per_group: int) -> Moments:
    """Both errors, in the units of the layer's own, whose means the bias keeps."""
    own, own_cross, x_mean, f_mean = (
        np.repeat(m, per_group, axis=0) if len(m) * per_group == len(h) else np.broadcast_to(m, (len(h), *m.shape[1:]))
        for m in (plain.h, plain.cross, plain.x_mean, plain.f_mean)
    )
    size, own_size = _trace(h), _trace(own)
    unit = np.where(size > 1e-30, own_size / np.maximum(size, 1e-30), 0.0)
    share = np.where(unit > 0, _SHARE, 0.0)
    return Moments(share * unit * h + (1 - share) * own, share * unit * cross + (1 - share) * own_cross, x_mean, f_mean)


def summed(slopes: Array, taps: Array, groups: int) -> Doubles:
    """Rows J [channels, samples * directions, K] of windows [G, samples * positions, K]."""
    samples, directions, positions, channels = slopes.shape
    k = taps.shape[2]
    by_sample = taps.reshape(groups, samples, positions, k)
    if groups == 1:
        by_channel = np.ascontiguousarray(slopes.transpose(0, 1, 3, 2)).reshape(samples, -1, positions)
        jacobian = product(by_channel, by_sample[0]).reshape(samples, directions, channels, k)
        return jacobian.transpose(2, 0, 1, 3).reshape(channels, samples * directions, k)
    by_group = slopes.reshape(samples, directions, positions, groups, -1).transpose(3, 0, 1, 4, 2)
    left = np.ascontiguousarray(by_group).reshape(groups, samples, -1, positions)
    each = product(left, by_sample).reshape(groups, samples, directions, -1, k)
    return each.transpose(0, 3, 1, 2, 4).reshape(channels, samples * directions, k)


def influence(graph: Graph, inputs: Mapping[str, Array]) -> Influence | None:
    """Of every layer of the float graph, at as many of the inputs as memory allows; None without derivatives."""
    if not differentiable(graph):
        return None
    names = _followed(graph)
    wide = [node for node in graph.nodes if has_weights(node)]
    count = min(len(array) for array in inputs.values())
    drawn = min(_PROBES, -(-_ROWS // count))
    directions = sum(n if (n := graph.values[name].elements) <= _PROBES else drawn for name in names)
    per_sample = directions * sum(graph.values[node.outputs[0]].elements for node in wide)
    samples = spread(count, max(1, _MOST_ELEMENTS // max(per_sample, 1)))
    batch = Batch(graph)
    values, by_layer = batch.start({name: array[samples] for name, array in inputs.items()}), {}
    for node in graph.nodes:
        values |= batch.step(node, values)
    rng = np.random.default_rng(_SEED)
    parts: dict[str, list[Array]] = {node.name: [] for node in wide}
    for name, output in names.items():
        for direction in np.moveaxis(_directions(values[name], values[output], name != output, drawn, rng), 1, 0):
            seeds = {name: direction.astype(np.float32).reshape(values[name].shape)}
            for layer, slopes in _backwards(batch, values, seeds, wide):
                parts[layer].append(slopes)
    by_layer = {layer: np.stack(some, axis=1) for layer, some in parts.items() if some}
    return Influence(samples, by_layer)


def _followed(graph: Graph) -> dict[str, str]:
    """Values whose errors count: what a softmax at an output gets, or the output; each with the output."""
    producers = graph.producer()
    followed = {}
    for name in graph.outputs:
        node = producers.get(name)
        followed[node.inputs[0] if node is not None and is_a(node, Trait.SHARES) else name] = name
    return followed


def _directions(z: Array, y: Array, softmax: bool, drawn: int, rng: np.random.Generator) -> Doubles:
    """[samples, directions, elements of z]: the squares of their products with an error of z add up to its squared
    error beside the variation of z, plus that of the softmax y beside the variation of y. drawn: how many directions
    there are if z has more than _PROBES elements."""
    count = len(z)
    z, y = z.reshape(count, -1).astype(np.float64), y.reshape(count, -1).astype(np.float64)
    width = z.shape[1]
    if width > _PROBES:  # random signs: right in the mean
        signs = rng.choice([-1.0, 1.0], (count, drawn, width))
        return np.asarray(signs / np.sqrt(drawn * _variation(z)))
    metric = np.broadcast_to(np.eye(width) / _variation(z), (count, width, width))
    if softmax:
        slope = y[:, :, None] * np.eye(width) - y[:, :, None] * y[:, None, :]
        metric = metric + precise_product(slope, slope) / _variation(y)
    return cholesky(metric).transpose(0, 2, 1)


def _variation(z: Doubles) -> float:
    return max(float(np.square(z - z.mean(axis=0)).sum(axis=1).mean()), 1e-30)


def _backwards(
    batch: Batch, values: Mapping[str, Array], seeds: Mapping[str, Array], wide: Sequence[Node]
) -> list[tuple[str, Array]]:
    """(layer, gradients [samples, positions, channels] with respect to its sums)."""
    graph, gradients, reached = batch.graph, dict(seeds), []
    layers = {node.name for node in wide}
    for node in reversed(graph.nodes):
        output = node.outputs[0]
        if len(node.outputs) > 1:  # a layer that keeps its state: what lies before it is learned from its own sums
            gradients = {name: gradient for name, gradient in gradients.items() if name not in node.outputs}
        if output not in gradients:
            continue
        y, dy = values[output], gradients.pop(output)
        if node.name in layers:
            sums = active(node.attrs, y, dy)
            reached.append((node.name, sums.reshape(len(y), -1, y.shape[-1])))
        inputs = [(batch.consts[n] if n in batch.consts else values[n]) if n else None for n in node.inputs]
        for name, gradient in zip(node.inputs, backward(node, inputs, y, dy), strict=True):
            if gradient is not None and name in values and name not in graph.sources:
                gradients[name] = gradients[name] + gradient if name in gradients else gradient
    return reached
