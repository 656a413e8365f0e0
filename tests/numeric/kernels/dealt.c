/* dealt.c - whole items of packed sequences (kernels/kda/whole.tile): every one is dealt once, whatever the lengths, and no CTA has much more to do than it must. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/kernels/numeric.h"

enum { MOST_SEQUENCES = 2100, CHUNK = 32 };

typedef struct Deal { int sequences, lanes, ctas; bool wide; int64_t offsets[MOST_SEQUENCES + 1]; } Deal;

static int64_t weight(const Deal *d, int n)
{
	int64_t tokens = d->offsets[n + 1] - d->offsets[n];
	return 2 * (tokens > 0 ? (tokens + CHUNK - 1) / CHUNK : 0) + 3;
}

/* The most that a CTA has to do, as whole.tile counts. */
static int64_t busiest(const Deal *d, const int32_t *takers)
{
	int64_t *load = memory((size_t)d->ctas * sizeof *load), most = 0;
	for (int c = 0; c < d->ctas; c++)
		load[c] = 0;
	for (int i = 0; i < d->sequences * d->lanes; i++)
		load[takers[i]] += weight(d, i / d->lanes);
	for (int c = 0; c < d->ctas; c++)
		most = load[c] > most ? load[c] : most;
	free(load);
	return most;
}

/* Who has each item; each is dealt once. */
static int32_t *takers(const Deal *d, int64_t tokens)
{
	const int64_t n = d->sequences + 1, items = d->sequences * (int64_t)d->lanes;
	int32_t *narrow = memory((size_t)n * sizeof *narrow), *zeros = memory((size_t)items * sizeof *zeros);
	tilert_kernel *k;
	for (int64_t i = 0; i < n; i++)
		narrow[i] = (int32_t)d->offsets[i];
	for (int64_t i = 0; i < items; i++)
		zeros[i] = 0;
	Buffer cu = d->wide ? buffer_of(d->offsets, (size_t)n * 8) : buffer_of(narrow, (size_t)n * 4), times = buffer_of(zeros, (size_t)items * 4), who = buffer_poisoned((size_t)items * 4);
	const tilert_arg args[] = { tensor_arg(d->wide ? "cu64" : "cu", cu, d->wide ? TILERT_I64 : TILERT_I32, 1, &n), tensor_arg("times", times, TILERT_I32, 1, &items),
		tensor_arg("takers", who, TILERT_I32, 1, &items), { .name = "SEQS", .kind = TILERT_ARG_DIM, .i = d->sequences },
		{ .name = "lanes", .kind = TILERT_ARG_SCALAR, .i = d->lanes }, { .name = "tokens", .kind = TILERT_ARG_SCALAR, .i = tokens },
		{ .name = "ctas", .kind = TILERT_ARG_SCALAR, .i = d->ctas } };
	OK(tilert_module_kernel(numeric_module("dealt.tmod"), "dealt", &k));
	OK(tilert_launch(k, args, sizeof args / sizeof args[0], NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	int32_t *dealt = buffer_take(times), *t = buffer_take(who);
	for (int64_t i = 0; i < items; i++)
		if (dealt[i] != 1)
			fail_msg("%d sequences, %d lanes, %d CTAs: item %lld is dealt %d times", d->sequences, d->lanes, d->ctas, (long long)i, (int)dealt[i]);
	buffer_free(cu);
	buffer_free(times);
	buffer_free(who);
	free(narrow);
	free(zeros);
	free(dealt);
	return t;
}

typedef enum Lengths { UNIFORM, DOCUMENTS, EMPTY_OR_LONG, EQUAL, ONE_LONG, LENGTHS } Lengths;

static int64_t length_of(Lengths kind, int n, Random *r)
{
	switch (kind) {
	case UNIFORM: return pick(r, 700);
	case DOCUMENTS: return pick(r, 8) == 0 ? 1000 + pick(r, 3000) : 20 + pick(r, 900);
	case EMPTY_OR_LONG: return pick(r, 4) != 0 ? 0 : 5000;
	case EQUAL: return 100;
	default: return n == 3 ? 20000 : 250 + pick(r, 40);
	}
}

static void fill(Deal *d, Lengths kind, Random *r)
{
	d->offsets[0] = 0;
	for (int n = 0; n < d->sequences; n++)
		d->offsets[n + 1] = d->offsets[n] + length_of(kind, n, r);
}

static void run_random(const void *spec)
{
	static const int counts[] = { 1, 2, 5, 30, 67, 255, 256, 257, 700, 2047, 2048 }, ctas[] = { 1, 2, 7, 33, 132, 264 };
	Deal *d = memory(sizeof *d);
	bool named;
	Random r;
	(void)spec;
	const int calls = random_calls(&r, 3, 60, &named);
	for (int i = 0; i < calls; i++) {
		d->sequences = counts[pick(&r, 11)];
		d->lanes = 1 + (int)pick(&r, d->sequences < 300 ? 12 : 2);
		d->ctas = ctas[pick(&r, 6)];
		d->ctas = d->ctas < d->sequences * d->lanes ? d->ctas : d->sequences * d->lanes;
		d->wide = toss(&r);
		fill(d, (Lengths)pick(&r, LENGTHS), &r);
		free(takers(d, d->offsets[d->sequences] + pick(&r, 50)));
	}
	free(d);
}

/* The busiest CTA, beside the mean or the longest item; and what it would have if CTAs took items by turns. */
static void run_even(const void *spec)
{
	static const struct { Lengths kind; int sequences, lanes; double most; } rows[] = { { DOCUMENTS, 67, 8, 1.12 }, { DOCUMENTS, 67, 32, 1.04 }, { DOCUMENTS, 700, 2, 1.15 },
		{ ONE_LONG, 950, 4, 1.03 } };
	Deal *d = memory(sizeof *d);
	Random r;
	(void)spec;
	random_init(&r, 4);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		double all = 0, longest = 0;
		*d = (Deal){ .sequences = rows[i].sequences, .lanes = rows[i].lanes, .ctas = 132 };
		fill(d, rows[i].kind, &r);
		for (int n = 0; n < d->sequences; n++) {
			all += (double)(d->lanes * weight(d, n));
			longest = fmax(longest, (double)weight(d, n));
		}
		int32_t *t = takers(d, d->offsets[d->sequences]);
		const double least = fmax(all / d->ctas, longest), most = (double)busiest(d, t);
		for (int k = 0; k < d->sequences * d->lanes; k++)
			t[k] = k % d->ctas;
		print_message("row %zu: the busiest CTA has %.3f of that, by turns %.3f\n", i, most / least, (double)busiest(d, t) / least);
		if (most > rows[i].most * least)
			fail_msg("row %zu: not %.2f", i, rows[i].most);
		free(t);
	}
	free(d);
}

typedef struct Shares { int sequences, lanes, ctas, tokens, part, each; bool rows; } Shares;

/* Of each CTA the first item and token, the last item and where that ends. */
static int32_t *shared_out(const Shares *d, const Buffer *cu)
{
	const int64_t n = d->sequences + 1, shape[] = { d->ctas, 4 };
	tilert_kernel *k;
	Buffer shares = buffer_poisoned((size_t)d->ctas * 4 * sizeof(int32_t));
	const tilert_arg args[] = { tensor_arg("shares", shares, TILERT_I32, 2, shape), { .name = "SEQS", .kind = TILERT_ARG_DIM, .i = d->sequences }, { .name = "CTAS", .kind = TILERT_ARG_DIM, .i = d->ctas },
		{ .name = "lanes", .kind = TILERT_ARG_SCALAR, .i = d->lanes }, { .name = "tokens", .kind = TILERT_ARG_SCALAR, .i = d->tokens }, { .name = "part", .kind = TILERT_ARG_SCALAR, .i = d->part },
		{ .name = "each", .kind = TILERT_ARG_SCALAR, .i = d->each }, { .name = "rows", .kind = TILERT_ARG_SCALAR, .i = d->rows }, cu ? tensor_arg("cu", *cu, TILERT_I32, 1, &n) : (tilert_arg){ .name = NULL } };
	OK(tilert_module_kernel(numeric_module("dealt.tmod"), "shared_out", &k));
	OK(tilert_launch(k, args, sizeof args / sizeof args[0] - (cu ? 0 : 1), NULL));
	OK(tilert_stream_sync(numeric_device(), NULL));
	int32_t *got = buffer_take(shares);
	buffer_free(shares);
	return got;
}

/* Shares of one long sequence and short ones: an item takes some 1.5 chunks beside its own, and the busiest CTA has not a quarter more than the mean.  Every token is some CTA's, once. */
static void run_shares(const void *spec)
{
	enum { LANES = 12, CTAS = 132, SHORT_ONES = 31 };
	const int64_t n = SHORT_ONES + 2;
	int32_t cu[SHORT_ONES + 2] = { 0, 7168 };
	double all = 0, most = 0;
	Random r;
	(void)spec;
	random_init(&r, 6);
	for (int i = 1; i <= SHORT_ONES; i++)
		cu[i + 1] = cu[i] + 17 + (int32_t)pick(&r, 240);
	Buffer offsets = buffer_of(cu, sizeof cu);
	int32_t *got = shared_out(&(Shares){ .sequences = (int)n - 1, .lanes = LANES, .ctas = CTAS, .tokens = cu[n - 1], .each = -2 }, &offsets);
	int64_t tokens = 0;
	for (int c = 0; c < CTAS; c++) {
		const int32_t *s = &got[4 * c];
		double load = 0;
		for (int i = s[0]; i <= s[2]; i++) {
			const int32_t start = cu[i / LANES], end = cu[i / LANES + 1], from = i == s[0] && s[1] > start ? s[1] : start, to = i == s[2] && s[3] < end ? s[3] : end;
			load += (to - from + CHUNK - 1) / CHUNK + 1.5;
			tokens += to - from;
		}
		all += load;
		most = fmax(most, load);
	}
	print_message("the busiest CTA has %.3f of the mean\n", most * CTAS / all);
	assert_int_equal(tokens, (int64_t)LANES * cu[n - 1]);
	if (most * CTAS > 1.25 * all)
		fail_msg("more than 1.25");
	buffer_free(offsets);
	free(got);
}

/* Rows, and one packed sequence that has as many tokens or fewer: every token is some CTA's, once.  Where items count as whole shares none has tokens of two, and the first of an item takes what is left over. */
static void run_rows(const void *spec)
{
	Random r;
	(void)spec;
	random_init(&r, 7);
	for (int i = 0; i < 60; i++) {
		const int part = 4 + (int)pick(&r, 20), own = 1 + (int)pick(&r, 12), kind = (int)pick(&r, 3);
		const int chunks = kind == 0 ? own * part + (int)pick(&r, 5) : kind == 1 ? own * part - (int)pick(&r, part) : 1 + (int)pick(&r, 300);
		Shares d = { .sequences = 1 + (int)pick(&r, 3), .lanes = 1 + (int)pick(&r, 4), .tokens = CHUNK * chunks - (int)pick(&r, CHUNK), .part = part, .each = kind < 2 ? own * part : chunks };
		const int items = d.sequences * d.lanes;
		d.ctas = (items * d.each + part - 1) / part + (int)pick(&r, 3);
		int32_t *got = shared_out(&d, NULL);
		d.rows = true;
		int32_t *rows = shared_out(&d, NULL);
		int64_t tokens = 0;
		for (int c = 0; c < d.ctas; c++) {
			const int32_t *s = &got[4 * c];
			if (s[0] <= s[2] && memcmp(s, &rows[4 * c], 4 * sizeof *s) != 0)
				fail_msg("%d x %d tokens, %d lanes, %d CTAs, shares of %d, items as %d: of CTA %d deal says %d %d %d %d, deal_rows %d %d %d %d", d.sequences, d.tokens, d.lanes, d.ctas, part, d.each, c,
				         s[0], s[1], s[2], s[3], rows[4 * c], rows[4 * c + 1], rows[4 * c + 2], rows[4 * c + 3]);
			assert_int_equal(s[0] <= s[2], rows[4 * c] <= rows[4 * c + 2]);
			int64_t load = 0;
			for (int k = s[0]; k <= s[2]; k++)
				load += (k == s[2] && s[3] < d.tokens ? s[3] : d.tokens) - (k == s[0] ? s[1] : 0);
			tokens += load;
			assert_true(load <= CHUNK * (part + (kind == 0 && s[1] == 0 ? 4 : 0)));
			assert_true(kind == 2 || s[0] >= s[2]);
		}
		assert_int_equal(tokens, (int64_t)items * d.tokens);
		free(rows);
		free(got);
		if (d.sequences == 1) { /* with room for more than there is */
			const int32_t cu[] = { 0, 1 + (int32_t)pick(&r, d.tokens) };
			Buffer offsets = buffer_of(cu, sizeof cu);
			d.rows = false;
			got = shared_out(&d, &offsets);
			tokens = 0;
			for (int c = 0; c < d.ctas; c++)
				for (int k = got[4 * c]; k <= got[4 * c + 2]; k++)
					tokens += (k == got[4 * c + 2] && got[4 * c + 3] < cu[1] ? got[4 * c + 3] : cu[1]) - (k == got[4 * c] ? got[4 * c + 1] : 0);
			assert_int_equal(tokens, (int64_t)items * cu[1]);
			buffer_free(offsets);
			free(got);
		}
	}
}

/* Offsets that do not ascend are the caller's error: still every item is dealt once. */
static void run_wild(const void *spec)
{
	Deal *d = memory(sizeof *d);
	Random r;
	(void)spec;
	random_init(&r, 5);
	for (int i = 0; i < 4; i++) {
		*d = (Deal){ .sequences = 90, .lanes = 3, .ctas = 33, .wide = i % 2 };
		for (int n = 0; n <= d->sequences; n++)
			d->offsets[n] = pick(&r, 9000) - 100;
		free(takers(d, 8000));
	}
	free(d);
}

size_t dealt_cases(NumericCase *out)
{
	out[0] = (NumericCase){ .name = "dealt_once", .run = run_random };
	out[1] = (NumericCase){ .name = "dealt_evenly", .run = run_even };
	out[2] = (NumericCase){ .name = "dealt_wild_offsets", .run = run_wild };
	out[3] = (NumericCase){ .name = "dealt_shares", .run = run_shares };
	out[4] = (NumericCase){ .name = "dealt_rows", .run = run_rows };
	return 5;
}
