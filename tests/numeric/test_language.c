/* test_language.c - what the language itself promises, by the kernels of language.tile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "tests/support/run_tile.h"

enum { S = 64 };

static int open_language(void **state)
{
	*state = run_open(TILE_SOURCE_DIR "/tests/numeric/language.tile", NULL);
	return 0;
}

static int close_language(void **state)
{
	run_close(*state);
	return 0;
}

static TestTensor vector(TileRun *r, tilert_dtype t, int64_t n)
{
	return tensor_new(r, t, 1, &n);
}

static TestTensor square(TileRun *r, tilert_dtype t)
{
	return tensor_new(r, t, 2, (int64_t[]){ S, S });
}

/* bf16: 8 bits. */
static void test_typed(void **state)
{
	TileRun *r = *state;
	TestTensor x = vector(r, TILERT_F32, S), y = vector(r, TILERT_F32, S), z = vector(r, TILERT_BF16, S);
	double want[S];
	uint16_t bits;

	for (int k = 0; k < S; k++) {
		x.value[k] = 1 + k % 16;
		want[k] = 1.25 + k % 16;
	}
	tensor_upload(&x);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("z", &z), arg_real("s", 0.25) };
	run_launch(r, "typed", args, 4);
	tensor_compare(&z, want, 0, 0);
	element_store(TILERT_BF16, &bits, 0.3333);
	double third = element_load(TILERT_BF16, &bits), numbers[] = { 2, third / 2, 2 * third, 2.0078125, third };
	tensor_download(&y);
	for (int k = 0; k < 5; k++)
		if (y.value[k] != numbers[k])
			fail_msg("number %d is %g, not %g", k, y.value[k], numbers[k]);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&z);
}

static void test_numbers(void **state)
{
	TileRun *r = *state;
	TestTensor x = vector(r, TILERT_BF16, S), y = vector(r, TILERT_F32, 16);
	tensor_random(r, &x, -1, 1);
	double want[S], inf = INFINITY;
	for (int k = 0; k < S; k++)
		want[k] = 2 * x.value[k];
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
	run_launch(r, "numbers", args, 2);
	tensor_compare(&x, want, 0, 0);
	tensor_download(&y);
	double numbers[] = { -inf, NAN, -inf, 3, 2, -inf, inf, 1, 1.5, 10, 1, 3.015625 };
	for (int k = 0; k < 12; k++)
		if (isnan(numbers[k]) ? !isnan(y.value[k]) : y.value[k] != numbers[k])
			fail_msg("number %d is %g, not %g", k, y.value[k], numbers[k]);
	tensor_free(&x);
	tensor_free(&y);
}

static void test_minima(void **state)
{
	TileRun *r = *state;
	TestTensor x = square(r, TILERT_F32), rows = vector(r, TILERT_F32, S), columns = vector(r, TILERT_F32, S);
	double row[S], column[S];
	tensor_random(r, &x, -1, 1);
	for (int k = 0; k < S; k++)
		row[k] = column[k] = INFINITY;
	for (int i = 0; i < S; i++)
		for (int j = 0; j < S; j++) {
			row[i] = fmin(row[i], x.value[i * S + j]);
			column[j] = fmin(column[j], x.value[i * S + j]);
		}
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("rows", &rows), arg_tensor("columns", &columns) };
	run_launch(r, "minima", args, 3);
	tensor_compare(&rows, row, 0, 0);
	tensor_compare(&columns, column, 0, 0);
	tensor_free(&x);
	tensor_free(&rows);
	tensor_free(&columns);
}

/* ---- break and continue ---- */

static int left_early(const int *x, int n, int t, int sum)
{
	for (int i = 0; i < n; i++) {
		if (i == t)
			continue;
		sum += x[i];
		if (sum > 100) {
			sum += 1000;
			break;
		}
		sum += 1;
	}
	for (int i = 0; i < 6; i++) {
		if (i == 2)
			continue;
		if (sum == i)
			break;
		if (sum % 7 == i)
			continue;
		sum += 3;
		if (i == 4)
			break;
	}
	return sum;
}

static int nested(const int *x, int n, int t, int sum)
{
	for (int i = 0; i < 8; i += 3) {
		int inner = 0;
		for (int k = i; k < n; k++) {
			if (x[k] == t)
				break;
			inner += k;
			if (k % 2 == 1)
				continue;
			inner += 100;
		}
		if (inner > 5000)
			continue;
		sum += inner;
	}
	return sum;
}

static int jumps(const int *x, int n, int t)
{
	int sum = left_early(x, n, t, 0), j = 0;
	while (1) {
		if (j >= n || x[j] < -40) {
			break;
		} else {
			if (x[j] % 5 == 0) {
				j += 2;
				continue;
			}
			sum += 5;
		}
		j++;
	}
	sum = nested(x, n, t, sum);
	for (j = 1; j < n; j *= 2)
		if (x[j] > t)
			break;
	return sum * 1000 + j;
}

static void test_jumps(void **state)
{
	TileRun *r = *state;
	enum { MOST = 77 };
	for (int n = 1; n <= MOST; n += 19) {
		TestTensor x = vector(r, TILERT_I32, n), y = vector(r, TILERT_I32, S);
		int number[MOST];
		double want[S];
		for (int k = 0; k < n; k++)
			x.value[k] = number[k] = (int)(random_uniform(r) * 91) - 43;
		tensor_upload(&x);
		for (int t = 0; t < S; t++)
			want[t] = jumps(number, n, t);
		tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y) };
		run_launch(r, "jumps", args, 2);
		tensor_compare(&y, want, 0, 0);
		tensor_free(&x);
		tensor_free(&y);
	}
}

static void test_told(void **state)
{
	TileRun *r = *state;
	enum { N = 7 };
	static const int lists[][N] = { { 0, 3, 2, 5, 5, 6, 1 }, { 4, 4, 4, -1, 0, 0, 0 }, { -1 } };
	for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
		TestTensor list = vector(r, TILERT_I32, N), y = square(r, TILERT_F32);
		TestTensor x = tensor_new(r, TILERT_F32, 3, (int64_t[]){ N, S, S });
		double want[S * S] = { 0 };
		tensor_random(r, &x, -1, 1);
		for (int k = 0; k < N; k++)
			list.value[k] = lists[l][k];
		tensor_upload(&list);
		for (int k = 0; k < N && lists[l][k] >= 0; k++)
			for (int i = 0; i < S * S && lists[l][k] % 2 == 0; i++)
				want[i] += x.value[lists[l][k] * S * S + i];
		tilert_arg args[] = { arg_tensor("list", &list), arg_tensor("x", &x), arg_tensor("y", &y) };
		run_launch(r, "told", args, 3);
		tensor_compare(&y, want, 0, 1e-5);
		tensor_free(&list);
		tensor_free(&x);
		tensor_free(&y);
	}
}

/* ---- arrays of barriers ---- */

static void test_pairs(void **state)
{
	TileRun *r = *state;
	enum { N = 5, TILE = S * S / 2 };
	TestTensor x = tensor_new(r, TILERT_F32, 4, (int64_t[]){ 2, N, S, S / 2 }), y = tensor_new(r, TILERT_F32, 3, (int64_t[]){ 2, S, S / 2 });
	TestTensor order = vector(r, TILERT_I32, 2 * N + 1);
	double want[2 * TILE] = { 0 }, turns[2 * N + 1] = { 2 * N };
	tensor_random(r, &x, -1, 1);
	for (int k = 0; k < 2 * N * TILE; k++)
		want[k / (N * TILE) * TILE + k % TILE] += x.value[k];
	for (int k = 0; k < 2 * N; k++)
		turns[k + 1] = k % 2;
	order.value[0] = 0;
	for (int k = 0; k < 2 * N; k++)
		order.value[k + 1] = -1;
	tensor_upload(&order);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("order", &order) };
	run_launch(r, "pairs", args, 3);
	tensor_compare(&y, want, 0, 1e-5);
	tensor_compare(&order, turns, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&order);
}

/* ---- declarations under a condition ---- */

enum { COUNT = 77 };

static void run_counted(TileRun *r, bool counted)
{
	TestTensor x = vector(r, TILERT_F32, COUNT), y = vector(r, TILERT_F32, COUNT), factor = vector(r, TILERT_F32, 2 * COUNT);
	TestTensor counter = vector(r, TILERT_I32, 1);
	double want[COUNT];
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &factor, -1, 1);
	counter.value[0] = 0;
	tensor_upload(&counter);
	for (int k = 0; k < COUNT; k++)
		want[k] = x.value[k] * (counted ? factor.value[2 * k] : 3) + counted;
	factor.t.extents[0] = COUNT;
	factor.t.strides[0] = 2;
	tilert_arg with[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("factor", &factor), arg_tensor("counter", &counter) };
	tilert_arg without[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_real("scale", 3) };
	run_launch(r, "counted", counted ? with : without, counted ? 4 : 3);
	tensor_compare(&y, want, 1e-6, 1e-6);
	tensor_compare(&counter, &(double){ counted ? COUNT : 0 }, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&factor);
	tensor_free(&counter);
}

static void test_counted(void **state)
{
	run_counted(*state, false);
	TileRun *r = run_open(TILE_SOURCE_DIR "/tests/numeric/language.tile", "COUNTED=true", NULL);
	run_counted(r, true);
	run_close(r);
}

/* ---- fragments that differ from warp to warp ---- */

static void test_offsets(void **state)
{
	TileRun *r = *state;
	TestTensor x = square(r, TILERT_F32), low = vector(r, TILERT_F32, S), high = vector(r, TILERT_F32, S);
	double want[S * S];
	tensor_random(r, &x, -1, 1);
	tensor_random(r, &low, -1, 1);
	tensor_random(r, &high, -1, 1);
	for (int k = 0; k < S * S; k++) {
		int warp = k / S / 16, column = k % S;
		want[k] = x.value[k] * (warp % 2 ? -3 : 2) + (warp < 2 ? low : high).value[column];
	}
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("low", &low), arg_tensor("high", &high) };
	run_launch(r, "offsets", args, 3);
	tensor_compare(&x, want, 1e-6, 1e-6);
	tensor_free(&x);
	tensor_free(&low);
	tensor_free(&high);
}

/* ---- inline PTX ---- */

static void test_both_devices(void **state)
{
	TileRun *r = *state;
	TestTensor x = vector(r, TILERT_U32, S), y = vector(r, TILERT_U32, S), z = vector(r, TILERT_F32, S);
	double bits[S], rest[S];
	for (int k = 0; k < S; k++) {
		x.value[k] = 1 + (uint32_t)k * 2654435761U % 4294967291U;
		bits[k] = 1 + floor(log2(x.value[k]));
		rest[k] = fmod(x.value[k], 1000);
	}
	tensor_upload(&x);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("z", &z) };
	run_launch(r, "both_devices", args, 3);
	tensor_compare(&y, bits, 0, 0);
	tensor_compare(&z, rest, 0, 0);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&z);
}

/* ---- votes ---- */

enum { THREADS = 288, TEAM = 128, WARP = 32 };

/* y[k][thread] of `votes`, the marks of n threads and the greatest element of each row being known. */
static double vote(int k, int thread, const double *mark, int n, const double *rows, double high)
{
	int s = thread / TEAM, first = thread % TEAM / WARP * WARP, any[2] = { 0, 0 }, all[2] = { 1, 1 }, any_mine = 0, all_mine = 1;
	if (k == 6)
		return 1;
	if (s == 2)
		return k;
	for (int i = 0; i < S; i++) {
		any[0] |= i != 3 && rows[i] > high;
		all[0] &= rows[i] < high;
	}
	for (int t = 0; t < TEAM; t++) {
		int mine = t < n && mark[t] == s;
		any_mine |= mine;
		all_mine &= mine;
		if (t >= first && t < first + WARP) {
			any[1] |= mine;
			all[1] &= t < n || mine;
		}
	}
	return (int[]){ any[0], all[0], any_mine, any[1], all[1], all_mine }[k];
}

static void check_votes(TileRun *r, int n, double high, int marked)
{
	TestTensor x = square(r, TILERT_F32), mark = vector(r, TILERT_I32, n), z = vector(r, TILERT_F32, S);
	TestTensor y = tensor_new(r, TILERT_I32, 2, (int64_t[]){ 7, THREADS });
	double rows[S], want[7 * THREADS];
	tensor_random(r, &x, -1, 1);
	x.value[3 * S + 5] = 2;
	tensor_upload(&x);
	for (int i = 0; i < S; i++) {
		rows[i] = -2;
		for (int j = 0; j < S; j++)
			rows[i] = fmax(rows[i], x.value[i * S + j]);
	}
	for (int t = 0; t < n; t++)
		mark.value[t] = t == 40 ? 1 : marked;
	tensor_upload(&mark);
	for (int k = 0; k < 7 * THREADS; k++)
		want[k] = vote(k / THREADS, k % THREADS, mark.value, n, rows, high);
	tilert_arg args[] = { arg_tensor("x", &x), arg_tensor("mark", &mark), arg_real("high", high), arg_tensor("y", &y), arg_tensor("z", &z) };
	run_launch(r, "votes", args, 5);
	tensor_compare(&y, want, 0, 0);
	if (want[0])
		tensor_compare(&z, rows, 0, 0);
	else
		tensor_untouched(&z);
	tensor_free(&x);
	tensor_free(&mark);
	tensor_free(&y);
	tensor_free(&z);
}

static void test_votes(void **state)
{
	check_votes(*state, 77, 0.5, -1);
	check_votes(*state, 128, 1.5, 1);
	check_votes(*state, 41, 2.5, 0);
}

static void test_changed_by_calls(void **state)
{
	static const double want[12] = { 8, 7 + 6 + 5 + 4, 4, 1, 5, 2, 0, 304, 2, 606, 7, 0 };
	TileRun *r = *state;
	TestTensor n = vector(r, TILERT_I32, 12);
	n.value[0] = 8;
	for (int i = 1; i < 12; i++)
		n.value[i] = 0;
	tensor_upload(&n);
	run_launch(r, "changed_by_calls", (tilert_arg[]){ arg_tensor("n", &n), arg_int("end", 5) }, 2);
	tensor_compare(&n, want, 0, 0);
	tensor_free(&n);
}

static TestTensor filled(TileRun *r, int rank, const int64_t *shape, bool numbered)
{
	TestTensor t = tensor_new(r, TILERT_I32, rank, shape);
	for (int64_t k = 0; k < shape[0] * (rank > 1 ? shape[1] : 1); k++)
		t.value[k] = numbered ? (double)k : 0;
	tensor_upload(&t);
	return t;
}

static int row_sum(const TestTensor *y, int row)
{
	int sum = 0;
	for (int i = 0; i < 256; i++)
		sum += (int)y->value[256 * row + i];
	return sum;
}

static void test_below_zero(void **state)
{
	TileRun *r = *state;
	TestTensor x = filled(r, 2, (int64_t[]){ 16, 64 }, true), y = filled(r, 2, (int64_t[]){ 6, 64 }, false);
	run_launch(r, "below_zero", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y), arg_int("back", 30) }, 3);
	tensor_download(&y);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(y.value[i], (i - 32) % 8 + 8);
		assert_int_equal(y.value[64 + i], 64 * ((i - 32) / 8 + 8) + i);
		assert_int_equal(y.value[128 + i], 64 * ((i - 30) / 8 + 8) + i);
		assert_int_equal(y.value[192 + i], (i - 30) / 8 == 0 ? 64 * (i / 8) + i % 8 : 0);
		assert_int_equal(y.value[256 + i], (i - 32) % 8 + 8);
		assert_int_equal(y.value[320 + i], i < 32 ? i % 8 + 8 : (i - 64) % 8 + 8);
	}
	tensor_free(&x);
	tensor_free(&y);
}

static void test_not_neighbours(void **state)
{
	TileRun *r = *state;
	TestTensor x = filled(r, 1, (int64_t[]){ 257 }, true), y = filled(r, 2, (int64_t[]){ 6, 256 }, false), used = filled(r, 1, (int64_t[]){ 2 }, false);
	run_launch(r, "not_neighbours", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("y", &y), arg_tensor("used", &used) }, 3);
	tensor_download(&y);
	assert_int_equal(row_sum(&y, 0), 5);
	assert_int_equal(row_sum(&y, 1), 255 * 128); /* each of them once */
	for (int i = 0; i < 256; i++) {
		assert_int_equal(y.value[512 + i], i % 2 ? (i + 1) / 4 * 4 : i);
		assert_int_equal(y.value[768 + i], i / 32 + i % 32);
		assert_int_equal(y.value[1024 + i], (i + 3) % 256);
	}
	assert_int_equal(y.value[1280], 56);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&used);
}

static void test_by_their_type(void **state)
{
	static const double want[10] = { 0, 0, 5, 2, 1, 1, 1, 1, 1, 1 };
	TileRun *r = *state;
	TestTensor y = filled(r, 1, (int64_t[]){ 10 }, false);
	tilert_arg args[] = { arg_tensor("y", &y), arg_int("large", 18014399583223809), arg_int("between", 33685505), arg_int("exponent", 200), arg_real("zero", -0.0) };
	run_launch(r, "by_their_type", args, 5);
	tensor_compare(&y, want, 0, 0);
	tensor_free(&y);
}

static void test_crossing_roles(void **state)
{
	static const double want[12] = { 5, 5, 5, 1, 1, 1, 1, 4, 4, 2, 3, 0 };
	TileRun *r = *state;
	TestTensor y = filled(r, 1, (int64_t[]){ 12 }, false), x = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 32, 32 });
	TestTensor sums = tensor_new(r, TILERT_F32, 2, (int64_t[]){ 2, 32 });
	double totals[64] = { 0 };
	for (int k = 0; k < 1024; k++) {
		x.value[k] = k % 7 + k / 32;
		totals[k % 32] += x.value[k];
		totals[32 + k / 32] += x.value[k];
	}
	tensor_upload(&x);
	run_launch(r, "crossing_roles", (tilert_arg[]){ arg_tensor("y", &y), arg_tensor("x", &x), arg_tensor("sums", &sums) }, 3);
	tensor_compare(&y, want, 0, 0);
	tensor_compare(&sums, totals, 0, 0);
	tensor_free(&y);
	tensor_free(&x);
	tensor_free(&sums);
}

/* Of rows 0 to 31 of x, and of z; far as i64 and as u32. */
static void check_limits(TileRun *r, int e, int64_t far, int rows, int rows_u32)
{
	TestTensor x = filled(r, 2, (int64_t[]){ 32, 32 }, true), z = filled(r, 2, (int64_t[]){ 64, 32 }, true), y = tensor_new(r, TILERT_I32, 3, (int64_t[]){ 4, 64, 32 });
	double *want = calloc(4 * 64 * 32, sizeof *want);
	for (int k = 0; k < 4 * 64 * 32; k++) {
		int plane = k / 2048, i = k / 32 % 64, j = k % 32;
		y.value[k] = want[k] = -1;
		if (plane == 0 && i >= 16 && i < 48 && i < e)
			want[k] = 32 * (i - 16) + j;
		if (plane == 1 && i >= 8 && i < 40 && i < e)
			want[k] = i + 8 < e ? 32 * (i + 8) + j : 0;
		if (plane == 2 && i < 8 && j < 4 && i < e)
			want[k] = i + 16 < e ? 32 * (i + 16) + j : 0;
		if (plane == 3)
			want[k] = i < (i < 32 ? rows : rows_u32) ? 32 * i + j : -1;
	}
	tensor_upload(&y);
	run_launch(r, "limits", (tilert_arg[]){ arg_tensor("x", &x), arg_tensor("z", &z), arg_tensor("y", &y), arg_int("e", e), arg_int("far", far) }, 5);
	tensor_compare(&y, want, 0, 0);
	free(want);
	tensor_free(&x);
	tensor_free(&y);
	tensor_free(&z);
}

static void test_limits(void **state)
{
	check_limits(*state, 0, 5, 5, 0);
	check_limits(*state, 20, INT64_C(1) << 32 | 40, 32, 40);
	check_limits(*state, 30, 40 - (INT64_C(1) << 32), 0, 40);
	check_limits(*state, 100, INT64_C(0xfffffff0), 32, 64);
}

static int halve(int *x, int *odd)
{
	*odd = *x & 1;
	*x = *x > 6 ? *x / 2 : *x;
	return *x + *odd;
}

static int quarter(int *x, int *odd)
{
	int first, a = halve(x, &first);
	return a + 10 * halve(x, odd);
}

static void test_given_back(void **state)
{
	TileRun *r = *state;
	TestTensor y = filled(r, 2, (int64_t[]){ 4, 64 }, false);
	double want[4][64];
	for (int i = 0; i < 64; i++) {
		int x = i, odd = -1, z = i % 4 ? -2 : quarter(&x, &odd);
		want[0][i] = x;
		want[1][i] = odd;
		want[2][i] = i > 9 && halve(&z, &odd) > 20 ? z : 3;
		want[3][i] = odd;
	}
	run_launch(r, "given_back", (tilert_arg[]){ arg_tensor("y", &y) }, 1);
	tensor_compare(&y, want[0], 0, 0);
	tensor_free(&y);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_typed), cmocka_unit_test(test_minima), cmocka_unit_test(test_jumps), cmocka_unit_test(test_told),
		cmocka_unit_test(test_pairs), cmocka_unit_test(test_counted),
		cmocka_unit_test(test_votes), cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_both_devices), cmocka_unit_test(test_changed_by_calls),
		cmocka_unit_test(test_below_zero), cmocka_unit_test(test_not_neighbours), cmocka_unit_test(test_by_their_type), cmocka_unit_test(test_crossing_roles), cmocka_unit_test(test_limits), cmocka_unit_test(test_given_back),
	};
	return cmocka_run_group_tests_name("language", tests, open_language, close_language);
}
