# SPDX-License-Identifier: Apache-2.0
"""The stages in order; the only package that knows them all.

load -> normalize -> quantize -> select -> plan -> lower -> emit -> build -> run -> verify -> report
"""
