# SPDX-License-Identifier: Apache-2.0
"""C text and a board become firmware: compilers, linking, sizes, legality of instructions."""
