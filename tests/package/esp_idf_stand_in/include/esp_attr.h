/* SPDX-License-Identifier: Apache-2.0 */
#define EXT_RAM_BSS_ATTR
