# SPDX-License-Identifier: Apache-2.0
"""The name of a chip in the place of a board: which board has it, or which core it is."""

from __future__ import annotations

import re
from collections.abc import Mapping

_XTENSA = (
    "its Xtensa core has no emulator here: `--board host` writes the same library in portable C, which ESP-IDF compiles"
)
_SMALL = "its int has 16 bits, and tinyc's C needs one of 32 bits: no library runs there"
# Families of chips -> the board of their core, or a sentence. The first that fits is taken.
_FAMILIES = (
    (r"stm32(c0|f0|g0|l0|u0)", "cortex-m0plus"),
    (r"stm32(f1|f2|l1)", "cortex-m3"),
    (r"stm32(f3|f4|g4|l4|wb(?!a)|wl)", "cortex-m4"),
    (r"stm32(f7|h7(?!rs))", "cortex-m7"),
    (r"stm32h7rs", "cortex-m7"),
    (r"stm32(h5|l5|u3|u5|wba)", "cortex-m33"),
    (r"stm32n6", "cortex-m55"),
    (r"nrf51", "cortex-m0plus"),
    (r"nrf52", "cortex-m4"),
    (r"nrf(53|54|91)", "cortex-m33"),
    (r"rp2040", "cortex-m0plus"),
    (r"rp23", "cortex-m33"),
    (r"(at)?sam(c2|d0|d1|d2|l1|l2)", "cortex-m0plus"),
    (r"(at)?sam(3|g5)", "cortex-m3"),
    (r"(at)?sam(4|d5|e5)", "cortex-m4"),
    (r"(at)?sam(e7|s7|v7)", "cortex-m7"),
    (r"(mimx|imx|i\.?mx)rt1", "cortex-m7"),
    (r"(mimx|imx|i\.?mx)rt[56]", "cortex-m33"),
    (r"lpc55", "cortex-m33"),
    (r"lpc(8|11)", "cortex-m0plus"),
    (r"lpc1[378]", "cortex-m3"),
    (r"lpc(4|54)", "cortex-m4"),
    (r"m?k(22|24|26|64|65|66|82)", "cortex-m4"),
    (r"(r7f)?a?ra4m1", "cortex-m4"),
    (r"ra[246]", "cortex-m33"),
    (r"ra8", "cortex-m55"),
    (r"(apollo[34]|ama[34])", "cortex-m4"),
    (r"apollo5", "cortex-m55"),
    (r"(alif|ensemble|ae[1357])", "cortex-m55"),
    (r"(max78|max32|cy8c6|psoc6|msp432|tm4c)", "cortex-m4"),
    (r"mspm0", "cortex-m0plus"),
    (r"cc13[15]0", "cortex-m3"),
    (r"cc(13|26)", "cortex-m4"),
    (r"ef[rm]32(zg|hg)", "cortex-m0plus"),
    (r"ef[rm]32[fmb]?g2", "cortex-m33"),
    (r"ef[rm]32", "cortex-m4"),
    (r"gd32vf", "riscv32imc"),
    (r"gd32(f1|e1|f2)", "cortex-m3"),
    (r"gd32", "cortex-m4"),
    (r"ch32v00", "its core (RV32EC) has 16 registers, and tinyc's code needs 32"),
    (r"ch32v|bl60|bl70|esp32(c2|c5|c61|h2|p4)", "riscv32imc"),
    (r"esp32c3", "esp32-c3"),
    (r"esp32c6", "esp32-c6"),
    (r"esp32(s2|s3)?|esp8266", _XTENSA),
    (r"(at)?(mega|tiny|xmega)\d|avr|arduino(uno|nano|mega)$|msp430|pic(1|24)", _SMALL),
    (r"cortexm(0|1|23)$", "`--board cortex-m0plus` makes code that it runs, too"),
    (r"cortexm(35p|52|85)$", "`--board cortex-m33` makes code that it runs, too; with Helium `--board cortex-m55`"),
    (r"k210|kendryte|cortex(a|r)\d+", "`--board host` writes the library in portable C, proved on this computer"),
)


def chip_hint(word: str, descriptions: Mapping[str, str]) -> str:
    """What to take for a word that is the name of a chip or its beginning; empty where it is none. descriptions: of the
    boards that ship, by name."""
    chip = re.sub(r"[^a-z0-9.]", "", word.lower())
    core = next((core for pattern, core in _FAMILIES if re.match(pattern, chip)), "")
    there = [name for name, text in descriptions.items() if core and chip in re.sub(r"[^a-z0-9.]", "", text.lower())]
    if " " in core:
        return core
    if not core:
        return ""
    own = f'a board of your own begins with `like = "{core}"`'
    sizes = f"`--board {core}` is its core: give --flash and --ram as the chip has them, or a file ({own})"
    return f"{word} is on {', '.join(there)}; {sizes}" if there else sizes
