# SPDX-License-Identifier: Apache-2.0
"""The C function around the two of planes.py: it goes through the lines of an image and 16 channels at a time."""

from __future__ import annotations

from enum import Enum

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import writing
from tinyc.kernels.form.function import MVE, LayerFunction, apart, described_twin, twin
from tinyc.kernels.mve.dot import ACCUMULATORS, STEP
from tinyc.kernels.mve.planes import (
    HEADER,
    LINES,
    LINES_PARAMETERS,
    Lines,
    PlaneTile,
    lines_function,
    tile_function,
)
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.thumb import Work

_CALL = 20  # instructions around a call of both functions
_GROUP = 60  # and of a group of lines,
_ROW = 15  # of one that the caller has pointers to


class By(Enum):
    """How an image is walked through: what a line is."""

    ROWS = "rows"
    COLUMNS = "columns"
    COLUMN = "column"  # of the single column every fourth value
    ROW = "row"  # one or two rows of a streamed layer


@dataclass(frozen=True)
class LineWalk:
    """The lines of an image in `groups`, each a call of a function for its lines and one for its outputs (by row, also
    of the function that is written).

    lines: of each group, or one for all. tiles: of all groups, or of all and of the last. line_bytes: from line to
    line of the input. step: lines from group to group. top: lines of padding. in_lines: lines that there are.
    out_bytes: from group to group of the output.
    """

    by: By
    lines: tuple[Lines, ...]
    tiles: tuple[PlaneTile, ...]
    channels: int
    line_bytes: int
    step: int
    top: int
    in_lines: int
    out_bytes: int
    groups: int

    @property
    def chunk(self) -> int:
        """Channels of a call."""
        return STEP if self.lines[0].width == STEP else self.channels

    @property
    def chunks(self) -> int:
        return -(-self.channels // self.chunk)

    @property
    def buffer_bytes(self) -> int:
        """Interleaved lines of a group; vectors may go beyond the last place."""
        lines = self.lines[0]
        places = lines.left + lines.count + max(one.right for one in self.lines)
        return -(-4 * lines.width * places // STEP) * STEP + (4 * STEP if lines.flat else 0)

    @property
    def scratch_bytes(self) -> int:
        """By columns there are two groups at a time."""
        return self.buffer_bytes * (2 if self.by is By.COLUMNS and self.groups > 1 else 1)


@dataclass(frozen=True, slots=True)
class LineFunctions:
    """The function of a layer, and what a call executes."""

    function: LayerFunction
    work: Work

    @property
    def code_bytes(self) -> int:
        return 4 * self.function.text.count("\\n")


def write(walk: LineWalk) -> LineFunctions:
    """The functions of a layer."""
    return writing(_functions, walk)


def _functions(walk: LineWalk) -> LineFunctions:
    fast, portable = [], []
    kinds = list(dict.fromkeys(walk.lines))
    each_lines = {}
    for number, lines in enumerate(kinds):
        text, each_lines[lines] = lines_function(f"@_lines_{number}", lines)
        fast.append(text)
        portable.append(_lines_twin(f"@_lines_{number}", lines))
    each_tile = []
    for number, tile in enumerate(walk.tiles):
        text, once, each = tile_function(f"@_outputs_{number}", tile)
        fast.append(text)
        portable.append(_tile_twin(f"@_outputs_{number}", tile))
        each_tile.append((once, walk.channels // tile.together * each))
    group = _ROW if walk.by is By.ROW else _GROUP
    work = Work(1, 1) * (group * walk.groups + _CALL * walk.groups * walk.chunks)
    for group in range(walk.groups):
        work += walk.chunks * each_lines[walk.lines[group if len(walk.lines) > 1 else 0]]
        once, each = each_tile[-1 if group == walk.groups - 1 else 0]
        work += walk.chunks * once + each
    body = _body(walk, kinds)
    extent = _extent(walk) if walk.by is By.ROW else "the whole image"
    contract = f"""/* Depthwise, {walk.channels} channels, by {walk.by.value}: {extent}.
 * x, y: at words. stream, scratch: tc_mve.h.{" pad: a row of x_zero." if walk.by is By.ROWS else ""}
 */"""
    windows = tile_text(
        len(ACCUMULATORS), 1, "four lines interleaved in scratch", "int8 weights, a vector of each window"
    )
    return LineFunctions(LayerFunction(contract, apart(fast), apart(portable), body, MVE, tile=windows), work)


def _body(walk: LineWalk, kinds: list[Lines]) -> str:
    """The function that a step calls."""
    if walk.by is By.ROW:
        return _by_row(walk)
    return _by_rows(walk) if walk.by is By.ROWS else _by_columns(walk, kinds)


def _extent(walk: LineWalk) -> str:
    if not walk.tiles[0].apart:
        return "one row; y may be a row of x"
    return "two rows, or the second alone where y[0] is y[1]; each may be one of the first two of x"


def _chunk_call(walk: LineWalk, kind: int, source: str, target: str) -> str:
    return f"@_lines_{kind}({source}, c, {target}, {walk.channels} - c);"


def _tile_call(walk: LineWalk, tile: int, source: str, y: str) -> str:
    words = walk.tiles[0].record_words
    count = f"tc_mve_least({walk.chunk}, {walk.channels} - c)" if walk.channels % walk.chunk else str(walk.chunk)
    more = ", y[1] + c" if walk.tiles[tile].apart else ""
    return f"@_outputs_{tile}(stream, stream + {HEADER // 4} + {words} * c, {source}, {y}, {count}{more});"


def _by_rows(walk: LineWalk) -> str:
    lines = f"            {_chunk_call(walk, 0, 'rows', '(int8_t *)scratch')}"
    tiles = [_tile_call(walk, number, "(const int8_t *)scratch", "y + c") for number in range(len(walk.tiles))]
    if len(tiles) == 1:
        outputs = f"            {tiles[0]}"
    else:
        outputs = f"""            if (i < {walk.groups - 1}) {{
                {tiles[0]}
            }} else {{
                {tiles[1]}
            }}"""
    return f"""static void @(const int32_t *stream, const int8_t *x, int8_t *y, const int8_t *pad, void *scratch)
{{
    for (int32_t i = 0; i < {walk.groups}; i++) {{
        const int8_t *rows[{LINES}];
        tc_rows(rows, x, {walk.step} * i - {walk.top}, 1, {LINES}, {walk.in_lines}, {walk.line_bytes}, pad);
        for (int32_t c = 0; c < {walk.channels}; c += {walk.chunk}) {{
{lines}
{outputs}
        }}
        y += {walk.out_bytes};
    }}
}}"""


def _by_row(walk: LineWalk) -> str:
    """One group: the row or rows of a call, 16 channels at a time."""
    y, first = ("int8_t *const *y", "y[0] + c") if walk.tiles[0].apart else ("int8_t *y", "y + c")
    return f"""static void @(const int32_t *stream, const int8_t *const *x, {y}, void *scratch)
{{
    for (int32_t c = 0; c < {walk.channels}; c += {walk.chunk}) {{
        {_chunk_call(walk, 0, "x", "(int8_t *)scratch")}
        {_tile_call(walk, 0, "(const int8_t *)scratch", first)}
    }}
}}"""


def _by_columns(walk: LineWalk, kinds: list[Lines]) -> str:
    """All groups of 16 channels; the lines of the next group first."""
    calls = []
    buffers = [f"(int8_t *)scratch + {i * walk.buffer_bytes}" if i else "(int8_t *)scratch" for i in (0, 1)]
    for group in range(walk.groups + 1):
        if group < walk.groups:
            kind = kinds.index(walk.lines[group])
            for line in range(LINES):
                if line not in walk.lines[group].missing:
                    at = (group * walk.step - walk.top + line) * walk.line_bytes
                    calls.append(f"lines[{line}] = x + {at};" if at else f"lines[{line}] = x;")
            calls.append(_chunk_call(walk, kind, "lines", buffers[group % 2]))
        if group:
            tile = len(walk.tiles) - 1 if group == walk.groups else 0
            y = f"y + c + {(group - 1) * walk.out_bytes}" if group > 1 else "y + c"
            source = buffers[(group - 1) % 2].replace("(int8_t *)", "(const int8_t *)")
            calls.append(_tile_call(walk, tile, source, y))
    body = "\n".join(f"        {call}" for call in calls)
    return f"""static void @(const int32_t *stream, const int8_t *x, int8_t *y, void *scratch)
{{
    const int8_t *lines[{LINES}] = {{x, x, x, x}};

    for (int32_t c = 0; c < {walk.channels}; c += {walk.chunk}) {{
{body}
    }}
}}"""


def _lines_twin(name: str, lines: Lines) -> str:
    there = sum(1 << line for line in range(LINES) if line not in lines.missing)
    numbers = (lines.count, lines.step, lines.width, there, lines.last, lines.left, lines.right, lines.x_zero)
    return twin(name, LINES_PARAMETERS, f"tc_mve_lines(x, at, to, channels, {', '.join(map(str, numbers))});")


def _tile_twin(name: str, tile: PlaneTile) -> str:
    each = {
        "shift": [tile.shift(*window) for window in tile.windows],
        "line": [line for line, _ in tile.windows],
        "place": [place for _, place in tile.windows],
    }
    fields: dict[str, int | str] = {
        "windows": len(tile.windows),
        "places": tile.places,
        "count": tile.count,
        "gather_bytes": tile.gather_bytes,
        "word_bytes": 4 * tile.width,
        "outputs": tile.outputs,
        "out_place": tile.out_place,
        **{field: f"{{{', '.join(map(str, values))}}}" for field, values in each.items()},
        "requant": tile.requant.c_text,
    }
    second = "y1" if tile.apart else f"y + {tile.out_line}"
    call = f"tc_mve_tile(&layer, record, from, y, {second}, channels);"
    return described_twin(name, tile.parameters, "tc_mve_tile_t", fields, "(void)header;", call)
