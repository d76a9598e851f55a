# SPDX-License-Identifier: Apache-2.0
"""float32 layers: what they compute, to the bit, and their kernels in portable C."""
