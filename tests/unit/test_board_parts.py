# SPDX-License-Identifier: Apache-2.0
"""The hardware sections of board files: [uart], [setup], [flashing], [flash_timing]."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tinyc.base import paths
from tinyc.base.errors import TinycError
from tinyc.board import list_boards, load_board
from tinyc.board.parts import SetupStep, Uart
from tinyc.toolchain.uart import uart_driver

PYOCD = 'pyocd = "stm32f407vg"'
HSE = "{ set = 0x4002_3800, bits = 0x0001_0000 }"
GOOD = (paths.boards_dir() / "stm32f4-discovery.toml").read_text()


def test_uart_and_setup() -> None:
    board = load_board("stm32f4-discovery")
    assert board.uart == Uart("stm32f4", 0x4000_4800, 42_000_000, 115_200, 2)
    assert board.setup[0] == SetupStep("set", 0x4002_3800, 0x0001_0000, 0x0001_0000)
    assert board.setup[1] == SetupStep("wait", 0x4002_3800, 0x0002_0000, 0x0002_0000)
    assert board.setup[8] == SetupStep("wait", 0x4002_3808, 0xC, 0x8)


def test_energy(tmp_path: Path) -> None:
    """The runs of MLPerf Tiny that it was made of, at 120 MHz: uJ and inferences a second of ad, kws, vww, ic by Krai,
    of kws and ic by OctoML, whose board took a third less."""
    energy = load_board("nucleo-l4r5zi").energy
    assert energy is not None
    krai = ((528.881, 131.915), (5481.633, 13.744), (16573.080, 4.518), (17315.114, 4.501))
    octo_ml = ((5230.273, 9.997), (20236.298, 2.566))
    for microjoules, rate in (*krai, *octo_ml):
        assert microjoules == pytest.approx(energy.microjoules(120e6 / rate), rel=energy.error)
    assert load_board("stm32f4-discovery").energy is None
    for said, message in (
        ("pj_per_cycle = 0", "must be from 0.01"),
        ("error = 0.1", "'energy.pj_per_cycle' is needed"),
        ("pj_per_cycle = 5", "'energy.source' is missing"),
        ("pj_per_cycle = 5\nsource = 's'\nvolts = 3", "volts"),
    ):
        (tmp_path / "my.toml").write_text(f"{GOOD}\n[energy]\n{said}\n")
        with pytest.raises(TinycError, match=message):
            load_board(tmp_path / "my.toml")


def test_every_uart_has_its_driver() -> None:
    for board in list_boards():
        if board.uart is not None:
            source, _ = uart_driver(board.uart.kind)
            assert (paths.templates_dir() / "firmware" / source).is_file()
            assert board.uart.clock_hz // board.uart.baud >= 16


def test_real_boards_can_be_flashed() -> None:
    real = {board.name for board in list_boards() if board.flashing is not None}
    assert real == {
        "adafruit-feather-m4", "arduino-nano-33-ble", "arduino-nano-rp2040", "arduino-portenta-h7",
        "arduino-uno-r4-minima", "arduino-uno-r4-wifi", "b-l475e-iot01a", "b-u585i-iot02a", "ek-ra8d1",
        "esp32-c3", "esp32-c6", "mimxrt1060-evk", "nrf52840-dk", "nrf5340-dk", "nrf54l15-dk", "nucleo-f446re",
        "nucleo-f746zg", "nucleo-f767zi", "nucleo-g474re", "nucleo-h743zi2", "nucleo-l476rg", "nucleo-l4r5zi",
        "nucleo-u575zi-q", "nucleo-wb55rg", "raspberry-pi-pico", "raspberry-pi-pico2",
        "raspberry-pi-pico2-riscv", "seeed-xiao-esp32c3",
        "seeed-xiao-nrf52840", "seeed-xiao-samd21", "stm32f4-discovery", "stm32f746g-disco", "stm32h747i-disco",
        "teensy-4.1",
    }  # fmt: skip


def test_boards_that_are_sold_name_their_sources_and_have_a_console() -> None:
    """What a file says of a chip can be looked up."""
    documents = re.compile(r"RM0\d{3}|R01UH|DS\d{8}|IMXRT|data sheet|[Ss]pecification|manual|\.toml\b")
    for board in list_boards():
        if board.flashing is not None:
            comments = [line for line in Path(board.file).read_text().splitlines() if line.startswith("#")]
            assert documents.search(" ".join(comments)), board.name
            assert board.uart is not None, board.name


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ('kind = "stm32f4"', 'kind = "stm32"', "'uart.kind' is 'stm32'; it must be one of: cmsdk", "kind"),
        ("clock_hz = 42_000_000", "clock_hz = 0", "'uart.clock_hz' must be from 1", "clock_hz = 0"),
        (HSE, "{ put = 1 }", "item 1 whose 'write or set or clear", "steps"),
        (HSE, "{ set = 4, clear = 4, bits = 1 }", "must be there once", "steps"),
        (HSE, "{ set = 6, bits = 1 }", "must be a word's address", "steps"),
        (HSE, "{ set = 4 }", "item 1 whose 'bits' is missing", "steps"),
        (HSE, "{ set = 4, bits = 1, value = 2 }", "item 1 whose 'value' has bits", "steps"),
        (HSE, "{ write = 4, value = 1, bytes = 3 }", "item 1 whose 'bytes' must be one of: 1, 2, 4", "steps"),
        (HSE, "{ write = 5, value = 1, bytes = 2 }", "must be a multiple of 2, the register's bytes", "steps"),
        (HSE, "{ write = 5, value = 256, bytes = 1 }", "item 1 whose 'value' is too large for 1 bytes", "steps"),
        (HSE, "{ clear = 4, bits = 0x1_0000, bytes = 2 }", "item 1 whose 'bits' is too large for 2 bytes", "steps"),
        (HSE, "{ pairs = 4 }", "item 1 whose 'most' is missing", "steps"),
        (HSE, "{ pause = 0 }", "item 1 whose 'pause' must be from 1", "steps"),
        (HSE, "{ pause = 9, bits = 1 }", "item 1 whose 'bits' is not a key", "steps"),
        (HSE, "{ set = 4, bits = 1, bit = 1 }", "whose 'bit' is not a key", "steps"),
        ("bits = 0x0000_000C, value = 0x0000_0008", "bits = 4, value = 8", "item 9 whose 'value' has bits", "steps"),
        ('"stm32", "pyocd"]', '"stm32", "jtag"]', "'flashing.methods' has 'jtag'; it may have: stm32", "methods"),
        ('["stm32", "pyocd"]', "[]", "'flashing.methods' must name at least one", "methods"),
        ("chip_ids = [0x413]\n", "", "'flashing.chip_ids' and 'sectors' must be there", "[flashing]"),
        ("chip_ids = [0x413]", 'chip_ids = ["413"]', "'flashing.chip_ids' must be a list of whole numbers", "chip_ids"),
        ("{ bytes = 65_536 }", "{ size = 65_536 }", "has an item 2 whose 'bytes' is missing", "sectors"),
        ('"rts on", ', '"rts maybe", ', "'flashing.enter' has 'rts maybe'", "enter"),
        ('pyocd = "stm32f407vg"\n', "", "'flashing.pyocd' must name the target", "[flashing]"),
        ('"stm32", "pyocd"]', '"openocd"]', "'flashing.openocd' must name OpenOCD's scripts", "[flashing]"),
        ('"stm32", "pyocd"]', '"dfu"]', "'flashing.dfu' must be there for the method dfu", "[flashing]"),
        ('"stm32", "pyocd"]', '"nrfutil"]', "'flashing.nrfutil' must be there", "[flashing]"),
        ('"stm32", "pyocd"]', '"teensy"]', "'flashing.teensy' must name the chip", "[flashing]"),
        (PYOCD, 'openocd = ["target/../x.cfg"]', "'flashing.openocd' has 'target/../x.cfg'; a script is", "openocd"),
        (PYOCD, 'openocd = ["/etc/x.cfg"]', "'flashing.openocd' has '/etc/x.cfg'; a script is", "openocd"),
        (PYOCD, 'openocd = ["target/x.cfg -c shutdown"]', "'flashing.openocd' has", "openocd"),
        (PYOCD, 'dfu.id = "2341:35b"', "'flashing.dfu.id' is '2341:35b'; it must be the USB ids in hex", "dfu.id"),
        (PYOCD, "nrfutil.device = 1", "'flashing.nrfutil.softdevice' is missing", "nrfutil"),
        (PYOCD, 'teensy = "-x"', "'flashing.teensy' is '-x'", "teensy"),
        ("prefetch = true", "prefetch = 1", "'flash_timing.prefetch' must be true or false", "prefetch"),
        ("line_bytes = 16", "line_bytes = 24", "'flash_timing.line_bytes' must be a power of two", "line_bytes"),
        ("wait_states = 5", "waits = 5", "'flash_timing.wait_states' is missing", "[flash_timing]"),
    ],
)  # fmt: skip
def test_wrong_sections_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, message: str, line: str
) -> None:
    assert old in GOOD
    file = tmp_path / "my.toml"
    text = GOOD.replace(old, new)
    file.write_text(text)
    with pytest.raises(TinycError) as caught:
        load_board(file)
    assert message in caught.value.message
    number = next(n for n, own_line in enumerate(text.splitlines(), 1) if own_line.startswith(line))
    assert str(caught.value.where) == f"{file}:{number}"
