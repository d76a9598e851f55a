# SPDX-License-Identifier: Apache-2.0
"""Functions written for one layer: generators of assembly with a portable twin in runtime_c/."""
