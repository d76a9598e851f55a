# SPDX-License-Identifier: Apache-2.0
"""Register tiles of SMLAD: the inner loops of weighted layers on Cortex-M with DSP, and what they depend on."""
