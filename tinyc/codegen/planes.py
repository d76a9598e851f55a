"""The assembly of a depthwise convolution, one output per input channel, over planes of int16.

Four channels at a time become planes of int16 in scratch, columns by pairs in a word, padding filled in. The
multiplications then take two taps at once, and no weight is unpacked: weights are int16 words in two orders,
so that outputs at even and at odd columns both find their taps side by side (`_row_macs`).

Planes hold a band of the rows; the rows that the next band needs again are moved up, not made again. All
reads of a channel's rows come before the writes of the output rows that may take their place, so input and
output may be the same bytes.

Two forms of the inner step:

* resident: two outputs, all weights of the channel stay in registers (3x3, 1x7 ...);
* streamed: four outputs, the weights pass through registers (larger kernels).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tinyc.codegen.finish import GROUP, Way
from tinyc.codegen.thumb import Asm, Work, naked_function

_RESIDENT_WORDS = 6  # weight words of a channel that registers hold
_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_WORD_REACH = 4095  # of LDR, STRB, ADDW
_UNROLLED_OUTPUTS = 26  # of the loop over output rows


@dataclass(frozen=True, slots=True)
class Mac:
    """One multiply-accumulate of a plane word (two columns) with a weight word, for output `out`."""

    x: int
    w: int
    op: str
    out: int


def row_words(k_w: int, stride: int) -> list[tuple[int, int]]:
    """The taps (low half, high half) of each weight word of one kernel row; -1 for none.

    Stride 1: words of taps (0, 1), (2, 3) ... for even columns, of (1, 2), (3, 4) ... for odd ones, by turns.
    """
    if stride == 2 or k_w == 1:
        return [(tap, tap + 1 if tap + 1 < k_w else -1) for tap in range(0, k_w, 2)]
    return [(tap, tap + 1) for tap in range(k_w - 1)]


def row_macs(outputs: int, k_w: int, stride: int) -> list[Mac]:
    """What one kernel row adds to neighbouring outputs; word 0 is the first output's first column."""
    place = {taps: word for word, taps in enumerate(row_words(k_w, stride))}
    halves = {tap: (word, "bt"[half]) for taps, word in place.items() for half, tap in enumerate(taps)}
    found = []
    for out in range(outputs):
        tap = 0
        while tap < k_w:
            x, odd = divmod(out * stride + tap, 2)
            if not odd and (tap, tap + 1) in place:
                found.append(Mac(x, place[tap, tap + 1], "smlad", out))
                tap += 2
            else:
                word, half = halves[tap]
                found.append(Mac(x, word, f"smla{'bt'[odd]}{half}", out))
                tap += 1
    return found


@dataclass(frozen=True)
class Layer:
    """What the code depends on. Rows and columns may be the image's columns and rows.

    in_step, in_row: bytes from column to column and from row to row of the input; out_step, out_row alike.
    transposed: they are. int4: weights are, and registers hold them (resident) times 2^12. band: output rows
    per band. by_rows: a call gets pointers to in_h = k_h rows, and
    makes one output row.
    """

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    k_h: int
    k_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    in_step: int
    in_row: int
    out_step: int
    out_row: int
    channels: int
    band: int
    way: Way
    transposed: bool = False
    by_rows: bool = False
    int4: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the C function."""
        x = "const int8_t *const *x" if self.by_rows else "const int8_t *x"
        return ("const int32_t *stream", x, "int8_t *y", "void *scratch")

    @property
    def row_words(self) -> int:
        """Weight words of a kernel row."""
        return len(row_words(self.k_w, self.stride_w))

    @property
    def resident(self) -> bool:
        """Whether registers hold the weights of a channel."""
        return self.k_h * self.row_words <= _RESIDENT_WORDS

    @property
    def stacked_words(self) -> int:
        """int4 weight words of a channel that are unpacked on the stack."""
        return self.k_h * self.row_words if self.int4 and not self.resident else 0

    @property
    def channel_words(self) -> int:
        """Words of the stream per channel: start value, weights, mult, add[, shift]."""
        words = self.k_h * self.row_words
        return 1 + (-(-words // 4) if self.int4 else words) + self.way.constants

    @property
    def columns(self) -> int:
        """Columns of a plane row in use, padding included."""
        return (self.out_w - 1) * self.stride_w + self.k_w

    @property
    def real_columns(self) -> int:
        """Columns of the input that windows reach."""
        return min(self.in_w, self.columns - self.pad_left)

    @property
    def real_rows(self) -> int:
        """Rows of the input that windows reach."""
        return min(self.in_h, (self.out_h - 1) * self.stride_h + self.k_h - self.pad_top)

    @property
    def pitch(self) -> int:
        """Bytes of one row of one plane."""
        return 8 * -(-self.columns // 4)

    @property
    def plane_row(self) -> int:
        """Bytes of one row of the four planes."""
        return GROUP * self.pitch

    @property
    def keep(self) -> int:
        """Rows that a band hands to the next."""
        return max(self.k_h - self.stride_h, 0)

    @property
    def fresh(self) -> int:
        """Rows that a band adds."""
        return self.band * self.stride_h

    @property
    def plane_rows(self) -> int:
        if self.bands == 1:
            return (self.out_h - 1) * self.stride_h + self.k_h
        return self.fresh + self.keep

    @property
    def bands(self) -> int:
        return -(-self.out_h // self.band)

    @property
    def last_band(self) -> int:
        """Output rows of the last band."""
        return self.out_h - (self.bands - 1) * self.band

    @property
    def scratch_bytes(self) -> int:
        return self.plane_rows * self.plane_row

    @property
    def groups(self) -> int:
        return -(-self.channels // GROUP)

    @property
    def rest(self) -> int:
        """Channels of a last group that is not full, else 0."""
        return self.channels % GROUP

    @cached_property
    def turn(self) -> int:
        """Output rows per turn of the row loop: a divisor of all bands' rows."""
        sizes = (self.band, self.last_band) if self.bands > 1 else (self.out_h,)
        fits = [n for n in range(1, min(sizes) + 1) if all(size % n == 0 for size in sizes)]
        return max((n for n in fits if n * self.out_w <= _UNROLLED_OUTPUTS), default=1)


class _Cursor:
    """A pointer register whose immediates do not reach everywhere: it moves when it must."""

    def __init__(self, asm: Asm, register: str, low: int, high: int) -> None:
        self.asm, self.register, self.low, self.high = asm, register, low, high
        self.base = 0

    def at(self, offset: int, size: int = 0) -> str:
        """`[register, #imm]` for byte `offset`; further offsets up to `size` beyond are near then."""
        self.reach(offset, offset + size)
        imm = offset - self.base
        return f"[{self.register}, #{imm}]" if imm else f"[{self.register}]"

    def reach(self, first: int, last: int) -> None:
        """Moves so that offsets first ... last can be reached."""
        if first - self.base < self.low or last - self.base > self.high:
            self.move(max(first, 0) if last - first <= self.high else last - self.high)

    def move(self, base: int) -> None:
        """The register points to byte `base`."""
        left = base - self.base
        while left:
            step = max(-_WORD_REACH, min(left, _WORD_REACH))
            self.asm.add(self.register, self.register, step)
            left -= step
        self.base = base


class _Frame:
    """Stack slots [sp, #offset] by name; the constants of a channel first, where LDM finds them."""

    _NAMES = (
        *(
            "mult",
            "add",
            "shift",
            "start",
            "plane",
            "output",
            "out",
            "left",
            "stream",
            "channel",
            "turns",
            "z",
        ),
        *("x", "y", "scratch", "groups", "count", "first", "row", "from", "y_band", "stream_group", "bands"),
    )

    def __init__(self, words: int) -> None:
        self._slots = {name: 4 * i for i, name in enumerate(self._NAMES)}
        self.weights = 4 * len(self._NAMES)  # where int4 weights are unpacked to
        size = self.weights + 4 * words
        self.size = size + (4 - size) % 8  # with nine saved registers, a multiple of 8

    def at(self, name: str) -> str:
        offset = self._slots[name]
        return f"[sp, #{offset}]" if offset else "[sp]"


class _Writer:
    """Writes one function; `asm` has the text, `executed` the instructions that a call executes."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.frame = _Frame(layer.stacked_words)
        self.asm = Asm()
        self.executed = Work()
        self._mark = Work()
        self._times = 1

    def write(self) -> None:
        layer, asm = self.layer, self.asm
        self._prologue()
        asm.label("group")
        self._count(layer.groups)
        if layer.bands == 1:
            self._load_all()
            self._channels()
        else:
            self._bands()
        self._next_group()
        self._count(1)
        asm.label("done")
        asm.op("add", "sp", "sp", f"#{self.frame.size}")
        asm.op("pop", "{r4-r11, pc}")
        self._count(1)

    def _count(self, times: int) -> None:
        """What follows is executed `times` times in a call."""
        self.executed += (self.asm.size - self._mark) * self._times
        self._mark, self._times = self.asm.size, times

    # ---- around the channels ----

    def _prologue(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub", "sp", "sp", f"#{frame.size}")
        asm.op("ldr", "r4", "[r0], #4")
        asm.op("str", "r4", frame.at("z"))
        x = "row" if layer.by_rows else "x"
        for register, slot in (("r0", "stream"), ("r1", x), ("r2", "y"), ("r3", "scratch")):
            asm.op("str", register, frame.at(slot))
        if layer.by_rows:
            asm.op("mov", "r5", "#0")
            asm.op("str", "r5", frame.at("x"))  # bytes into each row
        asm.constant("r5", layer.groups)
        asm.op("str", "r5", frame.at("groups"))
        if layer.rest:
            asm.op("mov", "r5", f"#{GROUP}")
            asm.op("mov", "r6", "#0")
            asm.op("strd", "r5", "r6", frame.at("count"))
        if layer.bands == 1:
            self._fill_pad_rows()

    def _fill_pad_rows(self) -> None:
        """Rows above and below the image stay as they are for all groups."""
        layer, asm = self.layer, self.asm
        below = layer.plane_rows - layer.pad_top - layer.real_rows
        if layer.pad_top or below:
            asm.op("sxtb16", "r4", "r4")
            for register in ("r5", "r6", "r7", "r8", "r9", "r10", "r11"):
                asm.op("mov", register, "r4")
        self._fill(layer.pad_top)
        if below:
            _Cursor(asm, "r3", 0, 0).move(layer.real_rows * layer.plane_row)
        self._fill(below)

    def _fill(self, rows: int) -> None:
        """`rows` plane rows at r3 get r4 ... r11."""
        turns = rows * self.layer.plane_row // 32
        if turns > 8:
            asm, times = self.asm, self._times
            asm.constant("r12", turns)
            self._count(times * turns)
            label = f"fill{asm.size.instructions}"
            asm.label(label, aligned=True)
            asm.op("stm", "r3!", "{r4-r11}")
            asm.op("subs", "r12", "r12", "#1")
            asm.branch("bne", label)
            self._count(times)
        else:
            for _ in range(turns):
                self.asm.op("stm", "r3!", "{r4-r11}")

    def _next_group(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        if layer.groups == 1:
            return
        asm.op("ldr", "r2", frame.at("groups"))
        asm.op("subs", "r2", "r2", "#1")
        asm.branch("beq.w", "done")
        self._count(layer.groups - 1)
        asm.op("str", "r2", frame.at("groups"))
        asm.op("ldrd", "r3", "r4", frame.at("x"))
        asm.op("add", "r3", "r3", f"#{GROUP}")
        asm.op("add", "r4", "r4", f"#{GROUP}")
        if layer.rest:
            # The last group loads the four channels that end with the last, and uses `rest` of them.
            asm.op("cmp", "r2", "#1")
            asm.branch("bne", "full")
            self._count(1)
            asm.op("sub", "r3", "r3", f"#{GROUP - layer.rest}")
            asm.op("mov", "r5", f"#{layer.rest}")
            asm.constant("r6", (GROUP - layer.rest) * layer.pitch)
            asm.op("strd", "r5", "r6", frame.at("count"))
            self._count(layer.groups - 1)
            asm.label("full")
        asm.op("strd", "r3", "r4", frame.at("x"))
        asm.branch("b.w", "group")

    # ---- planes ----

    def _load_all(self) -> None:
        """All rows of the image at once."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", *("r12", frame.at("row")) if layer.by_rows else ("r0", frame.at("x")))
        asm.op("ldr", "r1", frame.at("scratch"))
        _Cursor(asm, "r1", 0, 0).move(layer.pad_top * layer.plane_row)
        self._load_zero()
        if layer.real_rows > 1:
            asm.constant("r14", layer.real_rows)
            self._count(layer.groups * layer.real_rows)
            asm.label("load", aligned=True)
        if layer.by_rows:
            asm.op("ldr", "r0", "[r12], #4")
            asm.op("ldr", "r4", frame.at("x"))
            asm.op("add", "r0", "r0", "r4")
        self._unpack_row()
        if layer.real_rows > 1:
            asm.op("subs", "r14", "r14", "#1")
            asm.branch("bne.w", "load")
            self._count(layer.groups)

    def _load_zero(self) -> None:
        """r2: four zero points as int8, r3: two as int16."""
        self.asm.op("ldr", "r2", self.frame.at("z"))
        self.asm.op("sxtb16", "r3", "r2")

    def _unpack_row(self) -> None:
        """One row at r0 to the planes at r1; both move to the next row."""
        layer, asm = self.layer, self.asm
        x = _Cursor(asm, "r0", -255, _WORD_REACH)
        to = _Cursor(asm, "r1", -_PAIR_REACH, _PAIR_REACH)
        for block in range(layer.pitch // 8):
            to.reach(8 * block, 8 * block + (GROUP - 1) * layer.pitch)
            self._unpack_block(4 * block - layer.pad_left, 8 * block, x, to)
        if not layer.by_rows:
            x.move(layer.in_row)
        to.move(layer.plane_row)

    def _unpack_block(self, column: int, at: int, x: _Cursor, to: _Cursor) -> None:
        """Four columns of four channels."""
        asm, layer = self.asm, self.layer
        inside = [0 <= column + i < layer.real_columns for i in range(4)]
        bytes_ = ["r2"] * 4
        for i in range(4):
            if inside[i]:
                bytes_[i] = f"r{4 + i}"
                asm.op("ldr", bytes_[i], x.at((column + i) * layer.in_step))
        pairs: list[tuple[str, str] | None] = []
        for i, (low, high) in ((0, ("r8", "r9")), (2, ("r10", "r11"))):
            if inside[i] or inside[i + 1]:
                asm.op("pkhbt", low, bytes_[i], bytes_[i + 1], "lsl #16")
                asm.op("pkhtb", high, bytes_[i + 1], bytes_[i], "asr #16")
                pairs.append((low, high))
            else:
                pairs.append(None)
        for channel in range(GROUP):
            words = []
            for pair, fresh in zip(pairs, ("r4", "r5"), strict=True):
                if pair is None:
                    words.append("r3")
                    continue
                source = pair[channel // 2]
                target = source if channel % 2 else fresh
                asm.op("sxtb16", target, source, *(("ror #8",) if channel % 2 else ()))
                words.append(target)
            asm.op("strd", *words, to.at(at + channel * layer.pitch))

    def _bands(self) -> None:
        """One group of four channels, band by band."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r5", frame.at("x"))
        asm.op("mvn", "r4", f"#{layer.pad_top - 1}") if layer.pad_top else asm.op("mov", "r4", "#0")
        asm.op("strd", "r4", "r5", frame.at("row"))
        asm.op("ldr", "r4", frame.at("y"))
        asm.op("ldr", "r5", frame.at("stream"))
        asm.op("strd", "r4", "r5", frame.at("y_band"))
        asm.constant("r4", layer.bands)
        asm.op("str", "r4", frame.at("bands"))
        asm.op("ldr", "r1", frame.at("scratch"))
        asm.constant("r14", layer.plane_rows)
        self._count(layer.groups * layer.bands)
        asm.label("band")
        self._load_band()
        self._channels()
        asm.op("ldr", "r4", frame.at("bands"))
        asm.op("subs", "r4", "r4", "#1")
        asm.branch("beq.w", "bands_done")
        self._count(layer.groups * (layer.bands - 1))
        asm.op("str", "r4", frame.at("bands"))
        asm.op("ldrd", "r4", "r5", frame.at("y_band"))
        _Cursor(asm, "r4", 0, 0).move(layer.band * layer.out_row)
        asm.op("str", "r4", frame.at("y_band"))
        asm.op("str", "r5", frame.at("stream"))
        self._carry()
        asm.constant("r14", layer.fresh)
        asm.branch("b.w", "band")
        self._count(layer.groups)
        asm.label("bands_done")

    def _load_band(self) -> None:
        """r14 rows to the planes at r1: from the image, or of zero points above and below it."""
        layer, asm, frame = self.layer, self.asm, self.frame
        loaded = layer.plane_rows + (layer.bands - 1) * layer.fresh
        real = min(loaded - layer.pad_top, layer.real_rows)
        bands = layer.groups * layer.bands
        asm.op("ldrd", "r12", "r0", frame.at("row"))
        self._load_zero()
        self._count(layer.groups * loaded)
        asm.label("load", aligned=True)
        if loaded > real:
            asm.constant("r4", layer.real_rows)
            asm.op("cmp", "r12", "r4")
            asm.branch("bhs.w", "pad_row")
        self._count(layer.groups * real)
        self._unpack_row()
        self._count(layer.groups * loaded)
        asm.label("loaded_row")
        asm.op("add", "r12", "r12", "#1")
        asm.op("subs", "r14", "r14", "#1")
        asm.branch("bne.w", "load")
        self._count(bands)
        asm.op("strd", "r12", "r0", frame.at("row"))
        if loaded > real:
            asm.branch("b.w", "loaded")
            self._count(layer.groups * (loaded - real))
            self._pad_row()
            self._count(bands)
            asm.label("loaded")

    def _pad_row(self) -> None:
        asm = self.asm
        asm.label("pad_row")
        for register in ("r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11"):
            asm.op("mov", register, "r3")
        for _ in range(self.layer.plane_row // 32):
            asm.op("stm", "r1!", "{r4-r11}")
        asm.branch("b.w", "loaded_row")

    def _carry(self) -> None:
        """The last `keep` rows of the planes become the first; r1 points behind them."""
        layer, asm = self.layer, self.asm
        asm.op("ldr", "r1", self.frame.at("scratch"))
        if not layer.keep:
            return
        asm.op("mov", "r0", "r1")
        _Cursor(asm, "r0", 0, 0).move(layer.fresh * layer.plane_row)
        turns = layer.keep * layer.plane_row // 32
        if turns > 8:
            asm.constant("r12", turns)
            times = self._times
            self._count(times * turns)
            asm.label("carry", aligned=True)
            asm.op("ldm", "r0!", "{r4-r11}")
            asm.op("stm", "r1!", "{r4-r11}")
            asm.op("subs", "r12", "r12", "#1")
            asm.branch("bne", "carry")
            self._count(times)
            return
        for _ in range(turns):
            asm.op("ldm", "r0!", "{r4-r11}")
            asm.op("stm", "r1!", "{r4-r11}")

    # ---- channels ----

    def _channels(self) -> None:
        """The output rows of a band, channel by channel."""
        layer, asm, frame = self.layer, self.asm, self.frame
        around = self._times
        asm.op("ldr", "r4", frame.at("scratch"))
        if layer.rest and layer.groups > 1:
            asm.op("ldrd", "r6", "r5", frame.at("count"))
            asm.op("add", "r4", "r4", "r5")
        else:
            asm.op("mov", "r6", f"#{GROUP}")
        asm.op("ldr", "r5", frame.at("y" if layer.bands == 1 else "y_band"))
        asm.op("strd", "r4", "r5", frame.at("plane"))
        asm.op("str", "r6", frame.at("channel"))
        if self._turns_vary:
            asm.op("ldr", "r4", frame.at("bands"))
            asm.op("cmp", "r4", "#1")
            asm.op("ite", "eq")
            asm.op("moveq", "r4", f"#{layer.last_band // layer.turn}")
            asm.op("movne", "r4", f"#{layer.band // layer.turn}")
            asm.op("str", "r4", frame.at("turns"))
        self._count(layer.channels * layer.bands)
        asm.label("channel")
        if layer.resident:
            self._resident_channel()
        else:
            self._streamed_channel()
        asm.op("ldr", "r4", frame.at("channel"))
        asm.op("subs", "r4", "r4", "#1")
        asm.op("str", "r4", frame.at("channel"))
        asm.branch("bne.w", "channel")
        self._count(around)

    @property
    def _turns_vary(self) -> bool:
        return self.layer.bands > 1 and self.layer.last_band != self.layer.band

    @property
    def _looped(self) -> bool:
        rows = self.layer.out_h if self.layer.bands == 1 else self.layer.band
        return rows > self.layer.turn or self._turns_vary

    def _turn_count(self, register: str) -> None:
        layer, asm = self.layer, self.asm
        if self._turns_vary:
            asm.op("ldr", register, self.frame.at("turns"))
        else:
            rows = layer.out_h if layer.bands == 1 else layer.band
            asm.constant(register, rows // layer.turn)

    def _begin_channel(self) -> None:
        """r0: planes, r1: output, of the channel; the slots move to the next."""
        asm, frame = self.asm, self.frame
        asm.op("ldrd", "r0", "r1", frame.at("plane"))
        asm.add("r2", "r0", self.layer.pitch)
        asm.op("add", "r3", "r1", "#1")
        asm.op("strd", "r2", "r3", frame.at("plane"))

    def _resident_channel(self) -> None:
        """r6: start value, r7 ... r12: weights, r14: turns left, or a temporary that the way asks for."""
        layer, asm, frame = self.layer, self.asm, self.frame
        spare = layer.way.shifts is None or layer.way.sign
        words = layer.k_h * layer.row_words
        asm.op("ldr", "r14", frame.at("stream"))
        if layer.int4:
            self._unpack_weights(words)
        else:
            asm.op("ldm", "r14!", f"{{r6-r{6 + words}}}")
        if layer.way.constants == 3:
            asm.op("ldm", "r14!", "{r2-r4}")
            asm.op("stm", "sp", "{r2-r4}")
        else:
            asm.op("ldm", "r14!", "{r2, r3}")
            asm.op("strd", "r2", "r3", frame.at("mult"))
        asm.op("str", "r14", frame.at("stream"))
        self._begin_channel()
        if self._looped:
            self._turn_count("r14")
            if spare:
                asm.op("str", "r14", frame.at("left"))
        times = self._times
        self._count(layer.channels * (layer.out_h // layer.turn))
        asm.label("rows", aligned=True)
        p, o = _Cursor(asm, "r0", -_PAIR_REACH, _PAIR_REACH), _Cursor(asm, "r1", -255, _WORD_REACH)
        for row in range(layer.turn):
            for first in range(0, layer.out_w, 2):
                self._resident_step(p, o, row, first)
        if self._looped:
            p.move(layer.turn * layer.stride_h * layer.plane_row)
            o.move(layer.turn * layer.out_row)
            if spare:
                asm.op("ldr", "r14", frame.at("left"))
            asm.op("subs", "r14", "r14", "#1")
            if spare:
                asm.op("str", "r14", frame.at("left"))
            asm.branch("bne.w", "rows")
        self._count(times)

    def _unpack_weights(self, count: int) -> None:
        """The start value to r6; int4 weights on top of the halves of r7 ... r12; r4 is the mask."""
        packed = ("r2", "r3")[: -(-count // 4)]
        self.asm.load_multiple("r14", (*packed, "r6"))
        self.asm.op("mov", "r4", f"#{0xF000F000:#x}")
        for i in range(count):
            shift = [f"lsl #{i % 4 * 4}"] if i % 4 else []
            self.asm.op("and", f"r{7 + i}", "r4", packed[i // 4], *shift)

    def _resident_step(self, p: _Cursor, o: _Cursor, row: int, first: int) -> None:
        """Two outputs (one at the end of an odd row)."""
        layer, asm = self.layer, self.asm
        outputs = min(2, layer.out_w - first)
        macs = row_macs(outputs, layer.k_w, layer.stride_w)
        last = max(mac.x for mac in macs)
        start = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2)
        p.reach(start, start + (layer.k_h - 1) * layer.plane_row + 4 * last)
        acc = ("r4", "r5")
        begun: set[int] = set()
        for k in range(layer.k_h):
            for word in range(0, last + 1, 2):
                at = start + k * layer.plane_row + 4 * word
                if word < last:
                    asm.op("ldrd", "r2", "r3", p.at(at))
                else:
                    asm.op("ldr", "r2", p.at(at))
                for mac in sorted((m for m in macs if m.x // 2 == word // 2), key=lambda m: (m.x, m.out)):
                    to = acc[mac.out]
                    weight = f"r{7 + k * layer.row_words + mac.w}"
                    asm.op(mac.op, to, f"r{2 + mac.x % 2}", weight, to if mac.out in begun else "r6")
                    begun.add(mac.out)
        self._load_constants("r2", "r3", "r14")
        for out in range(outputs):
            final = out == outputs - 1
            temp = "r3" if final or layer.way.shifts is None else "r14"
            layer.way.emit(asm, 0, acc[out], "", ("r2", "r3", "r14")[: layer.way.constants], temp)
            if layer.way.sign and temp == "r3" and not final:
                asm.op("ldr", "r3", self.frame.at("add"))
            asm.op("strb", acc[out], o.at(row * layer.out_row + (first + out) * layer.out_step))

    def _load_constants(self, *registers: str) -> None:
        if self.layer.way.constants == 3:
            self.asm.op("ldm", "sp", "{" + ", ".join(registers) + "}")
        else:
            self.asm.op("ldrd", *registers[:2], self.frame.at("mult"))

    def _streamed_channel(self) -> None:
        """r0: planes, r1: weights, r4 ... r7: accumulators, r2 r3 r8 r9: columns, r10 ... r14: weights."""
        layer, asm, frame = self.layer, self.asm, self.frame
        words = layer.k_h * layer.row_words
        self._begin_channel()
        asm.op("str", "r1", frame.at("out"))
        asm.op("ldr", "r1", frame.at("stream"))
        if layer.int4:
            self._stack_weights(words)
            words = 0
        asm.op("ldr", "r2", "[r1], #4")
        asm.op("str", "r2", frame.at("start"))
        constants = _Cursor(asm, "r1", -255, _WORD_REACH)
        for i, slot in enumerate(("mult", "add", "shift")[: layer.way.constants]):
            asm.op("ldr", "r2", constants.at(4 * (words + i)))
            asm.op("str", "r2", frame.at(slot))
        asm.add("r2", "r1", 4 * (words + layer.way.constants) - constants.base)
        constants.move(0)
        asm.op("str", "r2", frame.at("stream"))
        if layer.int4:
            asm.add("r1", "sp", frame.weights)
        if self._looped:
            self._turn_count("r14")
            asm.op("str", "r14", frame.at("left"))
        times = self._times
        self._count(layer.channels * (layer.out_h // layer.turn))
        asm.label("rows", aligned=True)
        p = _Cursor(asm, "r0", -_PAIR_REACH, _PAIR_REACH)
        for row in range(layer.turn):
            for first in range(0, layer.out_w, 4):
                self._streamed_step(p, row, first)
        if self._looped:
            p.move(layer.turn * layer.stride_h * layer.plane_row)
            asm.op("ldrd", "r2", "r3", frame.at("out"))
            _Cursor(asm, "r2", 0, 0).move(layer.turn * layer.out_row)
            asm.op("subs", "r3", "r3", "#1")
            asm.op("strd", "r2", "r3", frame.at("out"))
            asm.branch("bne.w", "rows")
        self._count(times)

    def _stack_weights(self, count: int) -> None:
        """int4 weights from r1 on, which moves on, to the stack, on top of halves."""
        asm = self.asm
        asm.op("mov", "r8", f"#{0xF000F000:#x}")
        asm.add("r9", "sp", self.frame.weights)
        for first in range(0, count, 4):
            registers = [f"r{2 + i}" for i in range(min(4, count - first))]
            asm.op("ldr", "r10", "[r1], #4")
            for i, register in enumerate(registers):
                asm.op("and", register, "r8", "r10", *([f"lsl #{4 * i}"] if i else []))
            asm.op("stm", "r9!", "{" + ", ".join(registers) + "}")

    def _streamed_step(self, p: _Cursor, row: int, first: int) -> None:
        """Four outputs (fewer at the end of a row)."""
        layer, asm, frame = self.layer, self.asm, self.frame
        outputs = min(4, layer.out_w - first)
        acc = ("r4", "r5", "r6", "r7")
        weights = _Weights(asm, layer.k_h * layer.row_words)
        start = row * layer.stride_h * layer.plane_row + 4 * (first * layer.stride_w // 2)
        macs = sorted(row_macs(outputs, layer.k_w, layer.stride_w), key=lambda m: (m.w, m.x, m.out))
        asm.op("ldr", "r14", frame.at("start"))
        begun: set[int] = set()
        for k in range(layer.k_h):
            p.reach(start + k * layer.plane_row, start + k * layer.plane_row + 4 * max(m.x for m in macs))
            columns = _Columns(asm, p, start + k * layer.plane_row, [mac.x for mac in macs])
            for w in range(layer.row_words):
                weight = weights.next(all_begun=len(begun) == outputs)
                for mac in (m for m in macs if m.w == w):
                    to = acc[mac.out]
                    asm.op(mac.op, to, columns.next(), weight, to if mac.out in begun else "r14")
                    begun.add(mac.out)
        asm.add("r1", "r1", -4 * layer.k_h * layer.row_words)
        self._load_constants("r10", "r11", "r12")
        asm.op("ldr", "r2", frame.at("out"))
        o = _Cursor(asm, "r2", -255, _WORD_REACH)
        for out in range(outputs):
            layer.way.emit(asm, 0, acc[out], "", ("r10", "r11", "r12")[: layer.way.constants], "r3")
            asm.op("strb", acc[out], o.at(row * layer.out_row + (first + out) * layer.out_step))


class _Weights:
    """The next weight words at r1, several per load; r14 is free once all accumulators are begun."""

    def __init__(self, asm: Asm, words: int) -> None:
        self._asm, self._left = asm, words
        self._ready: list[str] = []

    def next(self, all_begun: bool) -> str:
        if not self._ready:
            registers = ["r10", "r11", "r12", "r14"][: 4 if all_begun else 3][: self._left]
            self._asm.load_multiple("r1", registers)
            self._ready = registers
            self._left -= len(registers)
        return self._ready.pop(0)


class _Columns:
    """Plane words in the order of `uses`; a register is free again after the last use of its word."""

    def __init__(self, asm: Asm, pointer: _Cursor, start: int, uses: list[int]) -> None:
        self._asm, self._pointer, self._start, self._uses = asm, pointer, start, uses
        self._held: dict[int, str] = {}

    def next(self) -> str:
        word = self._uses[0]
        if word not in self._held:
            self._load(word)
        register = self._held[word]
        self._uses = self._uses[1:]
        for done in [other for other in self._held if other not in self._uses]:
            del self._held[done]
        return register

    def _load(self, word: int) -> None:
        free = [r for r in ("r2", "r3", "r8", "r9") if r not in self._held.values()]
        at = self._pointer.at(self._start + 4 * word)
        if len(free) > 1 and word + 1 in self._uses and word + 1 not in self._held:
            self._asm.op("ldrd", *free[:2], at)
            self._held[word + 1] = free[1]
        else:
            self._asm.op("ldr", free[0], at)
        self._held[word] = free[0]


def function_text(name: str, layer: Layer) -> tuple[str, Work]:
    """C text of `name(stream, x, y, scratch)`, and the instructions that a call executes."""
    writer = _Writer(layer)
    writer.write()
    return _contract(layer) + _both(name, layer, naked_function(name, layer.parameters, writer.asm)), writer.executed


def _contract(layer: Layer) -> str:
    x = f"{layer.k_h} row pointers; y may be a row of x" if layer.by_rows else "the image; y may be x"
    return f"""/* depthwise_conv2d {layer.k_h}x{layer.k_w}, stride {layer.stride_h}x{layer.stride_w}: \
{layer.in_h}x{layer.in_w}x{layer.channels} -> {layer.out_h}x{layer.out_w}, planes of {layer.band} output rows.
 * stream: tc_depthwise_planes.h. x: {x}. scratch: {layer.scratch_bytes} bytes, word aligned.
 */
"""


def _both(name: str, layer: Layer, fast: str) -> str:
    low, high = layer.way.clamp or (-128, 127)
    fields = {
        **{field: getattr(layer, field) for field in _TWIN_FIELDS},
        "columns": layer.columns,
        "int4": int(layer.int4),
        "halve": int(layer.way.halve),
        "sign": int(layer.way.sign),
        "varies": int(layer.way.shifts is None),
        "shift": layer.way.shifts[0] if layer.way.shifts else 0,
        "y_min": low,
        "y_max": high,
    }
    source = "NULL, x" if layer.by_rows else "x, NULL"
    body = "\n".join(f"        .{field} = {value}," for field, value in fields.items())
    return f"""#if TC_DSP_ASM
{fast}#else
static void {name}({", ".join(layer.parameters)})
{{
    static const tc_depthwise_planes_t layer = {{
{body}
    }};
    tc_depthwise_planes(&layer, stream, {source}, y, (int16_t *)scratch);
}}
#endif"""


_TWIN_FIELDS = (
    *("in_h", "in_w", "out_h", "out_w", "k_h", "k_w", "stride_h", "stride_w", "pad_top", "pad_left"),
    *("in_step", "in_row", "out_step", "out_row", "channels", "band"),
)
