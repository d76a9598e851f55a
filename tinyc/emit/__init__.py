# SPDX-License-Identifier: Apache-2.0
"""Graph, kernels and plan become a program, and the program the C text of the library."""
