# SPDX-License-Identifier: Apache-2.0
"""What the assembly of one row of a depthwise convolution with few kernel rows (`planes.py`) depends on."""

from __future__ import annotations

from collections.abc import Iterator

from tinyc.base.dataclass import dataclass
from tinyc.kernels.depthwise.plane_layer import Mac, PlaneLayer, row_macs, row_words
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.machine.cores import Core

PAIR_REACH = 1020  # of the immediate of LDRD and STRD
WORD_REACH = 4095  # of LDR and STRB
_RESIDENT_WORDS = 5  # weight words of a channel that registers hold
_STACK_BYTES = 256  # of planes that lie on the stack: no more than what the pixel pairs of a 1x1 layer take there


@dataclass(frozen=True)
class RowLayer:
    """What the code of a row depends on. Columns are counted from the left padding on. bits: of a weight in flash."""

    in_w: int
    out_w: int
    k_h: int
    k_w: int
    stride_w: int
    pad_left: int
    channels: int
    requant: Requantization
    core: Core
    bits: int = 16

    @property
    def as_planes(self) -> PlaneLayer:
        """The same with a plane for each kernel row."""
        heights, windows = (self.k_h, self.in_w, 1, self.out_w), (self.k_h, self.k_w, 1, self.stride_w)
        steps = (self.channels, 0, self.channels, 0)
        sizes = (*heights, *windows, 0, self.pad_left, *steps, self.channels, 1)
        return PlaneLayer(*sizes, self.requant, self.core, by_rows=True, bits=self.bits)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the C function."""
        arguments = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y")
        return arguments if self.on_stack else (*arguments, "void *scratch")

    @property
    def columns(self) -> int:
        """Columns that windows reach, padding included."""
        return (self.out_w - 1) * self.stride_w + self.k_w

    @property
    def has_single(self) -> bool:
        """Whether there is a row beside the two that lie over each other."""
        return self.k_h == 3

    @property
    def pairs(self) -> int:
        """Words of the single row."""
        return -(-self.columns // 2) if self.has_single else 0

    @property
    def pitch(self) -> int:
        """Bytes of one channel's words: first those of two rows, then those of the single row."""
        return 4 * (self.columns + self.pairs)

    @property
    def plane_bytes(self) -> int:
        return GROUP * self.pitch

    @property
    def on_stack(self) -> bool:
        return self.plane_bytes <= _STACK_BYTES

    @property
    def scratch_bytes(self) -> int:
        return 0 if self.on_stack else self.plane_bytes

    @property
    def weight_words(self) -> int:
        """Of a channel, two int16 in each."""
        return self.k_w + (len(row_words(self.k_w, self.stride_w)) if self.has_single else 0)

    @property
    def stored_words(self) -> int:
        """The same in flash."""
        return -(-self.weight_words * self.bits // 16)

    @property
    def groups(self) -> int:
        return -(-self.channels // GROUP)

    @property
    def rest(self) -> int:
        """Channels of a last group that is not full, else 0."""
        return self.channels % GROUP

    @property
    def fits(self) -> bool:
        """Whether this module can write the function."""
        return (
            self.k_h in (2, 3)
            and self.stride_w in (1, 2)
            and self.weight_words <= _RESIDENT_WORDS
            and self.channels >= GROUP
            and self.pad_left < self.k_w
            and self.in_w * self.channels <= WORD_REACH
            and self.out_w * self.channels <= WORD_REACH
            and self.pitch <= PAIR_REACH
        )

    def is_real(self, column: int) -> bool:
        return 0 <= column - self.pad_left < self.in_w


def loads(layer: RowLayer, first: int, outputs: int) -> Iterator[tuple[int, list[Mac]]]:
    """(word that offsets x count from, multiplications) of each load of one or two words, for outputs `first` on."""
    begin = first * layer.stride_w
    over = [Mac(o * layer.stride_w + k, k, "smlad", o) for o in range(outputs) for k in range(layer.k_w)]
    yield from _by_pairs(begin, over)
    if layer.has_single:
        macs = row_macs(outputs, layer.k_w, layer.stride_w)  # `begin` is even
        single = [Mac(mac.x, layer.k_w + mac.w, mac.op, mac.out) for mac in macs]
        yield from _by_pairs(layer.columns + begin // 2, single)


def _by_pairs(start: int, macs: list[Mac]) -> Iterator[tuple[int, list[Mac]]]:
    """The multiplications by loads of two neighbouring words."""
    words = sorted({mac.x for mac in macs})
    while words:
        held = [word for word in words[:2] if word - words[0] < 2]
        words = words[len(held) :]
        yield start, sorted((m for m in macs if m.x in held), key=lambda m: (m.x, m.out))
