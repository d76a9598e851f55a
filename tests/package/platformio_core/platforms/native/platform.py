# SPDX-License-Identifier: Apache-2.0
"""The platform `native`: this computer."""

from platformio.public import PlatformBase


class NativePlatform(PlatformBase):
    """Nothing but what every platform has."""
