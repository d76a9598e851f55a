# SPDX-License-Identifier: Apache-2.0
"""The integer reference: graphs run in NumPy, and the samples that they run on."""
