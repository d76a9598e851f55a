# SPDX-License-Identifier: Apache-2.0
"""Averages over all pixels on Cortex-M with DSP, one image row per call: int16 sums are kept between the calls."""

from __future__ import annotations

from tinyc.kernel.kernel import Accumulator, Call, Cost, In, Once, Out, RowForm, RowIndex, Rows, writing
from tinyc.kernel.site import Site
from tinyc.kernels.form.function import LayerFunction
from tinyc.kernels.pool import finish_text, finish_work, sums_fit
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Naked, Work

_MOST_COLUMNS = 32  # of a row, unrolled
_REACH = 4095  # of LDR
_CALL = Work(20, 30)  # around a call


def global_pool_rows(
    family: str, image: tuple[int, int, int], finish: str, includes: tuple[str, ...], site: Site
) -> tuple[RowForm, ...]:
    """Row forms of the average of image (rows, columns, channels); empty where int16 sums or the code do not do.

    finish: C statements that turn int32_t `sum` into the output value, in `sum`.
    """
    rows, columns, channels = image
    if rows < 2 or not sums_fit(rows * columns) or columns > _MOST_COLUMNS or columns * channels > _REACH:
        return ()
    blocked = channels // 4 * 4
    added, executed = writing(_add_function, columns, channels, site.core) if blocked else (None, Work())
    single = channels % 4 * columns * 6
    whole = rows * (executed + single + _CALL) + channels * finish_work(family, site)
    accumulator = 2 * channels + channels % 2 * 2
    form = RowForm(
        call=Call(
            (In(0), Accumulator(), RowIndex(), Out()),
            rows=Rows(rows, rows, 1, 1, 0, 1, columns * channels, channels, None),
        ),
        scratch_bytes=0,
        cost=Cost(whole.instructions, 4 * (added.lines if added else 0) + 120, 0, whole.cycles),
        special=Once(
            lambda: _function(image, finish, added.text if added else "").named(
                f"{family}_rows_{rows}x{columns}x{channels}", *includes
            )
        ),
        accumulator_bytes=accumulator,
        direct=True,
    )
    return (form,)


def _function(image: tuple[int, int, int], finish: str, fast: str) -> LayerFunction:
    """`@(x, sums, row, y)`. fast: C text of `@_add`, of full groups of four channels, if there are any."""
    rows, columns, channels = image
    blocked = channels // 4 * 4
    add = "        @_add(x, (int32_t *)sums);\n" if blocked else ""
    twin = f"""static void @_add(const int8_t *x, int32_t *words)
{{
    int16_t *sums = (int16_t *)words;

    for (int32_t c = 0; c < {blocked}; c++) {{
        const int32_t at = c / 4 * 4 + c % 2 * 2 + c / 2 % 2;
        for (int32_t i = 0; i < {columns}; i++) {{
            sums[at] = (int16_t)(sums[at] + x[i * {channels} + c]);
        }}
    }}
}}
"""
    rest = f"""    for (int32_t c = {blocked}; c < {channels}; c++) {{
        for (int32_t i = 0; i < {columns}; i++) {{
            sum16[c] = (int16_t)(sum16[c] + x[i * {channels} + c]);
        }}
    }}
"""
    place = "c" if blocked == 0 else "c / 4 * 4 + c % 2 * 2 + c / 2 % 2"
    chosen = place if blocked in (0, channels) else f"c < {blocked} ? {place} : c"
    contract = f"""/* The average of {rows} rows of {columns} pixels of {channels} channels: call for row 0, 1 ...
 * x: the row. sums: int16 [{channels}] in words, kept between the calls: channels 0, 2, 1, 3 of each four, then
 * the rest. y [{channels}]: written at the last row.
 */"""
    driver = f"""{finish_text(finish)}

static void @(const int8_t *x, void *sums, int32_t row, int8_t *y)
{{
    int16_t *sum16 = (int16_t *)sums;

    if (row == 0) {{
        for (int32_t c = 0; c < {channels}; c++) {{
            sum16[c] = 0;
        }}
    }}
{add.replace("        ", "    ", 1)}{rest if channels % 4 else ""}    if (row == {rows - 1}) {{
        for (int32_t c = 0; c < {channels}; c++) {{
            y[c] = @_finish(sum16[{chosen}]);
        }}
    }}
}}"""
    return LayerFunction(contract, fast, twin, driver)


def _add_function(columns: int, channels: int, core: Core) -> tuple[Naked, Work]:
    """`@_add(x, sums)`: adds a row to the sums of all full groups of four channels; and what that executes."""
    asm = Asm(core)
    asm.save("{r4-r6, lr}")
    asm.add("r6", "r0", channels // 4 * 4)
    with asm.loop("group", channels // 4):
        asm.note("four channels of all columns, added to the sums")
        asm.op("ldrd", "r2", "r3", "[r1]")
        for column in range(columns):
            x = ("r4", "r5", "r12")[column % 3]
            asm.op("ldr", x, f"[r0, #{column * channels}]" if column else "[r0]")
            asm.op("sxtab16", "r2", "r2", x)
            asm.op("sxtab16", "r3", "r3", x, "ror #8")
        asm.op("strd", "r2", "r3", "[r1], #8")
        asm.op("add", "r0", "r0", "#4")
        asm.until_equal("r0", "r6", "group")
    asm.restore()
    asm.reorder()
    return Naked("@_add", ("const int8_t *x", "int32_t *sums"), asm), asm.work()
