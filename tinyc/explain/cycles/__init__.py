# SPDX-License-Identifier: Apache-2.0
"""Modelled cycles: executed instructions and jumps, counted by an emulator, times the timing rules of the core."""

from __future__ import annotations

from tinyc.explain.cycles.model import InstructionShare, ModelledCycles, model_cycles
from tinyc.explain.cycles.profile import FunctionCost, HotBlock, InferenceCost, LayerCost, Profile, speedscope
from tinyc.machine.cores import CORES_ERROR, SLOW_FLASH_ERROR, Core, core_of, rules_in_words

__all__ = (
    "CORES_ERROR",
    "SLOW_FLASH_ERROR",
    "Core",
    "FunctionCost",
    "HotBlock",
    "InferenceCost",
    "InstructionShare",
    "LayerCost",
    "ModelledCycles",
    "Profile",
    "core_of",
    "model_cycles",
    "rules_in_words",
    "speedscope",
)
