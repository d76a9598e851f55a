# SPDX-License-Identifier: Apache-2.0
"""Layers with Helium (MVE) on Cortex-M55."""
