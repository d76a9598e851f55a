# SPDX-License-Identifier: Apache-2.0
"""Layers on cores without DSP instructions: several exact products from one multiplication."""
