/* kernels.h - the compiled kernels of the GDN forward, loaded when a call first needs them. */
#ifndef TILE_GDN_KERNELS_H
#define TILE_GDN_KERNELS_H

#include <pthread.h>

#include "plan.h"

/* VARIANT(id, module, kernel), by type, K rounded up, columns of V; kernels/CMakeLists.txt compiles the modules of these names. */
#define GDN_KERNELS(VARIANT) \
	VARIANT(K1_BF16_64, gdn_k1_bf16_64, gdn_k1) \
	VARIANT(K1_BF16_128, gdn_k1_bf16_128, gdn_k1) \
	VARIANT(K1_BF16_256, gdn_k1_bf16_256, gdn_k1) \
	VARIANT(K1_F16_64, gdn_k1_f16_64, gdn_k1) \
	VARIANT(K1_F16_128, gdn_k1_f16_128, gdn_k1) \
	VARIANT(K1_F16_256, gdn_k1_f16_256, gdn_k1) \
	VARIANT(K2_BF16_64_1, gdn_k2_bf16_64_1, gdn_k2) \
	VARIANT(K2_BF16_64_2, gdn_k2_bf16_64_2, gdn_k2) \
	VARIANT(K2_BF16_128_1, gdn_k2_bf16_128_1, gdn_k2) \
	VARIANT(K2_BF16_128_2, gdn_k2_bf16_128_2, gdn_k2) \
	VARIANT(K2_F16_64_1, gdn_k2_f16_64_1, gdn_k2) \
	VARIANT(K2_F16_64_2, gdn_k2_f16_64_2, gdn_k2) \
	VARIANT(K2_F16_128_1, gdn_k2_f16_128_1, gdn_k2) \
	VARIANT(K2_F16_128_2, gdn_k2_f16_128_2, gdn_k2) \
	VARIANT(K2_BF16_256, gdn_k2_bf16_256, gdn_k2_wide) \
	VARIANT(K2_F16_256, gdn_k2_f16_256, gdn_k2_wide) \
	VARIANT(K2_BF16_64_SAVE, gdn_k2_bf16_64_save, gdn_k2) \
	VARIANT(K2_BF16_128_SAVE, gdn_k2_bf16_128_save, gdn_k2) \
	VARIANT(K2_F16_64_SAVE, gdn_k2_f16_64_save, gdn_k2) \
	VARIANT(K2_F16_128_SAVE, gdn_k2_f16_128_save, gdn_k2) \
	VARIANT(PARTS_BF16_64, gdn_parts_bf16_64, gdn_parts) \
	VARIANT(PARTS_BF16_128, gdn_parts_bf16_128, gdn_parts) \
	VARIANT(PARTS_F16_64, gdn_parts_f16_64, gdn_parts) \
	VARIANT(PARTS_F16_128, gdn_parts_f16_128, gdn_parts) \
	VARIANT(JOIN_64, gdn_join_64, gdn_join) \
	VARIANT(JOIN_128, gdn_join_128, gdn_join) \
	VARIANT(COPY_STATE, copy_state, copy_state) \
	VARIANT(CLEAR_STATE, copy_state, clear_state)

typedef enum GdnKernelId {
#define KERNEL_ID(id, module, kernel) id,
	GDN_KERNELS(KERNEL_ID)
#undef KERNEL_ID
	GDN_KERNEL_COUNT
} GdnKernelId;

typedef struct GdnKernels {
	tilert_device *device;
	pthread_mutex_t lock; /* of what follows */
	tilert_module *module[GDN_KERNEL_COUNT];
	tilert_kernel *kernel[GDN_KERNEL_COUNT];
} GdnKernels;

/* False when there is no memory. */
bool gdn_kernels_init(GdnKernels *k, tilert_device *d);
void gdn_kernels_free(GdnKernels *k);
/* From several threads; sets the text of an error. */
tilert_status gdn_kernels_get(GdnKernels *k, GdnKernelId id, tilert_kernel **out);

/* Those for a call. */
GdnKernelId gdn_k1_of(const tilekern_gdn_params *p);
GdnKernelId gdn_k2_of(const tilekern_gdn_params *p, const GdnPlan *l);
GdnKernelId gdn_parts_of(const tilekern_gdn_params *p);
GdnKernelId gdn_join_of(const tilekern_gdn_params *p);

#endif
