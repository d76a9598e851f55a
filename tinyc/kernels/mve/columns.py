# SPDX-License-Identifier: Apache-2.0
"""Windows gathered into one vector-friendly row per pixel, for layers whose kernel rows are short (im2col)."""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.form.function import twin
from tinyc.kernels.mve.dot import STEP
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

_PARAMETERS = ("const int8_t *const *x", "int32_t first", "int32_t n", "int8_t *to")
_ROWS = ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11")
_WORDS = {1: "b", 2: "h", 4: ""}


@dataclass(frozen=True, slots=True)
class Columns:
    """k_h rows of `run` bytes for each pixel, pixel_bytes apart, are put into slots, whole vectors each."""

    k_h: int
    run: int
    pixel_bytes: int

    @property
    def taps(self) -> int:
        return self.k_h * self.run

    @property
    def slot(self) -> int:
        """Bytes of a pixel."""
        return -(-self.taps // STEP) * STEP

    def buffer_bytes(self, pixels: int) -> int:
        """Bytes written for so many pixels, at most: the last vector may go beyond its slot."""
        return pixels * self.slot + STEP


def columns_function(name: str, columns: Columns) -> tuple[str, Work, Work]:
    """The naked function `name(x, first, n, to)`; what it executes once, the last pixel included, and for each of the
    others. What lies behind the taps of a slot is undefined."""
    asm = _Writer(columns).write()
    return naked_function(name, _PARAMETERS, asm), asm.work(), asm.work("pixel")


class _Writer:
    """Registers: r3 the slot, r1 byte of the pixel where rows are too many for registers, lr pixels."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.asm = Asm(CORTEX_M55)
        self.held = columns.k_h <= len(_ROWS)
        self.tail = columns.run % STEP
        self.by_words = self.tail in (0, *_WORDS)
        # Pixels at the end of a row for which a whole vector would go beyond it.
        self.exact = 0 if self.by_words else -(-(STEP - self.tail) // columns.pixel_bytes)

    def write(self) -> Asm:
        asm, columns = self.asm, self.columns
        asm.save("{r4-r11, lr}")
        for row in range(columns.k_h if self.held else 0):
            asm.op("ldr", _ROWS[row], f"[r0, #{4 * row}]")
            asm.op("add", _ROWS[row], _ROWS[row], "r1")
        if self.exact > 1:
            asm.op("subs", "lr", "r2", f"#{self.exact}")
            asm.branch("ble", "few")
        else:
            asm.op("mov", "lr", "r2")
            if self.exact:
                asm.op("subs", "lr", "lr", "#1")
                asm.branch("beq", "last")
        with asm.loop("pixel", "pixel"):
            asm.note("the taps of a pixel, row after row")
            self._pixel(False)
            asm.branch("le", "pixel", "lr")
        if self.exact:
            self._last()
        asm.restore()
        return asm

    def _last(self) -> None:
        """The pixels of which nothing may be read but their taps."""
        asm = self.asm
        if self.exact == 1:
            asm.label("last")
            self._tail_lanes()
            self._pixel(True)
            return
        asm.op("mov", "lr", f"#{self.exact}")
        asm.branch("b", "last")
        asm.label("few")
        asm.op("mov", "lr", "r2")
        asm.label("last")
        self._tail_lanes()
        with asm.loop("exact", 1, of_call=True):  # the others count as pixels before
            self._pixel(True)
            asm.branch("le", "exact", "lr")

    def _tail_lanes(self) -> None:
        """Predicate: the bytes of a run behind its whole vectors."""
        self.asm.constant("r12", (1 << self.tail) - 1)
        self.asm.op("vmsr", "p0", "r12")

    def _pixel(self, exact: bool) -> None:
        """exact: nothing is read beyond the taps."""
        columns = self.columns
        for row in range(columns.k_h):
            source = _ROWS[row] if self.held else "r12"
            if not self.held:
                self.asm.op("ldr", source, f"[r0, #{4 * row}]")
                self.asm.op("add", source, source, "r1")
            behind = columns.slot - columns.taps if row == columns.k_h - 1 else 0
            self._run(source, behind, exact)
        if not self.held:
            self.asm.add("r1", "r1", columns.pixel_bytes, "r2")

    def _run(self, source: str, behind: int, exact: bool) -> None:
        """One row of a window to r3 on, which moves `behind` bytes further; source moves to the next pixel."""
        asm, columns = self.asm, self.columns
        whole = columns.run - self.tail
        for _ in range(whole // STEP):
            asm.op("vldrb.u8", "q0", f"[{source}]", f"#{STEP}")
            asm.op("vstrb.8", "q0", "[r3]", f"#{STEP}")
        onward = columns.pixel_bytes - whole
        if self.tail == 0:
            asm.add(source, source, onward, "r2")
            asm.add("r3", "r3", behind, "r2")
            return
        load, store, value = "vldrb.u8", "vstrb.8", "q0"
        if self.tail in _WORDS:
            load, store, value = f"ldr{_WORDS[self.tail]}", f"str{_WORDS[self.tail]}", "r2"
        elif exact:
            asm.op("vpst")
            load = "vldrbt.u8"
        reach = -128 < onward < 128
        asm.op(load, value, f"[{source}]", *([f"#{onward}"] if reach else []))
        asm.op(store, value, "[r3]", f"#{self.tail + behind}")
        if not reach:
            asm.add(source, source, onward, "r2")


def columns_twin(name: str, columns: Columns) -> str:
    """The same in C."""
    numbers = (columns.k_h, columns.run, columns.pixel_bytes, columns.slot)
    return twin(name, _PARAMETERS, f"tc_mve_columns(x, first, n, to, {', '.join(map(str, numbers))});")
