# SPDX-License-Identifier: Apache-2.0
"""What a build can be asked afterwards: time, memory, ends of groups, lost accuracy."""
