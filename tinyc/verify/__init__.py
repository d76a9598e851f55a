# SPDX-License-Identifier: Apache-2.0
"""Bytes that came out against bytes that must, and the figures of a report."""
