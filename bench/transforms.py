# SPDX-License-Identifier: Apache-2.0
"""The real transforms of front ends beside CMSIS-DSP's of 16 and 31 bits: instructions on a Cortex-M4, and errors.

    pip install cmsisdsp
    python bench/transforms.py

Instructions are those of `tc_spectrum_transform` and of the transform of `--frontend micro`, compiled by
arm-none-eabi-gcc -O3 and run on unicorn; CMSIS-DSP's package for Python has no code for Arm, so its counts are not
here. Errors are those of the integers of both: the same int16 samples, noise at several levels and a chord, each
spectrum scaled as fits best, against the transform in float64: the ratio of signal to error in dB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from elftools.elf.elffile import ELFFile
from unicorn import arm_const as arm

from tinyc.ops.fourier import Fourier, forward
from tinyc.ops.transform import Transform, transformed

RUNTIME = Path(__file__).resolve().parents[1] / "runtime_c"
LENGTHS = (256, 400, 480, 512, 640, 1024)
INCLUDED = (f"-I{RUNTIME / room}" for room in ("base", "signal"))
FLAGS = ["-mcpu=cortex-m4", "-mthumb", "-O3", "-nostdlib", *INCLUDED, "-Wl,-Ttext=0x8000000,-Tdata=0x20000000"]
_END = 0x10000000
_PROGRAM = """
#include "tc_mixed_transform.h"
int32_t y[{length} + 2];
static const int32_t twiddles[] = {{{twiddles}}}, split[] = {{{split}}}, roots[] = {{{roots}}};
static const int8_t radixes[] = {{{radixes}}};
static const tc_spectrum_t t = {{0, twiddles, split, 0, 0, 0, 0, {half}, {radix}}};
static const tc_mixed_t mixed = {{roots, 0, radixes, {steps}}};
void program(void) {{ {call}; }}
"""
_POWER_OF_TWO = "(void)mixed; tc_spectrum_transform(t.twiddles, t.split, t.half, t.radix, y)"
_MIXED = "tc_mixed_transform(&t, &mixed, y)"
Spectra = Callable[[np.ndarray], np.ndarray]


def instructions(length: int) -> int:
    t = Transform(length)
    tables = {"twiddles": t.twiddles(), "split": t.split(), "roots": t.roots(), "radixes": np.array(t.radixes)}
    numbers = {name: ",".join(map(str, array.reshape(-1))) or "0" for name, array in tables.items()}
    sizes = {"length": length, "half": t.half, "radix": t.radix, "steps": len(t.radixes)}
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        text = _PROGRAM.format(call=_POWER_OF_TWO if t.is_power_of_two else _MIXED, **sizes, **numbers)
        (folder / "program.c").write_text(text)
        command = ["arm-none-eabi-gcc", *FLAGS, "-Wl,-eprogram", "program.c", "-lgcc", "-o", "program.elf"]
        subprocess.run(command, cwd=folder, check=True)
        return _executed(folder / "program.elf")


def _executed(path: Path) -> int:
    machine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
    machine.ctl_set_cpu_model(arm.UC_CPU_ARM_CORTEX_M4)
    for base in (0x8000000, 0x20000000, _END):
        machine.mem_map(base, 0x100000)
    with path.open("rb") as file:
        elf = ELFFile(file)
        for segment in elf.iter_segments("PT_LOAD"):
            machine.mem_write(segment["p_vaddr"], segment.data())
        begin = elf.header["e_entry"]
    executed = [0]
    machine.hook_add(unicorn.UC_HOOK_CODE, lambda *_: executed.__setitem__(0, executed[0] + 1))
    machine.reg_write(arm.UC_ARM_REG_SP, 0x200FF000)
    machine.reg_write(arm.UC_ARM_REG_LR, _END | 1)
    machine.emu_start(begin | 1, _END)
    return executed[0]


def ours(x: np.ndarray) -> np.ndarray:
    """With the samples shifted as far as they may be, as a front end does."""
    t = Transform(x.shape[1])
    shift = max((t.most // max(int(np.abs(x).max()), 1)).bit_length() - 1, 0)
    y = transformed(t, x.astype(np.int32) << shift).reshape(len(x), -1, 2)
    return np.asarray(y[..., 0] + 1j * y[..., 1])


def of_kissfft(x: np.ndarray) -> np.ndarray:
    """The transform of `--frontend micro`, behind its scaling."""
    shift = max(15 - int(np.abs(x).max()).bit_length(), 0)
    y = forward(Fourier(x.shape[1], "s16"), (x.astype(np.int32) << shift).astype(np.int16)).reshape(len(x), -1, 2)
    return np.asarray(y[..., 0] + 1j * y[..., 1].astype(float))


def of_cmsis(bits: int) -> Spectra:
    """Of a power of two: CMSIS-DSP has no others."""
    dsp: Any = __import__("cmsisdsp")

    def spectra(x: np.ndarray) -> np.ndarray:
        n = x.shape[1]
        instance = getattr(dsp, f"arm_rfft_instance_q{bits}")()
        getattr(dsp, f"arm_rfft_init_q{bits}")(instance, n, 0, 1)
        rows = x.astype(np.int16) if bits == 15 else x.astype(np.int32) << 16
        parts = np.array([getattr(dsp, f"arm_rfft_q{bits}")(instance, row) for row in rows], np.int64)
        parts = parts[:, : n + 2].reshape(len(x), -1, 2)
        return np.asarray(parts[..., 0] + 1j * parts[..., 1])

    return spectra


def signals(length: int) -> dict[str, np.ndarray]:
    rng, t = np.random.default_rng(length), np.arange(length)
    by_name = {
        f"noise at {level} dB": rng.uniform(-1, 1, (20, length)) * 32767 * 10 ** (level / 20) for level in (0, -30, -60)
    }
    tones = [np.sin(2 * np.pi * f * t / length) * a for f, a in ((11.3, 0.5), (25.1, 0.3), (60.7, 0.01))]
    chord = np.sum(tones, axis=0)
    return {name: np.round(x).astype(np.int64) for name, x in {**by_name, "a chord": chord[None] * 32000}.items()}


def decibels(x: np.ndarray, spectra: Spectra) -> float:
    """Signal to error, each spectrum times the number that fits best."""
    exact, computed = np.fft.rfft(x), spectra(x)
    scale = (computed.conj() * exact).sum().real / (np.abs(computed) ** 2).sum()
    return float(10 * np.log10((np.abs(exact) ** 2).sum() / (np.abs(exact - scale * computed) ** 2).sum()))


def main() -> int:
    kinds = {
        "tinyc, 32 bits": ours,
        "--frontend micro": of_kissfft,
        "arm_rfft_q15": of_cmsis(15),
        "arm_rfft_q31": of_cmsis(31),
    }
    print("| points | signal |", " | ".join(kinds), "| instructions of tinyc's 32 bits |")
    print("|---|---|" + "---|" * (len(kinds) + 1))
    for length in LENGTHS:
        count = f"{instructions(length):,}"
        for name, x in signals(length).items():
            others = Transform(length).is_power_of_two
            cells = " | ".join(f"{decibels(x, f):.1f}" if others or f is ours else "-" for f in kinds.values())
            print(f"| {length} | {name} | {cells} | {count} |")
            count = ""
    return 0


if __name__ == "__main__":
    sys.exit(main())
