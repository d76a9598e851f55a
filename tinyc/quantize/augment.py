# SPDX-License-Identifier: Apache-2.0
"""More calibration pictures out of few: mirrored, shifted, mixed, with other contrast and colors.

A few dozen pictures hardly show what a layer with hundreds of taps can see; rounding learned on them alone fits them
and no others. Variants keep the spectrum of edges and textures. Only pictures are varied: a spectrogram upside down
is no sound.
"""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Array, Graph
from tinyc.quantize.calibration import Calibration

_LEAST_SIDE = 16  # pixels; what is smaller is no picture
_COLORS = (1, 3)
_ENOUGH, _FEWEST = 336, 32  # samples, variants included
_MOST_ELEMENTS = 2**28  # of all values of all samples


def pictures(graph: Graph) -> tuple[str, tuple[int, int, int]] | None:
    """The only input, if it holds pictures, and its axes of rows, columns and colors; None otherwise."""
    if len(graph.sources) != 1:
        return None
    (name,) = graph.inputs
    shape = graph.values[name].shape
    for rows, columns, colors in ((1, 2, 3), (2, 3, 1)):
        if len(shape) == 4 and shape[colors] in _COLORS and min(shape[rows], shape[columns]) >= _LEAST_SIDE:
            return name, (rows, columns, colors)
    return None


def augmented(graph: Graph, calibration: Calibration, seed: int = 0, about: int = _ENOUGH) -> Calibration:
    """The calibration with its pictures first and variants of them after, `about` so many in all, or as many as memory
    allows: large pictures have so many windows that a layer learns as much of fewer.

    As it was, where the model takes no pictures.
    """
    picture_inputs = pictures(graph)
    about = min(about, max(_FEWEST, _MOST_ELEMENTS // sum(value.elements for value in graph.values.values())))
    copies = about // calibration.samples - 1
    if picture_inputs is None or copies < 1:
        return calibration
    name, axes = picture_inputs
    rng = np.random.default_rng(seed)
    originals = calibration.inputs[name]
    images = np.moveaxis(originals, [axis + 1 for axis in axes], [2, 3, 4])[:, 0]
    variants = [_variants(images, rng) for _ in range(copies)]
    stacked = np.moveaxis(np.concatenate(variants)[:, None], [2, 3, 4], [axis + 1 for axis in axes])
    inputs = {name: np.ascontiguousarray(np.concatenate([originals, stacked]))}
    return Calibration(inputs, calibration.source, calibration.proven, calibration.model)


def _variants(images: Array, rng: np.random.Generator) -> Array:
    """One variant of each image [samples, H, W, C], within the range of all."""
    variants = np.empty_like(images)
    for index, image in enumerate(images):
        variant = _variant(image, rng)
        if rng.random() < 0.7:
            variant = _joined(variant, _variant(images[rng.integers(len(images))], rng), rng)
        variants[index] = variant
    return np.clip(variants, images.min(), images.max())


def _variant(image: Array, rng: np.random.Generator) -> Array:
    """Mirrored, shifted around the edges, with other colors, contrast and brightness."""
    height, width, colors = image.shape
    if rng.random() < 0.5:
        image = image[:, ::-1]
    if rng.random() < 0.3:
        image = image[::-1]
    if rng.random() < 0.7:
        shift = (rng.integers(-height // 3, height // 3 + 1), rng.integers(-width // 3, width // 3 + 1))
        image = np.roll(image, shift, (0, 1))
    if rng.random() < 0.3:
        image = image[..., rng.permutation(colors)]
    if rng.random() < 0.7:
        mean = image.mean(axis=(0, 1))
        image = (image - mean) * rng.uniform(0.6, 1.4) + mean * rng.uniform(0.7, 1.3, colors)
    return image


def _joined(image: Array, other: Array, rng: np.random.Generator) -> Array:
    """Blended with the other image, or with a rectangle of it put in, or as it was."""
    kind = rng.integers(3)
    if kind == 0:
        share = rng.uniform(0, 1)
        return np.asarray(share * image + (1 - share) * other)
    if kind == 1:
        height, width = rng.integers(1, image.shape[0]), rng.integers(1, image.shape[1])
        top, left = rng.integers(0, image.shape[0] - height + 1), rng.integers(0, image.shape[1] - width + 1)
        image = image.copy()
        image[top : top + height, left : left + width] = other[top : top + height, left : left + width]
    return image
