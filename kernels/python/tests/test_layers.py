"""flash-linear-attention's layers on these kernels: training beside the recurrence, and decoding.  Its convolutions and norms need a GPU."""
import pytest
import torch

from reference import DEVICE, activated, error, recurrence

pytest.importorskip("fla", reason="flash-linear-attention is not installed")
if DEVICE != "cuda":
    pytest.skip("FLA's layers run on a GPU only", allow_module_level=True)

import tilekern.fla  # noqa: E402, F401
from fla.layers import gated_deltanet, kda  # noqa: E402
from tilekern import log  # noqa: E402

FUNCTIONS = dict(gdn="chunk_gated_delta_rule", kda="chunk_kda")
MODULES = dict(gdn=gated_deltanet, kda=kda)


class Cache(list):
    """What FLA's layers ask of a model's cache."""

    def update(self, layer_idx, **state):
        self[layer_idx:] = [state]


def layer_of(name):
    torch.manual_seed(0)
    kind = dict(gdn=gated_deltanet.GatedDeltaNet, kda=kda.KimiDeltaAttention)[name]
    return kind(hidden_size=256, head_dim=64, num_heads=3, expand_v=1, mode="chunk", layer_idx=0).to(DEVICE, torch.bfloat16)


def in_float64(name):
    """What a layer calls, as the recurrence."""
    def function(q, k, v, g, beta, A_log, dt_bias, allow_neg_eigval, use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel, lower_bound=None,
                 **others):
        assert use_qk_l2norm_in_kernel and use_gate_in_kernel and use_beta_sigmoid_in_kernel and others["initial_state"] is None
        x = [t.double().cpu() for t in (q, k, g, beta, A_log, dt_bias)]
        q, k, g, beta = activated(name == "kda", *x, True, True, True, allow_neg_eigval, lower_bound)
        return recurrence(q, k, v.double().cpu(), g, beta)[0].to(v), None

    return function


def step(layer, x, do):
    x = x.detach().requires_grad_()
    y = layer(x)[0]
    leaves = dict(x=x, **dict(layer.named_parameters()))
    grads = torch.autograd.grad(y, list(leaves.values()), do, allow_unused=True)
    return dict(y=y, **{n: g for n, g in zip(leaves, grads) if g is not None})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_training(name, monkeypatch):
    layer = layer_of(name).train()
    x, do = (torch.randn(2, 133, 256, device=DEVICE).bfloat16() for _ in range(2))
    before = log.served(FUNCTIONS[name])
    ours = step(layer, x, do)
    assert log.served(FUNCTIONS[name]) == before + 1
    monkeypatch.setattr(MODULES[name], FUNCTIONS[name], in_float64(name))
    want = step(layer, x, do)
    assert log.served(FUNCTIONS[name]) == before + 1 and ours.keys() == want.keys()
    for n, t in want.items():
        assert error(ours[n], t.detach().cpu().double()) < 0.03, n


@pytest.mark.parametrize("name", FUNCTIONS)
def test_decoding(name):
    """The state that a prefill leaves is what FLA's decoding goes on from."""
    layer = layer_of(name).eval()
    x = torch.randn(2, 140, 256, device=DEVICE).bfloat16()
    before = log.served(FUNCTIONS[name])
    with torch.no_grad():
        whole = layer(x)[0]
        cache = Cache()
        parts = [layer(x[:, :133], past_key_values=cache, use_cache=True)[0]]
        parts += [layer(x[:, t:t + 1], past_key_values=cache, use_cache=True)[0] for t in range(133, 140)]
    assert log.served(FUNCTIONS[name]) == before + 2
    assert error(torch.cat(parts, 1), whole.cpu().double()) < 0.01
