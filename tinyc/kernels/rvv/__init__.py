# SPDX-License-Identifier: Apache-2.0
"""Layers with RISC-V's vectors of integers (Zve32x), for any length of a vector register (docs/rvv.md)."""

ISA = frozenset({"rv32v"})
