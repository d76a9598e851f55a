# SPDX-License-Identifier: Apache-2.0
"""What surrounds the instructions of a layer: its C function with guard and twin, and the parts of a twin."""
