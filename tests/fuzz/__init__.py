# SPDX-License-Identifier: Apache-2.0
"""The fuzzer: `make fuzz`, or `python -m tests.fuzz`; docs/reliability.md says what it tries and what it found."""
