# SPDX-License-Identifier: Apache-2.0
"""One small file per command: parse, call the pipeline, print."""
