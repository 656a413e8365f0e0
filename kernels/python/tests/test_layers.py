"""flash-linear-attention's layers on these kernels: training beside its own kernels, and decoding.  Its convolutions and norms need a GPU."""
import os

import pytest
import torch

from reference import DEVICE, error

pytest.importorskip("fla", reason="flash-linear-attention is not installed")
if DEVICE != "cuda":
    pytest.skip("FLA's layers run on a GPU only", allow_module_level=True)

import triton  # noqa: E402

autotune = triton.autotune
triton.autotune = lambda configs, *args, **kwargs: autotune(configs[:1], *args, **kwargs)  # choosing among all of FLA's takes minutes

import tilekern.fla  # noqa: E402, F401
from fla.layers.gated_deltanet import GatedDeltaNet  # noqa: E402
from fla.layers.kda import KimiDeltaAttention  # noqa: E402
from tilekern import log  # noqa: E402

FUNCTIONS = dict(gdn="chunk_gated_delta_rule", kda="chunk_kda")


class Cache(list):
    """What FLA's layers ask of a model's cache."""

    def update(self, layer_idx, **state):
        self[layer_idx:] = [state]


def layer_of(name):
    torch.manual_seed(0)
    kind = dict(gdn=GatedDeltaNet, kda=KimiDeltaAttention)[name]
    return kind(hidden_size=256, head_dim=64, num_heads=3, expand_v=1, mode="chunk", layer_idx=0).to(DEVICE, torch.bfloat16)


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
    monkeypatch.setitem(os.environ, "FLA_TILEKERN", "0")
    theirs = step(layer, x, do)
    assert log.served(FUNCTIONS[name]) == before + 1 and ours.keys() == theirs.keys()
    for n, t in theirs.items():
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
