/* family.h - the library's operators as the tables that the bindings work by. */
#ifndef TILEKERN_TORCH_FAMILY_H
#define TILEKERN_TORCH_FAMILY_H

#include <tilekern/gdn.h>
#include <tilekern/kda.h>

typedef enum FamilyName { GDN, KDA, FAMILIES } FamilyName;

/* Parameters of either; what they have in common is looked at as `gdn`. */
typedef union Params { tilekern_gdn_params gdn; tilekern_kda_params kda; } Params;
typedef union BackwardParams { tilekern_gdn_backward_params gdn; tilekern_kda_backward_params kda; } BackwardParams;

/* A call: what its parameters are, and all that it depends on. */
typedef struct Call {
	FamilyName family;
	int is_backward;
	Params forward;
	BackwardParams backward; /* zeros where it is none; its `forward` is 0 until it is used */
} Call;

typedef struct Family {
	void (*init)(Params *p);
	tilert_status (*open)(tilert_device *d, void **out);
	tilert_status (*saved_bytes)(void *handle, const Params *p, size_t *out);
	tilert_status (*workspace_bytes)(void *handle, Call *c, size_t *out);
	tilert_status (*run)(void *handle, Call *c, tilert_stream s);
	tilert_status (*prepare)(void *handle, Call *c, void **out);
	tilert_status (*launch)(void *prepared, tilert_stream s);
	void (*destroy)(void *prepared);
} Family;
extern const Family families[FAMILIES];

/* Where `saved` has what the forward leaves: all of it for KDA, states, u and records for GDN. */
void family_saved(FamilyName f, Params *p, tilert_ptr at, size_t bytes);

#endif
