/* timeline.h - what stamp() recorded, as a file of trace events, which ui.perfetto.dev opens. */
#ifndef TILE_TOOLS_TIMELINE_H
#define TILE_TOOLS_TIMELINE_H

#include "runtime/tools/tensor.h"

/* `t` is the kernel's parameter `trace`, [blocks][warps][points][2].  A process for each block, a thread for each warp, an interval from each
 * point that was recorded to the next.  Leaves the program when the file cannot be written. */
void timeline_write(const HostTensor *t, const char *kernel, const char *path);

#endif
