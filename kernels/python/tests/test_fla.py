"""The backend of flash-linear-attention: which calls are ours, which go on to FLA and why.  FLA's own tests run on a GPU: README.md."""
import contextlib
import os
import subprocess
import sys

import pytest
import torch

from reference import DEVICE, assert_close, double, inputs, recurrence

pytest.importorskip("fla", reason="flash-linear-attention is not installed")
pytest.importorskip("triton", reason="flash-linear-attention needs Triton")

import tilekern.fla  # noqa: E402
from fla.ops.gated_delta_rule import chunk_gated_delta_rule  # noqa: E402
from fla.ops.kda import chunk_kda  # noqa: E402
from tilekern import log  # noqa: E402

FUNCTIONS = dict(gdn=chunk_gated_delta_rule, kda=chunk_kda)
NAMES = dict(gdn="chunk_gated_delta_rule", kda="chunk_kda")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_served(name):
    """By keyword, as FLA's layers call, with gradients."""
    x = dict(zip("q k v g beta".split(), (t.requires_grad_() for t in inputs(name == "kda", T=33, H=1, HV=2))))
    before = log.served(NAMES[name])
    o, state = FUNCTIONS[name](**x, output_final_state=True, state_v_first=True)
    assert log.served(NAMES[name]) == before + 1
    reference = double(*x.values())
    want, want_state = recurrence(*reference)
    assert_close(o, want, 0.006, "o")
    assert_close(state.transpose(-1, -2), want_state, 0.006, "state")
    do = torch.randn(o.shape).bfloat16()
    for n, a, b in zip(x, torch.autograd.grad(o, list(x.values()), do.to(DEVICE)), torch.autograd.grad(want, reference, do.double())):
        assert_close(a, b, 0.02, f"gradient of {n}")


REJECTED = [
    ("gdn", dict(chunk_size=48), ValueError, "FLA raises: `chunk_size` must be 16, 32, or 64"),
    ("gdn", dict(allow_neg_eigval=True), Exception, "FLA raises: `allow_neg_eigval=True`"),
    ("gdn", dict(use_gate_in_kernel=True), AssertionError, "FLA raises: A_log must be provided"),
    ("gdn", dict(scale=0.0), None if DEVICE == "cuda" else Exception, "scale is 0"),  # on a GPU FLA serves it
    ("kda", dict(chunk_size=16), ValueError, "FLA raises: `chunk_size` must be either 32 or 64"),
    ("kda", dict(use_gate_in_kernel=True), ValueError, "FLA raises: `A_log` must be provided"),
]


@pytest.mark.parametrize("name,kwargs,error,why", REJECTED)
def test_rejected(name, kwargs, error, why):
    """FLA's own error comes, not ours, or FLA's own kernels do it, and the reason is counted."""
    counted = lambda: sum(n for (f, what), n in log.counts.items() if f == f"fla.{NAMES[name]}" and what.startswith(why))
    before = counted()
    with pytest.raises(error) if error else contextlib.nullcontext():
        FUNCTIONS[name](*inputs(name == "kda", T=5, H=1, HV=1), **kwargs)
    assert counted() == before + 1


ORDER = """
import torch
{first}
{second}
from tilekern import log
q = torch.randn(1, 5, 1, 128).bfloat16()
try:
    fla.ops.kda.chunk_kda(q, q, q, -torch.rand(1, 5, 1, 128), torch.rand(1, 5, 1))
except Exception as e:
    print(type(e).__name__)
print(log.served("chunk_kda"))
"""


@pytest.mark.parametrize("first,second,switch,served", [
    ("import tilekern.fla", "import fla.ops.kda", "1", "1"), ("import fla.ops.kda", "import tilekern.fla", "1", "1"),
    ("import fla.ops.kda", "import tilekern.fla", "0", "0")])
def test_order_and_switch(first, second, switch, served):
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", ORDER.format(first=first, second=second)], capture_output=True, text=True,
                         env={**os.environ, "FLA_TILEKERN": switch})
    assert run.stdout.split()[-1:] == [served], run.stdout + run.stderr
