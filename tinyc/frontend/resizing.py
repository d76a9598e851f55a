# SPDX-License-Identifier: Apache-2.0
"""Which pixels of a line or column a smaller or larger one is made of, and how much of each."""

from __future__ import annotations

from collections.abc import Iterator

from tinyc.ops.resample_columns import BITS, Taps
from tinyc.ops.resize_bilinear import Tap, bilinear_tflite

LINEAR = ("area", "pillow-box", "pillow-bilinear")  # weighted means, across and then down
RESIZES = ("nearest", "bilinear", *LINEAR)


def nearest_places(count: int, size: int) -> tuple[int, ...]:
    """For each of `size` outputs the input whose middle is nearest to its own, floor((k + 1/2) count / size), as Pillow
    finds them: in float64, each from the one before, which decides where two are equally near."""
    scale = count / size
    places, place = [], scale * 0.5
    for _ in range(size):
        places.append(min(int(place), count - 1))
        place += scale
    return tuple(places)


def used_taps(count: int, size: int) -> tuple[tuple[int, ...], tuple[Tap, ...]]:
    """(the inputs that are used, for each output two of those and the weight of the second): TensorFlow Lite's
    RESIZE_BILINEAR with half-pixel centers."""
    taps = bilinear_tflite(count, size, align_corners=False, half_pixel=True)
    plain = [(first, second if weight else first, weight) for first, second, weight in taps]
    used = sorted({place for first, second, _ in plain for place in (first, second)})
    at = {place: number for number, place in enumerate(used)}
    return tuple(used), tuple((at[first], at[second], weight) for first, second, weight in plain)


def taps_of(resize: str, count: int, size: int) -> Taps:
    """The means of `area`, `pillow-box` or `pillow-bilinear`."""
    shares = [list(_shares(resize, count, size, k)) for k in range(size)]
    weights = [_fixed([share for _, share in own]) for own in shares]
    return Taps(tuple(own[0][0] for own in shares), tuple(weights))


def _fixed(shares: list[float]) -> tuple[int, ...]:
    """In 1 / 2^22, each rounded by itself, as Pillow does."""
    total = sum(shares)
    return tuple(int(0.5 + share / total * (1 << BITS)) for share in shares)


def _shares(resize: str, count: int, size: int, k: int) -> Iterator[tuple[int, float]]:
    """(input, weight) of output k, inputs one after the other."""
    scale = count / size
    if resize == "area" and scale > 1:  # how much of each input lies in the output
        begin, end = k * count, (k + 1) * count
        for place in range(begin // size, -(-end // size)):
            yield place, min((place + 1) * size, end) - max(place * size, begin)
        return
    triangle = resize != "pillow-box"
    wide = max(scale, 1.0)
    narrow = 1.0 / wide
    support = wide * (1.0 if triangle else 0.5)
    center = (k + 0.5) * scale
    first = max(int(center - support + 0.5), 0)
    last = min(int(center + support + 0.5), count)
    for place in range(first, last):
        distance = (place - center + 0.5) * narrow
        weight = max(1.0 - abs(distance), 0.0) if triangle else float(-0.5 < distance <= 0.5)
        yield place, weight
