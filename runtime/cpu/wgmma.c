/* wgmma.c - asynchronous products of a warpgroup: issue, order, late reads, results at the wait. */
#include "runtime/cpu/operand.h"

#include <stdlib.h>
#include <string.h>

enum { ADD = 1, NEGATE_A = 2, A_MN = 4, B_MN = 8, GROUPS = 64, MAX_ACTIVE = 64 };

static const uint32_t POISON_BITS = 0x7fc0dead; /* a NaN in registers in flight */

typedef enum Part { PART_NONE, PART_JOINED, PART_RETIRED } Part;

/* Registers in flight: from the first product on them until each thread has waited for the last. */
typedef struct Accumulator {
	struct Accumulator *next_free;
	float *m; /* 64 x ld */
	uint32_t n, ld, end, line; /* end: number of the last product on it, + 1 */
	uint32_t retired;
	float *d[WARPGROUP];
	uint8_t part[WARPGROUP];
} Accumulator;

/* What all threads of the warpgroup pass alike. */
typedef struct Issue {
	uint64_t desc_a, desc_b;
	uint32_t n, types, flags, line;
	bool from_registers;
} Issue;

typedef struct Product {
	Issue x;
	Accumulator *acc;
	uint32_t issued; /* threads */
	uint32_t number, warps; /* warps: that have begun to issue it, a bit each */
	uint32_t *clock, clock_width; /* what all of them knew then */
	uint32_t a[WARPGROUP][4];
} Product;

/* Products are numbered in the order of issue, which all threads share. */
struct ProductQueue {
	Product *ring;
	uint32_t size, done, complete, tail; /* done <= complete (issued by all) <= tail */
	Accumulator *active[MAX_ACTIVE], *free;
	uint32_t nactive;
	Thread *waiters;
	uint32_t wake_at; /* the least `complete` a waiter waits for */
};

static bool of_integers(uint32_t types)
{
	return type_of_a(types) == TILERT_I8 || type_of_a(types) == TILERT_U8;
}

/* ---- storage ---- */

ProductQueue *products_open(void)
{
	return calloc(1, sizeof(ProductQueue));
}

static void free_accumulator(ProductQueue *q, uint32_t i)
{
	Accumulator *a = q->active[i];

	q->active[i] = q->active[--q->nactive];
	a->next_free = q->free;
	q->free = a;
}

void products_reset(ProductQueue *q)
{
	while (q->nactive)
		free_accumulator(q, 0);
	q->done = q->complete = q->tail = 0;
	q->waiters = NULL;
	q->wake_at = UINT32_MAX;
}

void products_close(ProductQueue *q)
{
	if (!q)
		return;
	products_reset(q);
	while (q->free) {
		Accumulator *a = q->free;

		q->free = a->next_free;
		free(a->m);
		free(a);
	}
	for (uint32_t i = 0; i < q->size; i++)
		free(q->ring[i].clock);
	free(q->ring);
	free(q);
}

static Accumulator *new_accumulator(ProductQueue *q, Thread *t, uint32_t n, uint32_t line)
{
	Accumulator *a = q->free;

	if (q->nactive == MAX_ACTIVE)
		report_fail(t, line, "more than %d accumulators in flight", MAX_ACTIVE);
	if (a) {
		q->free = a->next_free;
	} else {
		a = zeros(t->cta->worker, 1, sizeof *a);
		a->m = aligned_alloc(64, sizeof(float) * M * MAX_N);
		if (!a->m) {
			free(a);
			report_memory(t->cta->worker);
		}
		memset(a->m, 0, sizeof(float) * M * MAX_N);
	}
	memset(a->part, PART_NONE, sizeof a->part);
	a->retired = 0;
	a->n = n;
	a->ld = (n + 31) / 32 * 32;
	a->line = line;
	q->active[q->nactive++] = a;
	return a;
}

static Product *product_at(const ProductQueue *q, uint32_t number)
{
	return &q->ring[number & (q->size - 1)];
}

static void grow_ring(Worker *k, ProductQueue *q)
{
	uint32_t size = q->size ? 2 * q->size : 16;
	Product *ring = zeros(k, size, sizeof *ring);

	for (uint32_t i = q->done; i != q->done + q->size; i++)
		ring[i & (size - 1)] = *product_at(q, i);
	free(q->ring);
	q->ring = ring;
	q->size = size;
}

/* ---- registers and matrix ---- */

static uint32_t member(const Thread *t)
{
	return t->abi.thread % WARPGROUP;
}

static ProductQueue *queue_of(Thread *t, uint32_t line)
{
	ProductQueue *q = t->cta->products[t->abi.thread / WARPGROUP];

	if (!q)
		report_fail(t, line, "wgmma needs a whole warpgroup; the last one of the CTA has %u threads", t->cta->worker->nthreads % WARPGROUP);
	return q;
}

/* The first of a thread's elements in the matrix: registers 4n + 2h + c are 8n + c columns and 8h rows on. */
static float *corner(const Accumulator *a, uint32_t i)
{
	return a->m + (i / WARP * 16 + i % WARP / 4) * a->ld + i % 4 * 2;
}

static void join(Accumulator *a, uint32_t i, float *d, bool add)
{
	float *top = corner(a, i), *bottom = top + 8 * a->ld;
	float poison = rt_bits_float(POISON_BITS);

	a->part[i] = PART_JOINED;
	a->d[i] = d;
	for (uint32_t j = 0; add && j < a->n / 8; j++) {
		memcpy(top + 8 * j, d + 4 * j, 8);
		memcpy(bottom + 8 * j, d + 4 * j + 2, 8);
	}
	for (uint32_t j = 0; j < a->n / 2; j++)
		d[j] = poison;
}

static void check_untouched(Thread *t, const Accumulator *a, const float *d)
{
	uint32_t changed = 0;

	for (uint32_t j = 0; j < a->n / 2; j++)
		changed |= rt_float_bits(d[j]) ^ POISON_BITS;
	if (changed)
		report_fail(t, a->line, "the registers of the wgmma of this line are written while it is in flight");
}

static void retire(Thread *t, Accumulator *a, uint32_t i)
{
	float *top = corner(a, i), *bottom = top + 8 * a->ld, *d = a->d[i];

	check_untouched(t, a, d);
	a->part[i] = PART_RETIRED;
	a->retired++;
	for (uint32_t j = 0; j < a->n / 8; j++) {
		memcpy(d + 4 * j, top + 8 * j, 8);
		memcpy(d + 4 * j + 2, bottom + 8 * j, 8);
	}
}

/* ---- execution ---- */

/* An element of 8 or 16 bits, the lowest of those in a word. */
static float widen_low(tilert_dtype type, uint32_t word)
{
	switch (type) {
	case TILERT_I8: return (float)(int8_t)word;
	case TILERT_U8: return (float)(uint8_t)word;
	case TILERT_E4M3: case TILERT_E5M2: return float8_to(rt_float8(type), (uint8_t)word);
	default: return widen16(type, (uint16_t)word);
	}
}

/* out[64][MAX_K] from the registers of the A fragment: a word has neighbours, and lanes have neighbouring words. */
static void a_from_registers(const Product *p, float *out)
{
	tilert_dtype type = type_of_a(p->x.types);
	uint32_t bits = 8 * (uint32_t)tilert_dtype_size(type), n = 32 / bits;

	for (uint32_t i = 0; i < WARPGROUP; i++) {
		float *row = out + (i / WARP * 16 + i % WARP / 4) * MAX_K;

		for (uint32_t r = 0; r < 4; r++) {
			float *at = row + r % 2 * 8 * MAX_K + r / 2 * 4 * n + i % 4 * n;

			for (uint32_t k = 0; k < n; k++)
				at[k] = widen_low(type, p->a[i][r] >> k * bits);
		}
	}
}

/* The products of one instruction are exact as floats; the sums wrap around. */
static void add_integers(const Product *p, const float *a, const float *b, float *d)
{
	uint32_t n = M * p->acc->ld, *sum = (uint32_t *)(void *)p->acc->m;

	memset(d, 0, sizeof(float) * n);
	product_add(d, a, b, depth(p->x.types), p->acc->ld);
	for (uint32_t i = 0; i < n; i++)
		sum[i] += (uint32_t)(int32_t)d[i];
}

static void execute(Cta *c, const Product *p)
{
	float *a = c->worker->product_scratch, *b = a + M * MAX_K, *d = b + MAX_N * MAX_K;
	Operand oa = operand_decode(p->x.desc_a, p->x.flags & A_MN), ob = operand_decode(p->x.desc_b, p->x.flags & B_MN);

	if (p->x.from_registers)
		a_from_registers(p, a);
	else
		operand_load_rows(&oa, c->smem, type_of_a(p->x.types), M, a);
	for (uint32_t i = 0; p->x.flags & NEGATE_A && i < M * MAX_K; i++)
		a[i] = -a[i];
	operand_load_columns(&ob, c->smem, type_of_b(p->x.types), p->x.n, b, p->acc->ld);
	if (!(p->x.flags & ADD))
		memset(p->acc->m, 0, sizeof(float) * M * p->acc->ld);
	if (of_integers(p->x.types))
		add_integers(p, a, b, d);
	else
		product_add(p->acc->m, a, b, depth(p->x.types), p->acc->ld);
}

static void execute_until(Cta *c, ProductQueue *q, uint32_t end)
{
	if (!c->worker->product_scratch) {
		size_t bytes = sizeof(float) * (MAX_K * (M + MAX_N) + M * MAX_N);

		c->worker->product_scratch = aligned_alloc(64, bytes);
		if (!c->worker->product_scratch)
			report_memory(c->worker);
		memset(c->worker->product_scratch, 0, bytes);
	}
	for (; q->done < end; q->done++)
		execute(c, product_at(q, q->done));
}

/* ---- issue ---- */

static void check_operand(Thread *t, const Product *p, uint64_t desc, bool mn, uint32_t rows)
{
	Operand o = operand_decode(desc, mn);
	uint32_t size = t->cta->worker->smem_bytes, lines[2 * MAX_N];

	if (desc >> 49 & 7)
		report_fail(t, p->x.line, "a matrix descriptor with base offset %u; the CPU device has only 0", (unsigned)(desc >> 49 & 7));
	for (uint32_t i = 0; i < rows * 2; i++) {
		lines[i] = operand_line(&o, i / 16, i / 8 % 2, i % 8);
		if (lines[i] + 16 > size)
			report_fail(t, p->x.line, "wgmma reads shared +%u, beyond the %u bytes of shared memory", lines[i], size);
	}
	if (t->cta->worker->races)
		race_product(t, p->clock, p->number + 1, lines, rows * 2, p->x.line);
}

/* Floats of 8 bits multiply one another, so do integers; the others their like. */
static bool has_product(tilert_dtype a, tilert_dtype b)
{
	bool ints = (a == TILERT_I8 || a == TILERT_U8) && (b == TILERT_I8 || b == TILERT_U8);
	bool floats = (a == TILERT_E4M3 || a == TILERT_E5M2) && (b == TILERT_E4M3 || b == TILERT_E5M2);

	return ints || floats || (a == b && (a == TILERT_BF16 || a == TILERT_F16 || a == TILERT_TF32));
}

static void check_shape(Thread *t, const Issue *p)
{
	tilert_dtype a = type_of_a(p->types), b = type_of_b(p->types);

	if (p->n < 8 || p->n > MAX_N || p->n % 8)
		report_fail(t, p->line, "wgmma with n = %u", p->n);
	if (!has_product(a, b))
		report_fail(t, p->line, "wgmma of operand types %s, %s", tilert_dtype_name(a), tilert_dtype_name(b));
	if (tilert_dtype_size(a) != 2 && p->flags & (A_MN | B_MN))
		report_fail(t, p->line, "wgmma of %s needs K-major operands", tilert_dtype_name(a));
	if (a == TILERT_TF32 && p->from_registers)
		report_fail(t, p->line, "wgmma of %s needs both operands in shared memory", tilert_dtype_name(a));
	if (of_integers(p->types) && p->flags & NEGATE_A)
		report_fail(t, p->line, "wgmma of %s cannot subtract", tilert_dtype_name(a));
}

/* The registers in flight that the thread continues, or new ones. */
static Accumulator *choose_accumulator(ProductQueue *q, Thread *t, const Issue *p, const float *d)
{
	uint32_t i = member(t);

	for (uint32_t k = 0; k < q->nactive; k++) {
		Accumulator *a = q->active[k];

		if (a->part[i] != PART_JOINED || d + p->n / 2 <= a->d[i] || a->d[i] + a->n / 2 <= d)
			continue;
		if (a->d[i] != d || a->n != p->n)
			report_fail(t, p->line, "this wgmma shares registers, in another shape, with that of %s, which is in flight",
				line_text(t->cta->worker, a->line).text);
		return a;
	}
	return new_accumulator(q, t, p->n, p->line);
}

static void check_same(Thread *t, const Issue *p, const Issue *x)
{
	if (p->n != x->n || p->types != x->types || p->flags != x->flags || p->from_registers != x->from_registers
		|| p->desc_b != x->desc_b || (!p->from_registers && p->desc_a != x->desc_a))
		report_fail(t, x->line, "the threads of a warpgroup issue different wgmmas: this one and that of %s", line_text(t->cta->worker, p->line).text);
}

static Product *new_product(ProductQueue *q, Thread *t, const Issue *x, const float *d)
{
	Product *p;

	check_shape(t, x);
	if (q->tail - q->done >= q->size)
		grow_ring(t->cta->worker, q);
	p = product_at(q, q->tail);
	p->x = *x;
	p->issued = p->warps = 0;
	p->number = q->tail;
	p->acc = choose_accumulator(q, t, x, d);
	p->acc->end = ++q->tail;
	p->acc->line = x->line;
	return p;
}

static void wake_waiters(ProductQueue *q)
{
	Thread *t = q->waiters;

	if (q->complete < q->wake_at)
		return;
	q->waiters = NULL;
	q->wake_at = UINT32_MAX;
	while (t) {
		Thread *next = t->next;

		if (t->wait_object <= q->complete) {
			schedule_wake(t);
		} else {
			t->next = q->waiters;
			q->waiters = t;
			q->wake_at = t->wait_object < q->wake_at ? t->wait_object : q->wake_at;
		}
		t = next;
	}
}

/* All threads have issued the next product. */
static void completed(ProductQueue *q, Thread *t, const Product *p)
{
	if (!p->x.from_registers)
		check_operand(t, p, p->x.desc_a, p->x.flags & A_MN, M);
	check_operand(t, p, p->x.desc_b, p->x.flags & B_MN, p->x.n);
	q->complete++;
	/* the operands are read some time between here and the wait */
	if (random_below(t->cta->worker, 2))
		execute_until(t->cta, q, q->complete);
	wake_waiters(q);
}

/* The least of what the warps know. */
static void take_clock(Thread *t, Product *p)
{
	Worker *k = t->cta->worker;
	const uint32_t *own = clock_row(k, t->warp->clock);
	uint32_t n = k->clocks.ncomponents;

	if (p->clock_width < n) {
		uint32_t *wider = realloc(p->clock, n * sizeof *p->clock);
		if (!wider)
			report_memory(k);
		p->clock = wider;
		p->clock_width = n;
	}
	if (!p->warps)
		memcpy(p->clock, own, n * sizeof *own);
	for (uint32_t i = 0; p->warps && i < n; i++)
		p->clock[i] = p->clock[i] < own[i] ? p->clock[i] : own[i];
	p->warps |= 1u << member(t) / WARP;
}

static void take_part(Thread *t, const Product *p, float *d, bool add)
{
	uint32_t i = member(t);

	if (p->acc->part[i] == PART_NONE) {
		if (add && !of_integers(p->x.types)) /* of integers what is unset looks like -1 */
			check_set(t, "wgmma", d, p->acc->n / 2, p->x.line);
		join(p->acc, i, d, add);
	} else if (p->acc->d[i] != d) {
		report_fail(t, p->x.line, "the threads of a warpgroup use different registers in the wgmma of this line");
	}
}

void tilecpu_wgmma(TileCpuThread *t, float *d, uint32_t n, uint32_t types, const uint32_t *a, uint64_t desc_a, uint64_t desc_b, uint32_t flags, uint32_t line)
{
	Thread *self = thread_of(t);
	ProductQueue *q = queue_of(self, line);
	Issue x = { .desc_a = desc_a, .desc_b = desc_b, .n = n, .types = types, .flags = flags, .line = line, .from_registers = a != NULL };
	Product *p;

	if (self->products == q->tail) {
		p = new_product(q, self, &x, d);
	} else {
		p = product_at(q, self->products);
		check_same(self, &p->x, &x);
	}
	self->products++;
	if (!(p->warps >> member(self) / WARP & 1))
		take_clock(self, p);
	take_part(self, p, d, flags & ADD);
	if (a)
		memcpy(p->a[member(self)], a, sizeof p->a[0]);
	if (++p->issued == WARPGROUP)
		completed(q, self, p);
}

void tilecpu_wgmma_fence(TileCpuThread *t)
{
	(void)t;
}

/* ---- groups ---- */

void tilecpu_wgmma_commit(TileCpuThread *t)
{
	Thread *self = thread_of(t);

	self->group_end[self->groups++ % GROUPS] = self->products;
}

static void await_issue(Thread *t, ProductQueue *q, uint32_t end, uint32_t line)
{
	while (q->complete < end) {
		t->wait = WAIT_PRODUCT;
		t->wait_object = end;
		t->wait_line = line;
		t->next = q->waiters;
		q->waiters = t;
		q->wake_at = end < q->wake_at ? end : q->wake_at;
		schedule_block(t);
	}
}

void tilecpu_wgmma_wait(TileCpuThread *t, uint32_t n, uint32_t line)
{
	Thread *self = thread_of(t);
	ProductQueue *q = queue_of(self, line);
	uint32_t end, i = member(self);

	if (self->groups <= n)
		return;
	if (n >= GROUPS)
		report_fail(self, line, "wgmma_wait(%u): at most %d", n, GROUPS - 1);
	end = self->group_end[(self->groups - n - 1) % GROUPS];
	schedule_let_lanes_come(self);
	await_issue(self, q, end, line);
	execute_until(self->cta, q, end);
	clock_advance(self->warp, COMPONENT_PRODUCTS, end);
	for (uint32_t k = 0; k < q->nactive; k++) {
		Accumulator *a = q->active[k];

		if (a->part[i] != PART_JOINED || a->end > end)
			continue;
		retire(self, a, i);
		if (a->retired == WARPGROUP)
			free_accumulator(q, k--);
	}
}

bool products_pending(const Thread *t, uint32_t *line)
{
	const ProductQueue *q = t->cta->products[t->abi.thread / WARPGROUP];

	for (uint32_t k = 0; q && k < q->nactive; k++) {
		if (q->active[k]->part[member(t)] == PART_JOINED) {
			*line = q->active[k]->line;
			return true;
		}
	}
	return false;
}
