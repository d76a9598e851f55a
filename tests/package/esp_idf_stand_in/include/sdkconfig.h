/* SPDX-License-Identifier: Apache-2.0 */
#define CONFIG_TINYC_KWS_ARENA 1
