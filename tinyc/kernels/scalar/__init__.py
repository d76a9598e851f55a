"""Layers on cores without DSP instructions: several exact products from one multiplication."""
