# SPDX-License-Identifier: Apache-2.0
"""Where in the flash of an Espressif chip a file belongs: its bytes say what it is (ESP-IDF, app image format; direct
boot)."""

from __future__ import annotations

from tinyc.base.errors import Loc
from tinyc.flash.base import FlashError
from tinyc.toolchain.image import Image

APP_OFFSET = 0x1_0000  # of the first application in ESP-IDF's partition tables
_IMAGE = 0xE9  # the first byte of a boot loader or an application
_APP_DESCRIPTION = (32, b"\x32\x54\xcd\xab")  # behind the image's header and that of its first segment
_DIRECT_BOOT = (0, 2 * b"\x1d\x04\xdb\xae")  # firmware of a build, which the boot ROM starts where it lies
_PARTITION_TABLE = (0x8000, b"\xaa\x50")


def place_esp_image(image: Image, where: Loc) -> Image:
    """The image at its offset: an application behind boot loader and partition table, which stay; all of them merged,
    or firmware of a build, at 0. FlashError for anything else, which would put an end to what starts the chip."""
    data = image.data
    if data[:1] == bytes([_IMAGE]) and _has(data, *_APP_DESCRIPTION):
        return Image(APP_OFFSET, data)
    if data[:1] == bytes([_IMAGE]) and _has(data, *_PARTITION_TABLE):
        return Image(0, data)
    if _has(data, *_DIRECT_BOOT):
        return Image(0, data)
    raise FlashError(
        "this is neither an application of ESP-IDF nor an image that `merge-bin` made, nor a build's firmware",
        where,
        "give a build's folder, ESP-IDF's build/<project>.bin, or what `idf.py merge-bin` writes; esptool itself "
        "writes other files anywhere",
    )


def _has(data: bytes, at: int, magic: bytes) -> bool:
    return data[at : at + len(magic)] == magic
