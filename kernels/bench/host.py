"""What a call costs the host, in microseconds: the package's operators and functions, FLA's with Triton, cuDNN's, and what PyTorch takes by itself.

    TILEKERN_LIB=build/release/lib PYTHONPATH=kernels/python python3 kernels/bench/host.py [--peers fla,cudnn] [--rounds 40] [--csv out.csv]

One sequence of 64 tokens and one head, so that the GPU keeps up; all calls by turns in one process, in bursts of 20, the median of the rounds.  "forward +
backward" is torch.autograd.grad of one call, "of 16 in a row" that of sixteen, each of which has the one's o as its v, divided by 16: what a layer adds to
a model's step.  "one thread" is with torch.autograd.set_multithreading_enabled(False): else the backward is handed to a thread of torch's and back.  What a
call can cost least is the "empty function", an autograd.Function that is given, saves and returns what ours does and computes nothing, and aten.mul, whose
backward has no Python in it.  Triton's kernels are compiled for one configuration each: choosing one takes minutes, and is not what is measured.
"""
import argparse
import csv
import statistics
import time

import torch
import torch.nn.functional as F

import tilekern

dev = "cuda"
BURST, ROW = 20, 16


def inputs(kda):
    q, k = (F.normalize(torch.randn(1, 64, 1, 128, device=dev), dim=-1).bfloat16() for _ in range(2))
    v = torch.randn(1, 64, 1, 128, device=dev).bfloat16()
    return q, k, v, F.logsigmoid(torch.randn(1, 64, 1, *([128] if kda else []), device=dev)), torch.rand(1, 64, 1, device=dev)


# ---- calls: each row is (what, a function without arguments, how many calls it makes) -------------------------------------


def both(function, x, n=1):
    """Forward and backward of n calls, each with the o of the one before as its v."""
    leaves = [t.detach().requires_grad_() for t in x]
    dout = torch.randn_like(x[2])

    def run():
        q, k, o, g, beta = leaves
        for _ in range(n):
            o = function(q, k, o, g, beta)
            o = o[0] if isinstance(o, tuple) else o
        torch.autograd.grad(o, leaves, dout)

    return run


def one_thread(fn):
    def run():
        with torch.autograd.set_multithreading_enabled(False):
            fn()

    return run


def rows(name, function, x):
    yield f"{name} forward", lambda: function(*x), 1
    yield f"{name} forward + backward", both(function, x), 1
    yield f"{name} forward + backward, one thread", one_thread(both(function, x)), 1
    yield f"{name} forward + backward of {ROW} in a row", both(function, x, ROW), ROW


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, numbers):
        ctx.numbers = numbers
        ctx.save_for_backward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, None)
        ctx.set_materialize_grads(False)
        return torch.empty_like(v), None

    @staticmethod
    def backward(ctx, dout, dfinal_state):
        return (*(torch.empty_like(t) for t in ctx.saved_tensors[:5]), *(None,) * 5)


def torchs():
    one, many = torch.randn(1, device=dev), torch.randn(64, device=dev, requires_grad=True)
    ones = torch.ones_like(many)

    def mul(n):
        def run():
            x = many
            for _ in range(n):
                x = x * many
            torch.autograd.grad(x, many, ones)

        return run

    yield "torch.add of one number", lambda: torch.ops.aten.add.Tensor(one, one), 1
    yield "aten.mul forward + backward", mul(1), 1
    yield "aten.mul forward + backward, one thread", one_thread(mul(1)), 1
    yield f"aten.mul forward + backward of {ROW} in a row", mul(ROW), ROW
    yield from rows("empty function", lambda *x: Empty.apply(*x, None, None, None, None, ()), inputs(False))


def ours():
    for kind, function in (("gdn", tilekern.chunk_gated_delta_rule), ("kda", tilekern.chunk_kda)):
        x = inputs(kind == "kda")
        op = getattr(torch.ops.tilekern, f"{kind}_infer").default
        yield f"tilekern {kind} operator", lambda op=op, x=x: op(*x, None, None), 1
        yield from rows(f"tilekern {kind}", function, x)


def flas():
    from triton.runtime.autotuner import Autotuner

    init = Autotuner.__init__
    Autotuner.__init__ = lambda self, fn, names, configs, *args, **kwargs: init(self, fn, names, configs[:1], *args, **kwargs)
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    yield from rows("fla gdn", chunk_gated_delta_rule, inputs(False))
    yield from rows("fla kda", chunk_kda, inputs(True))


def cudnns():
    from cudnn.linear_attention.ops import kimi_delta_attention

    x = [t[0].contiguous() for t in inputs(True)]
    cu = torch.tensor([0, 64], device=dev, dtype=torch.int32)
    yield from rows("cudnn kda", lambda *a: kimi_delta_attention(*a, cu, plan_name="kda_hopper_cuda", scale=128**-0.5), x)


# ---- the clock -------------------------------------------------------------------------------------------------------


def that_run(calls):
    """Those rows that run, called until what they compile, load and allocate is there."""
    for what, fn, n in calls:
        try:
            for _ in range(5):
                fn()
            torch.cuda.synchronize()
        except Exception as e:
            print(f"failed: {what}: {type(e).__name__}: {str(e)[:200]}", flush=True)
            continue
        yield what, fn, n


def burst(fn, n):
    """Microseconds of a call."""
    times = max(1, BURST // n)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        fn()
    return (time.perf_counter() - begin) / times / n * 1e6


def measured(calls, rounds):
    times = {what: [] for what, _, _ in calls}
    for _ in range(rounds):
        for what, fn, n in calls:
            times[what].append(burst(fn, n))
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default="fla,cudnn", type=lambda s: [p for p in s.split(",") if p])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--csv")
    a = parser.parse_args()
    makers = dict(torch=torchs, ours=ours, cudnn=cudnns, fla=flas)
    calls = []
    for name, make in makers.items():
        if name in ("torch", "ours") or name in a.peers:
            try:
                calls += that_run(make())
            except ImportError as e:
                print(f"failed: {name}: {e}", flush=True)
    table = [(what, statistics.median(t), min(t)) for what, t in measured(calls, a.rounds).items()]
    print(f"{'':52s} median    least us")
    for what, median, least in table:
        print(f"{what:50s} {median:8.1f} {least:8.1f}")
    if a.csv:
        with open(a.csv, "w", newline="") as f:
            csv.writer(f).writerows([("call", "host_us", "least_us"), *((w, f"{m:.2f}", f"{s:.2f}") for w, m, s in table)])


if __name__ == "__main__":
    main()
