# SPDX-License-Identifier: Apache-2.0
"""Getting firmware onto a board: over its serial bootloader, or by the program that the board wants."""

from __future__ import annotations

from tinyc.flash.jobs import FlashJob, FlashResult, flash, plan_flash

__all__ = ("FlashJob", "FlashResult", "flash", "plan_flash")
