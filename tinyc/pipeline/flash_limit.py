# SPDX-License-Identifier: Apache-2.0
"""A limit of flash is kept by the whole library, as far as that can be said before it is compiled."""

from __future__ import annotations

from tinyc.base.errors import TinycError
from tinyc.emit.program import Program
from tinyc.explain.estimate import FlashEstimate
from tinyc.options.build import Options

# What is left for what a compiler makes more of C than estimated: one part of so many of the code, and of the library.
_OF_CODE, _OF_ALL = 16, 100
_ERROR = 20  # the size of compiled code is estimated to one part of so many of a library; what is compiled says


def with_reserve(taken: FlashEstimate, options: Options) -> int:
    """Bytes that a library takes at most, but for compilers that make much more of C than estimated."""
    if options.flash_reserve is not None:
        return taken.total + options.flash_reserve
    return taken.total + max(taken.code_bytes // _OF_CODE, taken.total // _OF_ALL)


def check_flash(program: Program, taken: int, asked: int) -> None:
    """Raises TinycError (exit code 1) where a library is estimated to take more bytes of flash than asked for, beyond
    what the estimate may be wrong by, with the layer that weighs most."""
    if taken <= asked + asked // _ERROR:
        return
    layer = max(program.steps, key=lambda step: step.const_bytes)
    raise TinycError(
        f"the smallest library found takes about {taken:,} bytes of flash, --flash is {asked:,}: "
        f"{taken - asked:,} too few",
        layer.node.where,
        f"`--prefer flash --flash {taken}` builds it; this layer has the most constants, {layer.const_bytes:,} bytes",
        exit_code=1,
    )
