"""The recurrences in float64, and inputs for them."""
import os

import torch
import torch.nn.functional as F

DEVICE = os.environ.get("TILEKERN_TEST_DEVICE", "cpu")


def recurrence(q, k, v, g, beta, h0=None, cu=None, scale=None):
    """o [B, T, HV, V], states [N, HV, K, V] of float64 inputs: g [B, T, HV(, K)] log decays; cu: offsets of packed sequences."""
    group = v.shape[2] // q.shape[2]
    q, k = (t.repeat_interleave(group, 2) for t in (q, k))
    g = g.unsqueeze(-1) if g.dim() == 3 else g
    rows = [(b, 0, q.shape[1]) for b in range(q.shape[0])] if cu is None else [(0, a, b) for a, b in zip(cu, cu[1:])]
    out, states = torch.zeros_like(v), []
    pieces = []
    for n, (b, first, end) in enumerate(rows):
        s = q.new_zeros(v.shape[2], q.shape[3], v.shape[3]) if h0 is None else h0[n]
        o = []
        for t in range(first, end):
            s = s * g[b, t].exp()[..., None]
            u = (v[b, t] - torch.einsum("hkv,hk->hv", s, k[b, t])) * beta[b, t][:, None]
            s = s + k[b, t][..., None] * u[:, None, :]
            o.append(torch.einsum("hkv,hk->hv", s, q[b, t]) * (q.shape[-1] ** -0.5 if scale is None else scale))
        pieces.append(torch.stack(o) if o else v.new_zeros(0, *v.shape[2:]))
        states.append(s)
    out = torch.stack(pieces) if cu is None else torch.cat(pieces)[None]
    return out, torch.stack(states)


def activated(kda, q, k, g, beta, A_log, dt_bias, l2norm, gate, sigmoid, twice, lower_bound):
    """What the options make of raw inputs, for the recurrence."""
    if l2norm:
        q, k = (t / (t.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for t in (q, k))
    if gate:
        HV = g.shape[2]
        a = torch.zeros(HV, dtype=g.dtype) if A_log is None else A_log
        a = a.exp().view(HV, 1) if kda else a.exp()
        x = g if dt_bias is None else g + (dt_bias.view(HV, -1) if kda else dt_bias)
        g = -a * F.softplus(x) if lower_bound is None else lower_bound * torch.sigmoid(a * x)
    if sigmoid:
        beta = beta.sigmoid() * (2 if twice else 1)
    return q, k, g, beta


def inputs(kda, B=1, T=100, H=2, HV=4, K=128, V=128, dtype=torch.bfloat16, gate_dtype=torch.float32, raw=False, seed=0):
    """q, k, v, g, beta on the device; raw: of any norm, gates before the softplus, logits of beta."""
    torch.manual_seed(seed)
    q, k = (torch.randn(B, T, H, K) for _ in range(2))
    g, beta = torch.randn(B, T, HV, *([K] if kda else [])), torch.randn(B, T, HV)
    if not raw:
        q, k, g, beta = F.normalize(q, dim=-1), F.normalize(k, dim=-1), F.logsigmoid(g) / 4, beta.sigmoid()
    return [t.to(DEVICE, d) for t, d in zip((q, k, torch.randn(B, T, HV, V), g, beta), (dtype, dtype, dtype, gate_dtype, gate_dtype))]


def double(*tensors):
    return [None if t is None else t.detach().cpu().double().requires_grad_(t.is_floating_point()) for t in tensors]


def error(have, want):
    """RMS of the difference over that of what is wanted; infinite where a number is not finite."""
    have = have.detach().cpu().double()
    if have.shape != want.shape or not have.isfinite().all():
        return float("inf")
    return ((have - want).pow(2).mean().sqrt() / want.pow(2).mean().sqrt().clamp_min(1e-12)).item()


def assert_close(have, want, limit, what=""):
    e = error(have, want.detach())
    assert e < limit, f"{what}: differs by {e:.4g} RMS, more than {limit}"
