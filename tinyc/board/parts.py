# SPDX-License-Identifier: Apache-2.0
"""What a board file says of the hardware around the core: UART, set-up of clocks and pins, flashing, slow flash."""

from __future__ import annotations

import re
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.board.table import TomlTable, shown
from tinyc.board.words import read_label, read_word

UARTS = (
    "cmsdk",
    "esp32",
    "esp32-usb",
    "imxrt-lpuart",
    "nrf",
    "nrf-uarte",
    "nrf54-uarte",
    "ns16550",
    "pl011",
    "ra-sci",
    "ra-sci-b",
    "sam-sercom",
    "stm32f4",
    "stm32l4",
    "stm32-lpuart",
    "trivial",
)
METHODS = (
    "stm32",
    "samba",
    "pyocd",
    "openocd",
    "esptool",
    "picotool",
    "bossac",
    "dfu",
    "nrfutil",
    "teensy",
    "uf2",
    "drive",
)
BAUD = 115_200

StepKind = Literal["write", "set", "clear", "wait", "pairs", "pause"]
STEP_KINDS: tuple[StepKind, ...] = ("write", "set", "clear", "wait", "pairs", "pause")
_WIDTHS = (1, 2, 4)  # bytes of a register


@dataclass(frozen=True, slots=True)
class Uart:
    """The UART that firmware talks over. kind: its registers, as toolchain/uart.py has drivers for. clock_hz: what its
    baud rate is divided from. qemu_serial: which of the QEMU machine's serial ports it is."""

    kind: str
    base: int
    clock_hz: int
    baud: int = BAUD
    qemu_serial: int = 0


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One access of the firmware to a register of `width` bytes before it talks: `write` all of it, `set` the bits to
    the value, `clear` them, or `wait` until `register & bits == value` (for a limited time). `pairs`: for at most
    `bits` pairs of words from the address on, an address and what is written there, until an address is all ones.
    `pause`: `bits` turns of an empty loop, each a cycle at least."""

    op: StepKind
    address: int
    bits: int
    value: int = 0
    width: int = 4


@dataclass(frozen=True, slots=True)
class SamBaSettings:
    """What the SAM-BA bootloader must know: the address that it counts the application's flash from."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class Dfu:
    """What dfu-util must know: USB vendor and product id of the bootloader (`2341:035b`), its alternate setting, and
    whether it is ST's (DfuSe), which is told the address."""

    id: str
    alt: int = 0
    st: bool = False


@dataclass(frozen=True, slots=True)
class NrfUtil:
    """What the package of adafruit-nrfutil says: the number of the SoftDevice that has to be there, and of the chip."""

    softdevice: int
    device: int


@dataclass(frozen=True, slots=True)
class Flashing:
    """How firmware gets onto the board."""

    methods: tuple[str, ...]  # the first that can be used is taken
    chip_ids: tuple[int, ...] = ()  # what the STM32 bootloader may answer to GET ID
    sectors: tuple[tuple[int, int], ...] = ()  # (count, bytes) in order of addresses
    size_register: int = 0  # where the chip has its flash's size in KiB, 0 when not known
    enter: tuple[str, ...] = ()  # DTR/RTS sequences (`dtr on`, `rts off`, `wait 0.1`, `touch 1200`)
    leave: tuple[str, ...] = ()  # the same
    pyocd: str = ""  # target name
    drive: str = ""  # label of the USB drive
    uf2_family: int = 0  # of UF2 files
    samba: SamBaSettings | None = None
    openocd: tuple[str, ...] = ()  # its scripts for probe and chip
    dfu: Dfu | None = None
    nrfutil: NrfUtil | None = None
    bossac_offset: int = 0  # what bossac counts from, 0: its own
    teensy: str = ""  # name of the chip for teensy_loader_cli


_BEGUN = 2  # cycles that a fetch ahead still takes when constants are asked for


@dataclass(frozen=True, slots=True)
class FlashTiming:
    """Flash that is slower than the core: an access that its small caches do not hold waits.

    wait_states: cycles more for one flash word of word_bytes. line_bytes: what is fetched on a miss.
    instruction_lines, data_lines: lines of the caches (the least recently used goes), 0: none. prefetch:
    sequential instruction lines come while the core runs the one before.
    """

    wait_states: int
    word_bytes: int
    line_bytes: int
    instruction_lines: int
    data_lines: int
    prefetch: bool = False

    @property
    def data_waits(self) -> int:
        """Cycles more for a word of constants that no cache holds. It goes before code, but a word of code that is
        being fetched ahead comes first: fitted to published networks, docs/cycles.md."""
        return self.wait_states + (_BEGUN if self.prefetch and self.wait_states else 0)


@dataclass(frozen=True, slots=True)
class Energy:
    """What a cycle of the running board costs, waits included: picojoules, the largest error of that as a share, and
    where it was measured."""

    pj_per_cycle: float
    error: float
    source: str

    def microjoules(self, cycles: float) -> float:
        """Of so many cycles."""
        return self.pj_per_cycle * cycles / 1e6

    def between(self, cycles: float, shares: tuple[float, float]) -> tuple[float, float]:
        """The least and the most microjoules where so many cycles are one of these shares of those that a board
        takes."""
        least, most = cycles / max(shares), cycles / min(shares)
        return self.microjoules(least) * (1 - self.error), self.microjoules(most) * (1 + self.error)

    @property
    def said(self) -> str:
        """`621 pJ per cycle, +-7 % (where it was measured)`."""
        return f"{self.pj_per_cycle:g} pJ per cycle, +-{self.error:.0%} ({self.source})"


def read_uart(table: TomlTable, clock_hz: int) -> Uart | None:
    uart = table.table("uart")
    if uart is None:
        return None
    result = Uart(
        kind=uart.choice("kind", UARTS),
        base=uart.integer("base"),
        clock_hz=uart.integer("clock_hz", clock_hz, least=1),
        baud=uart.integer("baud", BAUD, least=300),
        qemu_serial=uart.integer("qemu_serial", 0),
    )
    uart.finish()
    return result


def read_setup(table: TomlTable) -> tuple[SetupStep, ...]:
    setup = table.table("setup")
    if setup is None:
        return ()
    steps = tuple(_step(item) for item in setup.tables("steps"))
    setup.finish()
    return steps


def _step(item: TomlTable) -> SetupStep:
    kinds = [kind for kind in STEP_KINDS if item.has(kind)]
    if len(kinds) != 1:
        raise item.error(" or ".join(STEP_KINDS), "must be there once: the register's address")
    if kinds[0] == "pause":
        turns = item.integer("pause", least=1)
        item.finish()
        return SetupStep("pause", 0, turns)
    address = item.integer(kinds[0])
    width = item.integer("bytes", 4)
    if width not in _WIDTHS:
        raise item.error("bytes", f"must be one of: {', '.join(map(str, _WIDTHS))}")
    if address % width:
        what = f"a multiple of {width}, the register's bytes" if width < _WIDTHS[-1] else "a word's address"
        raise item.error(kinds[0], f"must be {what}, not 0x{address:x}")
    bits = item.integer({"write": "value", "pairs": "most"}.get(kinds[0], "bits"))
    value = item.integer("value", bits) if kinds[0] in ("wait", "set") else 0
    if value & ~bits:
        raise item.error("value", "has bits that 'bits' has not")
    if bits >> 8 * width:
        raise item.error("value" if kinds[0] == "write" else "bits", f"is too large for {width} bytes")
    item.finish()
    return SetupStep(kinds[0], address, bits, value, width)


_LINE_STEP = re.compile(r"(dtr|rts) (on|off)|wait \d+(\.\d+)?|touch \d+")


def read_flashing(table: TomlTable) -> Flashing | None:
    flashing = table.table("flashing")
    if flashing is None:
        return None
    methods = flashing.strings("methods")
    for method in methods:
        if method not in METHODS:
            raise flashing.error("methods", f"has {shown(method)}; it may have: {', '.join(METHODS)}")
    if not methods:
        raise flashing.error("methods", f"must name at least one of: {', '.join(METHODS)}")
    samba = flashing.table("samba")
    result = Flashing(
        methods=methods,
        chip_ids=flashing.integers("chip_ids", ()),
        sectors=_sectors(flashing),
        size_register=flashing.integer("size_register", 0),
        enter=_line_steps(flashing, "enter"),
        leave=_line_steps(flashing, "leave"),
        pyocd=read_word(flashing, "pyocd") if flashing.has("pyocd") else "",
        drive=read_label(flashing, "drive") if flashing.has("drive") else "",
        uf2_family=flashing.integer("uf2_family", 0),
        samba=SamBaSettings(samba.integer("offset", 0)) if samba is not None else None,
        openocd=_scripts(flashing),
        dfu=_dfu(flashing),
        nrfutil=_nrfutil(flashing),
        bossac_offset=flashing.integer("bossac_offset", 0),
        teensy=read_word(flashing, "teensy") if flashing.has("teensy") else "",
    )
    if samba is not None:
        samba.finish()
    _check_methods(flashing, result)
    flashing.finish()
    return result


_SCRIPT = re.compile(r"(interface|target|board)/[A-Za-z0-9_][\w.-]*\.cfg")
_USB_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")


def _scripts(flashing: TomlTable) -> tuple[str, ...]:
    """Names of scripts that come with OpenOCD, no other files."""
    scripts = flashing.strings("openocd", ())
    for script in scripts:
        if not _SCRIPT.fullmatch(script):
            raise flashing.error("openocd", f"has {shown(script)}; a script is interface/NAME.cfg or target/NAME.cfg")
    return scripts


def _dfu(flashing: TomlTable) -> Dfu | None:
    dfu = flashing.table("dfu")
    if dfu is None:
        return None
    result = Dfu(dfu.string("id"), dfu.integer("alt", 0), dfu.boolean("st", False))
    if not _USB_ID.fullmatch(result.id):
        raise dfu.error("id", f"is {shown(result.id)}; it must be the USB ids in hex, like 2341:035b")
    dfu.finish()
    return result


def _nrfutil(flashing: TomlTable) -> NrfUtil | None:
    nrfutil = flashing.table("nrfutil")
    if nrfutil is None:
        return None
    result = NrfUtil(nrfutil.integer("softdevice"), nrfutil.integer("device"))
    nrfutil.finish()
    return result


def _sectors(flashing: TomlTable) -> tuple[tuple[int, int], ...]:
    sectors = []
    for item in flashing.tables("sectors"):
        sectors.append((item.integer("count", 1, least=1), item.integer("bytes", least=4)))
        item.finish()
    return tuple(sectors)


def _line_steps(flashing: TomlTable, key: str) -> tuple[str, ...]:
    steps = flashing.strings(key, ())
    for step in steps:
        if not _LINE_STEP.fullmatch(step):
            raise flashing.error(
                key, f"has {shown(step)}; a step is dtr on, dtr off, rts on, rts off, wait 0.1 or touch 1200"
            )
    return steps


def _check_methods(flashing: TomlTable, way: Flashing) -> None:
    """What a method cannot do without."""
    needed = {
        "stm32": ("chip_ids", way.chip_ids and way.sectors, "and 'sectors' must be there for the method stm32"),
        "pyocd": ("pyocd", way.pyocd, "must name the target for the method pyocd"),
        "uf2": ("uf2_family", way.uf2_family, "must be there for the method uf2"),
        "openocd": ("openocd", way.openocd, "must name OpenOCD's scripts for the method openocd"),
        "dfu": ("dfu", way.dfu, "must be there for the method dfu"),
        "nrfutil": ("nrfutil", way.nrfutil, "must be there for the method nrfutil"),
        "teensy": ("teensy", way.teensy, "must name the chip for the method teensy"),
        "drive": ("drive", way.drive, "must be the label of the board's USB drive for the method drive"),
    }
    for method in way.methods:
        key, there, what = needed.get(method, ("", True, ""))
        if not there:
            raise flashing.error(key, what)


def read_energy(table: TomlTable) -> Energy | None:
    energy = table.table("energy")
    if energy is None:
        return None
    if not energy.has("pj_per_cycle"):
        raise energy.error("pj_per_cycle", "is needed")
    result = Energy(
        pj_per_cycle=energy.number("pj_per_cycle", 1.0, 0.01, 1e6),
        error=energy.number("error", 1.0, 0.0, 1.0),
        source=energy.string("source"),
    )
    energy.finish()
    return result


def read_flash_timing(table: TomlTable) -> FlashTiming | None:
    timing = table.table("flash_timing")
    if timing is None:
        return None
    result = FlashTiming(
        wait_states=timing.integer("wait_states"),
        word_bytes=timing.integer("word_bytes", least=1),
        line_bytes=timing.integer("line_bytes", least=4),
        instruction_lines=timing.integer("instruction_lines", 0),
        data_lines=timing.integer("data_lines", 0),
        prefetch=timing.boolean("prefetch", False),
    )
    if result.line_bytes % result.word_bytes or result.line_bytes & (result.line_bytes - 1):
        raise timing.error("line_bytes", "must be a power of two, and a multiple of word_bytes")
    timing.finish()
    return result
