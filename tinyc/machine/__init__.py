# SPDX-License-Identifier: Apache-2.0
"""Cores: the instructions that kernels are written in, and how long they take."""
