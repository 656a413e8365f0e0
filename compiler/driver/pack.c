/* pack.c - blobs of modules as runtime/abi/MODULE.md packs them: of each few thousand bytes the copies and new bytes that take the fewest bits, by the model as it is then. */
#include "compiler/driver/emit.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/src/packing.h"

enum { HASH_BITS = 16, SHORT = 3, HASHED = 4 /* bytes that copies are found by */, NONE = -1, CANDIDATES = 8, ENOUGH = 64 /* bytes of a copy: nothing else is weighed */, STEP = 8192, CHANCES = 1 << 8 };
enum { NEW_BYTE = PACK_DISTANCES + 1 }; /* in the place of a copy's age */

/* The way to a position: its last step, and what the model has behind it. */
typedef struct Node {
	float bits;
	uint32_t length;
	unsigned age, kind;
	size_t distance, distances[PACK_DISTANCES];
} Node;

/* What steps take by the model, in bits.  A distance takes `high` by its class and the digits behind its first, and `low` by how many low digits there are and which. */
typedef struct Prices {
	float length[2][ENOUGH + 1], age[PACK_KINDS][PACK_DISTANCES + 1];
	float high[PACK_DISTANCES][PACK_CLASSES][1 << PACK_TOP], low[PACK_DISTANCES][PACK_LOW + 1][1 << PACK_LOW];
} Prices;

typedef struct Packer {
	const uint8_t *in;
	size_t n, hashed;      /* bytes; those whose hash is known */
	int32_t *head, *before; /* of HASHED bytes the last place, and of each place the one before */
	int32_t *latest;       /* of SHORT bytes the last place */
	PackModel model;
	PackCoder coder, asks;
	float bits, of_chance[CHANCES];
	Prices prices;
	Node nodes[STEP + 1];
} Packer;

static uint32_t hash(const uint8_t *p, int bytes)
{
	uint32_t word = 0;
	for (int i = 0; i < bytes; i++)
		word = word << 8 | p[i];
	return word * 2654435761u >> (32 - HASH_BITS);
}

static size_t equal(const Packer *p, size_t a, size_t b, size_t most)
{
	size_t n = 0;
	while (n < most && p->in[a + n] == p->in[b + n])
		n++;
	return n;
}

/* All positions up to `at` can be found. */
static void remember(Packer *p, size_t at)
{
	for (; p->hashed <= at && p->hashed + HASHED <= p->n; p->hashed++) {
		int32_t *head = &p->head[hash(p->in + p->hashed, HASHED)];
		p->latest[hash(p->in + p->hashed, SHORT)] = (int32_t)p->hashed;
		p->before[p->hashed] = *head;
		*head = (int32_t)p->hashed;
	}
}

/* ---- What a step takes -------------------------------------------------------------------------------------------- */

static float asked(Packer *p)
{
	const float bits = p->bits;
	p->bits = 0;
	return bits;
}

static float of_kind(Packer *p, size_t at, bool copy)
{
	pack_is_copy(&p->asks, &p->model, at, copy);
	return asked(p);
}

static float of_literal(Packer *p, size_t at)
{
	const unsigned kind = p->model.kind;
	pack_literal(&p->asks, &p->model, p->in, at, p->in[at]);
	p->model.kind = kind;
	return asked(p);
}

static void price_distances(Packer *p, unsigned of)
{
	PackNumber *number = &p->model.distance[of];
	for (unsigned digits = 0; digits <= PACK_LOW; digits++)
		for (unsigned v = 0; v < 1u << digits; v++) {
			pack_tree(&p->asks, number->low, digits, v);
			p->prices.low[of][digits][v] = asked(p);
		}
	for (unsigned class = 0; class <= pack_class((uint32_t)p->n); class++) {
		const unsigned top = pack_top(class), low = pack_low(class);
		for (unsigned v = 0; v < 1u << top; v++) {
			pack_number(&p->asks, number, ((1u << top | v) << (class - top)) - 1);
			p->prices.high[of][class][v] = asked(p) - p->prices.low[of][low][0];
		}
	}
}

/* The model learns from STEP bytes when they are written, so these hold while their steps are weighed. */
static void learn_prices(Packer *p)
{
	const unsigned kind = p->model.kind;
	for (uint32_t known = 0; known < 2; known++)
		for (uint32_t n = 0; n <= ENOUGH; n++) {
			pack_number(&p->asks, &p->model.length[known], n);
			p->prices.length[known][n] = asked(p);
		}
	for (p->model.kind = 0; p->model.kind < PACK_KINDS; p->model.kind++)
		for (unsigned age = 0; age <= PACK_DISTANCES; age++) {
			pack_age(&p->asks, &p->model, age);
			p->prices.age[p->model.kind][age] = asked(p);
		}
	p->model.kind = kind;
	for (unsigned i = 0; i < PACK_DISTANCES; i++)
		price_distances(p, i);
}

static float of_age(const Packer *p, unsigned age) { return p->prices.age[p->model.kind][age]; }

static float of_length(const Packer *p, bool known, size_t length)
{
	const size_t n = length - (known ? 1 : PACK_LEAST);
	return p->prices.length[known][n < ENOUGH ? n : ENOUGH];
}

static float of_distance(const Packer *p, size_t length, size_t distance)
{
	const unsigned of = pack_distance_kind(length), class = pack_class((uint32_t)(distance - 1)), top = pack_top(class), low = pack_low(class);
	return p->prices.high[of][class][distance >> (class - top) & ((1u << top) - 1)] + p->prices.low[of][low][distance & ((1u << low) - 1)];
}

/* ---- The best way through a step's bytes ------------------------------------------------------------------------------- */

static void reach(Packer *p, size_t i, size_t length, unsigned age, size_t distance, float bits)
{
	Node *to = &p->nodes[i + length];
	if (bits < to->bits) {
		to->bits = bits;
		to->length = (uint32_t)length;
		to->age = age;
		to->distance = distance;
	}
}

/* The model as it is at node i. */
static void arrive(Packer *p, size_t i)
{
	Node *node = &p->nodes[i];
	if (i > 0) {
		const Node *from = node - node->length;
		memcpy(p->model.distances, from->distances, sizeof from->distances);
		p->model.kind = from->kind;
		if (node->age == NEW_BYTE)
			p->model.kind = p->model.kind << 1 & (PACK_KINDS - 1);
		else
			pack_remember(&p->model, node->age, node->distance);
	}
	memcpy(node->distances, p->model.distances, sizeof node->distances);
	node->kind = p->model.kind;
}

/* Copies of `most` bytes at most from distances that are known, or others: the longest's length. */
static size_t weigh_known(Packer *p, size_t at, size_t i, size_t most, float bits)
{
	size_t longest = 0;
	for (unsigned age = 0; age < PACK_DISTANCES; age++) {
		const size_t distance = p->model.distances[age], n = distance <= at ? equal(p, at - distance, at, most) : 0;
		const float with_age = bits + of_age(p, age);
		for (size_t length = n < ENOUGH ? longest + 1 : n; length <= n; length++)
			reach(p, i, length, age, distance, with_age + of_length(p, true, length));
		longest = n > longest ? n : longest;
	}
	return longest;
}

/* A copy from `from`, of the lengths that no copy before had; the longest's length then. */
static size_t weigh_copy(Packer *p, size_t from, size_t at, size_t i, size_t longest, size_t most, float bits)
{
	if (p->in[from + longest] != p->in[at + longest])
		return longest;
	const size_t n = equal(p, from, at, most), distance = at - from;
	for (size_t length = n < ENOUGH ? longest + 1 : n; length <= n; length++)
		reach(p, i, length, PACK_DISTANCES, distance, bits + of_length(p, false, length) + of_distance(p, length, distance));
	return n > longest ? n : longest;
}

static size_t weigh_found(Packer *p, size_t at, size_t i, size_t most, float bits)
{
	size_t longest = PACK_LEAST;
	if (most < HASHED)
		return 0;
	const float with_age = bits + of_age(p, PACK_DISTANCES);
	const int32_t latest = p->latest[hash(p->in + at, SHORT)];
	if (latest != NONE)
		longest = weigh_copy(p, (size_t)latest, at, i, longest, most, with_age);
	int32_t from = p->head[hash(p->in + at, HASHED)];
	for (int c = 0; from != NONE && c < CANDIDATES && longest < ENOUGH && longest < most; c++, from = p->before[from])
		longest = weigh_copy(p, (size_t)from, at, i, longest, most, with_age);
	return longest;
}

/* Of `count` bytes from `begin` on; the nodes then have each the step that leads to it. */
static void weigh(Packer *p, size_t begin, size_t count)
{
	p->nodes[0].bits = 0;
	for (size_t i = 1; i <= count; i++)
		p->nodes[i].bits = INFINITY;
	for (size_t i = 0, next; i < count; i = next) {
		const size_t at = begin + i, most = count - i;
		arrive(p, i);
		next = i + 1;
		reach(p, i, 1, NEW_BYTE, 0, p->nodes[i].bits + of_kind(p, at, false) + of_literal(p, at));
		const float bits = p->nodes[i].bits + of_kind(p, at, true);
		const size_t known = weigh_known(p, at, i, most, bits), found = weigh_found(p, at, i, most, bits), longest = known > found ? known : found;
		if (longest >= ENOUGH)
			next = i + longest;
		remember(p, begin + next - 1);
	}
}

/* The steps to the last of the nodes, turned round: node i has the length of the step from it. */
static void turn(Packer *p, size_t count)
{
	Node step = p->nodes[count];
	for (size_t i = count; i > 0;) {
		i -= step.length;
		const Node before = p->nodes[i];
		p->nodes[i].length = step.length;
		p->nodes[i].age = step.age;
		p->nodes[i].distance = step.distance;
		step = before;
	}
}

static void write(Packer *p, size_t begin, size_t count)
{
	for (size_t i = 0; i < count; i += p->nodes[i].length) {
		const Node *step = &p->nodes[i];
		const bool copy = step->age != NEW_BYTE;
		pack_is_copy(&p->coder, &p->model, begin + i, copy);
		if (copy)
			pack_copy(&p->coder, &p->model, step->age, step->length, step->distance);
		else
			pack_literal(&p->coder, &p->model, p->in, begin + i, p->in[begin + i]);
	}
}

static void pack_all(Packer *p)
{
	for (size_t begin = 0; begin < p->n; begin += STEP) {
		const size_t count = p->n - begin < STEP ? p->n - begin : STEP, kept[PACK_DISTANCES] = { p->model.distances[0], p->model.distances[1], p->model.distances[2], p->model.distances[3] };
		const unsigned kind = p->model.kind;
		learn_prices(p);
		weigh(p, begin, count);
		turn(p, count);
		memcpy(p->model.distances, kept, sizeof kept);
		p->model.kind = kind;
		write(p, begin, count);
	}
	for (int i = 0; i < 5; i++)
		pack_shift(&p->coder);
}

static void put_byte(void *to, uint8_t byte) { buffer_bytes(to, &byte, 1); }

bool pack_blob(Arena *a, const void *data, size_t n, bool columns, Buffer *out)
{
	if (n > INT32_MAX)
		return false;
	Packer *p = ARENA_ARRAY(a, Packer, 1);
	*p = (Packer){ .in = data, .n = n, .head = ARENA_ARRAY(a, int32_t, 1 << HASH_BITS), .before = ARENA_ARRAY(a, int32_t, n + 1),
	               .latest = ARENA_ARRAY(a, int32_t, 1 << HASH_BITS) };
	p->coder = (PackCoder){ .range = UINT32_MAX, .put = put_byte, .to = out, .writes = true };
	p->asks = (PackCoder){ .of_chance = p->of_chance, .bits = &p->bits };
	for (int i = 0; i < 1 << HASH_BITS; i++)
		p->head[i] = p->latest[i] = NONE;
	for (int i = 0; i < CHANCES; i++)
		p->of_chance[i] = -log2f(((float)i + 0.5f) / CHANCES);
	pack_model_init(&p->model, columns);
	put_byte(out, columns);
	pack_all(p);
	return out->len < n;
}
