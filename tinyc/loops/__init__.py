# SPDX-License-Identifier: Apache-2.0
"""Loops over elements, written once: an expression, and what each core makes of it.

`expression.py` has the nodes; `plain.py`, `dsp.py`, `helium.py` and `vectors.py` print a loop in C, for Cortex-M with
DSP, for Helium and for RISC-V's vectors; those with `_packed` where registers hold several elements, `thumb_words.py`
for Cortex-M where all values have 32 bits. `written.py` makes the function of a layer of that, and counts its cost.
"""
