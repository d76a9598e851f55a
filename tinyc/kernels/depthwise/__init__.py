# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d on Cortex-M with DSP: functions in assembly over planes, columns or the image itself."""
