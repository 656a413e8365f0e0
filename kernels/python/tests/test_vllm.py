"""The plugin of vLLM, without vLLM: modules with the names, signatures and steps of its layers as they were read, whose kernels are references."""
import importlib
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from reference import DEVICE, activated, assert_close, recurrence

import tilekern.vllm
from tilekern import log

COMMON = '''
from types import SimpleNamespace
import torch
import torch.nn.functional as F

context = SimpleNamespace(attn_metadata=None)
def get_forward_context(): return context
def is_conv_state_dim_first(): return True

def causal_conv1d_fn(x, weight, bias, activation, conv_states, has_initial_state, cache_indices, query_start_loc, metadata):
    assert activation == "silu" and metadata is not None
    out, starts = torch.empty_like(x), query_start_loc.tolist()
    for n, (a, b) in enumerate(zip(starts, starts[1:])):
        slot = cache_indices[n]
        before = conv_states[slot] if has_initial_state[n] else torch.zeros_like(conv_states[slot])
        row = torch.cat([before, x[:, a:b]], 1)
        out[:, a:b] = F.silu(F.conv1d(row[None].float(), weight[:, None].float(), groups=x.shape[0])[0]).to(x.dtype)
        conv_states[slot] = row[:, row.shape[1] - before.shape[1]:]
    return out
'''
QWEN = COMMON + '''
class ChunkGatedDeltaRule:
    def forward_native(self, q, k, v, g, beta, initial_state, output_final_state, cu_seqlens=None, chunk_indices=None, chunk_offsets=None,
                       use_qk_l2norm_in_kernel=True, core_attn_out=None, **new):
        return "vLLM"

class QwenGatedDeltaNetAttention:
    def _forward_core(self, mixed_qkv, b, a, core_attn_out):
        return "vLLM"
'''
KIMI = COMMON + '''
def chunk_kda_with_fused_gate(q, k, v, raw_g, beta, A_log, g_bias, scale=None, initial_state=None, output_final_state=False,
                              use_qk_l2norm_in_kernel=False, cu_seqlens=None, safe_gate=False, lower_bound=-5.0, **kwargs):
    return "vLLM"

class KimiGatedDeltaNetAttention:
    def _forward(self, q_proj_states, k_proj_states, v_proj_states, g1, beta, core_attn_out):
        return "vLLM"
'''
LATER = QWEN.replace('core_attn_out):\n        return "vLLM"', 'core_attn_out):\n        # checkpoints of prefixes\n        return "vLLM"')


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """Imports a layer's module after the plugin was registered, as vLLM does."""
    folder = tmp_path / "vllm/model_executor/layers/mamba/gdn"
    folder.mkdir(parents=True)
    for f in [folder, *list(folder.parents)[:4]]:
        (f / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def load(name, text):
        (folder / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        tilekern.vllm.register()
        return importlib.import_module(tilekern.vllm.LAYERS + name)

    yield load
    for name in [n for n in sys.modules if n.split(".")[0] == "vllm"]:
        del sys.modules[name]


def step_of(lengths, slots, has, **others):
    starts = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE)
    return SimpleNamespace(num_prefills=len(lengths), num_decodes=0, spec_sequence_masks=None, non_spec_query_start_loc=starts,
                           has_initial_state=torch.tensor(has, device=DEVICE), num_actual_tokens=sum(lengths),
                           non_spec_state_indices_tensor=torch.tensor(slots, dtype=torch.int32, device=DEVICE), **others)


def random(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(DEVICE, dtype)


def pool_of(slots, HV, D):
    """Slots further apart than a state, as vLLM's pages are."""
    return random(slots, HV * D * D + 24).as_strided((slots, HV, D, D), (HV * D * D + 24, D * D, D, 1))


LENGTHS, SLOTS, HAS = (37, 1, 66), (3, 1, 2), (True, False, True)
PAD = 5  # rows of the step's buffers behind its tokens


def check_pool(want_states, before, pool, out, want):
    assert_close(out[:sum(LENGTHS)], want, 0.01, "o")
    for n, slot in enumerate(SLOTS):
        assert_close(pool[slot].transpose(-1, -2), want_states[n], 0.01, f"state {n}")
    assert torch.equal(pool[0], before[0]) and torch.equal(pool[4], before[4])
    assert (out[sum(LENGTHS):] == 7).all()


def test_gdn_layer(vllm):
    module = vllm("qwen_gdn_linear_attn", QWEN)
    torch.manual_seed(0)
    H, HV, D, T = 1, 2, 64, sum(LENGTHS)
    layer = module.QwenGatedDeltaNetAttention()
    conv, pool = random(5, (2 * H + HV) * D, 3, dtype=torch.bfloat16), pool_of(5, HV, D)
    layer.__dict__.update(prefix="layer", num_k_heads=2 * H, num_v_heads=2 * HV, tp_size=2, head_k_dim=D, head_v_dim=D, activation="silu", kv_cache=(conv, pool),
                          conv1d=SimpleNamespace(weight=random((2 * H + HV) * D, 1, 4, dtype=torch.bfloat16), bias=None), A_log=random(HV), dt_bias=random(HV, dtype=torch.bfloat16))
    x = random(T + PAD, (2 * H + HV) * D + 32, dtype=torch.bfloat16)[:, :(2 * H + HV) * D]
    b, a = random(T + PAD, 2 * HV, dtype=torch.bfloat16).chunk(2, -1)
    out = torch.full((T + PAD, HV, D), 7.0, device=DEVICE, dtype=torch.bfloat16)
    assert layer._forward_core(x, b, a, out) == "vLLM"  # a profile run has no step
    step = step_of(LENGTHS, SLOTS, HAS)
    module.context.attn_metadata = {"layer": step}
    before = pool.clone()
    conv_out = module.causal_conv1d_fn(x[:T].T, layer.conv1d.weight[:, 0], None, "silu", conv.clone(), step.has_initial_state, step.non_spec_state_indices_tensor,
                                       step.non_spec_query_start_loc, step).T.double().cpu()
    count = log.served("vllm.gdn")
    assert layer._forward_core(x, b, a, out) is None and log.served("vllm.gdn") == count + 1
    q, k, v = (t.unflatten(-1, (-1, D))[None] for t in conv_out.split((H * D, H * D, HV * D), -1))
    q, k, g, beta = activated(False, q, k, a[None, :T].double().cpu(), b[None, :T].double().cpu(), layer.A_log.double().cpu(), layer.dt_bias.double().cpu(),
                              True, True, True, False, None)
    h0 = torch.stack([before[s].double().cpu().transpose(-1, -2) * has for s, has in zip(SLOTS, HAS)])
    want, states = recurrence(q, k, v, g, beta, h0, step.non_spec_query_start_loc.tolist())
    check_pool(states, before, pool, out, want[0])
    step.num_decodes = 1
    assert layer._forward_core(x, b, a, out) == "vLLM"
    assert log.counts["vllm.gdn", "a step with decodes"] == 1


def test_kda_layer(vllm):
    module = vllm("kimi_gdn_linear_attn", KIMI)
    torch.manual_seed(1)
    H, D, T = 2, 64, sum(LENGTHS)
    layer = module.KimiGatedDeltaNetAttention()
    conv, pool = random(5, 3 * H * D, 3, dtype=torch.bfloat16), pool_of(5, H, D)
    convs = {f"{n}_conv1d": SimpleNamespace(weight=random(H * D, 1, 4), bias=None) for n in "qkv"}
    layer.__dict__.update(prefix="layer", head_dim=D, kv_cache=(conv, pool), A_log=random(1, 1, H, 1), dt_bias=random(H * D), **convs)
    x = [random(T + PAD, H * D, dtype=torch.bfloat16) for _ in range(3)]
    g, beta = random(1, T + PAD, H, D, dtype=torch.bfloat16), random(1, T + PAD, H).sigmoid()
    out = torch.full((1, T + PAD, H, D), 7.0, device=DEVICE, dtype=torch.bfloat16)
    step = step_of(LENGTHS, SLOTS, HAS)
    module.context.attn_metadata = {"layer": step}
    before, conv_before = pool.clone(), conv.clone().chunk(3, 1)
    assert layer._forward(*x, g, beta, out) is None
    q, k, v = (module.causal_conv1d_fn(t[:T].T, convs[f"{n}_conv1d"].weight[:, 0], None, "silu", s, step.has_initial_state, step.non_spec_state_indices_tensor,
                                       step.non_spec_query_start_loc, step).T.double().cpu().unflatten(-1, (H, D))[None] for n, t, s in zip("qkv", x, conv_before))
    q, k, decay, beta = activated(True, q, k, g[:, :T].double().cpu(), beta[:, :T].double().cpu(), layer.A_log.view(-1).double().cpu(),
                                  layer.dt_bias.double().cpu(), True, True, False, False, None)
    h0 = torch.stack([before[s].double().cpu().transpose(-1, -2) * has for s, has in zip(SLOTS, HAS)])
    want, states = recurrence(q, k, v, decay, beta, h0, step.non_spec_query_start_loc.tolist())
    check_pool(states, before, pool, out[0], want[0])


def test_gathered_states(vllm):
    """What is called with states that vLLM has gathered, in layers that are not as they were read."""
    module = vllm("qwen_gdn_linear_attn", LATER)
    assert module.QwenGatedDeltaNetAttention()._forward_core(None, None, None, None) == "vLLM"
    op = module.ChunkGatedDeltaRule()
    torch.manual_seed(2)
    q, k, v = (F.normalize(random(1, 70, h, 64), dim=-1).bfloat16() for h in (1, 1, 2))
    g, beta, h0 = -random(1, 70, 2).abs(), random(1, 70, 2).sigmoid(), random(2, 2, 64, 64)
    cu, out = torch.tensor([0, 20, 70], dtype=torch.int32, device=DEVICE), torch.zeros(80, 2, 64, device=DEVICE, dtype=torch.bfloat16)
    o, state = op.forward_native(q=q, k=k, v=v, g=g, beta=beta, initial_state=h0, output_final_state=True, cu_seqlens=cu, use_qk_l2norm_in_kernel=False,
                                 core_attn_out=out)
    want, states = recurrence(*(t.double().cpu() for t in (q, k, v, g, beta, h0.transpose(-1, -2))), cu.tolist())
    assert_close(o, want, 0.01, "o")
    assert_close(state.transpose(-1, -2), states, 0.01, "states")
    assert torch.equal(out[:70], o[0]) and not out[70:].any()
    assert op.forward_native(q=q, k=k, v=v, g=g, beta=beta, initial_state=h0, output_final_state=True, state_checkpoints=h0) == "vLLM"
    assert log.counts["vllm.chunk_gated_delta_rule", "state_checkpoints is not known here"] == 1


@pytest.mark.parametrize("raw,bound", [(False, None), (True, -4.0)])
def test_gathered_states_kda(vllm, raw, bound):
    module = vllm("kimi_gdn_linear_attn", KIMI)
    torch.manual_seed(3)
    q, k, v, g = (random(1, 33, 2, 64, dtype=torch.bfloat16) for _ in range(4))
    beta, h0, A_log, bias = random(1, 33, 2), random(1, 2, 64, 64), random(1, 1, 2, 1), random(128)
    beta = beta if raw else beta.sigmoid()
    given = dict(raw_beta=beta, lower_bound=bound) if raw else dict(beta=beta)
    o, state = module.chunk_kda_with_fused_gate(q=q, k=k, v=v, raw_g=g, A_log=A_log, g_bias=bias, initial_state=h0, output_final_state=True,
                                                use_qk_l2norm_in_kernel=True, cu_seqlens=torch.tensor([0, 33], dtype=torch.int32, device=DEVICE), **given)
    x = [t.double().cpu() for t in (q, k, g, beta, A_log.view(-1), bias)]
    x = activated(True, *x, True, True, raw, False, bound)
    want, states = recurrence(x[0], x[1], v.double().cpu(), x[2], x[3], h0.double().cpu().transpose(-1, -2))
    assert_close(o, want, 0.01, "o")
    assert_close(state.transpose(-1, -2), states, 0.01, "state")


def test_other_versions(vllm):
    """A layer that imports its function when it runs, as in 0.33, and one of which nothing is left."""
    later = KIMI.replace("def chunk_kda_with_fused_gate", "def another").replace("q_proj_states, k_proj_states, v_proj_states", "mixed_qkv")
    assert vllm("kimi_gdn_linear_attn", later).KimiGatedDeltaNetAttention()._forward(None, None, None, None) == "vLLM"
    name = tilekern.vllm.LAYERS + "qwen_gdn_linear_attn"
    vllm("qwen_gdn_linear_attn", "class Another: pass")
    assert any(n == name and what.startswith("is another one than was read: ") for n, what in log.counts)


def test_off(vllm, monkeypatch):
    monkeypatch.setenv("TILEKERN_VLLM", "0")
    module = vllm("kimi_gdn_linear_attn", KIMI)
    assert module.chunk_kda_with_fused_gate(*[None] * 7) == "vLLM"
