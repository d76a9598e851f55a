# SPDX-License-Identifier: Apache-2.0
"""Bytes that bring an STM32 bootloader back to where it waits for a command, whatever it waits for now.

When an answer is lost, nobody knows how much of a frame the chip has. More bytes end the frame, but it must not end
*well*. A constant byte may do just that: WRITE takes 0x7F as a length, 128 more of them as data, and one as the right
checksum. A frame is taken when the XOR of all its bytes is 0. So the bytes are chosen one by one, such that the running
XOR of what was sent never has the value with which a frame would be right that may be open now, or that a byte of the
filler itself opens:

* a frame whose bytes so far arrived: running XOR 0;
* a frame whose length arrived damaged, so that it is as long as the damage says: `_damaged_lengths`;
* a WRITE or ERASE whose length is a byte of the filler, an EXTENDED ERASE whose length is two: the same XOR at its end
  as before its beginning;
* a frame that has lost one byte: the filler's first byte is its checksum if it equals the lost one.

Where the chip waits for a command, two bytes are none, because small bytes are no complements of each other; it answers
NACK. Bytes are small so that a length made of them is soon used up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

LIMIT = 2048  # more than an EXTENDED ERASE needs whose length is the filler's first two bytes
_SMALL = range(2, 64)


def filler(sent: bytes = b"", before: Collection[int] = ()) -> Iterator[int]:
    """The bytes, without end. sent: what the chip may have got of the frame that it did not answer; before: checksums
    of frames before, which may stand at its beginning if a byte came twice."""
    wrong = defaultdict[int, set[int]](set)  # position, from 1 -> values that the running XOR must not have there
    for at, value in _damaged_lengths(sent):
        wrong[at].add(value)
    total, last, last_before = 0, None, 0
    position = 0
    while True:
        position += 1
        bad = wrong.pop(position, set()) | {0, *before}
        first = set(sent) if position == 1 else set()
        byte = _pick(total, bad, first)
        wrong[position + byte + 2].add(total)
        if last is not None:
            wrong[position + 2 * ((last << 8 | byte) + 1) + 1].add(last_before)
        last, last_before = byte, total
        total ^= byte
        yield byte


def _pick(total: int, bad: set[int], unwanted: set[int]) -> int:
    preferred = (byte for byte in _SMALL if total ^ byte not in bad and byte not in unwanted)
    fitting = (byte for byte in _SMALL if total ^ byte not in bad)
    return next(preferred, None) or next(fitting)


def _damaged_lengths(sent: bytes) -> Iterator[tuple[int, int]]:
    """Where a frame would end whose length was damaged, and the running XOR that would make it right there: the damage
    itself, for the XOR of the rest is 0. WRITE and ERASE have a length of one byte, EXTENDED ERASE one of two. If a
    WRITE has lost its length, the first byte of its data stands for it."""
    if len(sent) > 1:
        yield sent[1] + 1 - sent[0], sent[0]
    for damage in range(1, 256) if sent else ():
        longer = (sent[0] ^ damage) - sent[0]
        yield longer, damage
        if len(sent) > 1:
            yield 2 * ((sent[1] ^ damage) - sent[1]), damage
