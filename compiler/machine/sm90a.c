/* sm90a.c - Hopper. */
#include "compiler/machine/machine.h"

#define HALVES(type, text) { .a = type, .b = type, .d = DT_F32, .k = 16, .wgmma = true, .mma_sync = true, .a_in_registers = true, \
	.both_majors = true, .negates = true, .types = text }
#define BYTES(ta, tb, sum, sign, few, text) { .a = ta, .b = tb, .d = sum, .k = 32, .wgmma = true, .a_in_registers = true, .negates = sign, .few_columns = few, .types = text }

static const Product products[] = {
	HALVES(DT_BF16, "bf16.bf16"),
	HALVES(DT_F16, "f16.f16"),
	{ .a = DT_TF32, .b = DT_TF32, .d = DT_F32, .k = 8, .wgmma = true, .mma_sync = true, .negates = true, .types = "tf32.tf32" },
	BYTES(DT_E4M3, DT_E4M3, DT_F32, true, false, "e4m3.e4m3"),
	BYTES(DT_E4M3, DT_E5M2, DT_F32, true, false, "e4m3.e5m2"),
	BYTES(DT_E5M2, DT_E4M3, DT_F32, true, false, "e5m2.e4m3"),
	BYTES(DT_E5M2, DT_E5M2, DT_F32, true, false, "e5m2.e5m2"),
	BYTES(DT_I8, DT_I8, DT_I32, false, true, "s8.s8"),
	BYTES(DT_I8, DT_U8, DT_I32, false, true, "s8.u8"),
	BYTES(DT_U8, DT_I8, DT_I32, false, true, "u8.s8"),
	BYTES(DT_U8, DT_U8, DT_I32, false, true, "u8.u8"),
};

static const Rates rates = {
	.device = "H200", .multiprocessors = 132, .clock = 1.755e9, .memory = 4.8e12,
	.tensor = 4096, .special = 16, .arithmetic = 128, .loaded = 64,
};

const Machine machine_sm90a = {
	.name = "sm_90a", .family = "sm_90",
	.threads = 1024, .warp = 32, .cluster = 16, .occupancy = 32, .sm_threads = 2048, .named_barriers = 16,
	.sm_registers = 65536, .thread_registers = 255, .register_step = 8,
	.least_setmaxnreg = 24, .most_setmaxnreg = 240,
	.wgmma_columns = 256, .wgmma_registers = 26, .wgmma_a_registers = 4,
	.cta_shared = 227 << 10, .sm_shared = 228 << 10, .cta_reserved = 1 << 10,
	.box_extent = 256, .box_rank = 5, .transfer_unit = 16, .transfer_align = 128,
	.arrivals = (1 << 20) - 1, .product_groups = 63,
	.banks = 32, .bank_bytes = 4, .lane_bytes = 16,
	.parameter_bytes = 32764, .map_bytes = 128, .map_align = 64,
	.products = products, .nproducts = sizeof products / sizeof products[0],
	.rates = &rates,
};
