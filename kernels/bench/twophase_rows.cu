// The rows of the CUDA prototype that bench.c's `twophase` section is compared with, on the same shapes.  Compiled by compare_nvcc.sh
// with -I to the folder of twophase.cu, whose kernels and timing it uses.
#define main twophase_main
#include "twophase.cu"
#undef main

static FILE *csv;

static void print_row(const char *what, const char *shape, double us, double bytes)
{
	char name[64];
	snprintf(name, sizeof name, "nvcc %s", what);
	printf("%-22s %-30s %9.2f us %8.0f %-14s\n", name, shape, us, bytes / us * 1e-3, "GB/s");
	if (csv) {
		cudaDeviceProp pr;
		CK(cudaGetDeviceProperties(&pr, 0));
		fprintf(csv, "\"%s\",%s,\"%s\",%.2f,%.1f,%s,\n", pr.name, name, shape, us, bytes / us * 1e-3, "GB/s");
	}
}

// Median of nine, as bench.c has it.
template <class F> static double median_us(F run)
{
	std::vector<double> us;
	for (int i = 0; i < 9; i++) us.push_back(run());
	return median(us);
}

static void allocate()
{
	uint8_t *q, *k, *v, *g, *x, *rec, *o;
	float *gb;
	CK(cudaMalloc(&q, NQ_TILES * TILE)), CK(cudaMalloc(&k, NQ_TILES * TILE)), CK(cudaMalloc(&g, NQ_TILES * TILE)), CK(cudaMalloc(&x, NQ_TILES * TILE * 3));
	CK(cudaMalloc(&v, NV_TILES * TILE)), CK(cudaMalloc(&o, NV_TILES * TILE)), CK(cudaMalloc(&rec, NV_TILES * REC)), CK(cudaMalloc(&gb, NV_TILES * 512));
	CK(cudaMalloc(&base.sink, 4 << 20)), CK(cudaMalloc(&base.clk, 1 << 20));
	k_fill<<<1024, 256>>>((u32 *)q, NQ_TILES * TILE / 4, 0.153f, 1u);
	k_fill<<<1024, 256>>>((u32 *)k, NQ_TILES * TILE / 4, 0.153f, 0x10000001u);
	k_fill<<<1024, 256>>>((u32 *)v, NV_TILES * TILE / 4, 1.7f, 0x20000001u);
	k_fill<<<1024, 256>>>((u32 *)g, NQ_TILES * TILE / 4, 1.7f, 0x30000001u);
	k_fill_gb<<<1024, 256>>>(gb, NV_TILES * 128);
	CK(cudaMemset(x, 0, NQ_TILES * TILE * 3)), CK(cudaMemset(rec, 0, NV_TILES * REC));
	CK(cudaDeviceSynchronize());
	base.q = q, base.k = k, base.v = v, base.g = g, base.x = x, base.gb = gb, base.rec = rec, base.o = o;
}

static void k2_row(const char *shape_name, const Args &a, int seqs)
{
	const double ch = (double)seqs * a.n * a.H;
	print_row("K2-GDN", shape_name, median_us([&] { return run_k2<G2F1W>(a, seqs).us; }), ch * (2.0 * TILE * a.Hq / a.H + 2 * TILE + REC));
}

int main(int argc, char **argv)
{
	cudaDeviceProp pr;
	CK(cudaGetDeviceProperties(&pr, 0));
	n_sm = pr.multiProcessorCount;
	if (argc > 1 && !(csv = fopen(argv[1], "a"))) return perror(argv[1]), 1;
	allocate();
	check<G2F1W>("GDN 2 state WG F1W"), check<K2L>("KDA loaded"), check<K2P>("KDA prep WG");	// the last two also check K1-KDA, with x and without
	const Args k = shape(1, 128, 96, 96);
	print_row("K1-KDA T P", "12288 chunk-heads", median_us([&] { return run_k1k<K1K<false, 3>>(k).us; }), 12288.0 * (3 * TILE + 256 + REC));
	print_row("K1-KDA T P x", "12288 chunk-heads", median_us([&] { return run_k1k<K1K<true, 2>>(k).us; }), 12288.0 * (6 * TILE + 256 + REC));
	const int H = n_sm / 2 * 2;
	const Args wave = shape(1, 252, H, H / 2);
	char name[64];
	snprintf(name, sizeof name, "%d/%d 1x%d", H / 2, H, 252 * 64);
	run_k1g<K1G<true, 2, 4>>(wave);	// T and P
	k2_row(name, wave, 1);
	const Args a = shape(4, 128, 64, 16);
	run_k1g<K1G<true, 4, 4>>(a);
	k2_row("16/64 4x8192", a, 4);
	if (csv) fclose(csv);
	return 0;
}
