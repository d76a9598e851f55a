# SPDX-License-Identifier: Apache-2.0
"""The library as a package of a build system or a language, and what it is made of."""

from __future__ import annotations
