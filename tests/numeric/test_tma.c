/* test_tma.c - the transfers of tma.tile against plain C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "tests/support/run_tile.h"

static int open_tma(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/tma.tile", NULL);
	return 0;
}

static int close_tma(void **state)
{
	run_close(*state);
	return 0;
}

/* ---- groups of stores ---- */

static void check_store_groups(TileRun *r, int64_t limit)
{
	enum { ROWS = 192, COLUMNS = 64 };
	TestTensor y = tensor_new(r, TILERT_F32, 2, (int64_t[]){ ROWS, COLUMNS });
	tilert_arg args[] = { arg_tensor("y", &y), arg_int("e", limit) };

	run_launch(r, "store_groups", args, 2);
	tensor_download(&y);
	for (int i = 0; i < ROWS; i++) {
		for (int j = 0; j < COLUMNS; j++) {
			if (i < limit)
				assert_true(y.value[i * COLUMNS + j] == 1 + i / 64);
			else
				assert_true(isnan(y.value[i * COLUMNS + j]));
		}
	}
	tensor_free(&y);
}

static void tails_are_groups(void **state)
{
	TileRun *r = *state;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		if (r->is_cpu)
			assert_int_equal(tilert_cpu_configure(r->device, seed, 0), TILERT_OK);
		for (int64_t limit = 0; limit <= 192; limit += 50)
			check_store_groups(r, limit);
	}
}

/* ---- parts of tiles ---- */

enum { X_ROWS = 75, TILE = 64, WIDTH = 256, UNTOUCHED = 7 };

/* Rows and columns of a box: rows `from` .. of x are rows `to` .. of the tile, likewise columns. */
typedef struct Box { int from, to, rows, from_column, to_column, columns; } Box;

static double part_of(const Box *b, int n, const double *x, int row, int column, double otherwise)
{
	for (int k = 0; k < n; k++) {
		int i = row - b[k].to, j = column - b[k].to_column;
		if (i >= 0 && i < b[k].rows && j >= 0 && j < b[k].columns)
			return x[(b[k].from + i) * WIDTH + b[k].from_column + j];
	}
	return otherwise;
}

static void boxes_fill_parts(void **state)
{
	static const Box swizzled[] = { { 5, 3, 61, 0, 0, WIDTH }, { 70, 1, 2, 64, 64, 128 } };
	static const Box linear[] = { { 7, 2, 62, 0, 0, WIDTH }, { 50, 0, 1, 64, 128, 64 } };
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH });
	TestTensor s = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, WIDTH }), l = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, WIDTH });
	double want_s[TILE * WIDTH], want_l[TILE * WIDTH];

	tensor_random(r, &x, -1, 1);
	for (int k = 0; k < TILE * WIDTH; k++) {
		want_s[k] = part_of(swizzled, 2, x.value, k / WIDTH, k % WIDTH, UNTOUCHED);
		want_l[k] = part_of(linear, 2, x.value, k / WIDTH, k % WIDTH, UNTOUCHED);
	}
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("swizzled", &s), arg_tensor("linear", &l) };
	run_launch(r, "load_parts", args, 3);
	tensor_compare(&s, want_s, 0, 0);
	tensor_compare(&l, want_l, 0, 0);
	tensor_free(&x);
	tensor_free(&s);
	tensor_free(&l);
}

static void boxes_store_parts(void **state)
{
	static const Box boxes[] = { { 3, 5, 61, 0, 0, WIDTH }, { 1, 70, 2, 64, 64, 128 } };
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, WIDTH }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH });

	tensor_random(r, &x, -1, 1);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
	run_launch(r, "store_parts", args, 2);
	tensor_download(&y);
	for (int k = 0; k < X_ROWS * WIDTH; k++) {
		double want = part_of(boxes, 2, x.value, k / WIDTH, k % WIDTH, NAN);
		assert_true(isnan(want) ? isnan(y.value[k]) : y.value[k] == want);
	}
	tensor_free(&x);
	tensor_free(&y);
}

static void boxes_fill_panels(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, WIDTH });
	double want[TILE * WIDTH];

	tensor_random(r, &x, -1, 1);
	for (int first = 0; first < 2; first++) {
		const Box boxes[] = { { 0, first, 63, 0, 0, WIDTH }, { 70, 63 * (1 - first), 1, 0, 0, WIDTH } };
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("first", first) };
		run_launch(r, "load_panels", args, 3);
		for (int k = 0; k < TILE * WIDTH; k++)
			want[k] = part_of(boxes, 2, x.value, k / WIDTH, k % WIDTH, UNTOUCHED);
		tensor_compare(&y, want, 0, 0);
	}
	tensor_free(&x);
	tensor_free(&y);
}

/* Columns are a multiple of 16 bytes; on a GPU the other ones would end the context. */
static void columns_are_checked(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ 16, 8 });

	tensor_random(r, &x, -1, 1);
	for (int column = -16; column <= WIDTH; column += column < 0 || !r->is_cpu ? 8 : 12) {
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("column", column) };
		tilert_status s = run_try(r, "load_columns", args, 3);
		if (column % 8) {
			assert_int_equal(s, TILERT_EDEVICE);
			assert_non_null(strstr(tilert_last_error(), "a multiple of 16"));
			continue;
		}
		assert_int_equal(s, TILERT_OK);
		double want[16 * 8];
		for (int k = 0; k < 16 * 8; k++) {
			int j = column + k % 8;
			want[k] = j >= 0 && j < WIDTH ? x.value[k / 8 * WIDTH + j] : 0;
		}
		tensor_compare(&y, want, 0, 0);
	}
	tensor_free(&x);
	tensor_free(&y);
}

/* Before the tensor there is nothing either, but one box has one end that is cut. */
static void one_end_is_cut(void **state)
{
	static const struct { int start, end; bool both; } boxes[] = { { -3, 61, false }, { -3, 60, true }, { -64, 0, false }, { -70, -1, false }, { 5, -1, false } };
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, WIDTH });
	double want[TILE * WIDTH];

	tensor_random(r, &x, -1, 1);
	for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
		if (boxes[i].both && !r->is_cpu)
			continue;
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("start", boxes[i].start), arg_int("end", boxes[i].end) };
		assert_int_equal(run_try(r, "load_limited", args, 4), boxes[i].both ? TILERT_EDEVICE : TILERT_OK);
		if (boxes[i].both) {
			assert_non_null(strstr(tilert_last_error(), "begins before the tensor, at a negative index, and is cut by the limit as well"));
			continue;
		}
		for (int k = 0; k < TILE * WIDTH; k++) {
			int row = boxes[i].start + k / WIDTH;
			want[k] = row >= 0 && row < boxes[i].end ? x.value[row * WIDTH + k % WIDTH] : 0;
		}
		tensor_compare(&y, want, 0, 0);
	}
	tensor_free(&x);
	tensor_free(&y);
}

/* A GPU reads at the map's base for a box with nothing inside: with a limit that lay below the tensor, in memory that nobody has where the tensor is long. */
static void boxes_with_nothing_inside_are_zero(void **state)
{
	enum { NARROW = 64 };
	static const struct { int start, end; } boxes[] = { { 3, 40 }, { 64, 64 }, { 64, 1 }, { 0, 0 }, { INT32_MAX - 64, INT32_MAX } };
	TileRun *r = *state;
	const int64_t rows = r->is_cpu ? X_ROWS : 1 << 20;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ rows, NARROW }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ TILE, 2 * NARROW });
	double want[TILE * 2 * NARROW];

	tensor_random(r, &x, -1, 1);
	for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("start", boxes[i].start), arg_int("end", boxes[i].end) };
		run_launch(r, "load_outside", args, 4);
		for (int k = 0; k < TILE * 2 * NARROW; k++) {
			int64_t row = (int64_t)boxes[i].start + k / (2 * NARROW), column = k % (2 * NARROW);
			want[k] = row < boxes[i].end && row < rows && column < NARROW ? x.value[row * NARROW + column] : 0;
		}
		tensor_compare(&y, want, 0, 0);
	}
	tensor_free(&x);
	tensor_free(&y);
}

static void stores_begin_in_the_tensor(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ 16, WIDTH }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ X_ROWS, WIDTH });

	tensor_random(r, &x, -1, 1);
	for (int end = 0; r->is_cpu && end <= X_ROWS; end += 5) {
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_int("start", -3), arg_int("end", end) };
		assert_int_equal(run_try(r, "store_limited", args, 4), TILERT_EDEVICE);
		assert_non_null(strstr(tilert_last_error(), end < 13 ? "begins before the tensor, at a negative index, and is cut" : "begins before tensor 'y', at index -3"));
	}
	tensor_untouched(&y);
	tensor_free(&x);
	tensor_free(&y);
}

/* What is behind a row's end is written up to 16 bytes: an H200 did so. */
static void stored_rows_are_whole_16_bytes(void **state)
{
	TileRun *r = *state;
	TestTensor x = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ 16, 64 }), y = tensor_new(r, TILERT_BF16, 2, (int64_t[]){ 16, 40 });

	tensor_random(r, &x, -1, 1);
	for (int m = 17; m <= 40; m += m < 24 ? 7 : 8) {
		tilert_arg narrow = arg_tensor("y", &y);
		narrow.tensor.extents[1] = m;
		narrow.tensor.strides[0] = 40;
		narrow.tensor.strides[1] = 1;
		tilert_arg args[] = { arg_tensor("x", &x), narrow, arg_int("p", 40) };
		assert_int_equal(run_try(r, "store_rows", args, 3), m % 8 ? TILERT_EINVAL : TILERT_OK);
		if (m % 8) {
			assert_non_null(strstr(tilert_last_error(), "rows of y[16][M] are 34 bytes, and TMA stores whole 16: up to 48 would be written"));
			tensor_untouched(&y);
		}
	}
	double want[16 * 40];
	for (int k = 0; k < 16 * 40; k++)
		want[k] = x.value[k / 40 * 64 + k % 40];
	tensor_compare(&y, want, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
}

/* ---- boxes of more dimensions than their tile ---- */

enum { TOKENS = 40, HEADS = 12, CHANNELS = 128, GROUP = 4, PACKED = 64 };

/* Row r of a tile that head group b and the tokens from t on fill. */
static double head_of(const TestTensor *x, int b, int t, int end, int r, int channel)
{
	int token = t + r / GROUP;
	return token < end && token < TOKENS ? x->value[(token * HEADS + GROUP * b + r % GROUP) * CHANNELS + channel] : 0;
}

static void check_packed(TileRun *r, int t, int end)
{
	static double packed[HEADS / GROUP * PACKED * CHANNELS], part[HEADS / GROUP * PACKED * 16], linear[HEADS / GROUP * 16 * 16];
	TestTensor x = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ TOKENS, HEADS, CHANNELS }), y = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ TOKENS, HEADS, CHANNELS });
	TestTensor s = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ HEADS / GROUP, PACKED, CHANNELS }), p = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ HEADS / GROUP, PACKED, 16 });
	TestTensor l = tensor_new(r, TILERT_BF16, 3, (int64_t[]){ HEADS / GROUP, 16, 16 });

	tensor_random(r, &x, -1, 1);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("packed", &s), arg_tensor("part", &p), arg_tensor("linear", &l), arg_int("t", t), arg_int("e", end) };
	run_launch(r, "pack_heads", args, 7);
	for (int k = 0; k < HEADS / GROUP * PACKED; k++) {
		int b = k / PACKED, row = k % PACKED;
		for (int c = 0; c < CHANNELS; c++)
			packed[k * CHANNELS + c] = head_of(&x, b, t, end, row, c);
		for (int c = 0; c < 16; c++)
			part[k * 16 + c] = row < 8 || row >= 28 ? UNTOUCHED : head_of(&x, b, t, end, row - 8, 32 + c);
	}
	for (int k = 0; k < HEADS / GROUP * 16 * 16; k++)
		linear[k] = head_of(&x, k / 256, t, TOKENS, k / 16 % 16, 112 + k % 16);
	tensor_compare(&s, packed, 0, 0);
	tensor_compare(&p, part, 0, 0);
	tensor_compare(&l, linear, 0, 0);
	tensor_download(&y);
	for (int k = 0; k < TOKENS * HEADS * CHANNELS; k++) {
		int token = k / (HEADS * CHANNELS);
		if (token >= t && token < t + PACKED / GROUP && token < end)
			assert_true(y.value[k] == x.value[k]);
		else
			assert_true(isnan(y.value[k]));
	}
	tensor_free(&x), tensor_free(&y), tensor_free(&s), tensor_free(&p), tensor_free(&l);
}

static void boxes_of_heads_are_rows(void **state)
{
	check_packed(*state, 3, 100);
	check_packed(*state, 20, 29);
	check_packed(*state, 30, TOKENS);
	check_packed(*state, 37, 38);
	check_packed(*state, 5, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tails_are_groups),
		cmocka_unit_test(boxes_fill_parts),
		cmocka_unit_test(boxes_fill_panels),
		cmocka_unit_test(boxes_store_parts),
		cmocka_unit_test(boxes_of_heads_are_rows),
		cmocka_unit_test(columns_are_checked),
		cmocka_unit_test(one_end_is_cut),
		cmocka_unit_test(boxes_with_nothing_inside_are_zero),
		cmocka_unit_test(stores_begin_in_the_tensor),
		cmocka_unit_test(stored_rows_are_whole_16_bytes),
	};

	return cmocka_run_group_tests_name("tma", tests, open_tma, close_tma);
}
