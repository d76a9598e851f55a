# SPDX-License-Identifier: Apache-2.0
"""What the assembly of one row of a depthwise convolution with few kernel rows (`planes.py`) depends on."""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.depthwise.plane_layer import Mac, PlaneLayer, row_macs, row_words
from tinyc.kernels.matrix import GROUP

PAIR_REACH = 1020  # of the immediate of LDRD and STRD
WORD_REACH = 4095  # of LDR and STRB
SHORT = 5  # outputs of a row
_RESIDENT_WORDS = 5  # weight words of a channel that registers hold
_FPU_REGISTERS = 16  # that a function need not save
_STACK_BYTES = 256  # of planes that lie on the stack: no more than what the pixel pairs of a 1x1 layer take there


@dataclass(frozen=True)
class RowLayer(PlaneLayer):
    """What the code of a row depends on. Columns are counted from the left padding on. fpu: whether moves from and to
    registers of an FPU take less than loads and stores."""

    fpu: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the C function."""
        arguments = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y")
        return arguments if self.on_stack else (*arguments, "void *scratch")

    @property
    def has_single(self) -> bool:
        """Whether there is a row beside the two that lie over each other."""
        return self.k_h == 3

    @property
    def chunks(self) -> int:
        """Two columns each: of two rows a word for each column, of the single row one for both."""
        return -(-self.columns // 2)

    @property
    def beside(self) -> int:
        """Bytes of a chunk of two channels."""
        return 4 * (2 + self.has_single)

    @property
    def chunk_bytes(self) -> int:
        """Of four channels: first of 0 and 1, then of 2 and 3."""
        return 2 * self.beside

    @property
    def plane_bytes(self) -> int:
        return self.chunks * self.chunk_bytes

    @property
    def is_short(self) -> bool:
        """Whether registers hold all sums of a channel at once. Then a register holds what is padding, too."""
        return self.out_w <= SHORT

    @property
    def on_stack(self) -> bool:
        return self.plane_bytes <= _STACK_BYTES

    @property
    def scratch_bytes(self) -> int:
        return 0 if self.on_stack else self.plane_bytes

    @property
    def in_fpu(self) -> bool:
        """Whether registers of the FPU hold all words of four channels that are not padding."""
        return self.fpu and self.is_short and 2 * len(self._held_words) <= _FPU_REGISTERS

    @property
    def _held_words(self) -> list[int]:
        """Words of `macs` that are not padding, in the order of their places."""
        words = range(self.columns + self.chunks * self.has_single)
        return sorted((word for word in words if not self.is_padding(word)), key=self.place)

    def fpu_place(self, word: int, pair: int) -> int:
        """The number of the FPU's register with a word of `macs`, of channels 0 and 1, or of 2 and 3."""
        held = self._held_words
        return pair * len(held) + held.index(word)

    @property
    def stack_bytes(self) -> int:
        """Of planes on the stack."""
        return self.plane_bytes if self.on_stack and not self.in_fpu else 0

    @property
    def weight_words(self) -> int:
        """Of a channel, two int16 in each."""
        return self.k_w + (len(row_words(self.k_w, self.stride_w)) if self.has_single else 0)

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
        )

    def is_real(self, column: int) -> bool:
        return 0 <= column - self.pad_left < self.in_w

    def macs(self, first: int, outputs: int) -> list[Mac]:
        """The multiplications of outputs `first` on, which are counted from 0, in the order of columns.

        x: the column of two rows, or behind all columns the chunk of the single row.
        """
        over = [Mac(o * self.stride_w + k, k, "smlad", o) for o in range(self.out_w) for k in range(self.k_w)]
        single = row_macs(self.out_w, self.k_w, self.stride_w) if self.has_single else []
        macs = over + [Mac(self.columns + mac.x, self.k_w + mac.w, mac.op, mac.out) for mac in single]
        own = [Mac(m.x, m.w, m.op, m.out - first) for m in macs if first <= m.out < first + outputs]
        return sorted(own, key=lambda mac: (self._last_column(mac.x), mac.x, mac.out))

    def _last_column(self, word: int) -> int:
        return word if word < self.columns else 2 * (word - self.columns) + 1

    def is_held(self, word: int) -> bool:
        """Whether a register holds the word, which is padding."""
        return self.is_short and self.is_padding(word)

    def is_padding(self, word: int) -> bool:
        """Whether nothing else is in a word of `macs`."""
        first, count = (word, 1) if word < self.columns else (2 * (word - self.columns), 2)
        return not any(self.is_real(first + i) for i in range(count))

    def place(self, word: int) -> int:
        """Bytes from the beginning of the planes to a word of `macs`, of channels 0 and 1."""
        if word < self.columns:
            return word // 2 * self.chunk_bytes + word % 2 * 4
        return (word - self.columns) * self.chunk_bytes + 8
