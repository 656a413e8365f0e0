"""A layer's prefill step as vLLM has it, GDN's and KDA's: the convolution's output, raw gates, and states in the blocks of a pool.

Ours is one call on all that.  FlashInfer's kernel takes dense normalised q and k, dense v, gates in fp32, states in order of the sequences and 64-bit offsets, and
vLLM copies the result to where it belongs: `prepare`, gather and scatter are what stands around it there, `prepare` as one kernel that reads and writes everything once.  FlashKDA's takes raw gates and unnormalised q, k, dense: vLLM has three convolutions for that, so that
only states are copied around it; around cuDNN's and FLA's kernels the same, and o, and for FLA states with K first.
"""
import torch
import triton
import triton.language as tl

from tilekern import ops

dev = "cuda"
D = 128


@triton.jit
def prepare(x, ab, a_log, dt_bias, q, k, v, g, beta, T, HQ: tl.constexpr, HV: tl.constexpr, D: tl.constexpr, R: tl.constexpr):
    """R tokens of a head, of q, k or v, and with a head of v its gates."""
    t = tl.program_id(0) * R + tl.arange(0, R)
    h = tl.program_id(1)
    d = tl.arange(0, D)
    row: tl.constexpr = (2 * HQ + HV) * D
    inside = t < T
    tile = tl.load(x + t[:, None].to(tl.int64) * row + h * D + d[None, :], mask=inside[:, None], other=0.0)
    if h < 2 * HQ:
        f = tile.to(tl.float32)
        f = f * tl.rsqrt(tl.sum(f * f, 1) + 1e-6)[:, None]
        to = q + (t[:, None].to(tl.int64) * HQ + h) * D + d[None, :]
        if h >= HQ:
            to = k + (t[:, None].to(tl.int64) * HQ + h - HQ) * D + d[None, :]
        tl.store(to, f.to(tl.bfloat16), mask=inside[:, None])
    else:
        n = h - 2 * HQ
        tl.store(v + (t[:, None].to(tl.int64) * HV + n) * D + d[None, :], tile, mask=inside[:, None])
        a = tl.load(ab + t * 2 * HV + n, mask=inside, other=0.0).to(tl.float32) + tl.load(dt_bias + n).to(tl.float32)
        b = tl.load(ab + t * 2 * HV + HV + n, mask=inside, other=0.0).to(tl.float32)
        softplus = tl.where(a > 20, a, tl.log(1 + tl.exp(a)))
        tl.store(g + t * HV + n, -tl.exp(tl.load(a_log + n)) * softplus, mask=inside)
        tl.store(beta + t * HV + n, tl.sigmoid(b), mask=inside)


class Step:
    def __init__(self, hq, hv, lengths):
        self.hq, self.hv, self.T, self.N = hq, hv, sum(lengths), len(lengths)
        T, N = self.T, self.N
        self.conv = torch.randn(T, (2 * hq + hv) * D, device=dev).bfloat16()
        self.ab = torch.randn(T, 2 * hv, device=dev).bfloat16()  # the gates' row of the projection
        self.a_log = torch.empty(hv, device=dev).uniform_(1, 16).log()
        self.dt_bias = torch.empty(hv, device=dev).uniform_(0.001, 0.1).expm1().log().bfloat16()
        self.cu = torch.tensor([0] + torch.tensor(lengths).cumsum(0).tolist(), device=dev, dtype=torch.int32)
        slots, page = N + 3, hv * D * D + 3 * (2 * hq + hv) * D  # a block has the convolution's state, too
        self.pages = torch.randn(slots, page, device=dev)
        self.pool = self.pages.as_strided((slots, hv, D, D), (page, D * D, D, 1))
        self.slots = (torch.randperm(slots - 1, device=dev)[:N] + 1).int()  # 0 is nobody's
        self.has = torch.arange(N, device=dev) % 3 != 1
        self.o = torch.zeros(T, hv, D, device=dev, dtype=torch.bfloat16)
        new = lambda *shape, dtype=torch.bfloat16: torch.empty(*shape, device=dev, dtype=dtype)
        self.q, self.k, self.v = new(T, hq, D), new(T, hq, D), new(T, hv, D)
        self.g, self.beta = new(T, hv, dtype=torch.float32), new(T, hv, dtype=torch.float32)

    def views(self):
        """q, k, v, g, beta of the convolution's and the projection's rows."""
        hq, hv = self.hq, self.hv
        x = self.conv.view(1, self.T, 2 * hq + hv, D)
        return x[:, :, :hq], x[:, :, hq : 2 * hq], x[:, :, 2 * hq :], self.ab[None, :, :hv], self.ab[None, :, hv:]

    def tilekern(self):
        torch.ops.tilekern.gdn_prefill(*self.views(), self.a_log, self.dt_bias, self.pool, self.slots, self.o[None], self.cu, self.has, state_v_first=True,
                                       options=ops.L2NORM | ops.RAW_GATE | ops.SIGMOID_BETA, null_slot=0)

    def before(self):
        """What FlashInfer's kernel is given."""
        R = 16
        prepare[(triton.cdiv(self.T, R), 2 * self.hq + self.hv)](self.conv, self.ab, self.a_log, self.dt_bias, self.q, self.k, self.v, self.g, self.beta,
                                                                self.T, self.hq, self.hv, D, R)
        states = self.pool.index_select(0, self.slots)
        states.masked_fill_(~self.has[:, None, None, None], 0)
        return states, self.g.exp(), self.cu.long()

    def after(self, o, states):
        self.pool.index_copy_(0, self.slots.long(), states)
        self.o.copy_(o)

    def around(self):
        """All but the kernel."""
        states, _, _ = self.before()
        self.after(self.v, states)

    def flashinfer(self, fi):
        states, alpha, cu = self.before()
        o, final = fi.chunk_gated_delta_rule(self.q, self.k, self.v, g=alpha, beta=self.beta, initial_state=states, output_final_state=True, cu_seqlens=cu)
        self.after(o, final)

    def reference(self, h, n, pool):
        """Head h of sequence n for the recurrence, from the pool as it was; and its rows."""
        rows = slice(self.cu[n].item(), self.cu[n + 1].item())
        q, k, v, a, b = (x[0, rows].double() for x in self.views())
        q, k = (x[:, h * self.hq // self.hv] for x in (q, k))
        q, k = (x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
        g = -self.a_log[h].double().exp() * torch.nn.functional.softplus(a[:, h] + self.dt_bias[h].double())
        h0 = pool[self.slots[n], h].T if self.has[n] else None
        return q, k, v[:, h], g, b[:, h].sigmoid(), h0, rows


class KdaStep:
    """Gates are raw and bounded; states [V][K] in f32."""

    def __init__(self, heads, lengths):
        self.H, self.T, self.N = heads, sum(lengths), len(lengths)
        T, N, H = self.T, self.N, heads
        self.conv = torch.randn(T, 3 * H * D, device=dev).bfloat16()
        self.g = torch.randn(1, T, H, D, device=dev).bfloat16()
        self.b = torch.randn(1, T, 2 * H, device=dev).bfloat16()[:, :, H:]  # of a wider projection
        self.a_log, self.dt_bias = torch.rand(H, device=dev), torch.rand(H, D, device=dev)
        self.cu = torch.tensor([0] + torch.tensor(lengths).cumsum(0).tolist(), device=dev, dtype=torch.int32)
        slots, page = N + 3, H * D * D + 9 * H * D
        self.pages = torch.randn(slots, page, device=dev)
        self.pool = self.pages.as_strided((slots, H, D, D), (page, D * D, D, 1))
        self.slots = (torch.randperm(slots - 1, device=dev)[:N] + 1).int()
        self.has = torch.arange(N, device=dev) % 3 != 1
        self.o = torch.zeros(T, H, D, device=dev, dtype=torch.bfloat16)
        self.dense = [x.contiguous() for x in self.views()]
        self.work = {}

    def views(self):
        x = self.conv.view(1, self.T, 3 * self.H, D)
        return [x[:, :, i * self.H : (i + 1) * self.H] for i in range(3)]

    def tilekern(self):
        torch.ops.tilekern.kda_prefill(*self.views(), self.g, self.b, self.a_log, self.dt_bias.view(-1), self.pool, self.slots, self.o[None], self.cu, self.has, state_v_first=True,
                                       options=ops.L2NORM | ops.RAW_GATE | ops.BOUNDED_GATE | ops.SIGMOID_BETA, null_slot=0, lower_bound=-5.0)

    def gather(self):
        states = self.pool.index_select(0, self.slots)
        return states.masked_fill_(~self.has[:, None, None, None], 0)

    def scatter(self, states):
        self.pool.index_copy_(0, self.slots.long(), states)

    def around(self):
        self.scatter(self.gather())

    def flash_kda(self, fk):
        if not self.work:
            size = fk.get_workspace_size(self.T, self.H, self.N)
            self.work = {"w": torch.empty(size, dtype=torch.uint8, device=dev), "ht": torch.empty(self.N, self.H, D, D, device=dev)}
        h0, ht = self.gather(), self.work["ht"]
        fk.fwd(*self.dense, self.g, self.b, D**-0.5, self.o[None], self.work["w"], self.a_log, self.dt_bias, -5.0, h0, ht, self.cu, None, None)
        self.scatter(ht)

    def cudnn(self, dnn):
        flat = [x[0] for x in self.dense]
        o, ht = dnn.kimi_delta_attention(*flat, self.g[0], self.b[0].contiguous(), self.cu, initial_state=self.gather(), output_final_state=True,
                                         a_log=self.a_log, dt_bias=self.dt_bias, use_qk_l2norm_in_kernel=True, use_beta_sigmoid_in_kernel=True, safe_gate=True,
                                         gate_lower_bound=-5.0, plan_name="kda_hopper_cuda", scale=D**-0.5)[:2]
        self.o.copy_(o)
        self.scatter(ht)

    def fla(self, fla):
        o, ht = fla.chunk_kda(*self.dense, self.g, self.b, A_log=self.a_log, dt_bias=self.dt_bias.flatten(), initial_state=self.gather().transpose(-1, -2).contiguous(),
                              output_final_state=True, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, use_beta_sigmoid_in_kernel=True, safe_gate=True,
                              lower_bound=-5.0, cu_seqlens=self.cu.long())
        self.o.copy_(o[0])
        self.scatter(ht.transpose(-1, -2))

    def reference(self, h, n, pool):
        """Head h of sequence n for the recurrence, from the pool as it was; and its rows."""
        rows = slice(self.cu[n].item(), self.cu[n + 1].item())
        q, k, v = (x[0, rows, h].double() for x in self.views())
        q, k = (x / (x.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt() for x in (q, k))
        g = -5 * torch.sigmoid(self.a_log[h].double().exp() * (self.g[0, rows, h].double() + self.dt_bias[h].double()))
        return q, k, v, g, self.b[0, rows, h].double().sigmoid(), pool[self.slots[n], h].T if self.has[n] else None, rows
