"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Two families, equal but for the weights: `tc_conv2d_s8_w16_asm` widens them to int16 (fewer instructions, twice
the flash), `tc_conv2d_s8_asm` keeps them int8, two channels over each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from tinyc.codegen.finish import GROUP, Finish, finish_packed, finish_wide
from tinyc.codegen.pixels import Layer, Run, pixels_function
from tinyc.codegen.requantize import Int64s
from tinyc.kernels import Call, Const, Cost, In, Kernel, Out, Rows, Scratch, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, is_s8, row_geometry
