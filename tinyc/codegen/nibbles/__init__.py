"""Layers with int4 weights, two per byte."""
