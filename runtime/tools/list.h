/* list.h - what --list prints. */
#ifndef TILE_TOOLS_LIST_H
#define TILE_TOOLS_LIST_H

#include "tilert/tilert.h"

void list_kernels(tilert_module *m);
void list_json(tilert_module *m);

#endif
