# SPDX-License-Identifier: Apache-2.0
"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: dilated convolutions of converters, and the copies that they say alone."""

from __future__ import annotations

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import Padding, Pair
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.load.tflite_phases import Phases, declared_as, reshaped, resized, transposed
from tinyc.ops.reshape import Reshape


def _block(s: TfliteStep, rank: int) -> tuple[Pair, Padding]:
    """(block, what is padded or cropped) of the image's rows and columns; of a tensor of rank 3 those of columns."""
    block, edges = s.numbers(1), s.numbers(2)
    if rank not in (3, 4) or not 1 <= len(block) <= rank - 2 or len(edges) != 2 * len(block):
        raise TinycError(
            f"{s.operator.code} with block {list(block)} of a tensor of rank {rank} cannot be compiled",
            s.where,
            "supported are [1, height, width, channels] and [1, length, channels]",
        )
    if min(block) < 1 or min(edges) < 0:
        raise TinycError(
            f"{s.operator.code} with block {list(block)} and edges {list(edges)} cannot be compiled", s.where
        )
    if rank == 3:
        return Pair(1, block[0]), Padding(0, edges[0], 0, edges[1])
    columns = (block[1], edges[2], edges[3]) if len(block) == 2 else (1, 0, 0)
    return Pair(block[0], columns[0]), Padding(edges[0], columns[1], edges[1], columns[2])


@imports("SPACE_TO_BATCH_ND")
def space_to_batch(s: TfliteStep) -> None:
    """Before a convolution: its dilation, at no cost. Elsewhere a pad and a transpose."""
    x = s.value(0)
    block, pad = _block(s, len(x.shape))
    if x.shape[0] != 1:
        raise TinycError(
            f"SPACE_TO_BATCH_ND of a batch of {x.shape[0]} cannot be compiled",
            s.where,
            "export the model with batch size 1",
        )
    is_row = len(x.shape) == 3
    image = reshaped(s, x, (1, *x.shape), "image") if is_row else x
    phases = Phases(s, image, block, pad, (2,) if is_row else (1, 2))
    high, wide = image.shape[1] + pad.top + pad.bottom, image.shape[2] + pad.left + pad.right
    if high % block.h or wide % block.w:
        raise TinycError(f"an image of {high}x{wide} has no whole blocks of {block.h}x{block.w}", s.where)
    declared_as(s, phases.stored_shape)
    s.defer(phases)


@imports("BATCH_TO_SPACE_ND")
def batch_to_space(s: TfliteStep) -> None:
    """Behind a convolution of phases: what it crops is less padding. Elsewhere a transpose and a slice."""
    phases = s.deferred
    rank = len(s.tensor(0).shape)
    block, crop = _block(s, rank)
    if not isinstance(phases, Phases):
        image = _gathered(s, block)
        image = resized(s, image, Padding(*(-n for n in crop)), "cropped")
    else:
        if phases.spatial == (1,):  # a column where `_block` means a row
            block, crop = Pair(block.w, 1), Padding(crop.left, 0, crop.right, 0)
        if block != phases.block:
            raise TinycError(f"blocks of {tuple(phases.block)} are put together as {tuple(block)}", s.where)
        if phases.layer is not None:
            image = phases.joined(crop)
        else:
            by = Padding(*(have - less for have, less in zip(phases.pad, crop, strict=True)))
            image = resized(s, phases.image, by, "joined")
    _, high, wide, channels = image.shape
    y = declared_as(s, (1, high, wide, channels) if rank == 4 else (1, high * wide, channels))
    s.emit((image,), Reshape(y.shape), y)


def _gathered(s: TfliteStep, block: Pair) -> Value:
    """The image [1,H,W,C] that phases [block.h * block.w, H', W', C] make up."""
    x = s.value(0)
    high, wide = (x.shape[1], x.shape[2]) if len(x.shape) == 4 else (1, x.shape[1])
    if x.shape[0] != block.h * block.w:
        raise TinycError(f"{x.shape[0]} phases do not make up blocks of {block.h}x{block.w}", s.where)
    cut = reshaped(s, x, (block.h, block.w, high, wide, x.shape[-1]), "phases")
    moved = transposed(s, cut, (2, 0, 3, 1, 4), "together")
    return reshaped(s, moved, (1, high * block.h, wide * block.w, x.shape[-1]), "image")
