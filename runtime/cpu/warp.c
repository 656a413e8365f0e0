/* warp.c - operations of a whole warp: the lanes meet, the last to come does the work for all. */
#include "runtime/cpu/operand.h"

#include <string.h>

/* ---- meeting ---- */

/* Whether this lane is the last: then it does the work and calls part. */
static bool meet(Thread *t, const char *name, uint32_t code, uint32_t line)
{
	Warp *w = t->warp;
	Rendezvous *r = &w->meet;

	if (r->count == 0) {
		r->name = name;
		r->code = code;
		r->line = line;
		r->lanes = 0;
	} else if (r->name != name || r->code != code) {
		report_fail(t, line, "the lanes of warp %u diverge: some are in this %s, others in the %s of %s", w->index, name, r->name,
			line_text(w->cta->worker, r->line).text);
	}
	r->lanes |= 1u << thread_lane(t);
	if (++r->count == w->size) {
		w->came = ++w->cta->worker->meetings;
		return true;
	}
	t->wait = WAIT_WARP;
	t->wait_name = name;
	t->wait_line = line;
	schedule_block(t);
	return false;
}

static void part(Thread *t)
{
	Warp *w = t->warp;

	w->meet.count = 0;
	w->came = ++w->cta->worker->meetings;
	for (uint32_t i = 0; i < w->size; i++)
		if (&w->threads[i] != t)
			schedule_wake(&w->threads[i]);
	schedule_in_order(t);
}

static void check_full(Thread *t, const char *name, uint32_t line)
{
	if (t->warp->size != WARP)
		report_fail(t, line, "%s needs a warp of 32 threads; this one has %u", name, t->warp->size);
}

void tilecpu_syncwarp(TileCpuThread *t, uint32_t line)
{
	if (!meet(thread_of(t), "syncwarp", 0, line))
		return;
	clock_meet(thread_of(t)->warp);
	part(thread_of(t));
}

uint32_t tilecpu_vote(TileCpuThread *t, uint32_t value, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;
	uint32_t result = 0;

	r->word[thread_lane(self)] = value != 0;
	r->out[thread_lane(self)] = &result;
	if (meet(self, "vote", 0, line)) {
		uint32_t votes = 0;

		for (uint32_t i = 0; i < self->warp->size; i++)
			votes += r->word[i];
		for (uint32_t i = 0; i < self->warp->size; i++)
			*(uint32_t *)r->out[i] = votes;
		part(self);
	}
	return result;
}

/* ---- shuffles ---- */

static uint32_t source_lane(uint32_t lane, uint32_t mode, uint32_t by)
{
	uint32_t from = lane;

	switch (mode) {
	case 0: from = by % WARP; break;
	case 1: from = by > lane ? lane : lane - by; break;
	case 2: from = lane + by; break;
	default: from = lane ^ by;
	}
	return from < WARP ? from : lane;
}

uint32_t tilecpu_shfl(TileCpuThread *t, uint32_t value, uint32_t mode, uint32_t lane, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;
	uint32_t result = value, me = thread_lane(self);

	r->word[me] = value;
	r->out[me] = &result;
	r->from[me] = (uint8_t)source_lane(me, mode, lane);
	if (meet(self, "shuffle", mode, line)) {
		for (uint32_t i = 0; i < self->warp->size; i++)
			if (r->from[i] < self->warp->size)
				memcpy(r->out[i], &r->word[r->from[i]], sizeof result);
		part(self);
	}
	return result;
}

/* ---- 8 x 8 matrices: lane l has row l / 4, columns 2 (l % 4) and the next ---- */

typedef struct Matrix {
	uint16_t e[8][8];
} Matrix;

static uint32_t lane_word(const Matrix *m, uint32_t lane, bool trans)
{
	uint32_t i = lane / 4, j = lane % 4 * 2;

	if (trans)
		return m->e[j][i] | (uint32_t)m->e[j + 1][i] << 16;
	return m->e[i][j] | (uint32_t)m->e[i][j + 1] << 16;
}

static void put_lane_word(Matrix *m, uint32_t lane, bool trans, uint32_t word)
{
	uint32_t i = lane / 4, j = lane % 4 * 2;

	*(trans ? &m->e[j][i] : &m->e[i][j]) = (uint16_t)word;
	*(trans ? &m->e[j + 1][i] : &m->e[i][j + 1]) = (uint16_t)(word >> 16);
}

static void check_rows(Thread *t, const char *name, uint32_t address, uint32_t count, uint32_t line)
{
	check_full(t, name, line);
	if (count != 1 && count != 2 && count != 4)
		report_fail(t, line, "%s of %u matrices", name, count);
	if (thread_lane(t) < 8 * count)
		check_shared(t, name, address, 16, 16, line);
}

static void load_matrices(Thread *t, const Rendezvous *r, uint32_t count, bool trans, uint32_t line)
{
	for (uint32_t k = 0; k < count; k++) {
		Matrix m;

		for (uint32_t i = 0; i < 8; i++) {
			race_read(t, "ldmatrix", r->word[8 * k + i], 16, line);
			memcpy(m.e[i], t->cta->smem + r->word[8 * k + i], 16);
		}
		for (uint32_t lane = 0; lane < WARP; lane++)
			((uint32_t *)r->out[lane])[k] = lane_word(&m, lane, trans);
	}
}

void tilecpu_ldmatrix(TileCpuThread *t, uint32_t *out, uint32_t address, uint32_t count, uint32_t trans, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;

	check_rows(self, "ldmatrix", address, count, line);
	r->word[thread_lane(self)] = address;
	r->out[thread_lane(self)] = out;
	if (meet(self, "ldmatrix", count << 1 | (trans != 0), line)) {
		load_matrices(self, r, count, trans, line);
		part(self);
	}
}

static void store_matrices(Thread *t, const Rendezvous *r, uint32_t count, bool trans, uint32_t line)
{
	for (uint32_t k = 0; k < count; k++) {
		Matrix m;

		for (uint32_t lane = 0; lane < WARP; lane++)
			put_lane_word(&m, lane, trans, ((const uint32_t *)r->in[lane])[k]);
		for (uint32_t i = 0; i < 8; i++) {
			memcpy(t->cta->smem + r->word[8 * k + i], m.e[i], 16);
			race_write(t, "stmatrix", r->word[8 * k + i], 16, line);
		}
	}
}

void tilecpu_stmatrix(TileCpuThread *t, uint32_t address, const uint32_t *in, uint32_t count, uint32_t trans, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;

	check_rows(self, "stmatrix", address, count, line);
	r->word[thread_lane(self)] = address;
	r->in[thread_lane(self)] = in;
	if (meet(self, "stmatrix", count << 1 | (trans != 0), line)) {
		store_matrices(self, r, count, trans, line);
		part(self);
	}
}

uint32_t tilecpu_movmatrix(TileCpuThread *t, uint32_t in, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;
	uint32_t result = 0;

	check_full(self, "movmatrix", line);
	r->word[thread_lane(self)] = in;
	r->out[thread_lane(self)] = &result;
	if (meet(self, "movmatrix", 0, line)) {
		Matrix m;

		for (uint32_t lane = 0; lane < WARP; lane++)
			put_lane_word(&m, lane, false, r->word[lane]);
		for (uint32_t lane = 0; lane < WARP; lane++)
			*(uint32_t *)r->out[lane] = lane_word(&m, lane, true);
		part(self);
	}
	return result;
}

/* ---- mma.sync ---- */

typedef struct WarpProduct {
	float a[16][MAX_K], b[MAX_K][8];
} WarpProduct;

static void gather_tf32(WarpProduct *p, const Rendezvous *r)
{
	for (uint32_t lane = 0; lane < WARP; lane++) {
		const uint32_t *a = r->in[lane], *b = r->in2[lane];
		uint32_t i = lane / 4, j = lane % 4;

		for (uint32_t h = 0; h < 4; h++)
			p->a[i + h % 2 * 8][j + h / 2 * 4] = widen_tf32(a[h]);
		for (uint32_t h = 0; h < 2; h++)
			p->b[j + h * 4][i] = widen_tf32(b[h]);
	}
}

static void gather16(WarpProduct *p, const Rendezvous *r, tilert_dtype type)
{
	for (uint32_t lane = 0; lane < WARP; lane++) {
		const uint32_t *a = r->in[lane], *b = r->in2[lane];
		uint32_t i = lane / 4, j = lane % 4 * 2;

		for (uint32_t h = 0; h < 4; h++)
			for (uint32_t c = 0; c < 2; c++)
				p->a[i + h % 2 * 8][j + h / 2 * 8 + c] = widen16(type, (uint16_t)(a[h] >> 16 * c));
		for (uint32_t h = 0; h < 2; h++)
			for (uint32_t c = 0; c < 2; c++)
				p->b[j + h * 8 + c][i] = widen16(type, (uint16_t)(b[h] >> 16 * c));
	}
}

static void multiply(const Rendezvous *r, uint32_t types)
{
	WarpProduct p;
	float d[16][8] = { { 0 } };

	if (type_of_a(types) == TILERT_TF32)
		gather_tf32(&p, r);
	else
		gather16(&p, r, type_of_a(types));
	for (uint32_t i = 0; i < 16; i++)
		for (uint32_t k = 0; k < depth(types); k++)
			for (uint32_t j = 0; j < 8; j++)
				d[i][j] += p.a[i][k] * p.b[k][j];
	for (uint32_t lane = 0; lane < WARP; lane++) {
		float *out = r->out[lane];

		for (uint32_t h = 0; h < 4; h++)
			out[h] += d[lane / 4 + h / 2 * 8][lane % 4 * 2 + h % 2];
	}
}

void tilecpu_mma_sync(TileCpuThread *t, float *d, const uint32_t *a, const uint32_t *b, uint32_t types, uint32_t line)
{
	Thread *self = thread_of(t);
	Rendezvous *r = &self->warp->meet;
	tilert_dtype a_type = type_of_a(types);

	check_full(self, "mma.sync", line);
	if (a_type != type_of_b(types) || (a_type != TILERT_BF16 && a_type != TILERT_F16 && a_type != TILERT_TF32))
		report_fail(self, line, "mma.sync of operand types %s, %s", tilert_dtype_name(a_type), tilert_dtype_name(type_of_b(types)));
	check_set(self, "mma.sync", d, 4, line);
	r->in[thread_lane(self)] = a;
	r->in2[thread_lane(self)] = b;
	r->out[thread_lane(self)] = d;
	if (meet(self, "mma.sync", types, line)) {
		multiply(r, types);
		part(self);
	}
}
