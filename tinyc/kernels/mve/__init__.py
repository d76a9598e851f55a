"""Layers with Helium (MVE) on Cortex-M55."""
