# SPDX-License-Identifier: Apache-2.0
"""Averages over all pixels with Helium (MVE): int16 sums of eight channels in a vector, of a whole image or by rows."""

from __future__ import annotations

from tinyc.kernel.kernel import Accumulator, Call, Cost, In, Once, Out, RowForm, RowIndex, Rows, SpecializedKernel
from tinyc.kernel.site import Site
from tinyc.kernels.form.function import MVE, LayerFunction
from tinyc.kernels.mve.dot import BYTE_REACH
from tinyc.kernels.pool import GlobalSums, finish_text, finish_work, sums_fit
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

_LANES = 8  # int16 in a vector
_TURN = 8  # pixels per turn of the loop, or less
_MOST_COLUMNS = 32  # of a row, unrolled
_CALL = Work(12, 18)  # around a call
_INCLUDES = ("tc_mve.h",)
_PARAMETERS = ("const int8_t *x", "int16_t *sums", "int32_t channels")


def global_pool(family: str, pixels: int, channels: int, finish: str) -> SpecializedKernel:
    """The C function `family_<shape>(x, y)`: x [pixels][channels] -> y [channels], `finish` of each channel's sum.

    finish: C statements that turn int32_t `sum` into the output value, in `sum`.
    """
    fast, _ = _sums_function(pixels, channels)
    contract = f"/* The average of {pixels} pixels of {channels} channels: x [pixels][channels] -> y [channels]. */"
    twin = f"""static void @_sums({", ".join(_PARAMETERS)})
{{
    for (int32_t c = 0; c < {_LANES}; c++) {{
        sums[c] = 0;
        for (int32_t i = 0; i < {pixels} && c < channels; i++) {{
            sums[c] = (int16_t)(sums[c] + x[i * {channels} + c]);
        }}
    }}
}}
"""
    driver = f"""{finish_text(finish)}

static void @(const int8_t *x, int8_t *y)
{{
    for (int32_t c = 0; c < {channels}; c += {_LANES}) {{
        int16_t sums[{_LANES}];
        @_sums(x + c, sums, {channels} - c);
        for (int32_t i = 0; i < tc_mve_least({_LANES}, {channels} - c); i++) {{
            y[c + i] = @_finish(sums[i]);
        }}
    }}
}}"""
    function = LayerFunction(contract, fast, twin, driver, MVE)
    return function.named(f"{family}_{pixels}x{channels}", *_INCLUDES)


def sums_of(pixels: int, channels: int) -> GlobalSums:
    """Of the function `global_pool`."""
    text, executed = _sums_function(pixels, channels)
    calls = -(-channels // _LANES)
    units = {"summed": calls * executed.instructions, "channel": channels}
    return GlobalSums(calls * executed, units, 4 * text.count("\\n") + 120)


def global_pool_rows(family: str, image: tuple[int, int, int], finish: str, site: Site) -> tuple[RowForm, ...]:
    """Row forms of the average of image (rows, columns, channels), with sums that are kept between calls; empty where
    int16 sums or the code do not do."""
    rows, columns, channels = image
    if rows < 2 or not sums_fit(rows * columns) or columns > _MOST_COLUMNS:
        return ()
    fast, executed = _add_function(columns, channels)
    contract = f"""/* The average of {rows} rows of {columns} pixels of {channels} channels: call for row 0, 1 ...
 * x: the row. sums: int16 [{channels}], kept between the calls. y [{channels}]: written at the last row.
 */"""
    twin = f"""static void @_add({", ".join(_PARAMETERS)})
{{
    for (int32_t c = 0; c < channels; c++) {{
        for (int32_t i = 0; i < {columns}; i++) {{
            sums[c] = (int16_t)(sums[c] + x[i * {channels} + c]);
        }}
    }}
}}
"""
    driver = f"""{finish_text(finish)}

static void @(const int8_t *x, void *kept, int32_t row, int8_t *y)
{{
    int16_t *const sums = (int16_t *)kept;

    if (row == 0) {{
        for (int32_t c = 0; c < {channels}; c++) {{
            sums[c] = 0;
        }}
    }}
    @_add(x, sums, {channels});
    if (row == {rows - 1}) {{
        for (int32_t c = 0; c < {channels}; c++) {{
            y[c] = @_finish(sums[c]);
        }}
    }}
}}"""
    function = LayerFunction(contract, fast, twin, driver, MVE)
    whole = rows * (executed + _CALL) + channels * finish_work(family, site)
    return (
        RowForm(
            call=Call(
                (In(0), Accumulator(), RowIndex(), Out()),
                rows=Rows(rows, rows, 1, 1, 0, 1, columns * channels, channels, None),
            ),
            scratch_bytes=0,
            cost=Cost(whole.instructions, 4 * fast.count("\\n") + 160, 0, whole.cycles),
            special=Once(lambda: function.named(f"{family}_rows_{rows}x{columns}x{channels}", *_INCLUDES)),
            accumulator_bytes=2 * (channels + channels % 2),
            direct=True,
        ),
    )


def _sums_function(pixels: int, channels: int) -> tuple[str, Work]:
    """`@_sums(x, sums, channels)`: int16 sums of eight channels, or of those that there are, and zeros."""
    asm = Asm(CORTEX_M55)
    is_partial = channels % _LANES != 0
    asm.save("{r4, lr}")
    if is_partial:
        asm.op("vctp.16", "r2")
    asm.op("vmov.i32", "q0", "#0")
    turn = max(n for n in range(1, _TURN + 1) if pixels % n == 0)
    asm.constant("lr", pixels // turn)
    with asm.loop("turn", pixels // turn):
        for _ in range(turn):
            _pixel(asm, channels, is_partial)
        asm.branch("le", "turn", "lr")
    asm.op("vstrh.16", "q0", "[r1]")
    asm.restore()
    return naked_function("@_sums", _PARAMETERS, asm), asm.work()


def _add_function(columns: int, channels: int) -> tuple[str, Work]:
    """`@_add(x, sums, channels)`: adds a row to the sums, eight channels at a time."""
    asm = Asm(CORTEX_M55)
    is_partial = channels % _LANES != 0
    groups = -(-channels // _LANES)
    asm.save("{r4, lr}")
    asm.constant("lr", groups)
    with asm.loop("group", groups):
        asm.note("eight channels of all columns, added to the sums")
        if is_partial:
            asm.op("vctp.16", "r2")
            asm.op("vpst")
        asm.op("vldrht.u16" if is_partial else "vldrh.u16", "q0", "[r1]")
        for _ in range(columns):
            _pixel(asm, channels, is_partial)
        if is_partial:
            asm.op("sub", "r2", "r2", f"#{_LANES}")
            asm.op("vpst")
        asm.op("vstrht.16" if is_partial else "vstrh.16", "q0", "[r1]", f"#{2 * _LANES}")
        asm.add("r0", "r0", _LANES - columns * channels, "r12")
        asm.branch("le", "group", "lr")
    asm.restore()
    return naked_function("@_add", _PARAMETERS, asm), asm.work()


def _pixel(asm: Asm, channels: int, is_partial: bool) -> None:
    """Adds a pixel; r0 goes on to the next."""
    if is_partial:
        asm.op("vpst")
    moves = channels <= BYTE_REACH
    asm.op("vldrbt.s16" if is_partial else "vldrb.s16", "q1", "[r0]", *([f"#{channels}"] if moves else []))
    if not moves:
        asm.add("r0", "r0", channels, "r12")
    asm.op("vadd.i16", "q0", "q0", "q1")
