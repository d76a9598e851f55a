# SPDX-License-Identifier: Apache-2.0
"""What every room stands on: errors, fixed-point numbers, names, paths, the output folder."""
