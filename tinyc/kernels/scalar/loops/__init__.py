# SPDX-License-Identifier: Apache-2.0
"""Inner loops of cores that multiply two words at a time: each written once, for every core's table of instructions."""
