/* numeric.h - what the numeric tests share: the device they run on ($TILE_TEST_DEVICE, default cpu), buffers, modules. */
#ifndef TILE_TESTS_NUMERIC_H
#define TILE_TESTS_NUMERIC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <tilert/tilert.h>

#include "tests/check/random.h"

/* Fails the test with the runtime's text. */
#define OK(call) numeric_ok((call), tilert_last_error(), #call, __FILE__, __LINE__)
void numeric_ok(tilert_status s, const char *text, const char *call, const char *file, int line);

tilert_device *numeric_device(void);
bool numeric_on_cpu(void);
/* Opened once and kept; `name` is a file in one of the folders a:b:... of $TILE_TEST_MODULES (default: where the build put the modules). */
tilert_module *numeric_module(const char *name);

/* Device memory with guards of NaN bytes (0xff) before and behind it. */
typedef struct Buffer { tilert_ptr p; size_t bytes; } Buffer;
Buffer buffer_of(const void *data, size_t bytes);  /* the data uploaded */
Buffer buffer_poisoned(size_t bytes);              /* all NaN */
void buffer_poison(Buffer b);
/* Downloads to memory to be freed; fails the test when a guard was written. */
void *buffer_take(Buffer b);
void buffer_free(Buffer b);

tilert_arg tensor_arg(const char *name, Buffer b, tilert_dtype dtype, int rank, const int64_t *extents);

/* Work that is recorded once and run often: a CUDA graph; on the CPU device the calls themselves. */
typedef struct Recording {
	void (*work)(void *, tilert_stream);
	void *user;
	tilert_stream stream;
	struct Graph *graph; /* NULL on the CPU device */
} Recording;
Recording record(void (*work)(void *, tilert_stream), void *user);
void replay(Recording *r);  /* and waits */
void forget(Recording *r);

/* The same bits, where both are there. */
void expect_same(const char *what, const float *x, const float *y, int64_t n);
/* Each of the words, up to NULL, is in the text of an error. */
void expect_words(const char *text, const char *const *words);

/* How many random calls a test makes, from r: `fewer` from `seed`; where $TILE_TEST_RANDOM is a seed, $TILE_TEST_CALLS or 200 from that, each named before it runs. */
int random_calls(Random *r, uint64_t seed, int fewer, bool *named);
/* Whether call i is one of them; $TILE_TEST_FIRST: those before are drawn, but do not run. */
bool random_runs(int i);

/* malloc that fails the test. */
void *memory(size_t bytes);

/* One test of a family: run(case) with this name. */
typedef struct NumericCase { char name[96]; void (*run)(const void *spec); const void *spec; } NumericCase;
__attribute__((format(printf, 3, 4))) NumericCase numeric_case(void (*run)(const void *spec), const void *spec, const char *format, ...);

/* The cases of each family; returns how many were added to `out`. */
size_t vector_add_cases(NumericCase *out);
size_t calls_cases(NumericCase *out);
size_t fields_cases(NumericCase *out);
size_t gemm_cases(NumericCase *out);
size_t kda_cases(NumericCase *out);
size_t kda_bits_cases(NumericCase *out);
size_t kda_plans_cases(NumericCase *out);
size_t kda_wrong_cases(NumericCase *out);
size_t kda_random_cases(NumericCase *out);
size_t kda_backward_cases(NumericCase *out);
size_t gdn_cases(NumericCase *out);
size_t gdn_bits_cases(NumericCase *out);
size_t gdn_wrong_cases(NumericCase *out);
size_t gdn_random_cases(NumericCase *out);
size_t gdn_states_cases(NumericCase *out);
size_t gdn_backward_cases(NumericCase *out);
size_t launch_cases(NumericCase *out);
size_t limits_cases(NumericCase *out);
size_t math_cases(NumericCase *out);
size_t dealt_cases(NumericCase *out);

#endif
