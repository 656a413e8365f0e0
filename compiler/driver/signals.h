/* signals.h - signals that end the program wait while it has temporary files, so that these do not stay behind. */
#ifndef TILE_DRIVER_SIGNALS_H
#define TILE_DRIVER_SIGNALS_H

#include <signal.h>

/* Those that would end it now: not what the caller ignores, as nohup does. */
sigset_t signals_ending(void);

/* From here to signals_release they wait; what came meanwhile comes there. */
sigset_t signals_hold(void);
void signals_release(const sigset_t *before);

#endif
