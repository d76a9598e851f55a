"""Cores: the instructions that kernels are written in, and how long they take."""
