# SPDX-License-Identifier: Apache-2.0
"""The kernel contract: what an operator's site offers, what a kernel asks for, and how a step calls it."""
