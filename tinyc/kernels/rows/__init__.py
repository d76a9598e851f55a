# SPDX-License-Identifier: Apache-2.0
"""Row forms on Cortex-M with DSP: how a streamed group makes a layer, one or two output rows per call."""
