#include "kernels.h"

#include <string.h>

#include "../common/call.h"
#include "modules.h" /* generated: the modules as arrays */

static tilert_status load(GdnKernels *kernels, GdnKernelId id)
{
	const struct { const unsigned char *image; const size_t *bytes; const char *kernel; } table[GDN_KERNEL_COUNT] = {
#define KERNEL_ROW(id, module, kernel) [id] = { tilekern_##module, &tilekern_##module##_bytes, #kernel },
		GDN_KERNELS(KERNEL_ROW)
#undef KERNEL_ROW
	};
	tilert_module *m;
	tilert_kernel *k;
	tilert_status s = tilert_module_load(kernels->device, table[id].image, *table[id].bytes, &m);
	if (s != TILERT_OK)
		return call_passed_on(s, "tilekern_gdn");
	s = tilert_module_kernel(m, table[id].kernel, &k);
	if (s != TILERT_OK) {
		call_passed_on(s, "tilekern_gdn");
		tilert_module_close(m);
		return s;
	}
	kernels->module[id] = m;
	kernels->kernel[id] = k;
	return TILERT_OK;
}

tilert_status gdn_kernels_get(GdnKernels *kernels, GdnKernelId id, tilert_kernel **out)
{
	pthread_mutex_lock(&kernels->lock);
	tilert_status s = kernels->kernel[id] ? TILERT_OK : load(kernels, id);
	*out = kernels->kernel[id];
	pthread_mutex_unlock(&kernels->lock);
	return s;
}

bool gdn_kernels_init(GdnKernels *kernels, tilert_device *d)
{
	memset(kernels, 0, sizeof *kernels);
	kernels->device = d;
	return pthread_mutex_init(&kernels->lock, NULL) == 0;
}

void gdn_kernels_free(GdnKernels *kernels)
{
	for (int i = 0; i < GDN_KERNEL_COUNT; i++)
		tilert_module_close(kernels->module[i]);
	pthread_mutex_destroy(&kernels->lock);
}

GdnKernelId gdn_k1_of(const tilekern_gdn_params *p)
{
	static const GdnKernelId ids[2][3] = { { K1_BF16_64, K1_BF16_128, K1_BF16_256 }, { K1_F16_64, K1_F16_128, K1_F16_256 } };
	return ids[p->dtype == TILERT_F16][(p->key_dim > 64) + (p->key_dim > 128)];
}

GdnKernelId gdn_k2_of(const tilekern_gdn_params *p, const GdnPlan *l)
{
	static const GdnKernelId ids[2][2][2] = { /* f16, K > 64, narrow */
		{ { K2_BF16_64_2, K2_BF16_64_1 }, { K2_BF16_128_2, K2_BF16_128_1 } },
		{ { K2_F16_64_2, K2_F16_64_1 }, { K2_F16_128_2, K2_F16_128_1 } },
	};
	static const GdnKernelId saving[2][2] = { { K2_BF16_64_SAVE, K2_BF16_128_SAVE }, { K2_F16_64_SAVE, K2_F16_128_SAVE } };
	if (p->key_dim > 128)
		return p->dtype == TILERT_F16 ? K2_F16_256 : K2_BF16_256;
	if (gdn_saves(p))
		return saving[p->dtype == TILERT_F16][p->key_dim > 64];
	return ids[p->dtype == TILERT_F16][p->key_dim > 64][l->narrow];
}

GdnKernelId gdn_parts_of(const tilekern_gdn_params *p)
{
	static const GdnKernelId ids[2][2] = { { PARTS_BF16_64, PARTS_BF16_128 }, { PARTS_F16_64, PARTS_F16_128 } };
	return ids[p->dtype == TILERT_F16][p->key_dim > 64];
}

GdnKernelId gdn_join_of(const tilekern_gdn_params *p) { return p->key_dim > 64 ? JOIN_128 : JOIN_64; }
