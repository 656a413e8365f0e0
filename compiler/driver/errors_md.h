/* errors_md.h - dsl/ERRORS.md as a string; the array is generated at build time. */
#ifndef TILE_DRIVER_ERRORS_MD_H
#define TILE_DRIVER_ERRORS_MD_H

extern const char tile_errors_md[];

#endif
