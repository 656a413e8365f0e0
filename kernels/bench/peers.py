"""Times the library beside FLA, FlashQLA, FlashInfer and cuDNN on one GPU, in one process, and checks it first.

    python3 peers.py [gdn] [mixes] [engine] [gdn_backward] [gdn_training] [kda] [kda_mixes] [kda_engine] [kda_backward] [kda_training] [--peers flash_qla,flashinfer]
                     [--eager] [--only "operator 8x4096 .* strong"] [--first 2] [--rows 3] [--rep 3] [--csv out.csv]

Every figure is in ms, the median of five rounds in which all libraries have their turn; of a round, the median of triton's do_bench (L2 flushed before
each run) over replays of a CUDA graph of the call.  "e" marks a call that would not be captured.  With --eager it is of calls as a program launches them,
ours by the package's functions: each by itself, when the L2 is flushed and the GPU idle, so that what the host takes is in it.  A library that is not
installed is left out.  Random data; the library's o and final state are compared with a float64 recurrence of one or two heads before it is timed; gradients
with those of the recurrence for 200 tokens of two heads, GDN's of four.  FlashKDA is vLLM's: FLASHKDA_SO is the path of `_flashkda_C.abi3.so`, which is in
the wheel of vllm 0.33 and loads without the rest of it.
"""
import argparse
import csv
import functools
import gc
import importlib
import math
import os
import random
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from triton.testing import do_bench

import engine
import tilekern

os.environ.setdefault("FLA_FLASH_QLA", "0")  # else FLA's GDN is FlashQLA's
dev = "cuda"
start = time.time()
ROUNDS = 5

# q/k heads, value heads, lengths: the rows of FlashQLA's table that kernels/README.md lists
GDN = [(16, 64, [32768]), (16, 64, [8192] * 4), (16, 64, [1024] * 8), (16, 32, [32768]), (16, 32, [8192] * 4), (16, 32, [2048]),
       (2, 8, [32768]), (2, 8, [8192]), (2, 8, [2048]), (2, 8, [4096] * 8), (32, 32, [16384])]


# and K, V
GDN_BACKWARD = ([(h, 2 * h, [T // N] * N, 128, 128) for h in (16, 8, 4, 2) for T, N in ((32768, 4), (8192, 1), (32768, 1), (8192, 8), (32768, 8))]
                + [(16, hv, [T], 128, 128) for hv in (64, 32) for T in (16384, 4096, 65536)] + [(30, 30, [8192] * 4, 96, 192)])


def mixes():
    """What servers run: a few long sequences among short ones, decodes, documents."""
    draw = random.Random(3)
    uniform = lambda n, least, most: [draw.randint(least, most) for _ in range(n)]
    documents = []
    while sum(documents) < 65536:
        documents.append(max(1, min(16384, int(draw.lognormvariate(math.log(600), 1.0)))))
    documents[-1] -= sum(documents) - 65536
    return {"7168+31xU(17,256)": [7168] + uniform(31, 17, 256), "64xU(55,262)": uniform(64, 55, 262),
            "1238..519": [1238, 1199, 1240, 1216, 1187, 1203, 519], "64x128": [128] * 64, "64xU(100,160)": uniform(64, 100, 160),
            "7239+953x1": [7239] + [1] * 953, "2050x16": [16] * 2050, "lognormal": [n for n in documents if n]}


# what gates are called, -5 sigmoid(N - this)
GATES = (("strong", 0.0), ("mild", 6.0))

# sequences, tokens, heads, K = V; each with both
KDA = ([(1, 8192, 96, 128), (8, 1024, 96, 128), (1, 8192, 64, 128), (8, 1024, 64, 128), (1, 1024, 64, 128), (2, 8192, 64, 128), (8, 4096, 32, 128),
        (4, 8192, 32, 128), (16, 4096, 16, 64), (8, 8192, 16, 64)]
       + [(B, T, H, 128) for H in (8, 12, 16, 32) for B, T in ((1, 2048), (1, 8192), (1, 32768), (8, 1024))])


# Few heads and long sequences, with gates as a layer begins: initial_gates.
KDA_INITIAL = [(1, T, H, 128) for H in (8, 12, 32) for T in (2048, 8192, 32768)]

KDA_BACKWARD = [(8, 4096, 32, 128), (4, 8192, 32, 128), (1, 8192, 32, 128), (1, 8192, 96, 128), (1, 8192, 12, 128), (16, 4096, 16, 64), (8, 8192, 16, 64), (1, 65536, 8, 128), (1, 65536, 32, 128)]


def say(*words):
    print(f"[{time.time() - start:6.1f}s]", *words, flush=True)


def graph_of(fn):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fn()
        side.synchronize()
        gc.collect()  # an older graph that is freed meanwhile would end the capture
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            graph.keep = fn()
    torch.cuda.synchronize()
    return graph


def ready(fn, eager):
    """What to time - a replay of a CUDA graph of the call, or the call - and "" or "e"; None when the call fails."""
    try:
        for _ in range(3):
            fn()
        torch.cuda.synchronize()
    except Exception as e:
        say("   failed:", type(e).__name__, str(e)[:200])
        return None, ""
    if eager:
        return fn, ""
    try:
        return graph_of(fn).replay, ""
    except Exception as e:
        torch.cuda.synchronize()
        torch.cuda.default_generators[torch.cuda.current_device()].graphsafe_set_state(torch.Generator(dev).graphsafe_get_state())  # the old one waits for the capture's end
        say("   not captured:", type(e).__name__, str(e)[:120])
        return fn, "e"


def alone(fn, rep):
    """Median milliseconds from the host's beginning of a call to the GPU's end of it; the GPU is idle before."""
    flush = torch.empty(256 << 20, dtype=torch.uint8, device=dev)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, until = [], time.perf_counter() + rep / 1e3
    while not times or time.perf_counter() < until:
        flush.zero_()
        torch.cuda.synchronize()
        begin.record()
        fn()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def medians(a, calls):
    """Milliseconds of each, and how it was timed.  By turns, when all are compiled: the GPU's clock falls while it is busy."""
    run = {name: ready(fn, a.eager) for name, fn in calls.items()}
    clock = alone if a.eager else functools.partial(do_bench, warmup=10, return_mode="median")
    times = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, (fn, _) in run.items():
            times[name].append(clock(fn, rep=a.rep) if fn else math.nan)
    return {name: (statistics.median(t), run[name][1]) for name, t in times.items()}


def chosen(a, rows, name):
    """Those that --only leaves, each after its name."""
    return [(n, *row) for row in rows for n in [name(*row)] if a.only.search(n)]


def optional(name, peers):
    package = name.split(".")[0]
    if not any(p == package or p.startswith(package + "_") for p in peers):
        return None
    try:
        return importlib.import_module(name)
    except Exception as e:
        say("no", name, type(e).__name__, str(e)[:160])
        return None


def recurrence(q, k, v, g, beta, h0):
    """One head in float64: q, k [T, K], v [T, V], g [T] or [T, K], beta [T]."""
    q, k, v, g, beta = (x.double().cpu() for x in (q, k, v, g, beta))
    s = torch.zeros(k.shape[1], v.shape[1], dtype=torch.double) if h0 is None else h0.double().cpu().clone()
    o = torch.empty(len(v), v.shape[1], dtype=torch.double)
    decay = g.exp().reshape(len(g), -1)
    for t in range(len(q)):
        s *= decay[t][:, None]
        s += torch.outer(k[t], beta[t] * (v[t] - k[t] @ s))
        o[t] = (q[t] * k.shape[1] ** -0.5) @ s
    return o, s


def ratio(have, want):
    have = have.double().cpu()
    return ((have - want).pow(2).mean().sqrt() / want.pow(2).mean().sqrt()).item() if have.isfinite().all() else math.inf


def checked(o, ht, reference, what, limit=0.006):
    ro, rs = reference
    errors = ratio(o, ro), ratio(ht, rs)
    if not max(errors) < limit:
        raise SystemExit(f"{what}: o differs by {errors[0]:.4g} RMS, the final state by {errors[1]:.4g}; not timed")
    return errors


def kda_of(module, operator, **more):
    """chunk_kda, the library's or FLA's: of q, k, v, g, beta and, with the norm, gate and sigmoid in it, A_log and dt_bias."""
    whole = dict(use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True) if operator else {}
    more = {"safe_gate": True, "lower_bound": -5.0, **whole, **more}
    return lambda q, k, v, g, beta, *gate: module.chunk_kda(q, k, v, g, beta, **dict(zip(("A_log", "dt_bias"), gate)), **more)


def gdn_rows(a):
    for row in chosen(a, GDN[a.first : a.rows], lambda hq, hv, lengths: f"gdn {hq}/{hv} {len(lengths)}x{lengths[0]}"):
        yield gdn_row(a, *row)


def mix_rows(a):
    rows = [(hq, hv, *mix) for hq, hv in ((16, 32), (4, 8), (16, 64)) for mix in mixes().items()]
    for name, hq, hv, _, lengths in chosen(a, rows[a.first : a.rows], "gdn {}/{} {}".format):
        yield gdn_row(a, name, hq, hv, lengths)


def gdn_row(a, name, hq, hv, lengths):
    """States are V first for all, as FlashInfer has them; ours also normalises q and k."""
    fla = optional("fla.ops.gated_delta_rule", a.peers)
    qla, fi = optional("flash_qla", a.peers), optional("flashinfer.gdn_prefill", a.peers)
    T, N, D = sum(lengths), len(lengths), 128
    q, k = (F.normalize(torch.randn(1, T, hq, D, device=dev), dim=-1).bfloat16() for _ in range(2))
    v = torch.randn(1, T, hv, D, device=dev).bfloat16()
    g = F.logsigmoid(torch.randn(1, T, hv, device=dev)) / 16
    beta = torch.randn(1, T, hv, device=dev).sigmoid()
    h0 = torch.randn(N, hv, D, D, device=dev)
    cu = torch.tensor([0] + torch.tensor(lengths).cumsum(0).tolist(), device=dev)
    cu32 = cu.int()
    call = lambda: tilekern.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True, cu_seqlens=cu32, use_qk_l2norm_in_kernel=True, state_v_first=True)
    o, ht = call()
    for h, n in ((0, 0), (hv - 1, N - 1)):
        x = slice(cu[n].item(), cu[n + 1].item())
        want = recurrence(q[0, x, h * hq // hv], k[0, x, h * hq // hv], v[0, x, h], g[0, x, h], beta[0, x, h], h0[n, h].T)
        errors = checked(o[0, x, h], ht[n, h].T, want, f"{name} head {h}")
    calls = {"tilekern": call}
    if fla:
        calls["fla"] = lambda: fla.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True, cu_seqlens=cu)
    if qla:
        calls["flash_qla"] = lambda: qla.chunk_gated_delta_rule(q, k, v, g, beta, initial_state=h0, output_final_state=True, cu_seqlens=cu32)
    if fi:
        al, st, oo = g[0].exp(), torch.empty_like(h0), torch.empty_like(v[0])
        calls["flashinfer"] = lambda: fi.chunk_gated_delta_rule(q[0], k[0], v[0], g=al, beta=beta[0], initial_state=h0,
                                                                output_final_state=True, cu_seqlens=cu, output=oo, output_state=st)
    heads = T * hv
    return name, errors, medians(a, calls), 163840 * heads, (512 * hq / hv + 520) * heads + 131072 * N * hv


def engine_rows(a):
    """What an engine runs between its convolution and its output norm: one call of ours, and FlashInfer's with vLLM's copies around it."""
    fi = optional("flashinfer.gdn_prefill", a.peers)
    lengths = {"1x8192": [8192], "4x2048": [2048] * 4, **{n: l for n, l in mixes().items() if n in ("7168+31xU(17,256)", "64x128", "64xU(100,160)", "lognormal")}}
    rows = [(hq, hv, *mix) for hq, hv in ((16, 32), (4, 8), (16, 64)) for mix in lengths.items()]
    for name, hq, hv, _, x in chosen(a, rows[a.first : a.rows], "engine {}/{} {}".format):
        step = engine.Step(hq, hv, x)
        before = step.pool.clone()
        call = step.tilekern
        call()
        for h, n in ((0, 0), (hv - 1, len(x) - 1)):
            q, k, v, g, beta, h0, rows_of = step.reference(h, n, before)
            want = recurrence(q, k, v, g, beta, h0)
            errors = checked(step.o[rows_of, h], step.pool[step.slots[n], h].T, want, f"{name} head {h}")
        step.pool.copy_(before)
        calls = {"tilekern": call, "around": step.around}
        if fi:
            calls["flashinfer"] = lambda: step.flashinfer(fi)
        times = medians(a, calls)
        say("   what is around FlashInfer's kernel: {0:.4f} ms".format(times.pop("around")[0]))
        heads = step.T * hv
        yield name, errors, times, 163840 * heads, (512 * hq / hv + 516) * heads + 131072 * len(x) * hv


def kda_inputs(B, T, H, D, shift):
    """The operator's inputs - q, k of any norm, raw gate, logit of beta - and the kernel's, which the recurrence has, too."""
    raw = [torch.randn(B, T, H, D, device=dev).bfloat16() for _ in range(4)]
    raw[3] = (raw[3].float() - shift).bfloat16()
    logit = torch.randn(B, T, H, device=dev)
    q, k = (F.normalize(x.float(), dim=-1, eps=1e-3).bfloat16() for x in raw[:2])
    return raw, logit, (q, k, raw[2], (-5 * torch.sigmoid(raw[3].float())).bfloat16(), logit.sigmoid())


def initial_gates(D):
    """-5 sigmoid(N - this), of each channel: a layer's dt_bias is the inverse of softplus at dt, log dt uniform from log .001 to log .1.  Some channels keep for thousands of tokens."""
    dt = torch.logspace(-3, -1, D, device=dev)
    return -torch.log(torch.expm1(dt))


def kda_checked(x, b, h, rows=slice(None), n=None):
    """A function that checks o and the final state of head h of row b, or of sequence n in `rows` of it: all of it, or its first 4096 tokens; of fewer than 64 tokens all
    heads, for q and k of one may be nearly orthogonal."""
    length = len(x[0][b, rows])
    most = min(length, 4096)
    heads = range(x[0].shape[2]) if most < 64 else [h]
    of = lambda t: torch.stack([t[b, rows, i][:most] for i in heads])
    want, last = map(torch.stack, zip(*(recurrence(*given, None) for given in zip(*map(of, x)))))

    def check(o, ht, name):
        state = torch.stack([ht[b if n is None else n, i] for i in heads])
        limit = 0.006 if most >= 64 else 0.015  # a few tokens: what is allowed of the worst 64
        return checked(of(o), state if most == length else last, (want, last), f"{name} head {h}" if len(heads) == 1 else name, limit)

    return check


@functools.cache
def flash_kda():
    """vLLM's FlashKDA, or None."""
    path = os.environ.get("FLASHKDA_SO")
    if path:
        torch.ops.load_library(path)
    return torch.ops._flashkda_C if path else None


def flash_kda_call(q, k, v, g, logit, zeros, cu, states=None):
    """A function that queues FlashKDA's operator on tokens [1][T][H][128]; states [N][H][V][K], or none."""
    fk, N, (_, T, H, D) = flash_kda(), len(cu) - 1, k.shape
    o, ht = torch.empty_like(v), torch.empty(N, H, D, D, device=dev)
    work = torch.empty(fk.get_workspace_size(T, H, N), dtype=torch.uint8, device=dev)
    beta, (a_log, bias) = logit.bfloat16(), zeros
    return lambda h0=states: (fk.fwd(q, k, v, g, beta, D**-0.5, o, work, a_log, bias, -5.0, h0, ht, cu, None, None), o, ht)[1:]


def kda_calls(a, raw, logit, x, D, lengths, packed):
    """What is timed of a row: {"kernel": {name: call}, "operator": {name: call}}, ours first; without `packed` all sequences are rows of equal lengths."""
    fla, dnn = optional("fla.ops.kda", a.peers), optional("cudnn.linear_attention.ops", a.peers)
    (rq, rk, v, rg), (q, k, _, g, beta), H = raw, x, logit.shape[-1]
    zeros = torch.zeros(H, device=dev), torch.zeros(H * D, device=dev)
    cu = torch.tensor([0] + torch.tensor(lengths).cumsum(0).tolist(), device=dev, dtype=torch.int32)
    at, long = {"cu_seqlens": cu} if packed else {}, {"cu_seqlens": cu.long()} if packed else {}
    given = {"kernel": (q, k, v, g, beta), "operator": (rq, rk, v, rg, logit, *zeros)}
    calls = {what: {} for what in given}
    for name, module, sequences in (("tilekern", tilekern, at), ("fla", fla, long)):
        for what, inputs in given.items() if module else ():
            calls[what][name] = functools.partial(kda_of(module, what == "operator", output_final_state=True, **sequences), *inputs)
    both = dict(output_final_state=True, plan_name="kda_hopper_cuda", scale=D**-0.5)
    whole = dict(a_log=zeros[0], dt_bias=zeros[1].view(H, D), use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True, safe_gate=True, gate_lower_bound=-5.0, **both)
    flat = lambda q, k, v, g, beta, dtype: [t.reshape(-1, *t.shape[2:]) for t in (q, k, v, g.to(dtype), beta)]
    for name, dtype in (("cudnn", torch.float), ("cudnn_bf16", torch.bfloat16)):
        if dnn and D == 128 and name in a.peers:
            calls["kernel"][name] = functools.partial(dnn.kimi_delta_attention, *flat(*x, dtype), cu, **both)
            calls["operator"][name] = functools.partial(dnn.kimi_delta_attention, *flat(*raw, logit, dtype), cu, **whole)
    if flash_kda() and "flash_kda" in a.peers and D == 128:
        one = lambda t: t.reshape(1, -1, *t.shape[2:])
        calls["operator"]["flash_kda"] = flash_kda_call(*map(one, (rq, rk, v, rg, logit)), (zeros[0], zeros[1].view(H, D)), cu)
    return calls


def kda_row(a, title, H, D, lengths, shift, packed):
    N, T = len(lengths), sum(lengths)
    rows = chosen(a, [("kernel",), ("operator",)], lambda what: f"kda {what} {title}")
    if not rows:
        return
    raw, logit, x = kda_inputs(*((1, T) if packed else (N, lengths[0])), H, D, shift)
    last = max(n for n in range(N) if lengths[n])
    at = dict(rows=slice(T - lengths[last], T), n=last) if packed else {}
    check, calls = kda_checked(x, 0 if packed else N - 1, H - 1, **at), kda_calls(a, raw, logit, x, D, lengths, packed)
    for name, what in rows:
        errors = check(*calls[what]["tilekern"](), name)
        yield name, errors, medians(a, calls[what]), 10 * D * D * T * H, (10 * D + 2) * T * H


def kda_rows(a):
    for (B, T, H, D), (gates, shift) in [(row, g) for row in KDA[a.first : a.rows] for g in GATES]:
        yield from kda_row(a, f"{B}x{T} H{H} K{D} {gates}", H, D, [T] * B, shift, False)


def kda_initial_rows(a):
    for B, T, H, D in KDA_INITIAL[a.first : a.rows]:
        yield from kda_row(a, f"{B}x{T} H{H} K{D} initial", H, D, [T] * B, initial_gates(D), False)


def kda_mix_rows(a):
    """FlashKDA's six sequences, what servers run, and what they capture: 64 slots of sequences of which 9 are used."""
    six = [(96, "1300..3063", [1300, 547, 2048, 963, 271, 3063])]
    single = {f"1x{n}": [n] for n in (129, 513, 1159, 2049, 8193, 16385)}
    slots = {"9 of 64 slots": [2048] * 2 + [1024] * 2 + [512] * 2 + [341] * 3 + [0] * 55}
    rows = six + [(H, name, lengths) for H in (8, 12, 32) for name, lengths in {**mixes(), **single, **slots}.items()]
    for (H, name, lengths), (gates, shift) in [(row, g) for row in rows[a.first : a.rows] for g in GATES]:
        yield from kda_row(a, f"{name} H{H} K128 {gates}", H, 128, lengths, shift, True)


def kda_engine_rows(a):
    """A KDA layer's step of an engine: one call of ours, and FlashKDA, cuDNN and FLA with the copies that vLLM has around FlashKDA."""
    fla, dnn = optional("fla.ops.kda", a.peers), optional("cudnn.linear_attention.ops", a.peers)
    lengths = {"1x2048": [2048], "1x8192": [8192], "4x2048": [2048] * 4, **{n: l for n, l in mixes().items() if n in ("7168+31xU(17,256)", "64xU(100,160)")}}
    rows = [(H, *mix) for H in (8, 12, 32) for mix in lengths.items()]
    for name, H, _, x in chosen(a, rows[a.first : a.rows], "kda engine {} {}".format):
        step = engine.KdaStep(H, x)
        before = step.pool.clone()
        step.tilekern()
        errors = max(checked(step.o[rows_of, h], step.pool[step.slots[n], h].T, recurrence(*given), f"{name} head {h}")
                     for h, n in ((0, 0), (H - 1, len(x) - 1)) for *given, rows_of in (step.reference(h, n, before),))
        step.pool.copy_(before)
        calls = {"tilekern": step.tilekern, "around": step.around}
        if flash_kda() and "flash_kda" in a.peers:
            calls["flash_kda"] = lambda fk=flash_kda(): step.flash_kda(fk)
        if dnn:
            calls["cudnn"] = lambda: step.cudnn(dnn)
        if fla:
            calls["fla"] = lambda: step.fla(fla)
        times = medians(a, calls)
        say("   what is around FlashKDA's kernel: {0:.4f} ms".format(times.pop("around")[0]))
        yield name, errors, times, 163840 * step.T * H, 1282 * step.T * H + 131072 * len(x) * H


def compare_gradients(name, leaves, inputs, dout, grads):
    """(dq, dk, dv), (dg, dbeta) of a row of tokens, grads' first five, against autograd of the recurrence; inputs: of it, from the leaves."""
    q, k, v, g, beta = inputs
    T, H, D = k.shape[1:]
    s, total = torch.zeros(H, D, v.shape[-1], dtype=torch.double), 0
    for t in range(T):
        s = s * g[0, t].exp()[..., None]
        s = s + (k[0, t] * beta[0, t][:, None])[..., None] * (v[0, t] - torch.einsum("hk,hkv->hv", k[0, t], s))[:, None]
        total = total + (torch.einsum("hk,hkv->hv", q[0, t], s) * D**-0.5 * dout[0, t].double().cpu()).sum()
    total.backward()
    errors = {n: ratio(have, t.grad) for (n, t), have in zip(leaves.items(), grads)}
    limits = dict(q=0.008, k=0.008, v=0.008, g=0.02, beta=0.02)
    if not all(errors[n] < limits[n] for n in errors):
        raise SystemExit(f"{name}: the gradients differ by {errors}; not timed")
    return max(errors[n] for n in "qkv"), max(errors["g"], errors["beta"])


def kda_zeros(H, D, operator):
    """A_log and dt_bias of the operator."""
    return [torch.zeros(H, device=dev), torch.zeros(H * D, device=dev)] if operator else []


@functools.cache
def kda_gradient_errors(D, shift, operator):
    """(dq, dk, dv), (dg, dbeta) of 200 tokens of two heads against autograd of the recurrence in float64."""
    (rq, rk, v, rg), logit, x = kda_inputs(1, 200, 2, D, shift)
    given = dict(zip("q k v g beta".split(), (rq, rk, v, rg, logit) if operator else x))
    dout, zeros = torch.randn_like(v), kda_zeros(2, D, operator)
    grads, of_saved = (autograd_call(kda_of(tilekern, operator, disable_recompute=save), [*given.values(), *zeros], dout)() for save in (False, True))
    if not all(map(torch.equal, grads[:5], of_saved[:5])):
        raise SystemExit(f"KDA backward, K = {D}, gates {shift}: what the forward saved gives other bits")
    leaves = {n: t.double().cpu().requires_grad_() for n, t in given.items()}
    q, k, v, g, beta = leaves.values()
    if operator:
        q, k = (t / (t.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for t in (q, k))
        g, beta = -5 * g.sigmoid(), beta.sigmoid()
    return compare_gradients(f"KDA backward, K = {D}, gates {shift}", leaves, (q, k, v, g, beta), dout, grads)


def peak_of(fn):
    """MB that the call takes beside what there is."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    keep = fn()
    torch.cuda.synchronize()
    peak = (torch.cuda.max_memory_allocated() - before) / 1e6
    del keep
    return peak


def autograd_call(forward, leaves, dout):
    """Its backward alone; what the forward keeps is there.  torch runs a backward on the stream of its forward, so another stream, that of a capture, has a forward of its own."""
    leaves, made = [t.detach().requires_grad_() for t in leaves], {}

    def call():
        stream = torch.cuda.current_stream()
        if stream not in made:
            made.clear()
            out = forward(*leaves)
            made[stream] = out[0] if isinstance(out, tuple) else out
        out = made[stream]
        return torch.autograd.grad(out, leaves, dout.view(out.shape), retain_graph=True)

    call()
    return call


class KdaCase:
    """A row of KDA's backward: our forwards and those of others, each with what it takes gradients of.  Without lengths the sequences are rows of equal lengths."""

    def __init__(self, a, name, B, T, H, D, shift, operator, lengths):
        self.name, self.heads, self.D, self.errors = name, B * T * H, D, kda_gradient_errors(D, shift, operator)
        (rq, rk, v, rg), logit, x = kda_inputs(B, T, H, D, shift)
        self.dout = torch.randn_like(v)
        offsets = torch.tensor([0] + torch.tensor(lengths or [T] * B).cumsum(0).tolist(), device=dev)
        packed = lambda cu: {"cu_seqlens": cu} if lengths else {}
        leaves = [*((rq, rk, v, rg, logit) if operator else x), *kda_zeros(H, D, operator)]
        self.ours = {what: (kda_of(tilekern, operator, disable_recompute=what == "saved", **packed(offsets.int())), leaves) for what in ("again", "saved")}
        self.theirs = {}
        fla, dnn = optional("fla.ops.kda", a.peers), optional("cudnn.linear_attention.ops", a.peers)
        for what, safe in (("fla", True), ("fla_unsafe", False)):
            if fla and what in a.peers:
                self.theirs[what] = kda_of(fla, operator, safe_gate=safe, **packed(offsets)), leaves
        if dnn and D == 128 and not operator:
            self.theirs["cudnn"] = (functools.partial(cudnn_call, dnn, offsets.int()), [t.reshape(-1, *t.shape[2:]) for t in (*x[:3], x[3].float(), x[4])])


def cudnn_call(dnn, cu, q, k, v, g, beta):
    return dnn.kimi_delta_attention(q, k, v, g, beta, cu, plan_name="kda_hopper_cuda", scale=q.shape[-1] ** -0.5)


def kda_cases(a, what):
    shapes = [(B, T, H, D, None) for B, T, H, D in KDA_BACKWARD] + [(1, 65536, H, D, mixes()["lognormal"]) for H, D in ((32, 128), (16, 64))]
    rows = [(*shape, *gates, operator) for shape in shapes[a.first : a.rows] for gates in (*GATES, ("initial", initial_gates(shape[3]))) for operator in (False, True)]

    def name(B, T, H, D, lengths, gates, shift, operator):
        title = f"{len(lengths)} documents of {T}" if lengths else f"{B}x{T}"
        return f"kda {what} {'operator' if operator else 'kernel'} {title} H{H} K{D} {gates}"

    for n, B, T, H, D, lengths, _, shift, operator in chosen(a, rows, name):
        yield KdaCase(a, n, B, T, H, D, shift, operator, lengths)


def backward_times(a, forwards, dout):
    """Backwards alone, by name; before that what each takes is printed."""
    calls, peaks = {}, {}
    for n, (forward, leaves) in forwards.items():
        try:
            peaks[n] = peak_of(lambda: (call := autograd_call(forward, leaves, dout), call()))
            calls[n] = autograd_call(forward, leaves, dout)
        except Exception as e:
            say("   failed:", n, type(e).__name__, str(e)[:200])
    say("   MB beside the inputs, the forward's and its o included:", " ".join(f"{n} {mb:.0f}" for n, mb in peaks.items()))
    return medians(a, calls)


def kda_backward_rows(a):
    """Backwards alone: ours with what the forward saved, and scanning it again."""
    for c in kda_cases(a, "backward"):
        times = backward_times(a, {**c.ours, **c.theirs}, c.dout)
        ours = {n: times.pop(n) for n in c.ours}
        for n, t in ours.items():
            yield f"{c.name} {n.replace('again', 'recomputed')}", c.errors, {"tilekern": t, **times}, 26 * c.D * c.D * c.heads, (28 * c.D + 8) * c.heads


def gdn_inputs(hq, hv, T, K, V):
    q, k = (F.normalize(torch.randn(1, T, hq, K, device=dev), dim=-1).bfloat16() for _ in range(2))
    v = torch.randn(1, T, hv, V, device=dev).bfloat16()
    return dict(q=q, k=k, v=v, g=F.logsigmoid(torch.randn(1, T, hv, device=dev)) / 16, beta=torch.randn(1, T, hv, device=dev).sigmoid())


@functools.cache
def gdn_gradient_errors(K, V):
    """As kda_gradient_errors, of two heads and four value heads."""
    given = gdn_inputs(2, 4, 200, K, V)
    dout = torch.randn_like(given["v"])
    grads = autograd_call(tilekern.chunk_gated_delta_rule, given.values(), dout)()
    leaves = {n: t.double().cpu().requires_grad_() for n, t in given.items()}
    q, k = (leaves[n].repeat_interleave(2, dim=2) for n in "qk")
    return compare_gradients("GDN backward", leaves, (q, k, leaves["v"], leaves["g"].unsqueeze(-1), leaves["beta"]), dout, grads)


def gdn_cases(a, what):
    """Name, errors, our forwards and those of others with what they take gradients of, dout, heads of all tokens, then flop and bytes of a head's token, forward and backward."""
    fla, qla = optional("fla.ops.gated_delta_rule", a.peers), optional("flash_qla", a.peers)
    channels = lambda K, V: "" if K == V == 128 else f" K{K} V{V}"
    for name, hq, hv, lengths, K, V in chosen(a, GDN_BACKWARD[a.first : a.rows], lambda hq, hv, lengths, *of: f"gdn {what} {hq}/{hv} {len(lengths)}x{lengths[0]}{channels(*of)}"):
        errors, given = gdn_gradient_errors(K, V), gdn_inputs(hq, hv, sum(lengths), K, V)
        cu = torch.tensor([0] + torch.tensor(lengths).cumsum(0).tolist(), device=dev)
        of = lambda module, cu, **more: (functools.partial(module.chunk_gated_delta_rule, cu_seqlens=cu, **more), list(given.values()))
        ours = {"again": of(tilekern, cu.int()), "saved": of(tilekern, cu.int(), disable_recompute=True)}
        theirs = {n: of(module, offsets) for n, module, offsets in (("fla", fla, cu), ("flash_qla", None if channels(K, V) else qla, cu.int())) if module}
        heads, keys = sum(lengths) * hv, K * hq / hv
        work = (10 * K * V * heads, (4 * keys + 4 * V + 8) * heads), (26 * K * V * heads, (8 * keys + 6 * V + 16) * heads)
        yield name, errors, ours, theirs, torch.randn_like(given["v"]), *work


def gdn_backward_rows(a):
    """Backwards alone; ours from what its forward saved, and scanning it again."""
    for name, errors, ours, theirs, dout, _, work in gdn_cases(a, "backward {}"):
        times = backward_times(a, {**ours, **theirs}, dout)
        both = {n: times.pop(n) for n in ours}
        for n, t in both.items():
            yield name.format(n), errors, {**times, "tilekern": t}, *work


def kept_by(forward, o):
    """MB that a forward leaves for its backward, beside its inputs and o."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    out = forward()
    torch.cuda.synchronize()
    kept = (torch.cuda.memory_allocated() - before - o.nbytes) / 1e6
    del out
    return kept


def training_rows(a, name, errors, ours, theirs, dout, flop, bytes_):
    """Forward and backward together, and what is kept between them: ours keeps what the backward wants, or nothing and scans again."""
    calls, kept = {}, {}
    for n, (forward, leaves) in {**ours, **theirs}.items():
        leaves = [t.detach().requires_grad_() for t in leaves]

        def step(forward=forward, leaves=leaves):
            out = forward(*leaves)
            out = out[0] if isinstance(out, tuple) else out
            return torch.autograd.grad(out, leaves, dout.view(out.shape))

        try:
            step()
            kept[n], calls[n] = kept_by(lambda: forward(*leaves), dout), step
        except Exception as e:
            say("   failed:", n, type(e).__name__, str(e)[:200])
    times = medians(a, calls)
    both = {what: times.pop(what) for what in ours}
    others = "".join(f", {n} {kept[n]:.0f}" for n in times)
    for what, t in both.items():
        yield f"{name.format(what)}: keeps {kept[what]:.0f} MB{others}", errors, {**times, "tilekern": t}, flop, bytes_


def gdn_training_rows(a):
    for name, errors, ours, theirs, dout, *work in gdn_cases(a, "forward, backward {}"):
        yield from training_rows(a, name, errors, ours, theirs, dout, *map(sum, zip(*work)))


def kda_training_rows(a):
    for c in kda_cases(a, "forward, backward {}"):
        yield from training_rows(a, c.name, c.errors, c.ours, c.theirs, c.dout, 36 * c.D * c.D * c.heads, (38 * c.D + 10) * c.heads)


class Table:
    """The rows, each in the CSV as soon as it is there."""

    def __init__(self, a):
        self.path, self.ratios = a.csv, []
        self.write("w", ["row", "o_rms", "ht_rms", "tilekern_ms", "floor_ms"] + [p + "_ms" for p in a.peers] + ["best_peer_over_ours"])

    def add(self, row, ratio):
        there = ratio == ratio
        self.ratios += [ratio] if there else []
        self.write("a", row + [f"{ratio:.3f}"] if there else row)

    def write(self, mode, row):
        if self.path:
            with open(self.path, mode, newline="") as f:
                csv.writer(f).writerow(row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", nargs="*", default=["gdn", "kda"])
    parser.add_argument("--peers", default="fla,fla_unsafe,flash_qla,flashinfer,cudnn,cudnn_bf16,flash_kda", type=lambda s: s.split(","))
    parser.add_argument("--rows", type=int, default=None, help="up to which")
    parser.add_argument("--first", type=int, default=0, help="from which")
    parser.add_argument("--only", type=re.compile, default="", help="rows whose name has this regular expression in it; saved and again are {} there")
    parser.add_argument("--eager", action="store_true", help="calls, not graphs of them")
    parser.add_argument("--rep", type=int, default=40, help="milliseconds of a round")
    parser.add_argument("--csv", default=None)
    a = parser.parse_args()
    torch.manual_seed(0)
    table = Table(a)
    for what in a.what:
        for name, errors, row, flop, bytes_ in {"gdn": gdn_rows, "mixes": mix_rows, "engine": engine_rows, "kda": kda_rows, "kda_initial": kda_initial_rows, "kda_mixes": kda_mix_rows, "kda_engine": kda_engine_rows, "kda_backward": kda_backward_rows,
                                                    "gdn_backward": gdn_backward_rows, "gdn_training": gdn_training_rows, "kda_training": kda_training_rows}[what](a):
            ms = row["tilekern"][0]
            others = {n: t for n, (t, _) in row.items() if n != "tilekern" and t == t}
            best = min(others.values(), default=math.nan)
            floor = max(flop / 790e12, bytes_ / 4.3e12) * 1e3
            say(f"{name:18s} o {errors[0]:.4f} ht {errors[1]:.4f} | " + " ".join(f"{n} {t:.3f}{e}" + ("" if n == "tilekern" else f" ({t / ms:.2f}x)") for n, (t, e) in row.items())
                + f" | {flop / ms / 1e9:.0f} TFLOP/s {bytes_ / ms / 1e6:.0f} GB/s floor {floor / ms:.0%} best peer / ours {best / ms:.2f}")
            if not table.ratios:
                gc.freeze()  # what peers import and never free: a collection before each capture takes .2 s with it
            table.add([name, f"{errors[0]:.5f}", f"{errors[1]:.5f}", f"{ms:.4f}", f"{floor:.4f}"] + [f"{others.get(p, math.nan):.4f}" for p in a.peers], best / ms)
    if table.ratios:
        say(f"geometric mean of best peer / ours over {len(table.ratios)} rows: {math.exp(sum(map(math.log, table.ratios)) / len(table.ratios)):.3f}")


if __name__ == "__main__":
    sys.exit(main())
