# SPDX-License-Identifier: Apache-2.0
"""The stages in order; the only package that knows them all.

load -> normalize -> quantize -> select -> plan -> lower -> emit -> build -> run -> verify -> report
"""

from __future__ import annotations

from tinyc.pipeline.building import build, prove_built, verify_model
from tinyc.pipeline.compiling import Compiled, compile_model, is_float, quantize_float
from tinyc.pipeline.estimating import estimate_model
from tinyc.pipeline.options import Options, Progress
from tinyc.pipeline.profiling import profile_model
from tinyc.pipeline.proving import proof_samples, prove
from tinyc.pipeline.user_build import BuildProof, verify_object, verify_program

__all__ = [
    "BuildProof",
    "Compiled",
    "Options",
    "Progress",
    "build",
    "compile_model",
    "estimate_model",
    "is_float",
    "profile_model",
    "proof_samples",
    "prove",
    "prove_built",
    "quantize_float",
    "verify_model",
    "verify_object",
    "verify_program",
]
