# SPDX-License-Identifier: Apache-2.0
"""Starts the SCons that pip has installed, in the place of the registry's."""

from SCons.Script import main

main()
