# SPDX-License-Identifier: Apache-2.0
"""Which baud rates a UART can make of its clock."""

from __future__ import annotations

from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.board.parts import Uart

TOLERANCE = 0.025  # both ends together may be off by half a bit in ten
_OVERSAMPLING = 16
_NRF_MOST = 1_000_000
_LPUART_LEAST, _LPUART_MOST = 0x300, 0xFFFFF  # its divisor, in 256ths


def at_baud(uart: Uart, asked: int | None, wished: int | None) -> Uart:
    """The UART at the baud rate that is asked for, else at the one wished for if it can make that, else at its own.
    Raises TinycError when it cannot make the one asked for."""
    if asked is None:
        return replace(uart, baud=wished) if wished is not None and _can(uart, wished) else uart
    if not _can(uart, asked):
        made = _made(uart, asked)
        raise TinycError(
            f"the board's UART cannot make {asked} baud of its clock of {uart.clock_hz:,} Hz"
            + (f": the nearest is {made:.0f}" if made else ""),
            hint=f"leave out --baud, for {uart.baud}, or give another",
        )
    return replace(uart, baud=asked)


def _can(uart: Uart, baud: int) -> bool:
    made = _made(uart, baud)
    return made is not None and abs(made - baud) <= TOLERANCE * baud


def _made(uart: Uart, baud: int) -> float | None:
    """What comes out nearest to a baud rate, as the drivers in templates/firmware/uart_*.c set it; None: nothing."""
    clock = uart.clock_hz
    divisor = (clock + baud // 2) // baud
    if uart.kind == "nrf":
        return baud if baud <= _NRF_MOST else None
    if uart.kind == "trivial":
        return baud
    if uart.kind == "stm32-lpuart":
        parts = (256 * clock + baud // 2) // baud
        return 256 * clock / parts if _LPUART_LEAST <= parts <= _LPUART_MOST else None
    if uart.kind == "ns16550":
        coarse = (divisor + 8) // _OVERSAMPLING
        return clock / (_OVERSAMPLING * coarse) if coarse >= 1 else None
    if uart.kind == "pl011":
        parts = (4 * clock + baud // 2) // baud  # 64ths of clock / (16 * baud)
        return 4 * clock / parts if parts >= 64 else None
    return clock / divisor if divisor >= _OVERSAMPLING else None
