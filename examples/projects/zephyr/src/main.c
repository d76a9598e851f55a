/* SPDX-License-Identifier: 0BSD */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "kws_zephyr.h"
#include "words.h"

static void say(const char *text)
{
	printk("%s", text);
}

int main(void)
{
	kws_arena_t *arena = kws_lock(K_FOREVER); /* other threads wait until it is unlocked */

	words_run(arena, say);
	kws_unlock();
	return 0;
}
