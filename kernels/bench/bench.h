/* bench.h - what the sections of the benchmark share: timing, the table, large inputs. */
#ifndef TILE_BENCH_H
#define TILE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <tilert/tilert.h>

typedef struct Bench {
	tilert_device *device;
	tilert_device_info info;
	const char *modules; /* folders, with colons between */
	FILE *csv;           /* or NULL */
	int failures;
	double open_ms; /* tilert_device_open */
} Bench;

/* Ends the program with the text on a failure: a benchmark has nothing to clean up. */
void bench_check(tilert_status s, const char *text, const char *what);
#define CHECK(call) bench_check((call), tilert_last_error(), #call)

void *bench_memory(size_t bytes);
double bench_now_ms(void); /* of the host */

/* NULL when the file is in none of the folders. */
tilert_module *bench_module(Bench *b, const char *name);

/* Median milliseconds of one call of `launch`: warmed up, several launches between two events, nine pairs. */
double bench_time(Bench *b, void (*launch)(void *), void *arg);
/* The same for a prepared kernel. */
double bench_time_prepared(Bench *b, tilert_prepared *p);

/* The same for `work`, recorded once as a CUDA graph and replayed; milliseconds of all that it queues. */
double bench_time_graph(Bench *b, void (*work)(void *, tilert_stream), void *arg);

/* One line of table and CSV: rate in `unit`, error the relative RMS error found before timing. */
void bench_row(Bench *b, const char *what, const char *shape, double ms, double rate, const char *unit, double error);
/* The line of the CSV alone. */
void bench_csv(Bench *b, const char *what, const char *shape, double ms, double rate, const char *unit, double error);
/* What was not timed, and why. */
__attribute__((format(printf, 3, 4))) void bench_refuse(Bench *b, const char *what, const char *format, ...);

/* Memory on the device: NaN; or `period` bytes over and over. */
tilert_ptr bench_poisoned(Bench *b, size_t bytes);
tilert_ptr bench_periodic(Bench *b, const void *data, size_t period, size_t bytes);
void bench_free(Bench *b, tilert_ptr p);
tilert_arg bench_tensor(const char *name, tilert_ptr p, tilert_dtype dtype, int rank, const int64_t *extents);

/* The sections. */
void bench_gdn(Bench *b);
void bench_gdn_backward(Bench *b);
void bench_gemm(Bench *b);
void bench_kda(Bench *b);
void bench_kda_backward(Bench *b);
void bench_twophase(Bench *b);
void bench_launch(Bench *b);
void bench_startup(Bench *b);

#endif
