#include "family.h"

#include <stdbool.h>
#include <stddef.h>

/* Fields that are looked at as those of gdn lie in the same places. */
#define SAME_PLACE(PARAMS, FIELD) _Static_assert(offsetof(tilekern_gdn_##PARAMS, FIELD) == offsetof(tilekern_kda_##PARAMS, FIELD), #FIELD)
SAME_PLACE(params, dtype);
SAME_PLACE(params, scale);
SAME_PLACE(params, q);
SAME_PLACE(params, o_strides);
SAME_PLACE(params, initial_state);
SAME_PLACE(params, has_initial_state);
SAME_PLACE(params, workspace_bytes);
SAME_PLACE(backward_params, dout);
SAME_PLACE(backward_params, dbeta);
SAME_PLACE(backward_params, dinitial_state);
SAME_PLACE(backward_params, dout_strides);
SAME_PLACE(backward_params, workspace_bytes);
_Static_assert(sizeof(tilekern_gdn_backward_params) == sizeof(tilekern_kda_backward_params), "backward");

static size_t aligned(size_t n) { return (n + 255) / 256 * 256; }

/* Bytes of a GDN call's records, and of its states and u, each rounded up. */
static void gdn_parts(const tilekern_gdn_params *p, size_t parts[3])
{
	const size_t chunks = (size_t)(tilekern_gdn_slots(p) * p->value_heads);
	parts[0] = aligned(chunks * TILEKERN_GDN_RECORD_BYTES);
	parts[1] = aligned(chunks * (size_t)(p->key_dim * p->value_dim) * 2);
	parts[2] = aligned((size_t)(p->batch * p->tokens * p->value_heads * p->value_dim) * 2);
}

static tilert_status gdn_saved_bytes(void *handle, const Params *p, size_t *out)
{
	size_t parts[3];
	(void)handle;
	gdn_parts(&p->gdn, parts);
	*out = parts[0] + parts[1] + parts[2];
	return TILERT_OK;
}

static tilert_status kda_saved_bytes(void *handle, const Params *p, size_t *out) { return tilekern_kda_saved_bytes(handle, &p->kda, out); }

void family_saved(FamilyName f, Params *p, tilert_ptr at, size_t bytes)
{
	size_t parts[3];
	if (f == KDA) {
		p->kda.saved = at;
		p->kda.saved_bytes = bytes;
		return;
	}
	gdn_parts(&p->gdn, parts);
	p->gdn.records = at;
	p->gdn.states = at + parts[0];
	p->gdn.u = at + parts[0] + parts[1];
}

/* The functions of tilekern/NAME.h with the types of the table. */
#define FAMILY(NAME) \
	static void NAME##_init(Params *p) { tilekern_##NAME##_params_init(&p->NAME); } \
	static tilert_status NAME##_open(tilert_device *d, void **out) \
	{ \
		tilekern_##NAME *handle; \
		tilert_status s = tilekern_##NAME##_open(d, &handle); \
		if (s == TILERT_OK) \
			*out = handle; \
		return s; \
	} \
	static tilekern_##NAME##_backward_params *NAME##_backward_of(Call *c) \
	{ \
		c->backward.NAME.forward = &c->forward.NAME; \
		return &c->backward.NAME; \
	} \
	static tilert_status NAME##_workspace(void *handle, Call *c, size_t *out) \
	{ \
		return c->is_backward ? tilekern_##NAME##_backward_workspace_bytes(handle, NAME##_backward_of(c), out) \
			: tilekern_##NAME##_workspace_bytes(handle, &c->forward.NAME, out); \
	} \
	static tilert_status NAME##_run(void *handle, Call *c, tilert_stream s) \
	{ \
		return c->is_backward ? tilekern_##NAME##_backward(handle, NAME##_backward_of(c), s) : tilekern_##NAME##_forward(handle, &c->forward.NAME, s); \
	} \
	static tilert_status NAME##_prepare(void *handle, Call *c, void **out) \
	{ \
		tilekern_##NAME##_call *call; \
		tilert_status s = c->is_backward ? tilekern_##NAME##_backward_prepare(handle, NAME##_backward_of(c), &call) \
			: tilekern_##NAME##_prepare(handle, &c->forward.NAME, &call); \
		if (s == TILERT_OK) \
			*out = call; \
		return s; \
	} \
	static tilert_status NAME##_launch(void *prepared, tilert_stream s) { return tilekern_##NAME##_launch(prepared, s); } \
	static void NAME##_destroy(void *prepared) { tilekern_##NAME##_call_destroy(prepared); }
FAMILY(gdn)
FAMILY(kda)

#define ROW(NAME) { NAME##_init, NAME##_open, NAME##_saved_bytes, NAME##_workspace, NAME##_run, NAME##_prepare, NAME##_launch, NAME##_destroy }
const Family families[FAMILIES] = { [GDN] = ROW(gdn), [KDA] = ROW(kda) };
