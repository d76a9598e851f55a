# SPDX-License-Identifier: Apache-2.0
"""Seeded faults: mistakes that a contributor could make, each with the tests that have to catch it.

The faults are the data of `faults/*.toml`. `python -m tests.seeded` puts each of them into a copy of the checkout and
runs its tests there: a suite that became quicker has lost no check if it catches what it caught before.
"""
