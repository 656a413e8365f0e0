/* test_prepare.c - matching and checking the arguments of a launch, on a module made by hand; no device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "dsl/dtype.h"
#include "runtime/src/bind.h"
#include "runtime/src/image.h"
#include "tests/unit/make_module.h"
#include "tilert/tilert.h"

/* launch_cpu.c passes tilert_dtype where the CPU device expects DType. */
_Static_assert((int)DT_BOOL == (int)TILERT_BOOL && (int)DT_U64 == (int)TILERT_U64, "element types");
_Static_assert((int)DT_F16 == (int)TILERT_F16 && (int)DT_F32 == (int)TILERT_F32, "element types");

enum { Q, K, G, O, LD, SCALE, STEPS, N_ARGS };

typedef struct Fixture {
	Image image;
	tilert_arg args[N_ARGS + 1];
	size_t nargs;
	Binding b;
} Fixture;

static tilert_arg tensor(const char *name, tilert_dtype t, int rank, int64_t a, int64_t b, int64_t c)
{
	tilert_arg arg = { .name = name, .kind = TILERT_ARG_TENSOR };

	arg.tensor = (tilert_tensor){ .data = 0x1000, .dtype = t, .rank = rank, .extents = { a, b, c } };
	return arg;
}

static int set_up(void **state)
{
	static Fixture f;
	size_t size;
	uint8_t *p = make_module(example_meta, NULL, 0, &size);

	memset(&f, 0, sizeof f);
	assert_int_equal(rt_image_parse(p, size, &f.image), TILERT_OK);
	free(p);
	f.args[Q] = tensor("q", TILERT_BF16, 3, 1000, 4, 128);
	f.args[K] = tensor("k", TILERT_BF16, 3, 1000, 4, 128);
	f.args[G] = tensor("g", TILERT_F32, 2, 1000, 8, 0);
	f.args[G].tensor.data = 0x10000000;
	f.args[G].tensor.strides[0] = 12;
	f.args[G].tensor.strides[1] = 1;
	f.args[O] = tensor("o", TILERT_F32, 2, 16, 4, 0);
	f.args[LD] = (tilert_arg){ .name = "ld", .kind = TILERT_ARG_DIM, .i = 12 };
	f.args[SCALE] = (tilert_arg){ .name = "scale", .kind = TILERT_ARG_SCALAR, .f = 0.5 };
	f.args[STEPS] = (tilert_arg){ .name = "steps", .kind = TILERT_ARG_SCALAR, .i = 3 };
	f.nargs = N_ARGS;
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	rt_image_free(&((Fixture *)*state)->image);
	return 0;
}

/* Everything tilert_prepare does before the device is involved. */
static tilert_status check(Fixture *f, uint32_t grid[3])
{
	MapSpec spec;
	uint64_t slots[16];
	const KernelMeta *k = &f->image.kernels[0];
	tilert_status s = rt_bind(k, 132, f->args, f->nargs, BIND_ALL, &f->b);

	if (s)
		return s;
	s = rt_bind_check(&f->b);
	if (!s)
		s = rt_bind_grid(&f->b, grid);
	if (!s)
		s = rt_bind_values(&f->b, slots);
	for (size_t i = 0; !s && grid[0] && i < k->n_maps; i++)
		s = rt_bind_map(&f->b, i, &spec);
	rt_binding_free(&f->b);
	return s;
}

static void expect(Fixture *f, const char *text)
{
	uint32_t grid[3];

	assert_int_equal(check(f, grid), TILERT_EINVAL);
	if (!strstr(tilert_last_error(), text))
		fail_msg("\"%s\" does not say \"%s\"", tilert_last_error(), text);
}

static void remove_arg(Fixture *f, size_t i)
{
	f->nargs--;
	memmove(&f->args[i], &f->args[i + 1], (f->nargs - i) * sizeof *f->args);
}

static void test_a_good_launch(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];
	uint64_t slots[16];
	MapSpec spec;

	assert_int_equal(check(f, grid), TILERT_OK);
	assert_int_equal(grid[0], 32);
	assert_int_equal(grid[1], 4);
	assert_int_equal(grid[2], 3);
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, f->args, f->nargs, BIND_ALL, &f->b), TILERT_OK);
	assert_int_equal(rt_bind_values(&f->b, slots), TILERT_OK);
	assert_int_equal(slots[0], 0x1000);
	assert_int_equal(slots[4], 1000);
	assert_int_equal(slots[5], 4);
	assert_int_equal(slots[6], 12);
	assert_int_equal(slots[7], 0x3f000000);
	assert_int_equal(slots[8], 3);
	assert_int_equal(rt_bind_map(&f->b, 0, &spec), TILERT_OK);
	assert_int_equal(spec.rank, 3);
	assert_int_equal(spec.dims[1], 1000);
	assert_int_equal(spec.strides[1], 1024);
	assert_int_equal(spec.box[0], 64);
	assert_int_equal(spec.base, 0x1000);
	assert_int_equal(rt_bind_map(&f->b, 1, &spec), TILERT_OK);
	assert_int_equal(spec.dims[2], 1000);
	assert_int_equal(spec.strides[2], 48);
	assert_int_equal(spec.base, 0x10000000 - 999 * 48);
	rt_binding_free(&f->b);
}

static void test_names(void **state)
{
	Fixture *f = *state;

	f->args[SCALE].name = "scal";
	expect(f, "kernel attend has no parameter \"scal\"; did you mean \"scale\"?");
	f->args[SCALE].name = "zzz";
	expect(f, "kernel attend has no parameter \"zzz\"");
	f->args[SCALE].name = "steps";
	expect(f, "steps was passed twice");
	f->args[SCALE].name = "T";
	expect(f, "T is a dim and was passed as a scalar");
	f->args[SCALE].name = NULL;
	expect(f, "has no name");
}

static void test_missing(void **state)
{
	Fixture *f = *state;

	remove_arg(f, O);
	expect(f, "o[cdiv(T, 64)][H] was not passed");
}

static void test_missing_scalar(void **state)
{
	Fixture *f = *state;

	remove_arg(f, SCALE);
	expect(f, "the scalar scale was not passed");
}

static void test_conflicting_dims(void **state)
{
	Fixture *f = *state;

	f->args[Q].tensor.extents[0] = 1024;
	expect(f, "q has T = 1024 but k has T = 1000");
	f->args[LD].name = "T";
	expect(f, "T = 12 was passed but q has T = 1024");
}

static void test_types_and_ranks(void **state)
{
	Fixture *f = *state;

	f->args[K].tensor.dtype = TILERT_F32;
	expect(f, "k is bf16 and was passed as f32");
	f->args[K].tensor.dtype = (tilert_dtype)99;
	expect(f, "k is bf16 and was passed as type 99, which is none");
	f->args[K].tensor.dtype = TILERT_BF16;
	f->args[K].tensor.rank = 2;
	expect(f, "k[T][H][128] has rank 3 and was passed with rank 2");
	f->args[K].tensor.rank = 3;
	f->args[K].tensor.extents[0] = -1;
	expect(f, "negative");
}

static void test_shapes(void **state)
{
	Fixture *f = *state;

	f->args[K].tensor.extents[2] = 64;
	expect(f, "dimension 2 of k[T][H][128] is 64, not 128");
	f->args[K].tensor.extents[2] = 128;
	f->args[O].tensor.extents[0] = 15;
	expect(f, "dimension 0 of o[cdiv(T, 64)][H] is 15, not 16 = cdiv(T, 64)");
}

static void test_strides(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];

	f->args[K].tensor.strides[0] = 1024;
	f->args[K].tensor.strides[1] = 128;
	f->args[K].tensor.strides[2] = 1;
	expect(f, "the stride of dimension 0 of k[T][H][128] is 1024 elements, not 512 = H * 128");
	f->args[K].tensor.strides[0] = 512;
	assert_int_equal(check(f, grid), TILERT_OK);
	remove_arg(f, LD); /* then the stride comes from the tensor */
	assert_int_equal(check(f, grid), TILERT_OK);
	f->args[G].tensor.strides[0] = 13; /* 52 bytes */
	expect(f, "is 52 bytes; TMA needs a multiple of 16");
}

static void test_strides_of_extent_one_do_not_matter(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];

	f->args[Q].tensor.extents[1] = f->args[K].tensor.extents[1] = f->args[O].tensor.extents[1] = 1;
	f->args[G].tensor.extents[1] = 2;
	f->args[K].tensor.strides[0] = 128;
	f->args[K].tensor.strides[1] = 999;
	f->args[K].tensor.strides[2] = 1;
	assert_int_equal(check(f, grid), TILERT_OK);
}

static void test_addresses(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];

	f->args[Q].tensor.data = 0x1008; /* has a tensor map */
	expect(f, "the address of q, 0x1008, is not a multiple of 16");
	f->args[Q].tensor.data = 0;
	expect(f, "the address of q is 0");
	f->args[Q].tensor.data = 0x1000;
	f->args[K].tensor.data = 0x1002; /* has none */
	assert_int_equal(check(f, grid), TILERT_OK);
	f->args[K].tensor.data = 0x1001;
	expect(f, "not a multiple of 2");
}

static void test_optional_tensors(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];
	MapSpec spec;

	f->args[G].tensor = (tilert_tensor){ .dtype = TILERT_F32 }; /* absent: no address, no rank */
	assert_int_equal(check(f, grid), TILERT_OK);
	remove_arg(f, G);
	assert_int_equal(check(f, grid), TILERT_OK);
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, f->args, f->nargs, BIND_ALL, &f->b), TILERT_OK);
	assert_int_equal(rt_bind_map(&f->b, 1, &spec), TILERT_OK);
	assert_int_equal(spec.base, 0);
	rt_binding_free(&f->b);
	remove_arg(f, LD - 1); /* the stride of nothing */
	assert_int_equal(check(f, grid), TILERT_OK);
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, f->args, f->nargs, BIND_ALL, &f->b), TILERT_OK);
	rt_binding_free(&f->b);
}

static void test_scalar_ranges(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];

	f->args[STEPS].i = 256;
	expect(f, "steps = 256 is not in 0..255");
	f->args[STEPS].i = -1;
	expect(f, "steps = -1");
	f->args[STEPS].i = 1;
	f->args[LD].i = -12;
	expect(f, "ld = -12 is not in 0..2147483647");
	f->args[LD].i = 12;
	f->args[SCALE].f = 1e39;
	expect(f, "scale = 1e+39 does not fit f32");
	f->args[SCALE].f = (double)INFINITY;
	assert_int_equal(check(f, grid), TILERT_OK);
}

static void test_huge_dims(void **state)
{
	Fixture *f = *state;

	f->args[Q].tensor.extents[0] = INT64_C(1) << 40;
	expect(f, "T = 1099511627776 is not in 0..2147483647");
	f->args[Q].tensor.extents[0] = 1000;
	f->args[G].tensor.extents[0] = INT64_MAX;
	f->args[G].tensor.extents[1] = INT64_MAX;
	expect(f, "g has T");
	f->args[Q].tensor.extents[1] = f->args[K].tensor.extents[1] = f->args[O].tensor.extents[1] = 1500000000;
	f->args[G].tensor.extents[0] = 1000;
	f->args[G].tensor.extents[1] = 3000000000;
	expect(f, "dimension 1 of g[T][H * 2] is 3000000000, which is not in 0..2147483647");
}

static void test_grid_limits(void **state)
{
	Fixture *f = *state;

	f->args[Q].tensor.extents[1] = f->args[K].tensor.extents[1] = f->args[O].tensor.extents[1] = 65536;
	remove_arg(f, G);
	expect(f, "grid y is 65536, which is not in 0..65535");
}

static void test_empty_grid_needs_no_maps(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3] = { 9, 9, 9 };

	f->args[Q].tensor.extents[0] = f->args[K].tensor.extents[0] = f->args[G].tensor.extents[0] = 0;
	f->args[O].tensor.extents[0] = 0;
	f->args[Q].tensor.data = 0; /* nothing is there */
	assert_int_equal(check(f, grid), TILERT_OK);
	assert_int_equal(grid[0], 0);
}

static void test_sm_count(void **state)
{
	Fixture *f = *state;
	uint32_t grid[3];
	tilert_arg x = tensor("x", TILERT_F32, 1, 1 << 20, 0, 0);

	assert_int_equal(rt_bind(&f->image.kernels[1], 132, &x, 1, BIND_ALL, &f->b), TILERT_OK);
	assert_int_equal(rt_bind_grid(&f->b, grid), TILERT_OK);
	assert_int_equal(grid[0], 132);
	assert_int_equal(grid[1], 1);
	rt_binding_free(&f->b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* A list for several kernels: what this one does not name is passed over, the first of a name counts, an address of 0 is absent. */
static void test_named(void **state)
{
	Fixture *f = *state;
	tilert_arg all[2 * N_ARGS + 2];
	size_t n = 0;

	all[n++] = (tilert_arg){ .name = "other", .kind = TILERT_ARG_DIM, .i = 7 };
	for (int i = 0; i < N_ARGS; i++)
		all[n++] = f->args[i];
	all[1 + G].tensor.data = 0;
	all[n] = f->args[LD];
	all[n++].i = 99;
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, all, n, BIND_NAMED, &f->b), TILERT_OK);
	assert_null(f->b.tensors[G]);
	assert_int_equal(f->b.values[2], 12); /* ld */
	rt_binding_free(&f->b);
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, all, n, BIND_ALL, &f->b), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "no parameter \"other\""));
	all[1 + Q].name = "another";
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, all, n, BIND_NAMED, &f->b), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "q[T][H][128] was not passed"));
	all[1 + Q] = (tilert_arg){ .name = "q", .kind = TILERT_ARG_DIM };
	assert_int_equal(rt_bind(&f->image.kernels[0], 132, all, n, BIND_NAMED, &f->b), TILERT_EINVAL);
	assert_non_null(strstr(tilert_last_error(), "q is a tensor and was passed as a dim"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_good_launch),
		TEST(test_names),
		TEST(test_missing),
		TEST(test_missing_scalar),
		TEST(test_conflicting_dims),
		TEST(test_types_and_ranks),
		TEST(test_shapes),
		TEST(test_strides),
		TEST(test_strides_of_extent_one_do_not_matter),
		TEST(test_addresses),
		TEST(test_optional_tensors),
		TEST(test_scalar_ranges),
		TEST(test_huge_dims),
		TEST(test_grid_limits),
		TEST(test_empty_grid_needs_no_maps),
		TEST(test_sm_count),
		TEST(test_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
