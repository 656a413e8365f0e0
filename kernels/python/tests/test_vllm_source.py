"""The plugin in vLLM's own layers: their source runs as it is, and all that it imports is made up.  For that, once:

    pip download vllm --no-deps -d DIR && unzip DIR/vllm-*.whl 'vllm/*.py' -d DIR
    VLLM_SOURCE=DIR python -m pytest test_vllm_source.py

What vLLM computes around the operator (convolution, gates, the gather of states) is made of references here; its engine, scheduler and kernels do not run.
"""
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

from reference import DEVICE, activated, assert_close, recurrence
from test_vllm import COMMON, HAS, LENGTHS, PAD, SLOTS, check_pool, pool_of, random

import tilekern.vllm
from tilekern import log

SOURCE = os.environ.get("VLLM_SOURCE")
if not SOURCE:
    pytest.skip("VLLM_SOURCE is not set", allow_module_level=True)

GDN = "vllm.model_executor.layers.mamba.gdn."
REAL = {GDN + "qwen_gdn_linear_attn", GDN + "kimi_gdn_linear_attn"}
KDA_OPS = "vllm.models.kimi_k3.nvidia.ops.third_party.kda"
MADE_UP = ("vllm", "transformers")
common = {}
exec(COMMON, common)


class Anything:
    """What a module that is not there has: a class, a decorator, a false answer."""

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs and not isinstance(args[0], Anything) else Anything()

    def __mro_entries__(self, bases):
        return (object,)

    def __instancecheck__(self, x):
        return True

    def __bool__(self):
        return False

    def __or__(self, other):
        return Anything()

    __ror__ = __getitem__ = __or__


class MadeUp(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in MADE_UP:
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, Path(SOURCE, *name.split(".")).with_suffix(".py"))
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = ModuleType(spec.name)
        module.__file__, module.__getattr__ = f"{spec.name}.py", lambda name: Anything()
        return module

    def exec_module(self, module):
        if module.__name__ == KDA_OPS:
            module.chunk_kda_with_fused_gate = lambda *args, **kwargs: pytest.fail("vLLM's kernel was called")


@pytest.fixture
def load(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [MadeUp(), *sys.meta_path])
    tilekern.vllm.register()

    def module(name):
        m = importlib.import_module(GDN + name)
        for n in ("get_forward_context", "is_conv_state_dim_first", "causal_conv1d_fn"):
            assert hasattr(m, n)
            setattr(m, n, common[n])
        return m

    yield module
    for name in [n for n in sys.modules if n.split(".")[0] in MADE_UP]:
        del sys.modules[name]


def metadata(**given):
    """A step with all fields of vLLM's class and no others."""
    tree = ast.parse(Path(SOURCE, "vllm/v1/attention/backends/gdn_attn.py").read_text())
    fields, = ([a.target.id for a in c.body if isinstance(a, ast.AnnAssign)] for c in tree.body if isinstance(c, ast.ClassDef) and c.name == "GDNAttentionMetadata")
    assert set(given) <= set(fields)
    return SimpleNamespace(**{f: None for f in fields} | given)


def step_of():
    starts = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0).tolist()], dtype=torch.int32, device=DEVICE)
    slots, has = torch.tensor(SLOTS, dtype=torch.int32, device=DEVICE), torch.tensor(HAS, device=DEVICE)
    n = sum(LENGTHS)
    return metadata(num_prefills=len(LENGTHS), num_prefill_tokens=n, num_decodes=0, num_decode_tokens=0, num_spec_decodes=0, num_spec_decode_tokens=0,
                    num_actual_tokens=n, has_initial_state=has, non_spec_query_start_loc=starts, non_spec_state_indices_tensor=slots,
                    prefill_query_start_loc=starts, prefill_state_indices=slots, prefill_has_initial_state=has)


def doubles(*tensors):
    return [t.double().cpu() for t in tensors]


def expected(kda, qkv, a, b, A_log, dt_bias, before, sigmoid, bound):
    q, k, g, beta = activated(kda, *doubles(qkv[0], qkv[1], a, b, A_log, dt_bias), True, True, sigmoid, False, bound)
    h0 = torch.stack([before[s].double().cpu().transpose(-1, -2) * has for s, has in zip(SLOTS, HAS)])
    return recurrence(q, k, qkv[2].double().cpu(), g, beta, h0, [0, *torch.tensor(LENGTHS).cumsum(0).tolist()])


@pytest.mark.parametrize("way", ["pool", "gathered"])
def test_gdn(load, way):
    module = load("qwen_gdn_linear_attn")
    torch.manual_seed(0)
    H, HV, D, T = 1, 2, 64, sum(LENGTHS)
    cls = module.QwenGatedDeltaNetAttention
    layer, op = object.__new__(cls), object.__new__(module.ChunkGatedDeltaRule)
    conv, pool = random(5, (2 * H + HV) * D, 3, dtype=torch.bfloat16), pool_of(5, HV, D)
    layer.__dict__.update(prefix="layer", num_k_heads=2 * H, num_v_heads=2 * HV, tp_size=2, head_k_dim=D, head_v_dim=D, activation="silu", kv_cache=(conv, pool),
                          conv1d=SimpleNamespace(weight=random((2 * H + HV) * D, 1, 4, dtype=torch.bfloat16), bias=None), A_log=random(HV),
                          dt_bias=random(HV, dtype=torch.bfloat16), chunk_gated_delta_rule=op.forward_native, enable_packed_recurrent_decode=False)
    x = random(T + PAD, (2 * H + HV) * D + 32, dtype=torch.bfloat16)[:, :(2 * H + HV) * D]
    b, a = random(T + PAD, 2 * HV, dtype=torch.bfloat16).chunk(2, -1)
    step, before = step_of(), pool.clone()
    common["context"].attn_metadata = {"layer": step}
    out = torch.full((T + PAD, HV, D), 7.0, device=DEVICE, dtype=torch.bfloat16)
    y = common["causal_conv1d_fn"](x[:T].T, layer.conv1d.weight[:, 0], None, "silu", conv.clone(), step.has_initial_state, step.non_spec_state_indices_tensor,
                                   step.non_spec_query_start_loc, step).T
    qkv = [t.unflatten(-1, (-1, D))[None] for t in y.split((H * D, H * D, HV * D), -1)]

    def prepared(conv_output, a, b, A_log, dt_bias, num_k_heads, head_k_dim, head_v_dim, apply_l2norm, output_g_exp):
        assert torch.equal(conv_output, y) and (num_k_heads, head_k_dim, head_v_dim, apply_l2norm, output_g_exp) == (H, D, D, True, False)
        q, k, g, beta = activated(False, qkv[0].float(), qkv[1].float(), a[None].float(), b[None].float(), A_log, dt_bias.float(), True, True, True, False, None)
        return q[0].bfloat16(), k[0].bfloat16(), qkv[2][0], g[0], beta[0]

    assert hasattr(module, "fused_post_conv_prep")
    module.fused_post_conv_prep = prepared
    name = dict(pool="vllm.gdn", gathered="vllm.chunk_gated_delta_rule")[way]
    count = log.served(name)
    core = cls._forward_core if way == "pool" else cls._forward_core.__wrapped__
    core(layer, mixed_qkv=x, b=b, a=a, core_attn_out=out)
    assert log.served(name) == count + 1
    want, states = expected(False, qkv, a[None, :T], b[None, :T], layer.A_log, layer.dt_bias, before, True, None)
    check_pool(states, before, pool, out, want[0])


@pytest.mark.parametrize("bound", [None, -5.0])
def test_kda(load, bound):
    module = load("kimi_gdn_linear_attn")
    torch.manual_seed(1)
    H, D, T = 2, 64, sum(LENGTHS)
    layer = object.__new__(module.KimiGatedDeltaNetAttention)
    conv, pool = random(5, 3 * H * D, 3, dtype=torch.bfloat16), pool_of(5, H, D)
    layer.__dict__.update(prefix="layer", head_dim=D, local_num_heads=H, local_projection_size=H * D, kv_cache=(conv, pool), A_log=random(H), gate_lower_bound=bound,
                          dt_bias=random(H * D), o_norm=lambda o, gate: o, conv1d=SimpleNamespace(weight=random(3 * H * D, 1, 4), bias=None))
    x = random(T + PAD, 3 * H * D + 32, dtype=torch.bfloat16)[:, :3 * H * D]
    g, beta = random(1, T + PAD, H, D, dtype=torch.bfloat16), random(1, T + PAD, H)
    step, before, conv_before = step_of(), pool.clone(), conv.clone()
    common["context"].attn_metadata = {"layer": step}
    out = torch.full((1, T + PAD, H, D), 7.0, device=DEVICE, dtype=torch.bfloat16)
    y = common["causal_conv1d_fn"](x[:T].T, layer.conv1d.weight[:, 0], None, "silu", conv_before, step.has_initial_state, step.non_spec_state_indices_tensor,
                                   step.non_spec_query_start_loc, step).T
    assert hasattr(module, "gather_initial_states")
    module.gather_initial_states = lambda state, slots, has: state[slots.long()] * has[:, None, None, None]
    count = log.served("vllm.chunk_kda_with_fused_gate")
    layer._forward(mixed_qkv=x, g1=g, g2=None, beta=beta, core_attn_out=out)
    assert log.served("vllm.chunk_kda_with_fused_gate") == count + 1
    qkv = [t.unflatten(-1, (H, D))[None] for t in y.chunk(3, -1)]
    want, states = expected(True, qkv, g[:, :T], beta[:, :T], layer.A_log, layer.dt_bias, before, True, bound)
    check_pool(states, before, pool, out[0], want[0])
