# SPDX-License-Identifier: Apache-2.0
"""Recordings from WAV files, as a library with a front end is given them run after run."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import plain_file
from tinyc.ir.graph import Value
from tinyc.reference.samples import Samples

Int16s = NDArray[np.int16]

_MOST_SECONDS = 3600
# Programs that write to a pipe leave the length at 2^32 - 1 bytes, or at 2^31 - 1 with or without the header.
_LENGTH_UNKNOWN = (1 << 31) - (1 << 12)
_HINT = "convert it: ffmpeg -i FILE -ar {rate} -ac 1 -sample_fmt s16 NEW.wav"
_AXES_HINT = "every axis is a channel; in Python, tinyc.run(wav=) takes int16 [n, axes]"


def recorded(path: Path, rate: int, axes: int, value: Value) -> Samples:
    """The samples of a recording as inputs `value` int16 [n]: the first n, the next n, and so on; what is left at the
    end is not enough for a run. Of several axes each is a channel, and rate counts all of them.

    TinycError, with what the file has and what is needed, where rate, channels, bits or length do not fit.
    """
    where, hint = Loc(str(path)), _HINT.format(rate=rate) if axes == 1 else _AXES_HINT
    try:
        with wave.open(str(plain_file(path)), "rb") as file:
            stored = (file.getframerate(), file.getnchannels(), 8 * file.getsampwidth())
            if stored != (round(rate / axes), axes, 16):
                raise TinycError(
                    f"the recording has {stored[0]:,} Hz, {_channels(stored[1])} and {stored[2]} bits; the front end "
                    f"takes {round(rate / axes):,} Hz, {_channels(axes)} and 16 bits",
                    where,
                    hint,
                )
            samples = _samples(file, where, _MOST_SECONDS * rate)
    except (wave.Error, EOFError) as error:
        raise TinycError(
            f"this is no WAV file of plain samples: {str(error) or 'it ends too soon'}", where, hint
        ) from error
    except OSError as error:
        raise TinycError(f"cannot read the recording: {error.strerror}", where, "give a .wav file") from error
    count = len(samples) // value.elements
    if count == 0:
        message = f"the recording has {len(samples):,} samples; a run takes {value.elements:,}"
        raise TinycError(message, where, "give a longer recording")
    return Samples({value.name: samples[: count * value.elements].reshape(count, -1)}, None, str(path))


def _samples(file: wave.Wave_read, where: Loc, most: int) -> Int16s:
    """The samples int16 [n] of the file's first most frames, channels side by side.

    TinycError where the file has fewer than its header says. A header whose length nobody wrote, as a program leaves
    it that writes to a pipe, says nothing: all that follows is taken.
    """
    said = file.getnframes()
    count = min(said, most)
    data = file.readframes(most)
    frame = 2 * file.getnchannels()
    whole = len(data) // frame
    if whole < count and said * frame < _LENGTH_UNKNOWN:
        raise TinycError(
            f"the recording ends too soon: its header says {said:,} samples, the file has {whole:,}",
            where,
            "it was cut off: copy or record it again",
        )
    return np.frombuffer(data[: whole * frame], "<i2").astype(np.int16)


def _channels(count: int) -> str:
    return "one channel" if count == 1 else f"{count} channels"
