"""What a call costs the host, in microseconds: the package's operators and functions, FLA's with Triton, cuDNN's, in one process.

    TILEKERN_LIB=build/release/lib PYTHONPATH=kernels/python python3 kernels/bench/host.py [--peers fla,cudnn] [--csv out.csv]

One sequence of 64 tokens and one head, so that the GPU keeps up; bursts of 50 calls, the median of 40 bursts.  "forward + backward" has autograd in it.
"""
import argparse
import csv
import statistics
import time

import torch
import torch.nn.functional as F

import tilekern

dev = "cuda"
BURST, ROUNDS = 50, 40


def microseconds(fn):
    for _ in range(10):
        fn()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(BURST):
            fn()
        times.append((time.perf_counter() - begin) / BURST * 1e6)
    torch.cuda.synchronize()
    return statistics.median(times)


def inputs(kda):
    q, k = (F.normalize(torch.randn(1, 64, 1, 128, device=dev), dim=-1).bfloat16() for _ in range(2))
    v = torch.randn(1, 64, 1, 128, device=dev).bfloat16()
    return q, k, v, F.logsigmoid(torch.randn(1, 64, 1, *([128] if kda else []), device=dev)), torch.rand(1, 64, 1, device=dev)


def both(function, x):
    """Forward and backward."""
    leaves = [t.detach().requires_grad_() for t in x]
    dout = torch.randn_like(x[2])

    def run():
        out = function(*leaves)
        torch.autograd.grad(out[0] if isinstance(out, tuple) else out, leaves, dout)

    return run


def rows(name, function, x):
    yield f"{name} forward", lambda: function(*x)
    yield f"{name} forward + backward", both(function, x)


class Nothing(torch.autograd.Function):
    """What torch itself takes for five gradients."""

    @staticmethod
    def forward(ctx, q, k, v, g, beta):
        ctx.save_for_backward(q, k, v, g, beta)
        return torch.empty_like(v)

    @staticmethod
    def backward(ctx, dout):
        return ctx.saved_tensors


def ours():
    yield from rows("an empty autograd.Function", Nothing.apply, inputs(False))
    for kind, function in (("gdn", tilekern.chunk_gated_delta_rule), ("kda", tilekern.chunk_kda)):
        x = inputs(kind == "kda")
        op = getattr(torch.ops.tilekern, f"{kind}_infer").default
        yield f"tilekern {kind} operator", lambda: op(*x, None, None)
        yield from rows(f"tilekern {kind}", function, x)


def flas():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    yield from rows("fla gdn", chunk_gated_delta_rule, inputs(False))
    yield from rows("fla kda", chunk_kda, inputs(True))


def cudnns():
    from cudnn.linear_attention.ops import kimi_delta_attention

    x = [t[0].contiguous() for t in inputs(True)]
    cu = torch.tensor([0, 64], device=dev, dtype=torch.int32)
    yield from rows("cudnn kda", lambda *a: kimi_delta_attention(*a, cu, plan_name="kda_hopper_cuda", scale=128**-0.5), x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default="fla,cudnn", type=lambda s: [p for p in s.split(",") if p])
    parser.add_argument("--csv")
    a = parser.parse_args()
    one = torch.randn(1, device=dev)
    file = open(a.csv, "w", newline="") if a.csv else None

    def row(what, fn):
        took = microseconds(fn)
        print(f"{what:36s} {took:8.1f} us", flush=True)
        if file:  # at once: a peer may compile for longer than there is time
            csv.writer(file).writerow((what, f"{took:.2f}"))
            file.flush()

    if file:
        csv.writer(file).writerow(("call", "host_us"))
    row("torch.add of one number", lambda: torch.ops.aten.add.Tensor(one, one))
    for name, make in (("ours", ours), ("cudnn", cudnns), ("fla", flas)):
        if name != "ours" and name not in a.peers:
            continue
        try:
            for what, fn in make():
                row(what, fn)
        except Exception as e:
            print("failed:", name, type(e).__name__, str(e)[:200], flush=True)
    if file:
        file.close()


if __name__ == "__main__":
    main()
