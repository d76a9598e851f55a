# SPDX-License-Identifier: Apache-2.0
"""Conditions that kernels of many operators have; what they say is what the user reads."""

from __future__ import annotations

from tinyc.kernel.site import Site


def s8_to_s8(site: Site) -> bool:
    """int8 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s8", "s8")


def s16_to_s16(site: Site) -> bool:
    """int16 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s16", "s16")
