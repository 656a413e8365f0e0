"""Times context parallelism of KDA: the tokens of one row over all GPUs, beside the same tokens on one of them.

    torchrun --nproc-per-node 2 kernels/bench/context.py out.csv [--tokens 65536] [--heads 32]

Times are the median of ten calls, each by itself, from where all ranks are ready until the last one is, the host's part in it; training is forward and backward.  K = V = 128, bf16, log decays,
strong gates: -5 sigmoid(N).  o is compared with that of one GPU first.  Without a GPU it runs on the CPU device, which says nothing but that it runs.
"""
import argparse
import csv
import itertools
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

import tilekern
from tilekern import context

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


def lengths_of(sequences, tokens):
    """The n-th is n times as long as the first, as far as that can be."""
    offsets = [tokens * n * (n + 1) // (sequences * (sequences + 1)) for n in range(sequences + 1)]
    return [b - a for a, b in itertools.pairwise(offsets)]


def ready():
    if GPU:
        torch.cuda.synchronize()
    dist.barrier()


def measure(call, alone):
    """Milliseconds; alone: rank 0 calls."""
    times = []
    for n in range(12):
        ready()
        begin = time.perf_counter()
        if not alone or dist.get_rank() == 0:
            call()
        if GPU:
            torch.cuda.synchronize()
        took = torch.tensor((time.perf_counter() - begin) * 1e3, device=DEVICE)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        if n > 1:
            times.append(took.item())
    return statistics.median(times)


def calls_of(x, dout, **more):
    """A forward, and a forward with its backward, of leaves."""
    leaves = [t.detach().requires_grad_() for t in x]

    def forward():
        with torch.no_grad():
            return tilekern.chunk_kda(*x, **more)[0]

    def training():
        return torch.autograd.grad(tilekern.chunk_kda(*leaves, disable_recompute=True, **more)[0], leaves, dout)
    return {"forward": forward, "training": training}


def own_of(t, layout):
    rank, world, parts = dist.get_rank(), dist.get_world_size(), context.PARTS[layout]
    pieces = t.chunk(world * parts, 1)
    return torch.cat([pieces[context.place_of(i, rank, world)] for i in range(parts)], 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--tokens", type=int, default=65536)
    parser.add_argument("--heads", type=int, default=32)
    a = parser.parse_args()
    if GPU:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if GPU else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    q, k, v, g = (torch.randn(1, a.tokens, a.heads, 128, device=DEVICE) for _ in range(4))
    x = [F.normalize(q, dim=-1).bfloat16(), F.normalize(k, dim=-1).bfloat16(), v.bfloat16(), (-5 * torch.sigmoid(g)).bfloat16(), torch.rand(1, a.tokens, a.heads, device=DEVICE)]
    dout = torch.randn_like(x[2])
    del q, k, v, g
    with open(a.csv if rank == 0 else os.devnull, "w", newline="") as f:
        table = csv.writer(f, lineterminator="\n")
        table.writerow(["tokens", "heads", "sequences", "layout", "what", "ranks", "one_ms", "all_ms", "one_over_all"])
        for sequences in (1, 16):
            offsets = torch.tensor([0, *itertools.accumulate(lengths_of(sequences, a.tokens))], device=DEVICE)
            alone = calls_of(x, dout, cu_seqlens=offsets.int())
            o = alone["forward"]()
            one = {what: measure(call, True) for what, call in alone.items()}
            for layout in context.PARTS:
                cp = tilekern.build_cp_context(offsets, dist.group.WORLD, layout)
                calls = calls_of([own_of(t, layout) for t in x], own_of(dout, layout), cp_context=cp)
                want, have = own_of(o, layout).float(), calls["forward"]().float()
                if not (have - want).norm() < 0.006 * want.norm():
                    sys.exit(f"rank {rank}, {sequences} sequences, {layout}: o differs by {(have - want).norm() / want.norm():.4f}; not timed")
                for what, call in calls.items():
                    ms = measure(call, False)
                    table.writerow([a.tokens, a.heads, sequences, layout, what, world, f"{one[what]:.3f}", f"{ms:.3f}", f"{one[what] / ms:.3f}"])
                    f.flush()
                    if rank == 0:
                        print(f"{sequences} sequences, {layout}, {what}: {one[what]:.3f} ms on one, {ms:.3f} on {world}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
