"""torch.library's own checks of the operators, torch.compile without graph breaks."""
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from reference import DEVICE, inputs

import tilekern

FUNCTIONS = dict(gdn=tilekern.chunk_gated_delta_rule, kda=tilekern.chunk_kda)


def fwd_args(name, **kwargs):
    state = torch.randn(1, 2, 128, 128, device=DEVICE)
    return (*inputs(name == "kda", T=64, H=1, HV=2), None, None, state, None, 0.0, 0, False, True, kwargs.get("save", False))


def with_gradients(function, args):
    leaves = [t.detach().clone().requires_grad_() for t in args[:5]]
    o, state = function(*leaves, *args[5:])
    return (o, state, *torch.autograd.grad(o.float().square().sum() + state.sum(), leaves))


@pytest.mark.parametrize("name,save", [(n, s) for n in FUNCTIONS for s in (False, True)])
def test_opcheck_forward(name, save):
    args = fwd_args(name, save=save)
    for t in args[:5]:
        t.requires_grad_()
    checks, op = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"], getattr(torch.ops.tilekern, f"{name}_fwd").default
    if name == "kda" and save:
        checks.pop()  # it compares `saved`, too, in which there are bytes that nobody writes
        compiled = torch.compile(lambda *a: op(*a)[:2], backend="aot_eager", dynamic=True)
        for a, b in zip(with_gradients(compiled, args), with_gradients(lambda *a: op(*a)[:2], args)):
            assert torch.equal(a, b)
    torch.library.opcheck(op, args, test_utils=checks)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_opcheck_others(name):
    args = fwd_args(name)
    torch.library.opcheck(getattr(torch.ops.tilekern, f"{name}_infer").default, args)
    dout = torch.randn(args[2].shape, device=DEVICE).bfloat16()
    torch.library.opcheck(getattr(torch.ops.tilekern, f"{name}_bwd").default, (*args[:9], None, dout, None))
    torch.library.opcheck(getattr(torch.ops.tilekern, f"{name}_grads").default, (*args[:9], None, dout, None, 0.0, 0, False, 31))
    pool, slots = torch.randn(3, 2, 128, 128, device=DEVICE), torch.tensor([1], device=DEVICE)
    torch.library.opcheck(getattr(torch.ops.tilekern, f"{name}_prefill").default, (*args[:7], pool, slots, torch.zeros_like(args[2])))


@pytest.mark.parametrize("name,backend", [(n, b) for n in FUNCTIONS for b in ("aot_eager", "inductor")])
def test_compile(name, backend):
    """One graph for all lengths, the same bits as without it, gradients too."""
    torch._dynamo.reset()
    function = FUNCTIONS[name]

    def model(q, k, v, g, beta):
        o, state = function(q, k, v * 2, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)
        return o.float().square().sum() + state.sum()

    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
    for T in (17, 70, 67):  # more than 4096 numbers of o, up to which inductor has another loop for the sum on the CPU, and another graph
        x = [t.requires_grad_() for t in inputs(name == "kda", T=T, H=1, HV=2)]
        want, have = model(*x), compiled(*x)
        torch.testing.assert_close(have, want, rtol=1e-5, atol=1e-5)
        for a, b in zip(torch.autograd.grad(have, x), torch.autograd.grad(want, x)):
            torch.testing.assert_close(a, b, rtol=0.02, atol=1e-2)
    assert counter.frame_count == 1


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_length_that_depends_on_data(name):
    """Tokens that a mask leaves, in one graph, with what the forward saves of them."""
    torch._dynamo.reset()

    def model(mask, *x):
        left = mask.nonzero().squeeze(-1)
        return FUNCTIONS[name](*(t.index_select(1, left) for t in x), disable_recompute=True)[0].float().square().sum()

    mask = torch.arange(70, device=DEVICE) % 3 > 0
    x = [t.requires_grad_() for t in inputs(name == "kda", T=70, H=1, HV=1, K=64, V=64)]
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    for a, b in zip(torch.autograd.grad(compiled(mask, *x), x), torch.autograd.grad(model(mask, *x), x)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_deprecated_name(name):
    """The old name of state_v_first is in the graph, too."""
    torch._dynamo.reset()
    x = inputs(name == "kda", T=9, H=1, HV=1, K=64, V=72)
    compiled = torch.compile(lambda *x: FUNCTIONS[name](*x, output_final_state=True, transpose_state_layout=True), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*x)[1], FUNCTIONS[name](*x, output_final_state=True, state_v_first=True)[1])


class Model(torch.nn.Module):
    def forward(self, q, k, v, g, beta):
        o, state = tilekern.chunk_gated_delta_rule(q, k, v * 2, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)
        return o + 1, state


def test_aot_inductor(tmp_path):
    """A model compiled ahead of time for all lengths, loaded again."""
    length = torch.export.Dim("T", min=2, max=4096)
    x = inputs(False, T=70, H=1, HV=2)
    with torch.no_grad():
        exported = torch.export.export(Model(), tuple(x), dynamic_shapes=tuple({1: length} for _ in x))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
        loaded = torch._inductor.aoti_load_package(path)
        for T in (70, 33):
            y = inputs(False, T=T, H=1, HV=2)
            assert all(torch.equal(a, b) for a, b in zip(loaded(*y), Model()(*y)))
