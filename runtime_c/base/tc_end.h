/* SPDX-License-Identifier: 0BSD */
/* The end of what tc_begin.h began. */
#if defined(TC_PORTABLE)
#elif defined(__clang__)
#if __has_attribute(no_builtin)
#pragma clang attribute pop
#endif
#elif defined(__GNUC__)
#pragma GCC pop_options
#endif
