"""C = A B^T in bf16 by modules of examples/02_gemm and by torch.matmul (cuBLAS), by turns in one process.

usage: gemm_cublas.py CSV MODULE...     TILERT: libtilert.so (default: what the loader finds); ROUNDS: 24

Each round times everybody once, 20 ms each, the first one another each time; printed are the median time and the median over the
rounds of cuBLAS's time over it.  Two runs one after the other differ by more than the two kernels: both are at the GPU's limit of power.
"""
import os
import statistics
import sys

import torch

from tilert import Runtime

SIZES = [(8192, 8192, 8192), (4096, 4096, 4096), (8192, 8192, 1024), (16384, 4096, 4096)]
ROUNDS = int(os.environ.get("ROUNDS", "24"))


def microseconds(launch, n):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launch()
    begin.record()
    for _ in range(n):
        launch()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end) / n


def by_turns(calls):
    launches = max(4, int(2e4 / microseconds(calls["cublas"], 10)))
    times = {name: [] for name in calls}
    for turn in range(-1, ROUNDS):  # the first turn warms up
        names = list(calls)
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            us = microseconds(calls[name], launches)
            if turn >= 0:
                times[name].append(us)
    return times


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    torch.manual_seed(0)
    runtime, device = Runtime(), torch.cuda.get_device_name()
    modules = {os.path.basename(path).removesuffix(".tmod"): path for path in sys.argv[2:]}
    with open(sys.argv[1], "w") as csv:
        csv.write("device,what,shape,round,us,cublas_over_it\n")
        for m, n, k in SIZES:
            a, b = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16()
            right, outs, calls = torch.matmul(a, b.T), {}, {}
            for name, path in modules.items():
                outs[name] = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
                calls[name] = runtime.prepare(path, "gemm", a=a, b=b, c=outs[name])
                calls[name]()
                error = ((outs[name].float() - right.float()).norm() / right.float().norm()).item()
                if not error < 0.003:
                    sys.exit(f"{name} is wrong: relative error {error}")
            calls["cublas"] = lambda: torch.matmul(a, b.T, out=right)
            times = by_turns(calls)
            for name, each in times.items():
                ratios = [c / us for c, us in zip(times["cublas"], each)]
                print(f"{m} x {n} x {k}: {name:24} {statistics.median(each):9.2f} us {2e-6 * m * n * k / statistics.median(each):6.0f} "
                      f"TFLOP/s, {statistics.median(ratios):.4f} of cuBLAS")
                for i, (us, ratio) in enumerate(zip(each, ratios)):
                    csv.write(f'"{device}",{name},"{m} x {n} x {k}",{i},{us:.2f},{ratio:.4f}\n')


if __name__ == "__main__":
    main()
