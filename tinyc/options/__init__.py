# SPDX-License-Identifier: Apache-2.0
"""What a user may ask for: each option declared once, for the command line, Python, sweeps and the docs."""
