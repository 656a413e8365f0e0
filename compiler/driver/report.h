/* report.h - what is known of kernels, as a page to look at: --report=html. */
#ifndef TILE_DRIVER_REPORT_H
#define TILE_DRIVER_REPORT_H

#include "compiler/driver/outputs.h"
#include "compiler/driver/ptxas.h"
#include "compiler/tir/tir.h"

/* A page with each kernel's registers, shared memory, barriers, schedule, bank conflicts and roofline.  r: what ptxas said, or NULL. */
void report_html(const Tir *t, const char *source_name, const PtxasResult *r, Buffer *out);

/* ---- its parts ---- */

/* Text with what HTML would read as marks escaped. */
const char *report_text(Arena *a, const char *s);
unsigned report_line(const Tir *t, const Op *op);
/* Roles side by side, what each does one below the other, lines from arrivals to waits: report_schedule.c */
void report_schedule(const Tir *t, const Op *kernel, Buffer *out);
/* Accesses of shared memory whose lanes meet in its banks: report_banks.c */
void report_banks(const Tir *t, const Op *kernel, Buffer *out);
/* A turn of the main loops: what it asks of each unit: report_roofline.c */
void report_roofline(const Tir *t, const Op *kernel, Buffer *out);

#endif
