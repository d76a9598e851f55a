# SPDX-License-Identifier: Apache-2.0
"""The assembly of a depthwise convolution, one output per input channel, over planes of int16.

Four channels at a time (two, for half the scratch) become planes of int16 in scratch, columns by pairs in a word,
padding filled in. The multiplications then take two taps at once, and no weight is unpacked: weights are int16 words
in two orders, so that outputs at even and at odd columns both find their taps side by side (`_row_macs`).

Planes hold a band of the rows; the rows that the next band needs again are moved up, not made again. All
reads of a channel's rows come before the writes of the output rows that may take their place, so input and
output may be the same bytes.

Two forms of the inner step:

* resident: two outputs, all weights of the channel stay in registers (3x3, 1x7 ...);
* streamed: four outputs, the weights pass through registers (larger kernels).
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.kernels.depthwise.plane_channels import ChannelWriter, Cursor, place
from tinyc.kernels.depthwise.plane_layer import PlaneLayer, tap_halves
from tinyc.kernels.finish import RAISED_DOWN
from tinyc.kernels.form.function import LayerFunction, described_twin
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import IN_PLANES
from tinyc.kernels.tile.shape import tile_text
from tinyc.machine.thumb import Asm

_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_WORD_REACH = 4095  # of LDR, STRB, ADDW


class _Writer(ChannelWriter):
    """Writes a whole function: the planes of a group of channels, then the channels."""

    def write(self) -> None:
        layer, asm = self.layer, self.asm
        self._prologue()
        with asm.loop("group", layer.groups, aligned=False):
            if layer.bands == 1:
                self._load_all()
                self._channels()
            else:
                self._bands()
            self._next_group()
        asm.label("done")
        asm.note("return")
        asm.restore()

    # ---- around the channels ----

    def _prologue(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=frame.size)
        asm.piece(_arguments, layer.by_rows, layer.groups, layer.group if layer.rest else 0)
        if layer.bands == 1:
            self._fill_pad_rows()

    def _fill_pad_rows(self) -> None:
        """Rows above and below the image stay as they are for all groups."""
        layer, asm = self.layer, self.asm
        below = layer.plane_rows - layer.pad_top - layer.real_rows
        if layer.pad_top or below:
            asm.note("rows of padding in the planes")
            asm.piece(_pad_values)
        self._fill(layer.pad_top)
        if below:
            Cursor(asm, "r3", 0, 0).move(layer.real_rows * layer.plane_row)
        self._fill(below)

    def _fill(self, rows: int) -> None:
        """`rows` plane rows at r3 get r4 ... r11."""
        turns, rest = divmod(rows * self.layer.plane_row, 32)
        if turns > 8:
            asm = self.asm
            asm.constant("r12", turns)
            label = f"fill{asm.lines}"
            with asm.loop(label, turns):
                asm.op("stm", "r3!", "{r4-r11}")
                asm.count_down("r12", "", label, "bne")
        else:
            self.asm.piece(_filled, "r3", turns)
        if rest:  # planes of two channels
            self.asm.op("stm", "r3!", "{r4-r7}")

    def _next_group(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        if layer.groups == 1:
            return
        asm.note("the next group of channels")
        asm.op("ldr", "r2", frame.at("groups"))
        asm.op("subs", "r2", "r2", "#1")
        asm.leave("beq.w", "done")
        asm.piece(_begin_group, layer.group)
        if layer.rest:
            asm.op("cmp", "r2", "#1")
            asm.branch("bne", "full", taken=layer.groups - 2)
            asm.piece(_share_group, layer.group, layer.rest, layer.pitch)
            asm.label("full")
        asm.op("strd", "r3", "r4", frame.at("x"))
        asm.branch("b.w", "group")

    # ---- planes ----

    def _load_all(self) -> None:
        """All rows of the image at once."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("loads: the image to a plane of int16 for each channel")
        asm.op("ldr", *("r12", frame.at("row")) if layer.by_rows else ("r0", frame.at("x")))
        asm.op("ldr", "r1", frame.at("scratch"))
        Cursor(asm, "r1", 0, 0).move(layer.pad_top * layer.plane_row)
        self._load_zero()
        if layer.real_rows == 1:
            self._load_row()
            return
        asm.constant("r14", layer.real_rows)
        with asm.loop("load", layer.real_rows):
            self._load_row()
            asm.count_down("r14", "", "load")

    def _load_row(self) -> None:
        asm = self.asm
        if self.layer.by_rows:
            asm.op("ldr", "r0", "[r12], #4")
            asm.op("ldr", "r4", self.frame.at("x"))
            asm.op("add", "r0", "r0", "r4")
        self._unpack_row()

    def _load_zero(self) -> None:
        """r2: four zero points as int8, r3: two as int16."""
        self.asm.op("ldr", "r2", self.frame.at("z"))
        self.asm.op("sxtb16", "r3", "r2")

    def _unpack_row(self) -> None:
        """One row at r0 to the planes at r1; both move to the next row."""
        layer, asm = self.layer, self.asm
        x, to = _unpacking(asm)
        for block in range(layer.pitch // 8):
            to.reach(8 * block, 8 * block + (layer.group - 1) * layer.pitch)
            column = 4 * block - layer.pad_left
            inside = tuple(0 <= column + i < layer.real_columns for i in range(4))
            places = column * layer.in_step - x.base, 8 * block - to.base
            moved = asm.piece(_unpack_block, inside, layer.group, (layer.in_step, layer.pitch), places)
            x.base, to.base = x.base + moved[0], to.base + moved[1]
        if not layer.by_rows:
            x.move(layer.in_row)
        to.move(layer.plane_row)

    def _bands(self) -> None:
        """One group of four channels, band by band."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.piece(_enter_bands, layer.pad_top, layer.bands, layer.plane_rows)
        with asm.loop("band", layer.bands, aligned=False):
            self._load_band()
            self._channels()
            asm.op("ldr", "r4", frame.at("bands"))
            asm.op("subs", "r4", "r4", "#1")
            asm.leave("beq.w", "bands_done")
            asm.piece(_begin_band, layer.band * layer.out_row)
            self._carry()
            asm.constant("r14", layer.fresh)
            asm.branch("b.w", "band")
        asm.label("bands_done")

    def _load_band(self) -> None:
        """r14 rows to the planes at r1: from the image, or of zero points above and below it."""
        layer, asm, frame = self.layer, self.asm, self.frame
        loaded = layer.loaded_rows
        real = min(loaded - layer.pad_top, layer.real_rows)
        asm.note("loads: rows of the image to a plane of int16 for each channel")
        asm.op("ldrd", "r12", "r0", frame.at("row"))
        self._load_zero()
        with asm.loop("load", layer.groups * loaded, of_call=True):
            if loaded > real:
                asm.constant("r4", layer.real_rows)
                asm.op("cmp", "r12", "r4")
                asm.branch("bhs.w", "pad_row", taken=layer.groups * (loaded - real))
            self._unpack_row()
            asm.label("loaded_row")
            asm.op("add", "r12", "r12", "#1")
            asm.count_down("r14", "", "load")
        asm.op("strd", "r12", "r0", frame.at("row"))
        if loaded > real:
            asm.branch("b.w", "loaded")
            self._pad_row()
            asm.label("loaded")

    def _pad_row(self) -> None:
        asm = self.asm
        asm.label("pad_row")
        asm.piece(_padded, self.layer.plane_row // 32)
        asm.branch("b.w", "loaded_row")

    def _carry(self) -> None:
        """The last `keep` rows of the planes become the first; r1 points behind them."""
        layer, asm = self.layer, self.asm
        asm.op("ldr", "r1", self.frame.at("scratch"))
        if not layer.keep:
            return
        asm.note("the last rows of the planes become the first")
        asm.op("mov", "r0", "r1")
        Cursor(asm, "r0", 0, 0).move(layer.fresh * layer.plane_row)
        turns = layer.keep * layer.plane_row // 32
        if turns > 8:
            asm.constant("r12", turns)
            with asm.loop("carry", turns):
                asm.op("ldm", "r0!", "{r4-r11}")
                asm.op("stm", "r1!", "{r4-r11}")
                asm.count_down("r12", "", "carry", "bne")
            return
        asm.piece(_carried, turns)


def _arguments(asm: Asm, by_rows: bool, groups: int, shared: int) -> None:
    """Arguments to the frame. shared: channels of a group, where the last one has some of that before; else 0."""
    asm.op("ldr", "r4", "[r0], #4")
    asm.op("str", "r4", place("z"))
    for register, slot in (("r0", "stream"), ("r1", "row" if by_rows else "x"), ("r2", "y"), ("r3", "scratch")):
        asm.op("str", register, place(slot))
    if by_rows:
        asm.op("mov", "r5", "#0")
        asm.op("str", "r5", place("x"))  # bytes into each row
    asm.constant("r5", groups)
    asm.op("str", "r5", place("groups"))
    if shared:
        asm.op("mov", "r5", f"#{shared}")
        asm.op("mov", "r6", "#0")
        asm.op("strd", "r5", "r6", place("count"))


def _pad_values(asm: Asm) -> None:
    """Zero points as int16 to r4 ... r11; r4: four of them as int8."""
    asm.op("sxtb16", "r4", "r4")
    for register in ("r5", "r6", "r7", "r8", "r9", "r10", "r11"):
        asm.op("mov", register, "r4")


def _begin_group(asm: Asm, group: int) -> None:
    """The frame's number of groups, in r2, and pointers go on to the next group; r3: x, r4: y."""
    asm.op("str", "r2", place("groups"))
    asm.op("ldrd", "r3", "r4", place("x"))
    asm.op("add", "r3", "r3", f"#{group}")
    asm.op("add", "r4", "r4", f"#{group}")


def _share_group(asm: Asm, group: int, rest: int, pitch: int) -> None:
    """The last group loads as many channels, those that end with the last, and uses `rest` of them."""
    asm.op("sub", "r3", "r3", f"#{group - rest}")
    asm.op("mov", "r5", f"#{rest}")
    asm.constant("r6", (group - rest) * pitch)
    asm.op("strd", "r5", "r6", place("count"))


def _begin_band(asm: Asm, band_bytes: int) -> None:
    """The frame's number of bands, in r4, and outputs go on to the next band."""
    asm.op("str", "r4", place("bands"))
    asm.op("ldrd", "r4", "r5", place("y_band"))
    Cursor(asm, "r4", 0, 0).move(band_bytes)
    asm.op("str", "r4", place("y_band"))
    asm.op("str", "r5", place("stream"))


def _enter_bands(asm: Asm, pad_top: int, bands: int, plane_rows: int) -> None:
    """The frame for the bands of a group; r1: planes, r14: rows of the first band."""
    asm.piece(_first_band, pad_top)
    asm.constant("r4", bands)
    asm.op("str", "r4", place("bands"))
    asm.op("ldr", "r1", place("scratch"))
    asm.constant("r14", plane_rows)


def _first_band(asm: Asm, pad_top: int) -> None:
    """Where the first band is read and written."""
    asm.op("ldr", "r5", place("x"))
    asm.op("mvn", "r4", f"#{pad_top - 1}") if pad_top else asm.op("mov", "r4", "#0")
    asm.op("strd", "r4", "r5", place("row"))
    asm.op("ldr", "r4", place("y"))
    asm.op("ldr", "r5", place("stream"))
    asm.op("strd", "r4", "r5", place("y_band"))


def _padded(asm: Asm, vectors: int) -> None:
    """A plane row at r1, of so many times 32 bytes, gets what r3 has."""
    for register in ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11"):
        asm.op("mov", register, "r3")
    asm.piece(_filled, "r1", vectors)


def _filled(asm: Asm, pointer: str, vectors: int) -> None:
    """So many times 32 bytes at a register, which moves on, get what r4 ... r11 have."""
    for _ in range(vectors):
        asm.op("stm", f"{pointer}!", "{r4-r11}")


def _carried(asm: Asm, vectors: int) -> None:
    """So many times 32 bytes from r0 on to r1 on."""
    for _ in range(vectors):
        asm.op("ldm", "r0!", "{r4-r11}")
        asm.op("stm", "r1!", "{r4-r11}")


def _unpacking(asm: Asm) -> tuple[Cursor, Cursor]:
    """Where a row is read, and where it goes."""
    return Cursor(asm, "r0", -255, _WORD_REACH), Cursor(asm, "r1", -_PAIR_REACH, _PAIR_REACH)


def _unpack_block(
    asm: Asm, inside: tuple[bool, ...], group: int, steps: tuple[int, int], places: tuple[int, int]
) -> tuple[int, int]:
    """Four columns of all channels of the group; by how much the registers of `_unpacking` moved.

    inside: which columns are in the image. steps: bytes from column to column, and from plane to plane. places: of the
    first column, and where it goes.
    """
    x, to = _unpacking(asm)
    four = group == GROUP
    loaded = ["r2"] * 4
    for i in range(4):
        if inside[i]:
            loaded[i] = f"r{4 + i}"
            asm.op("ldr" if four else "ldrh", loaded[i], x.at(places[0] + i * steps[0]))
    pairs = asm.piece(_paired, tuple(loaded), inside, four)
    for channel in range(group):
        sources = tuple("" if pair is None else pair[channel // 2] for pair in pairs)
        asm.piece(_columns_of, channel % 2, sources, to.at(places[1] + channel * steps[1]))
    return x.base, to.base


def _columns_of(asm: Asm, half: int, sources: tuple[str, ...], at: str) -> None:
    """Four columns of a channel. half: 1 where it has the upper bytes. sources: registers with two columns each, empty
    where these are outside the image."""
    words = []
    for source, fresh in zip(sources, ("r4", "r5"), strict=True):
        target = "r3" if not source else source if half else fresh
        if source:
            asm.op("sxtb16", target, source, *(("ror #8",) * half))
        words.append(target)
    asm.op("strd", *words, at)


def _paired(
    asm: Asm, loaded: tuple[str, ...], inside: tuple[bool, ...], four: bool
) -> tuple[tuple[str, str] | None, ...]:
    """Bytes of two columns side by side, for channels 0 and 1, and of four channels for 2 and 3; the registers of the
    columns 0 and 1, and 2 and 3, None where they are outside the image."""
    pairs: list[tuple[str, str] | None] = []
    for i, (low, high) in ((0, ("r8", "r9")), (2, ("r10", "r11"))):
        if inside[i] or inside[i + 1]:
            asm.op("pkhbt", low, loaded[i], loaded[i + 1], "lsl #16")
            if four:
                asm.op("pkhtb", high, loaded[i + 1], loaded[i], "asr #16")
            pairs.append((low, high))
        else:
            pairs.append(None)
    return tuple(pairs)


def function(layer: PlaneLayer) -> Asm:
    """The assembly of the function."""
    writer = _Writer(layer)
    writer.write()
    return writer.asm


def layer_function(layer: PlaneLayer, fast: str) -> LayerFunction:
    """`@(stream, x, y, scratch)`, whose text in assembly is given."""
    of_row = tap_halves(layer.k_w, layer.stride_w)
    halves = [2 * layer.row_words * row + at for row in range(layer.k_h) for at in of_row]
    kind, where = IN_PLANES[layer.bits].weights, "in registers" if layer.resident else "from the stream"
    tile = tile_text(2 if layer.resident else 4, 1, "planes in scratch", f"{kind}, {where}")
    return LayerFunction(_contract(layer), fast, planes_twin(layer, layer.weight_words, halves), tile=tile)


def _contract(layer: PlaneLayer) -> str:
    x = f"{layer.k_h} row pointers; y may be a row of x" if layer.by_rows else "the image; y may be x"
    return f"""/* depthwise_conv2d {layer.k_h}x{layer.k_w}, stride {layer.stride_h}x{layer.stride_w}: \
{layer.in_h}x{layer.in_w}x{layer.channels} -> {layer.out_h}x{layer.out_w}, planes of {layer.band} output rows.
 * stream: tc_depthwise_planes.h. x: {x}. scratch: {layer.scratch_bytes} bytes, word aligned.
 */"""


def planes_twin(layer: PlaneLayer, words: int, halves: Sequence[int], on_stack: int = 0) -> str:
    """The function in C. words: of a channel's weights. halves: where in them each tap is. on_stack: numbers of a
    plane that is not in scratch."""
    fields: dict[str, int | str] = {
        **{field: getattr(layer, field) for field in _TWIN_FIELDS},
        "columns": layer.columns,
        "bits": layer.bits,
        "down": RAISED_DOWN * layer.requant.halve,
        "finish": layer.requant.c_text,
        "words": words,
    }
    source = "NULL, x" if layer.by_rows else "x, NULL"
    plane, own = ("plane", [f"int16_t plane[{on_stack}];"]) if on_stack else ("(int16_t *)scratch", [])
    lines = (*own, f"tc_depthwise_planes(&layer, stream, {source}, y, {plane});")
    tables = {"half": ("uint16_t", halves)}
    return described_twin("@", layer.parameters, "tc_depthwise_planes_t", fields, *lines, tables=tables)


_TWIN_FIELDS = (
    *("in_h", "in_w", "out_h", "out_w", "k_h", "k_w", "stride_h", "stride_w", "pad_top", "pad_left"),
    *("in_step", "in_row", "out_step", "out_row", "channels", "band"),
)
