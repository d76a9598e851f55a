# SPDX-License-Identifier: Apache-2.0
"""The graph: nodes and values joined by name, the check after each stage, rewriting."""
