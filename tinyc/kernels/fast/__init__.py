"""Exact fast convolutions on Cortex-M with DSP: fewer multiplications, more flash for the weights."""
