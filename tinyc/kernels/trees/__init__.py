# SPDX-License-Identifier: Apache-2.0
"""Decision trees: as tables that one loop walks, and as branches written for the forest."""
