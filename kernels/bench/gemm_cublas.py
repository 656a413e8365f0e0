"""Times torch.matmul (cuBLAS), C = A B^T in bf16, on the sizes of the `gemm` section of bench.

usage: gemm_cublas.py [CSV]     Median of nine pairs of events with several launches between them, as bench has it.
"""
import statistics
import sys

import torch

SIZES = [(8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 1024), (16384, 4096, 4096)]


def milliseconds(launch):
    def elapsed(n):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(n):
            launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / n

    elapsed(3)
    n = max(5, min(400, int(20 / elapsed(5))))
    return statistics.median(elapsed(n) for _ in range(9))


def main():
    torch.manual_seed(0)
    name = torch.cuda.get_device_name()
    csv = open(sys.argv[1], "a") if len(sys.argv) > 1 else None
    for m, n, k in SIZES:
        a = torch.randn(m, k, device="cuda").bfloat16()
        b = torch.randn(n, k, device="cuda").bfloat16()
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        ms = milliseconds(lambda: torch.matmul(a, b.T, out=c))
        shape, tflops = f"{m} x {n} x {k}", 2e-9 * m * n * k / ms
        print(f"{'torch.matmul':22} {shape:30} {1e3 * ms:9.2f} us {tflops:8.0f} TFLOP/s")
        if csv:
            csv.write(f'"{name}",torch.matmul,"{shape}",{1e3 * ms:.2f},{tflops:.1f},TFLOP/s,\n')
    if csv:
        csv.close()


if __name__ == "__main__":
    main()
