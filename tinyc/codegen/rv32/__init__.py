"""Weighted layers on RV32IM."""
