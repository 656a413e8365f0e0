"""chunk_kda and chunk_gated_delta_rule: FLA's defaults and errors, channels that the kernels do not have, gradients."""
import inspect

import pytest
import torch

from reference import DEVICE, activated, assert_close, double, inputs, recurrence

import tilekern
from tilekern import log

FUNCTIONS = dict(gdn=tilekern.chunk_gated_delta_rule, kda=tilekern.chunk_kda)
SIGNATURES = dict(
    gdn="q k v g beta scale=None initial_state=None output_final_state=False use_qk_l2norm_in_kernel=False use_beta_sigmoid_in_kernel=False "
        "allow_neg_eigval=False state_v_first=False cu_seqlens=None cu_seqlens_cpu=None chunk_indices=None cp_context=None",
    kda="q k v g beta scale=None initial_state=None output_final_state=False use_qk_l2norm_in_kernel=False use_gate_in_kernel=False "
        "use_beta_sigmoid_in_kernel=False allow_neg_eigval=False safe_gate=False lower_bound=None disable_recompute=False "
        "return_intermediate_states=False state_v_first=False cu_seqlens=None cu_seqlens_cpu=None cp_context=None use_graph=False max_num_seqs=None")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name):
    have = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in inspect.signature(FUNCTIONS[name]).parameters.values() if p.kind != p.VAR_KEYWORD]
    assert " ".join(have) == SIGNATURES[name]


@pytest.mark.parametrize("name,K,V", [("gdn", 60, 100), ("gdn", 64, 200), ("kda", 60, 40), ("kda", 64, 64)])
def test_channels_and_gradients(name, K, V):
    """Channels that no kernel has, with raw gates, through padding."""
    kda = name == "kda"
    q, k, v, g, beta = inputs(kda, T=37, H=1, HV=2, K=K, V=V, raw=True)
    A_log, dt_bias = torch.rand(2, device=DEVICE).bfloat16(), torch.rand(2 * K if kda else 2, device=DEVICE).bfloat16()
    leaves = [t.requires_grad_() for t in (q, k, v, g, beta, A_log, dt_bias)]
    o, state = FUNCTIONS[name](q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
                               use_beta_sigmoid_in_kernel=True, A_log=A_log, dt_bias=dt_bias, state_v_first=True)
    reference = double(*leaves)
    rq, rk, rg, rb = activated(kda, reference[0], reference[1], *reference[3:], True, True, True, False, None)
    want, want_state = recurrence(rq, rk, reference[2], rg, rb)
    assert o.shape == v.shape and state.shape == (1, 2, V, K)
    assert_close(o, want, 0.008, "o")
    assert_close(state.transpose(-1, -2), want_state, 0.008, "final state")
    do = torch.randn(o.shape)
    grads = torch.autograd.grad(o, leaves, do.to(DEVICE, o.dtype))
    for n, leaf, have, w in zip("q k v g beta A_log dt_bias".split(), leaves, grads, torch.autograd.grad(want, reference, do.bfloat16().double())):
        assert have.dtype == leaf.dtype and have.shape == leaf.shape
        assert_close(have, w, 0.03, f"gradient of {n}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_padded_is_contiguous(name):
    o, state = FUNCTIONS[name](*inputs(name == "kda", T=9, H=1, HV=2, K=64, V=60), output_final_state=True)
    assert o.is_contiguous() and state.is_contiguous()


WRONG_CHANNELS = [
    ("gdn", dict(k=62), "k.shape[3] is 62, but q.shape[3] is 60"),
    ("gdn", dict(k=128), "k.shape[3] is 128, but q.shape[3] is 60"),
    ("gdn", dict(states=(61, 60)), "initial_state.shape[2] is 61, but q.shape[3] is 60"),
    ("kda", dict(states=(60, 128)), "initial_state.shape[3] is 128, but v.shape[3] is 60"),
    ("kda", dict(states=(62, 44), V=44, state_v_first=True), "initial_state.shape[2] is 62, but v.shape[3] is 44"),
    ("kda", dict(g=62), "g must have shape [B, T, HV, K]=[1, 9, 2, 60], got [1, 9, 2, 62]"),
    ("kda", dict(dt_bias=121), "dt_bias.shape[0] is 121, but the heads and channels of g make 120"),
    ("kda", dict(dt_bias=60), "dt_bias.shape[0] is 60, but the heads and channels of g make 120"),
]


@pytest.mark.parametrize("name,given,text", WRONG_CHANNELS)
def test_padding_hides_nothing(name, given, text):
    """Extents that differ and that the same multiple of 8 is next to, or that are beyond it."""
    given = dict(given)
    x = dict(zip("q k v g beta".split(), inputs(name == "kda", T=9, H=1, HV=2, K=60, V=given.pop("V", 60))))
    for n in ("k", "g"):
        if n in given:
            x[n] = x[n].new_zeros(*x[n].shape[:3], given.pop(n))
    if "states" in given:
        given["initial_state"] = torch.zeros(1, 2, *given.pop("states"), device=DEVICE)
    if "dt_bias" in given:
        given.update(dt_bias=torch.zeros(given["dt_bias"], device=DEVICE), A_log=torch.zeros(2, device=DEVICE), use_gate_in_kernel=True)
    with pytest.raises((ValueError, AssertionError)) as e:
        FUNCTIONS[name](**x, **given)
    assert text in str(e.value)


@pytest.mark.parametrize("name,K,V", [("gdn", 256, 256), ("kda", 256, 136), ("kda", 132, 256)])
def test_most_channels(name, K, V):
    q, k, v, g, beta = inputs(name == "kda", T=37, H=1, HV=2, K=K, V=V)
    o, state = FUNCTIONS[name](q, k, v, g, beta, output_final_state=True)
    want, want_state = recurrence(*double(q, k, v, g, beta))
    assert o.shape == v.shape and state.shape == (1, 2, K, V)
    assert_close(o, want, 0.006, "o")
    assert_close(state, want_state, 0.006, "final state")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_refused(name):
    x = [t.requires_grad_() for t in inputs(name == "kda", T=5, H=1, HV=1)]
    o, _ = FUNCTIONS[name](*x)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(o.float().sum(), x[0], create_graph=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode_is_refused(name):
    """Where a tangent comes in, and nowhere else."""
    x = inputs(name == "kda", T=5, H=1, HV=1)
    with pytest.raises(RuntimeError, match="no derivatives in forward mode"):
        torch.func.jvp(lambda v: FUNCTIONS[name](*x[:2], v, *x[3:])[0], (x[2],), (torch.ones_like(x[2]),))
    with torch.autograd.forward_ad.dual_level():
        with pytest.raises(RuntimeError, match="no derivatives in forward mode"):
            FUNCTIONS[name](torch.autograd.forward_ad.make_dual(x[0], x[0]), *x[1:])
        assert torch.equal(FUNCTIONS[name](*x)[0], FUNCTIONS[name](*(t.requires_grad_() for t in x))[0])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_func(name):
    """vmap of what needs no gradients calls the operator for each; for gradients autograd says how a Function would be written, which users did not write."""
    x = inputs(name == "kda", T=9, H=1, HV=1, K=64, V=64)
    call = lambda v: FUNCTIONS[name](*x[:2], v, *x[3:])[0]
    two = torch.stack([x[2], x[2] * 2])
    assert torch.equal(torch.func.vmap(call)(two), torch.stack([call(v) for v in two]))
    with pytest.raises(RuntimeError, match="tilekern has no gradients within torch.func's grad"):
        torch.func.grad(lambda v: call(v).float().sum())(x[2])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_final_state(name):
    o, state = FUNCTIONS[name](*inputs(name == "kda", T=5, H=1, HV=1))
    assert state is None and o.shape == (1, 5, 1, 128) and not o.requires_grad


def test_autocast():
    """Gates stay what they are; the model's bfloat16 comes from its own layers."""
    x = [t.requires_grad_() for t in inputs(False, T=9, H=1, HV=1)]
    with torch.autocast(DEVICE, torch.bfloat16):
        o, _ = tilekern.chunk_gated_delta_rule(*x)
    assert torch.equal(o, tilekern.chunk_gated_delta_rule(*x)[0])


FLA_REFUSES = [
    ("gdn", dict(allow_neg_eigval=True), ValueError, "requires `use_beta_sigmoid_in_kernel=True`"),
    ("gdn", dict(chunk_size=48), ValueError, "must be 16, 32, or 64"),
    ("gdn", dict(head_first=True), DeprecationWarning, "head_first has been removed"),
    ("gdn", dict(use_gate_in_kernel=True), AssertionError, "A_log must be provided when"),
    ("gdn", dict(cu_seqlens=[0, 9], B=2), ValueError, "batch size is expected to be 1 rather than 2"),
    ("gdn", dict(cu_seqlens=[0, 9], states=3), ValueError, "i.e., 1 rather than 3"),
    ("gdn", dict(state_v_first=True, transpose_state_layout=True), ValueError, "Cannot pass both"),
    ("kda", dict(use_gate_in_kernel=True), ValueError, "`A_log` must be provided"),
    ("kda", dict(use_gate_in_kernel=True, safe_gate=True, A_log=1), ValueError, "`lower_bound` must be specified"),
    ("kda", dict(use_gate_in_kernel=True, safe_gate=True, A_log=1, lower_bound=-6), ValueError, "safe range"),
    ("kda", dict(chunk_size=16), ValueError, "either 32 or 64"),
    ("kda", dict(use_graph=True, cu_seqlens=[0, 9], max_num_seqs=2), AssertionError, "exactly max_num_seqs"),
    ("kda", dict(use_graph=True, H=3), AssertionError, "evenly divisible"),
    ("kda", dict(return_intermediate_states=True), AssertionError, "only allowed in inference mode"),
    ("kda", dict(K=264), AssertionError, "key headdim <=256 for KDA, got 264"),
]
WE_REFUSE = [
    ("gdn", dict(cp_context=object()), "cp_context is of type object"),
    ("gdn", dict(K=264), "K and V are 264 and 128, but at most 256 and 256"),
    ("gdn", dict(float=True), "q is torch.float32"),
    ("gdn", dict(scale=0.0), "scale is 0"),
    ("gdn", dict(states=1, state_type=torch.float64), "initial_state is torch.float64, not torch.float32, torch.bfloat16 or torch.float16"),
    ("kda", dict(V=264), "K and V are 128 and 264, but at most 256 and 256"),
    ("kda", dict(scale=0.0), "scale is 0"),
    ("kda", dict(use_gate_in_kernel=True, A_log=1, lower_bound=-7.0), "lower_bound is -7.0"),
]


def refused(name, B=1, H=2, K=128, V=128, states=None, state_type=None, grad=False, float=False, A_log=None, **kwargs):
    x = inputs(name == "kda", B=B, T=9, H=H, HV=4, K=K, V=V)
    if float:
        x[:3] = [t.float() for t in x[:3]]
    if grad:
        x[0].requires_grad_()
    if states:
        kwargs["initial_state"] = torch.zeros(states, 4, K, V, device=DEVICE, dtype=state_type)
    if A_log:
        kwargs["A_log"] = torch.zeros(4, device=DEVICE)
    if "cu_seqlens" in kwargs:
        kwargs["cu_seqlens"] = torch.tensor(kwargs["cu_seqlens"], device=DEVICE)
    return FUNCTIONS[name](*x, **kwargs)


@pytest.mark.parametrize("name,kwargs,kind,text", FLA_REFUSES)
def test_fla_errors(name, kwargs, kind, text):
    with pytest.raises(kind) as e:
        refused(name, **kwargs)
    assert text in str(e.value)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dimensions(name):
    x = inputs(name == "kda", T=9, H=1, HV=1)
    with pytest.raises(ValueError, match="q, k, v have 3, 3, 3 dimensions, not 4"):
        FUNCTIONS[name](*(t[0] for t in x))
    with pytest.raises(ValueError, match="g and beta have . and 2 dimensions, not . and 3"):
        FUNCTIONS[name](*x[:4], x[4][0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_states_of_16_bits(dtype):
    """Read as they are, the final one in float32, the gradient of their type: as FLA has them."""
    x = inputs(False, T=70, H=1, HV=2)
    h0 = torch.randn(1, 2, 128, 128, device=DEVICE).to(dtype).requires_grad_()
    same = h0.detach().float().requires_grad_()
    (o, state), (want, want_state) = (tilekern.chunk_gated_delta_rule(*x, initial_state=h, output_final_state=True) for h in (h0, same))
    assert state.dtype == torch.float32 and torch.equal(o, want) and torch.equal(state, want_state)
    grad, = torch.autograd.grad(o.float().sum() + state.sum(), h0)
    want_grad, = torch.autograd.grad(want.float().sum() + want_state.sum(), same)
    assert grad.dtype == dtype and torch.equal(grad, want_grad.to(dtype))


@pytest.mark.parametrize("name,kwargs,text", WE_REFUSE)
def test_refusals(name, kwargs, text):
    with pytest.raises(ValueError) as e:
        refused(name, **kwargs)
    assert text in str(e.value)
    assert any(text in what for (_, what), n in log.counts.items() if n)


def test_show_config(capsys):
    tilekern.chunk_kda(*inputs(True, T=3, H=1, HV=1))
    tilekern.show_config()
    text = capsys.readouterr().out
    assert torch.__version__ in text and "x served" in text


@pytest.mark.parametrize("cu", (None, (0, 70, 70, 71, 200)), ids=("rows", "packed"))
@pytest.mark.parametrize("K, V, v_first, dtype", ((128, 128, False, torch.bfloat16), (64, 96, True, torch.float16), (20, 12, False, torch.bfloat16), (200, 64, True, torch.bfloat16)))
def test_states_that_enter_chunks(cu, K, V, v_first, dtype):
    B, T = (1, 200) if cu else (2, 130)
    q, k, v, g, beta = inputs(True, B=B, T=T, K=K, V=V, dtype=dtype, gate_dtype=torch.bfloat16)
    h0 = torch.randn(len(cu) - 1 if cu else B, 4, K, V, device=DEVICE)
    given = dict(initial_state=h0.mT.contiguous() if v_first else h0, output_final_state=True, state_v_first=v_first, cu_seqlens=None if cu is None else torch.tensor(cu, device=DEVICE))
    with torch.inference_mode():
        o, last, h = tilekern.chunk_kda(q, k, v, g, beta, return_intermediate_states=True, **given)
    want, states = [], []
    x = [t.detach() for t in double(q, k, v, g, beta)]
    for n, (b, first, end) in enumerate([(0, a, b) for a, b in zip(cu, cu[1:])] if cu else [(b, 0, T) for b in range(B)]):
        s = h0[n].cpu().double()
        for a in range(first, end, 64):
            states.append(s)
            out, s = recurrence(*(t[b:b + 1, a:min(a + 64, end)] for t in x), h0=s[None])
            want.append(out[0])
            s = s[0]
    assert h.dtype == dtype and h.shape == (B, len(states) // B, 4, *((V, K) if v_first else (K, V)))
    assert_close(h.mT if v_first else h, torch.stack(states).view(B, -1, 4, K, V), 0.006, "h")
    assert_close(o, torch.cat(want).view_as(o), 0.006, "o")
    with torch.inference_mode():
        assert tilekern.chunk_kda(q[:, :0], k[:, :0], v[:, :0], g[:, :0], beta[:, :0], return_intermediate_states=True)[2].shape == (B, 0, 4, K, V)
        with pytest.raises(ValueError, match="with a chunk_size of 32 is not served"):
            tilekern.chunk_kda(q, k, v, g, beta, return_intermediate_states=True, chunk_size=32, **given)
