/* signals.c - holds signals back. */
#include "compiler/driver/signals.h"

#include <stddef.h>

sigset_t signals_ending(void)
{
	static const int ending[] = { SIGHUP, SIGINT, SIGTERM };
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
		struct sigaction now;
		if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, ending[i]);
	}
	return set;
}

sigset_t signals_hold(void)
{
	sigset_t ending = signals_ending(), before;
	sigprocmask(SIG_BLOCK, &ending, &before);
	return before;
}

void signals_release(const sigset_t *before)
{
	sigprocmask(SIG_SETMASK, before, NULL);
}
