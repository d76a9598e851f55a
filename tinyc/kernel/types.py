# SPDX-License-Identifier: Apache-2.0
"""Conditions of kernels on the types of a node's tensors."""

from __future__ import annotations

from tinyc.kernel.site import Site


def is_s8(site: Site) -> bool:
    """int8 input, weights and output"""
    return (site.x(0).dtype, site.x(1).dtype, site.y().dtype) == ("s8", "s8", "s8")


def is_s8_or_w4(site: Site) -> bool:
    """int8 input and output, int8 or int4 weights"""
    return site.x(1).dtype in ("s8", "s4") and (site.x(0).dtype, site.y().dtype) == ("s8", "s8")


def is_s8_or_w16(site: Site) -> bool:
    """int8 input and output, int8 weights, with a zero point or without"""
    return site.x(1).dtype in ("s8", "s16") and (site.x(0).dtype, site.y().dtype) == ("s8", "s8")


def is_s8_w4(site: Site) -> bool:
    """int8 input and output, constant int4 weights"""
    return site.is_const(1) and (site.x(0).dtype, site.x(1).dtype, site.y().dtype) == ("s8", "s4", "s8")


def has_wide_weights(site: Site) -> bool:
    """int8 input and output, int16 weights (int8 ones with a zero point), constant"""
    kinds = (site.x(0).dtype, site.x(1).dtype, site.y().dtype)
    return kinds == ("s8", "s16", "s8") and site.is_const(1)


def is_s16(site: Site) -> bool:
    """int16 input and output, int8 or int4 weights, constant"""
    kinds = (site.x(0).dtype, site.y().dtype)
    return kinds == ("s16", "s16") and site.x(1).dtype in ("s8", "s4") and site.is_const(1)


def in_float32(site: Site) -> bool:
    """float32 inputs and outputs"""
    graph, node = site.graph, site.node
    return all(graph.values[name].dtype == "f32" for name in (*node.inputs, *node.outputs) if name)
