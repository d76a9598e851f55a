# SPDX-License-Identifier: Apache-2.0
"""The driver of each kind of UART, and which baud rates it can make of its clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.board.parts import Uart

TOLERANCE = 0.025  # both ends together may be off by half a bit in ten
_OVERSAMPLING = 16
_NRF_MOST = 1_000_000
_SCI_BIT, _SCI_B_BIT, _SCI_MOST = 8, 6, 256  # clocks of a bit at least; what they can be multiplied by
_IMXRT_SAMPLES = range(8, 33)  # of a bit
_IMXRT_MOST = 0x1FFF
_ESP32_LEAST, _ESP32_MOST = 3 * 16, 0xFFFFF  # its divisor, in 16ths
_LPUART_LEAST, _LPUART_MOST = 0x300, 0xFFFFF  # its divisor, in 256ths
_SHARED = {  # kinds without a driver of their own: whose it is, and what it is compiled with
    "nrf54-uarte": ("nrf-uarte", {"TC_UART_NRF54": "1"}),
    "stm32-lpuart": ("stm32l4", {"TC_UART_LPUART": "1"}),
}


def uart_driver(kind: str) -> tuple[str, dict[str, str]]:
    """Its source file in templates/firmware, and the macros that select the registers of this kind."""
    name, defines = _SHARED.get(kind, (kind, {}))
    return f"uart_{name.replace('-', '_')}.c", defines


def at_baud(uart: Uart, asked: int | None, wished: int | None) -> Uart:
    """The UART at the baud rate that is asked for, else at the one wished for if it can make that, else at its own.
    Raises TinycError when it cannot make the one asked for."""
    if asked is None:
        return replace(uart, baud=wished) if wished is not None and _can(uart, wished) else uart
    if not _can(uart, asked):
        actual = _actual_baud(uart, asked)
        raise TinycError(
            f"the board's UART cannot make {asked} baud of its clock of {uart.clock_hz:,} Hz"
            + (f": the nearest is {actual:.0f}" if actual else ""),
            hint=f"leave out --baud, for {uart.baud}, or give another",
        )
    return replace(uart, baud=asked)


def _can(uart: Uart, baud: int) -> bool:
    actual = _actual_baud(uart, baud)
    return actual is not None and abs(actual - baud) <= TOLERANCE * baud


def _actual_baud(uart: Uart, baud: int) -> float | None:
    """What comes out nearest to a baud rate, as the drivers in templates/firmware/uart_*.c set it; None: nothing."""
    return _RATES.get(uart.kind, _by_divisor)(uart.clock_hz, baud)


def _by_divisor(clock: int, baud: int) -> float | None:
    divisor = (clock + baud // 2) // baud
    return clock / divisor if divisor >= _OVERSAMPLING else None


def _nrf(_: int, baud: int) -> float | None:
    return baud if baud <= _NRF_MOST else None


def _trivial(_: int, baud: int) -> float | None:
    return baud


def _stm32_lpuart(clock: int, baud: int) -> float | None:
    parts = (256 * clock + baud // 2) // baud
    return 256 * clock / parts if _LPUART_LEAST <= parts <= _LPUART_MOST else None


def _ns16550(clock: int, baud: int) -> float | None:
    coarse = ((clock + baud // 2) // baud + 8) // _OVERSAMPLING
    return clock / (_OVERSAMPLING * coarse) if coarse >= 1 else None


def _pl011(clock: int, baud: int) -> float | None:
    parts = (4 * clock + baud // 2) // baud  # 64ths of clock / (16 * baud)
    return 4 * clock / parts if parts >= 64 else None


def _sam_sercom(clock: int, baud: int) -> float | None:
    most = _OVERSAMPLING << 16
    share = (baud * most + clock // 2) // clock
    return clock * share / most if 1 <= share <= 1 << 16 else None


def _ra_sci(clock: int, baud: int, bit: int = _SCI_BIT) -> float | None:
    bits = (clock + bit // 2 * baud) // (bit * baud)
    return clock / (bit * bits) if 1 <= bits <= _SCI_MOST else None


def _ra_sci_b(clock: int, baud: int) -> float | None:
    return _ra_sci(clock, baud, _SCI_B_BIT)


def _esp32(clock: int, baud: int) -> float | None:
    parts = (16 * clock + baud // 2) // baud
    return 16 * clock / parts if _ESP32_LEAST <= parts <= _ESP32_MOST else None


def _imxrt_lpuart(clock: int, baud: int) -> float | None:
    divisors = {samples: (clock + samples * baud // 2) // (samples * baud) for samples in _IMXRT_SAMPLES}
    rates = [clock / (samples * parts) for samples, parts in divisors.items() if 1 <= parts <= _IMXRT_MOST]
    return min(rates, key=lambda rate: abs(rate - baud), default=None)


_RATES: dict[str, Callable[[int, int], float | None]] = {  # by clock and baud rate
    **dict.fromkeys(("nrf", "nrf-uarte", "nrf54-uarte"), _nrf),
    **dict.fromkeys(("trivial", "esp32-usb"), _trivial),
    "esp32": _esp32,
    "stm32-lpuart": _stm32_lpuart,
    "ns16550": _ns16550,
    "pl011": _pl011,
    "sam-sercom": _sam_sercom,
    "ra-sci": _ra_sci,
    "ra-sci-b": _ra_sci_b,
    "imxrt-lpuart": _imxrt_lpuart,
}
