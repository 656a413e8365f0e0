/* place.c - what the source calls a byte of shared memory, of all tiles that lie there, or of a tensor: the element. */
#include "runtime/cpu/cta.h"

#include <stdio.h>

enum { MOST_NAMED = 3 };

/* ---- tiles ---- */

/* Of one stage. */
static uint32_t bytes_of(const TileCpuTile *t)
{
	uint32_t n = t->element_bytes;

	for (uint32_t d = t->ring; d < t->rank; d++)
		n *= t->extents[d];
	return n;
}

static uint32_t stage_of(const TileCpuTile *t, uint32_t offset)
{
	return t->ring ? (offset - t->offset) / t->stage_bytes : 0;
}

static bool has(const TileCpuTile *t, uint32_t offset)
{
	uint32_t stage;

	if (offset < t->offset)
		return false;
	stage = stage_of(t, offset);
	return stage < (t->ring ? t->extents[0] : 1) && offset - t->offset - stage * t->stage_bytes < bytes_of(t);
}

/* Of a swizzled plane, byte `at`: as if rows lay one behind the other (compiler/lower/address.c, swizzled_offset). */
static uint32_t straightened(const TileCpuTile *t, uint32_t at)
{
	uint32_t w = t->swizzle, rows = t->extents[t->rank - 2], panel = at / (rows * w), row = at / w % rows;
	uint32_t column = panel * w + swizzled(row * w + at % w, w) % w;

	return row * t->extents[t->rank - 1] * t->element_bytes + column;
}

static void put_element(Text *x, const TileCpuTile *t, uint32_t offset)
{
	uint32_t stage = stage_of(t, offset), at = offset - t->offset - stage * t->stage_bytes, below = bytes_of(t), plane;

	text_add(x, "%s", t->name);
	if (t->ring)
		text_add(x, "[%u]", stage);
	if (t->swizzle) {
		plane = t->extents[t->rank - 2] * t->extents[t->rank - 1] * t->element_bytes;
		at = at / plane * plane + straightened(t, at % plane);
	}
	for (uint32_t d = t->ring; d < t->rank; d++) {
		below /= t->extents[d];
		text_add(x, "[%u]", at / below);
		at %= below;
	}
}

const char *place_in_shared(const Worker *k, uint32_t offset, char *text, size_t size)
{
	Text x = { text, text + size };
	uint32_t n = 0;

	for (const TileCpuTile *t = k->launch->tiles; t && t->name[0]; t++)
		if (has(t, offset) && n++ < MOST_NAMED) {
			text_add(&x, "%s", n > 1 ? ", " : "");
			put_element(&x, t, offset);
		}
	if (n > MOST_NAMED)
		text_add(&x, " and %u more", n - MOST_NAMED);
	if (n)
		text_add(&x, " (shared memory +%u)", offset);
	else
		text_add(&x, "shared memory +%u", offset);
	return text;
}

const char *place_in_tensor(const Worker *k, const char *tensor, uint64_t byte, char *text, size_t size)
{
	const TileCpuLaunch *l = k->launch;
	Text x = { text, text + size };
	char element[PLACE_SIZE / 2];

	if (l->locate && l->locate(l->user_of_names, tensor, byte, element, sizeof element))
		text_add(&x, "%s ('%s' +%llu)", element, tensor, (unsigned long long)byte);
	else
		text_add(&x, "'%s' +%llu", tensor, (unsigned long long)byte);
	return text;
}

TensorText tensor_text(const Worker *k, const TileCpuTensorMap *map)
{
	const TileCpuLaunch *l = k->launch;
	const char *name = l->tensor_of ? l->tensor_of(l->user_of_names, map) : NULL;
	TensorText x;

	if (name)
		snprintf(x.text, sizeof x.text, "tensor '%s'", name);
	else
		snprintf(x.text, sizeof x.text, "its tensor");
	return x;
}
