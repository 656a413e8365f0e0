"""The operators against float64 recurrences, and their errors."""
import itertools

import pytest
import torch

from reference import DEVICE, activated, assert_close, double, inputs, recurrence

from tilekern import ops

KINDS = ("gdn", "kda")
FORWARD = 0.006
GRADIENT = dict(q=0.012, k=0.012, v=0.012, g=0.02, beta=0.02, h0=0.012)


def operator(name):
    return getattr(torch.ops.tilekern, name)


def on(t, device=DEVICE):
    return None if t is None else torch.as_tensor(t).to(device)


@pytest.mark.parametrize("name,save,v_first", [(n, s, s != (n == "gdn")) for n, s in itertools.product(KINDS, (False, True))])
def test_forward_and_gradients(name, save, v_first):
    given = dict(zip("q k v g beta".split(), inputs(name == "kda", B=2, T=67, H=1, HV=2, K=128, V=72 if name == "kda" else 64)))
    given["h0"] = on(torch.randn(2, 2, 128, given["v"].shape[-1]))
    leaves = {n: t.requires_grad_() for n, t in given.items()}
    h0 = leaves["h0"].transpose(-1, -2) if v_first else leaves["h0"]
    o, state, saved = operator(f"{name}_fwd")(*[leaves[n] for n in "q k v g beta".split()], None, None, h0, None, 0.0, 0, v_first, True, save)
    assert (saved.numel() > 0) == save and saved.dtype == torch.uint8
    state = state.transpose(-1, -2) if v_first else state
    reference = dict(zip(given, double(*given.values())))
    want, want_state = recurrence(*reference.values())
    assert_close(o, want, FORWARD, "o")
    assert_close(state, want_state, FORWARD, "final_state")
    do, ds = on(torch.randn(o.shape)).to(o.dtype), on(torch.randn(state.shape))
    grads = torch.autograd.grad((o, state), list(leaves.values()), (do, ds))
    wants = torch.autograd.grad((want, want_state), list(reference.values()), (do.cpu().double(), ds.cpu().double()))
    for n, have, w in zip(given, grads, wants):
        assert have.dtype == given[n].dtype
        assert_close(have, w, GRADIENT[n], f"gradient of {n}")


@pytest.mark.parametrize("name", KINDS)
def test_options(name):
    """Raw inputs, packed sequences of 64-bit offsets, one of them empty, and gradients of the gate's parameters."""
    kda = name == "kda"
    T, HV, K, cu = 75, 2, 128, [0, 5, 5, 70]
    q, k, v, g, beta = inputs(kda, T=T, H=1, HV=HV, K=K, V=K, raw=True)
    A_log, dt_bias = on(torch.rand(HV)), on(torch.rand(HV * K if kda else HV))
    options = ops.L2NORM | ops.RAW_GATE | ops.SIGMOID_BETA | ops.TWICE_BETA | (ops.BOUNDED_GATE if kda else 0)
    leaves = [t.requires_grad_() for t in (q, k, v, g, beta, A_log, dt_bias)]
    o, state, _ = operator(f"{name}_fwd")(*leaves, None, on(cu), 0.25, options, False, True, False, -4.5)
    reference = double(*leaves)
    rq, rk, rg, rb = activated(kda, reference[0], reference[1], *reference[3:], True, True, True, True, -4.5 if kda else None)
    want, want_state = recurrence(rq, rk, reference[2], rg, rb, None, cu, 0.25)
    assert_close(o[:, : cu[-1]], want, FORWARD, "o")
    assert_close(state, want_state, FORWARD, "final_state")
    do = torch.randn(1, cu[-1], HV, K)
    full = torch.zeros(o.shape)
    full[:, : cu[-1]] = do
    full = on(full).to(o.dtype)
    grads = torch.autograd.grad(o, leaves, full)
    wants = torch.autograd.grad(want, reference, full.cpu().double()[:, : cu[-1]])
    for n, have, w in zip("q k v g beta A_log dt_bias".split(), grads, wants):
        assert_close(have, w, 0.03, f"gradient of {n}")
        if have.shape == o.shape and have.dim() == 4:
            assert not have[:, cu[-1]:].any(), f"gradient of {n}: rows behind the last sequence"


@pytest.mark.parametrize("name", KINDS)
def test_strides(name):
    """Views of one buffer as they are, and what the library cannot read where it lies."""
    kda = name == "kda"
    q, k, v, g, beta = inputs(kda, T=33, H=1, HV=1)
    want = operator(f"{name}_infer")(q, k, v, g, beta, None, None)[0]
    one = torch.cat([q, k, v], 2)
    assert torch.equal(operator(f"{name}_infer")(one[:, :, :1], one[:, :, 1:2], one[:, :, 2:], g, beta, None, None)[0], want)
    odd = [torch.empty(1, 33, 1, 131, device=DEVICE, dtype=t.dtype)[..., 3:].copy_(t) for t in (q, k, v)]
    assert odd[0].data_ptr() % 16 != 0
    assert torch.equal(operator(f"{name}_infer")(*odd, g, beta, None, None)[0], want)
    same = beta[:, :1].expand_as(beta)
    assert torch.equal(operator(f"{name}_infer")(q, k, v, g, same, None, None)[0], operator(f"{name}_infer")(q, k, v, g, same.contiguous(), None, None)[0])
    columns = beta.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(operator(f"{name}_infer")(q, k, v, g, columns, None, None)[0], want)


@pytest.mark.parametrize("name", KINDS)
def test_fp16_and_bf16_gates(name):
    kda = name == "kda"
    x = inputs(kda, T=65, H=1, HV=1, dtype=torch.float16, gate_dtype=torch.bfloat16)
    o, state, _ = operator(f"{name}_infer")(*x, None, None, None, None, 0.0, 0, False, True)
    want, want_state = recurrence(*double(*x))
    assert o.dtype == torch.float16 and state.dtype == torch.float32
    assert_close(o, want, FORWARD, "o")
    assert_close(state, want_state, FORWARD, "final_state")


@pytest.mark.parametrize("name", KINDS)
def test_no_tokens(name):
    x = inputs(name == "kda", T=0)
    h0 = on(torch.randn(1, 4, 128, 128))
    o, state, saved = operator(f"{name}_infer")(*x, None, None, h0, None, 0.0, 0, False, True, True)
    assert o.shape == (1, 0, 4, 128) and torch.equal(state, h0) and saved.numel() == 0


@pytest.mark.parametrize("name,B,cu", [(n, *c) for n in KINDS for c in ((0, None), (1, [0]))])
def test_gradients_of_no_sequences(name, B, cu):
    """A batch of none, and packed sequences that are none: sums of nothing, and zeros into all rows."""
    kda = name == "kda"
    x = inputs(kda, B=B, T=9, H=1, HV=2)
    A_log, dt_bias = on(torch.zeros(2)), on(torch.zeros(2 * 128 if kda else 2))
    leaves = [t.requires_grad_() for t in (*x, A_log, dt_bias, on(torch.zeros(0, 2, 128, 128)))]
    o, state, _ = operator(f"{name}_fwd")(*leaves, None if cu is None else on(cu), 0.0, ops.RAW_GATE, False, True)
    grads = torch.autograd.grad((o, state), leaves, (torch.ones_like(o), torch.ones_like(state)))
    assert state.shape == (0, 2, 128, 128) and all(g.shape == t.shape and not g.any() for g, t in zip(grads, leaves))


@pytest.mark.parametrize("name", KINDS)
def test_pool(name):
    """Slots in place, far apart: one is nobody's, one fresh, those that no sequence has stay."""
    kda = name == "kda"
    x = inputs(kda, T=70, H=1, HV=2)
    cu = [0, 3, 33, 70]
    pages = on(torch.randn(5, 2 * 128 * 128 + 8))
    pool = pages.as_strided((5, 2, 128, 128), (pages.shape[1], 128 * 128, 128, 1))
    before = pool.clone()
    slots, has = on(torch.tensor([3, 0, 1], dtype=torch.int32)), on(torch.tensor([True, True, False]))
    out = torch.full_like(x[2], float("nan"))
    operator(f"{name}_prefill")(*x, None, None, pool, slots, out, on(cu), has, 0.0, 0, True, 0)
    states = torch.stack([before[3], torch.zeros_like(before[0]), torch.zeros_like(before[0])]).transpose(-1, -2)
    want, want_state = recurrence(*double(*x), states.cpu().double(), cu)
    assert_close(out, want, FORWARD, "out")
    for n, slot in ((0, 3), (2, 1)):
        assert_close(pool[slot].transpose(-1, -2), want_state[n], FORWARD, f"slot {slot}")
    for slot in (0, 2, 4):
        assert torch.equal(pool[slot], before[slot]), f"slot {slot}"


@pytest.mark.parametrize("changed,text", [
    (dict(pool=lambda t: t.transpose(2, 3)), "pool.stride(2) is 1, not a multiple of 4 above 0"),
    (dict(pool=lambda t: t[:1].expand(3, -1, -1, -1)), "pool.stride(0) is 0, not a multiple of 4 above 0"),
    (dict(pool=lambda t: torch.empty(3, t[0].numel() + 1, device=DEVICE)[:, 1:].view(t.shape)), "pool.stride(0) is 8193, not a multiple of 4 above 0"),
    (dict(pool=lambda t: torch.empty(t.numel() + 1, device=DEVICE)[1:].view(t.shape)), ", not at a multiple of 16, and is written there"),
    (dict(pool=lambda t: t.repeat(1, 2, 1, 1)[:, ::2]), "pool's strides within a slot are 8192 and 64, but contiguous ones are 4096 and 64"),
    (dict(out=lambda t: t.repeat(1, 1, 1, 2)[..., ::2]), "out.stride(3) is 2, not 1"),
    (dict(out=lambda t: t[:, :1].expand_as(t)), "out.stride(1) is 0, not a multiple of 8 above 0"),
    (dict(out=lambda t: t[:, :5]), "out.shape[1] is 5, but q.shape[1] is 9"),
], ids=lambda x: x[:40] if isinstance(x, str) else "")
def test_written_where_it_lies(changed, text):
    x = inputs(False, T=9, H=1, HV=2, K=64, V=64)
    given = dict(pool=torch.zeros(3, 2, 64, 64, device=DEVICE), slots=on([1]), out=torch.empty_like(x[2]))
    given.update({n: f(given[n]) for n, f in changed.items()})
    with pytest.raises(ValueError) as e:
        ops.run(operator("gdn_prefill").default, *x, None, None, *given.values())
    assert text in str(e.value), str(e.value)


def call(name="gdn", **changed):
    q, k, v, g, beta = inputs(name == "kda", T=9, H=2, HV=4)
    a = dict(q=q, k=k, v=v, g=g, beta=beta, A_log=None, dt_bias=None, initial_state=None, cu_seqlens=None)
    a.update({n: f(a[n]) if callable(f) else f for n, f in changed.items()})
    numbers = [a.pop(n, d) for n, d in dict(scale=0.0, options=0, v_first=False).items()]
    return ops.run(operator(f"{name}_infer").default, *a.values(), *numbers)


WRONG = [
    (dict(v=lambda t: t[:, :5]), "tilekern::gdn_fwd: v.shape[1] is 5, but q.shape[1] is 9"),
    (dict(k=lambda t: t[..., :64]), "k.shape[3] is 64, but q.shape[3] is 128"),
    (dict(g=lambda t: t[..., :3]), "g.shape[2] is 3, but v.shape[2] is 4"),
    (dict(beta=lambda t: t[0]), "beta has 2 dimensions, not 3"),
    (dict(q=lambda t: t.float()), "q is float32, not bfloat16 or float16"),
    (dict(k=lambda t: t.half()), "k is float16, but q is bfloat16"),
    (dict(beta=lambda t: t.long()), "beta is int64, not float32, bfloat16 or float16"),
    (dict(beta=lambda t: t.double()), "beta is float64, not float32, bfloat16 or float16"),
    (dict(cu_seqlens=torch.tensor([0, 9], dtype=torch.int16)), "cu_seqlens is int16, not int32 or int64"),
    (dict(cu_seqlens=torch.tensor([0.0, 9.0])), "cu_seqlens is float32, not int32 or int64"),
    (dict(cu_seqlens=torch.tensor([], dtype=torch.int32)), "cu_seqlens.shape[0] is 0"),
    (dict(initial_state=torch.zeros(3, 4, 128, 128)), "initial_state.shape[0] is 3, but the rows of q make 1"),
    (dict(initial_state=torch.zeros(3, 4, 128, 128), cu_seqlens=torch.tensor([0, 9])), "initial_state.shape[0] is 3, but the offsets of cu_seqlens make 1"),
    (dict(initial_state=torch.zeros(1, 4, 128, 64)), "initial_state.shape[3] is 64, but v.shape[3] is 128"),
    (dict(A_log=torch.zeros(3)), "A_log.shape[0] is 3, but v.shape[2] is 4"),
    (dict(options=64), "options is 0x40"),
    (dict(options=1 << 32), "options is 4294967296, not in 0 .. 4294967295"),
    (dict(scale=float("inf")), "scale"),
    (dict(scale=1e-50), "scale is 1e-50"),
    (dict(q=lambda t: t[:, :, :1].expand(1, 9, 3, 128), k=lambda t: t[:, :, :1].expand(1, 9, 3, 128)), "value_heads"),
]


@pytest.mark.parametrize("changed,text", WRONG, ids=[t[:40] for _, t in WRONG])
def test_errors(changed, text):
    changed = {n: (on(x) if isinstance(x, torch.Tensor) else x) for n, x in changed.items()}
    with pytest.raises(ValueError) as e:
        call(**changed)
    assert text in str(e.value), str(e.value)


def test_kda_errors():
    with pytest.raises(ValueError, match=r"dt_bias.shape\[0\] is 4, but the heads and channels of g make 512"):
        call("kda", dt_bias=on(torch.zeros(4)))
    with pytest.raises(ValueError, match=r"g has 3 dimensions, not 4"):
        call("kda", g=lambda t: t[..., 0])


@pytest.mark.skipif(DEVICE == "cpu", reason="needs tensors of two devices")
def test_device():
    with pytest.raises(ValueError, match="v is on cpu, but q is on cuda:0"):
        call(v=lambda t: t.cpu())


@pytest.mark.parametrize("which", ["k", "A_log", "initial_state", "cu_seqlens"])
def test_one_on_meta(which):
    """As parameters are that nobody has loaded: fake kernels are called, whose answer is none."""
    given = dict(A_log=torch.zeros(4, device=DEVICE), initial_state=torch.zeros(1, 4, 128, 128, device=DEVICE), cu_seqlens=on(torch.tensor([0, 9])))
    given["k"] = inputs(False, T=9, H=2, HV=4)[1]
    with pytest.raises(ValueError, match=f"tilekern::gdn_infer: {which} is on meta, but q is on {DEVICE}"):
        call(**{**given, which: given[which].to("meta")})


@pytest.mark.parametrize("name", KINDS)
def test_pool_on_meta(name):
    x = inputs(name == "kda", T=9, H=1, HV=1, K=64, V=64)
    with pytest.raises(ValueError, match=f"tilekern::{name}_prefill: pool is on meta, but q is on {DEVICE}"):
        operator(f"{name}_prefill")(*x, None, None, torch.zeros(2, 1, 64, 64, device="meta"), on([0]), torch.empty_like(x[2]))


def test_saved_of_another_call():
    x = inputs(False, T=9)
    saved = torch.zeros(77, dtype=torch.uint8, device=DEVICE)
    with pytest.raises(ValueError, match=r"saved.shape\[0\] is 77, but the forward of this call leaves \d+ bytes"):
        ops.run(torch.ops.tilekern.gdn_bwd.default, *x, None, None, None, None, saved, torch.zeros_like(x[2]), None)


@pytest.mark.parametrize("name", KINDS)
def test_saved_gives_the_same(name):
    x = inputs(name == "kda", T=130, H=1, HV=2)
    saved = operator(f"{name}_infer")(*x, None, None, None, None, 0.0, 0, False, False, True)[2]
    misaligned = torch.empty(saved.numel() + 16, dtype=torch.uint8, device=DEVICE)[16:].copy_(saved)
    dout = on(torch.randn(x[2].shape)).to(x[2].dtype)
    again, of_saved = ([t for t in operator(f"{name}_bwd")(*x, None, None, None, None, s, dout, None)] for s in (None, saved))
    for n, a, b in zip("q k v g beta".split(), again, of_saved):
        assert_close(a, b.cpu().double(), 0.01, n)
    if DEVICE == "cpu":
        assert all(torch.equal(a, b) for a, b in zip(of_saved, operator(f"{name}_bwd")(*x, None, None, None, None, misaligned, dout, None)))


@pytest.mark.parametrize("name,T,K,V", [(n, t, k, v) for n in KINDS for t, k, v in ((70, 128, 128), (70, 64, 72), (70, 8, 64), (70, 72, 128), (0, 64, 64))])
def test_saved_bytes(name, T, K, V):
    """What fake kernels say is what the library saves."""
    x = inputs(name == "kda", T=T, H=1, HV=1, K=K, V=V)
    for cu in (None, on(torch.tensor([0, 0, 0] if T == 0 else [0, 3, 66]))):
        saved = operator(f"{name}_infer")(*x, None, None, None, cu, 0.0, 0, False, False, True)[2]
        assert saved.numel() == ops.saved_bytes(name == "kda", x[0], x[2], cu)
