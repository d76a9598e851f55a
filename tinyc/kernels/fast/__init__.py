# SPDX-License-Identifier: Apache-2.0
"""Exact fast convolutions on Cortex-M with DSP: fewer multiplications, more flash for the weights."""
