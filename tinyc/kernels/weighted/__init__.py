# SPDX-License-Identifier: Apache-2.0
"""Weighted layers (conv2d, fully_connected) on Cortex-M with DSP: assembly for each layer, weights in order of use."""
