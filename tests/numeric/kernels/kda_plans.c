/* kda_plans.c - how KDA calls are made: what the host plans, what the device chooses, the workspace. */
#include <stdlib.h>
#include <string.h>

#include "kernels/kda/plan.h"
#include "tests/numeric/kernels/kda_run.h"

/* More tokens, sequences or heads never need less, in any mode. */
static void run_workspace(const void *row)
{
	static const int64_t extents[] = { 1, 2, 3, 8, 33, 66, 96, 130, 300 };
	enum { EXTENTS = sizeof extents / sizeof extents[0], KINDS = 6 };
	KdaRun *r = kda_run_make(row);
	for (int i = 0; i < 4 * KINDS * EXTENTS * EXTENTS; i++) {
		const int kind = i / 4 % KINDS, a = i / (4 * KINDS) % EXTENTS, b = i / (4 * KINDS * EXTENTS);
		size_t before = 0;
		for (int c = 0; c < EXTENTS; c++) {
			tilekern_kda_params p;
			size_t bytes = 0;
			tilekern_kda_params_init(&p);
			p.split = (tilekern_split)(i % 4);
			p.key_dim = p.value_dim = kind % 2 ? 64 : 128;
			const int64_t e[] = { extents[c], extents[a], extents[b] }; /* what grows: tokens, sequences, heads */
			p.tokens = 40 * e[kind / 2];
			p.qk_heads = p.value_heads = e[(kind / 2 + 1) % 3];
			p.batch = e[(kind / 2 + 2) % 3];
			if (i % 5 == 0) {
				p.sequences = p.batch;
				p.batch = 1;
				p.cu_seqlens = r->pool.ht.p;
			}
			KDA_OK(tilekern_kda_workspace_bytes(r->kda, &p, &bytes));
			assert_true(bytes >= before);
			before = bytes;
		}
	}
	kda_run_free(r);
}

/* What calls do on 132 multiprocessors. */
static void run_plans(const void *unused)
{
	static const struct { int64_t batch, tokens, sequences, heads, values; tilekern_split split; bool saved; KdaWay way; bool halves, by_length, in_place, dealt; int run; } plans[] = {
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false, 0 },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_EXACT, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 8192, 0, 8, 128, TILEKERN_SPLIT_EXACT, false, KDA_EXACTLY, false, false, false, false, 0 },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 2048, 0, 8, 128, TILEKERN_SPLIT_OFF, true, KDA_WHOLE, false, false, false, false, 0 },
		{ 1, 2048, 0, 66, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 2048, 0, 67, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, false, false, false, false, 0 },
		{ 1, 2048, 0, 96, 64, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 1024, 0, 64, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 1024, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 512, 0, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false, 0 }, /* shares have 4 chunks or more */
		{ 1, 2048, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 4096, 0, 64, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_UNITS, false, false, false, false, 0 },
		{ 1, 2048, 0, 44, 128, TILEKERN_SPLIT_INVARIANT, false, KDA_UNITS, false, false, false, false, 0 },
		{ 1, 1024, 0, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false, 0 },
		{ 1, 1024, 0, 44, 128, TILEKERN_SPLIT_AUTO, false, KDA_ALONE, false, false, false, false, 0 },
		{ 1, 2048, 0, 80, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, false, false, false, 2 }, /* two shares are more than an item: not ALONE */
		{ 1, 2048, 0, 96, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, false, 0 },
		{ 8, 1024, 0, 96, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, false, 0 },
		{ 8, 1024, 0, 96, 64, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, true, false, false, false, 0 },
		{ 1, 8192, 0, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false, 0 },
		{ 1, 8192, 0, 32, 128, TILEKERN_SPLIT_AUTO, true, KDA_MADE, false, false, false, false, 0 },
		{ 1, 8192, 0, 64, 128, TILEKERN_SPLIT_AUTO, true, KDA_WINDOWS, false, false, false, false, 3 },
		{ 1, 8192, 0, 64, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, false, false, false, -2 }, /* items of 64 columns where no share begins */
		{ 2, 8192, 0, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, false, false, false, -2 },
		{ 1, 8192, 0, 96, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, false, false, false, 2 }, /* two shares are more than an item */
		{ 1, 8192, 64, 8, 128, TILEKERN_SPLIT_OFF, false, KDA_WHOLE, false, false, false, false, 0 },
		/* Packed: lengths are known to the device alone. */
		{ 1, 8192, 64, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, false, 0 }, /* short ones */
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true, 0 },
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_EITHER, false, false, true, false, 0 },
		{ 1, 11453, 32, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_EITHER, false, false, true, false, 0 },
		{ 1, 8192, 4, 32, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, true, false, 0 }, /* shares would be items, but for their places */
		{ 1, 11453, 32, 12, 128, TILEKERN_SPLIT_AUTO, true, KDA_WHOLE, false, false, false, false, 0 },
		{ 1, 11453, 32, 64, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true, 0 },
		{ 1, 8192, 954, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, false, 0 },
		{ 1, 65536, 67, 12, 128, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true, 0 },
		{ 1, 20480, 40, 2, 192, TILEKERN_SPLIT_AUTO, false, KDA_WINDOWS, false, true, false, true, 0 },
		{ 1, 8192, 8, 128, 128, TILEKERN_SPLIT_AUTO, false, KDA_WHOLE, false, false, false, true, 0 }, /* even one of all tokens would not take longer */
		{ 1, 8192, 1, 8, 128, TILEKERN_SPLIT_AUTO, false, KDA_NEEDED, false, false, false, false, 0 },
		{ 1, 8192, 1, 8, 128, TILEKERN_SPLIT_AUTO, true, KDA_MADE, false, false, false, false, 0 },
	};
	(void)unused;
	for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
		tilekern_kda_params p;
		tilekern_kda_params_init(&p);
		p.batch = plans[i].batch, p.tokens = plans[i].tokens, p.sequences = plans[i].sequences, p.value_dim = plans[i].values, p.split = plans[i].split;
		p.qk_heads = p.value_heads = plans[i].heads, p.cu_seqlens = p.sequences > 0 ? 256 : 0, p.saved = plans[i].saved ? 256 : 0;
		p.initial_state = p.final_state = plans[i].in_place ? 256 : 0;
		const KdaPlan l = kda_plan_forward(&p, 132);
		const bool dealt = kda_deals(&p, &l);
		if (l.way != plans[i].way || l.halves != plans[i].halves || l.by_length != plans[i].by_length || dealt != plans[i].dealt || l.run != plans[i].run)
			fail_msg("plan %zu: way %d, halves %d, by length %d, dealt %d, run %d", i, (int)l.way, l.halves, l.by_length, dealt, l.run);
	}
}

/* Shares of rows on 132 multiprocessors: items have a whole number of them where there are CTAs for it, of which the first has what is left over. */
static void run_parts(const void *unused)
{
	static const struct { int64_t batch, tokens, sequences, heads, keys; bool saved; int part, each; bool in_place; } rows[] = {
		{ 1, 2048, 0, 8, 128, false, 4, 64, false },
		{ 1, 2048, 0, 12, 128, false, 6, 66, false },
		{ 1, 2048, 1, 12, 128, false, 6, 66, false },
		{ 1, 2048, 0, 12, 128, true, 6, 66, false },
		{ 1, 2048, 0, 32, 128, false, 15, 60, false },
		{ 1, 2048, 0, 8, 64, false, 4, 64, false },
		{ 1, 1024, 0, 8, 128, false, 3, 33, false },
		{ 1, 1024, 0, 8, 128, true, 4, 32, false },
		{ 1, 1057, 0, 8, 128, false, 4, 36, false },
		{ 2, 2048, 0, 12, 128, false, 12, 60, false },
		{ 1, 8192, 0, 96, 128, false, 187, 256, false }, /* crossed */
		{ 1, 7168, 32, 12, 128, false, 27, -2, false }, /* the device knows */
		{ 1, 7168, 32, 12, 128, false, 32, -4, true },
		{ 1, 7168, 32, 12, 128, true, 27, -2, true }, /* as the backward's */
	};
	(void)unused;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		tilekern_kda_params p;
		tilekern_kda_params_init(&p);
		p.batch = rows[i].batch, p.tokens = rows[i].tokens, p.sequences = rows[i].sequences, p.key_dim = p.value_dim = rows[i].keys;
		p.qk_heads = p.value_heads = rows[i].heads, p.cu_seqlens = p.sequences > 0 ? 256 : 0, p.saved = rows[i].saved ? 256 : 0;
		p.initial_state = p.final_state = rows[i].in_place ? 256 : 0;
		const KdaPlan l = kda_plan_forward(&p, 132);
		if (l.part != rows[i].part || l.each != rows[i].each)
			fail_msg("row %zu: shares of %d, items count as %d, not %d, %d", i, l.part, l.each, rows[i].part, rows[i].each);
	}
}

/* What the device chooses, as the workspace says (kernels/kda/walk.tile): whole items, by the lengths of packed sequences or because of so many shares that cannot begin, or shares. */
typedef enum Choice { WHOLE_BY_LENGTH, WHOLE_BY_WINDOWS, CUT } Choice;

/* A checked call; what it left of each CTA in the workspace, or NULL: on a GPU plans are others. */
static int32_t *said_of_shares(const KdaRow *row, KdaPlan *l)
{
	KdaRun *r = kda_run_make(row);
	int32_t *back = NULL;
	kda_run_poison(r);
	kda_run_forward(r);
	kda_run_check(r);
	if (numeric_on_cpu()) {
		*l = kda_plan_forward(&r->p, (int)row->processors);
		back = (int32_t *)buffer_take(r->workspace);
	}
	kda_run_free(r);
	return back;
}

typedef struct ChoiceRow { KdaRow row; Choice choice; int window; /* chunks of that of most shares; 0: not looked at */ } ChoiceRow;

static void run_choice(const void *spec)
{
	const ChoiceRow *c = spec;
	KdaPlan l = { 0 };
	int32_t *back = said_of_shares(&c->row, &l);
	if (!back)
		return;
	assert_true(l.way == KDA_WINDOWS && (l.by_length || (l.run < 0) == (strncmp(c->row.name, "halves", 6) == 0)));
	const int32_t least = l.by_length ? back[l.begun / sizeof *back] : abs(l.run);
	int run = 1, longest = 1, like_that = 0;
	for (int i = 1; i < l.ctas && least > 1; i++) {
		like_that += back[i] == c->window;
		run = back[i] == -1 ? run + 1 : 1;
		longest = run > longest ? run : longest;
	}
	const Choice got = least == 1 ? WHOLE_BY_LENGTH : longest >= least ? WHOLE_BY_WINDOWS : CUT;
	if (got != c->choice)
		fail_msg("choice %d: a run of %d, %d make items whole", (int)got, longest, (int)least);
	if (c->window && like_that <= l.ctas / 2)
		fail_msg("%d of %d CTAs have a window of %d chunks", like_that, l.ctas, c->window);
	free(back);
}

/* What is said of shares whose states SHARES makes (walk.tile): by a long window, or of the states before. */
typedef struct MadeRow { KdaRow row; int windows, joined; /* at least */ } MadeRow;

static void run_made(const void *spec)
{
	enum { LEFT = -2, JOINED = -3, HALF = -5 };
	const MadeRow *c = spec;
	KdaPlan l = { 0 };
	int windows = 0, joined = 0;
	int32_t *back = said_of_shares(&c->row, &l);
	if (!back)
		return;
	assert_int_equal(l.way, KDA_NEEDED);
	for (int i = 2; i < l.ctas; i++) { /* the second share is made of the first alone, whatever gates are */
		windows += back[i] == LEFT;
		joined += back[i] == JOINED || back[i] == HALF;
	}
	if (windows < c->windows || joined < c->joined)
		fail_msg("of %d shares %d have a window, %d are joined", l.ctas, windows, joined);
	free(back);
}

static const MadeRow made[] = {
	{ { .name = "windows", .tokens = 5100, .gate = KDA_MILD, .states = KDA_BOTH, .processors = 4 }, 2, 0 },
	{ { .name = "joined", .tokens = 5100, .gate = KDA_ZERO, .states = KDA_BOTH, .gate16 = true, .processors = 4 }, 0, 2 },
	{ { .name = "windows_in_vain", .tokens = 7400, .gate = KDA_WAVES, .states = KDA_BOTH, .processors = 6 }, 1, 1 },
};

static const int one_long_lengths[] = { 40, 0, 1500, 33, 1, 70, -1 }, even_lengths[] = { 300, 320, 290, 310, 300, 320, -1 },
	far_longer_lengths[] = { 33, 5000, 1, -1 };

#define INVARIANT .split = TILEKERN_SPLIT_INVARIANT
static const ChoiceRow choices[] = {
	{ { .name = "even", .lengths = even_lengths, .spare = 20, .gate = KDA_FIVE, .states = KDA_BOTH, .processors = 4 }, WHOLE_BY_LENGTH, 0 },
	{ { .name = "strong", .lengths = one_long_lengths, .spare = 50, .gate = KDA_FIVE, .states = KDA_BOTH, .processors = 9 }, CUT, 0 },
	{ { .name = "tried", .lengths = one_long_lengths, .states = KDA_BOTH, .gate16 = true, .processors = 9 }, CUT, 4 },
	{ { .name = "tried_32", .lengths = one_long_lengths, .gate = KDA_FOUR, .states = KDA_BOTH, .gate16 = true, .processors = 9 }, CUT, 1 },
	{ { .name = "tried_64", .lengths = one_long_lengths, .gate = KDA_64, .states = KDA_BOTH, .processors = 9 }, CUT, 2 },
	{ { .name = "tried_96", .lengths = one_long_lengths, .gate = KDA_96, .states = KDA_BOTH, .processors = 9 }, CUT, 3 },
	{ { .name = "tried_32_in_vain", .lengths = one_long_lengths, .gate = KDA_HANDED, .keys = KDA_PAIR, .states = KDA_BOTH, .processors = 9 }, WHOLE_BY_WINDOWS, 0 },
	{ { .name = "zero", .lengths = one_long_lengths, .gate = KDA_ZERO, .states = KDA_BOTH, .processors = 9 }, WHOLE_BY_WINDOWS, 0 },
	{ { .name = "in_part", .lengths = one_long_lengths, .gate = KDA_RARE, .states = KDA_BOTH, .value_heads = 2, .processors = 12, .seed = 2 }, WHOLE_BY_WINDOWS, 0 },
	{ { .name = "halves_strong", .tokens = 3100, .qk_heads = 4, .gate = KDA_FIVE, .states = KDA_BOTH, .processors = 9 }, CUT, 0 },
	{ { .name = "halves_mild", .tokens = 3100, .qk_heads = 4, .gate = KDA_MILD, .gate16 = true, .states = KDA_BOTH, .processors = 9 }, WHOLE_BY_WINDOWS, 0 },
	{ { .name = "halves_between", .tokens = 3100, .qk_heads = 2, .value_heads = 4, .gate = KDA_RARE, .options = TILEKERN_L2NORM | TILEKERN_RAW_GATE, .states = KDA_BOTH, .state_bf16 = true, .processors = 9 }, CUT, 0 },
	{ { .name = "whole_again", .tokens = 3100, .qk_heads = 5, .gate = KDA_RARE, .gate16 = true, .states = KDA_BOTH, .processors = 8 }, WHOLE_BY_WINDOWS, 0 },
	{ { .name = "long_windows", .lengths = far_longer_lengths, .gate = KDA_MILD, .key_dim = 40, .value_dim = 40, .states = KDA_BOTH, .processors = 5 }, CUT, 0 },
};

size_t kda_plans_cases(NumericCase *out)
{
	static const struct { const char *name; void (*run)(const void *); KdaRow row; } all[] = {
		{ "workspace_grows", run_workspace, { INVARIANT, .tokens = 3, .states = KDA_FINAL } },
		{ "plans", run_plans, { .tokens = 0 } },
		{ "parts", run_parts, { .tokens = 0 } },
	};
	size_t n = 0;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++, n++) {
		out[n] = numeric_case(all[i].run, &all[i].row, "kda_%s", all[i].name);
	}
	for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++, n++) {
		out[n] = numeric_case(run_choice, &choices[i], "kda_choice_%s", choices[i].row.name);
	}
	for (size_t i = 0; i < sizeof made / sizeof made[0]; i++, n++) {
		out[n] = numeric_case(run_made, &made[i], "kda_made_%s", made[i].row.name);
	}
	return n;
}
