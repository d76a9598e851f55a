# SPDX-License-Identifier: Apache-2.0
"""Which kernel runs each node, under budgets of flash and time."""
