"""cp_context: ranks that have parts of the tokens make what one call makes of all of them, and errors."""
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.autograd import forward_ad
from torch.utils.checkpoint import checkpoint

from reference import DEVICE, activated, assert_close, double, inputs, recurrence

import tilekern
from tilekern import context

NAMES = "q k v g beta A_log dt_bias".split()
CALLS = {  # ranks, layout, offsets, options
    "contiguous": (3, "contiguous", (0, 40, 250, 288), {}),
    "one sequence": (3, "contiguous", (0, 288), dict(disable_recompute=True)),
    "ends of parts are ends of sequences": (3, "contiguous", (0, 96, 150, 192, 288), {}),
    "zigzag": (2, "zigzag", (0, 40, 250, 288), dict(raw=True)),
    "zigzag, one sequence, K and V 20 and 12": (2, "zigzag", (0, 288), dict(K=20, V=12)),
}


def call_of(kda, options):
    raw = options.get("raw", False)
    more = dict(use_qk_l2norm_in_kernel=raw, use_beta_sigmoid_in_kernel=raw, use_gate_in_kernel=raw, disable_recompute=options.get("disable_recompute", False))
    if kda and raw:
        more.update(lower_bound=-5.0, safe_gate=True)
    return (tilekern.chunk_kda if kda else tilekern.chunk_gated_delta_rule), more


def everything(kda, T, options):
    """All tokens' inputs and dO."""
    raw, K = options.get("raw", False), options.get("K", 64)
    x = inputs(kda, T=T, K=K, V=options.get("V", 64), raw=raw)
    heads = x[2].shape[2]
    x += [(torch.randn(n) * 0.3).to(DEVICE) for n in (heads, heads * (K if kda else 1))] if raw else [None, None]
    return x, torch.randn(x[2].shape).to(x[2])


def rank_of(rank, world, file, kda, layout, offsets, options, out):
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group("gloo" if DEVICE == "cpu" else "nccl", init_method=f"file://{file}", rank=rank, world_size=world)
    x, dout = everything(kda, offsets[-1], options)
    length = offsets[-1] // (world * context.PARTS[layout])
    places = [context.place_of(i, rank, world) for i in range(context.PARTS[layout])]
    own = lambda t: torch.cat([t[:, p * length:(p + 1) * length] for p in places], 1)
    leaves = [None if t is None else (own(t) if i < 5 else t).detach().requires_grad_() for i, t in enumerate(x)]
    cp = tilekern.build_cp_context(torch.tensor(offsets, device=DEVICE), dist.group.WORLD, layout)
    function, more = call_of(kda, options)
    if leaves[5] is not None:
        more.update(A_log=leaves[5], dt_bias=leaves[6])
    o, state = function(*leaves[:5], cp_context=cp, **more)
    assert state is None
    with torch.no_grad():
        assert torch.equal(function(*leaves[:5], cp_context=cp, **more)[0], o)
    grads = iter(torch.autograd.grad(o, [t for t in leaves if t is not None], own(dout)))
    torch.save((places, o.detach(), [None if t is None else next(grads) for t in leaves]), f"{out}/{rank}")
    dist.destroy_process_group()


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("kda", (False, True), ids=("gdn", "kda"))
def test_ranks_make_what_one_call_makes(kda, what):
    world, layout, offsets, options = CALLS[what]
    if DEVICE == "cuda" and torch.cuda.device_count() < world:
        pytest.skip(f"{world} ranks want as many GPUs")
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(rank_of, (world, f"{folder}/store", kda, layout, offsets, options, folder), nprocs=world)
        ranks = [torch.load(f"{folder}/{r}", map_location="cpu") for r in range(world)]
    x, dout = everything(kda, offsets[-1], options)
    leaves = double(*x)
    q, k, v, g, beta, A_log, dt_bias = leaves
    raw = options.get("raw", False)
    q, k, g, beta = activated(kda, q, k, g, beta, A_log, dt_bias, raw, raw, raw, False, -5.0 if kda else None)
    want, _ = recurrence(q, k, v, g, beta, cu=offsets)
    (want * dout.cpu().double()).sum().backward()

    def whole(pieces):
        parts = {p: t for (places, _, _), of in zip(ranks, pieces) for p, t in zip(places, of.chunk(len(places), 1))}
        return torch.cat([parts[p] for p in sorted(parts)], 1)

    assert_close(whole([o for _, o, _ in ranks]), want, 0.006, "o")
    for i, (name, leaf) in enumerate(zip(NAMES, leaves)):
        if leaf is None:
            continue
        have = [grads[i] for _, _, grads in ranks]
        assert_close(whole(have) if i < 5 else sum(have), leaf.grad, 0.008 if i < 3 else 0.02, "d" + name)


@pytest.mark.parametrize("more, error, words", [
    (dict(initial_state=torch.zeros(1, 4, 128, 128)), AssertionError, "Initial state is not supported"),
    (dict(output_final_state=True), AssertionError, "Output final state is not supported"),
    (dict(use_graph=True), ValueError, "use_graph with cp_context is not served"),
    (dict(cp_context=object()), ValueError, "cp_context is of type object"),
], ids=("initial_state", "final state", "use_graph", "another object"))
def test_refused(more, error, words):
    cp = context.Context(None, torch.tensor([0, 9], dtype=torch.int32, device=DEVICE), None, "contiguous", pre_num_ranks=0, post_num_ranks=0)
    with pytest.raises(error, match=words):
        tilekern.chunk_kda(*inputs(True, T=9), **{"cp_context": cp, **more})


def test_another_number_of_tokens(monkeypatch):
    monkeypatch.setattr(dist, "get_rank", lambda group: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    cp = tilekern.build_cp_context(torch.tensor([0, 18]), object())
    with pytest.raises(ValueError, match="q has 10 tokens, but the sequences of cp_context end at 9"):
        tilekern.chunk_kda(*inputs(True, T=10), cp_context=cp)


def test_a_group_that_is_none_is_one_rank():
    x = inputs(True, T=30)
    cp = context.Context(None, torch.tensor([0, 9, 30], dtype=torch.int32, device=DEVICE), None, "contiguous", pre_num_ranks=0, post_num_ranks=0)
    assert torch.equal(tilekern.chunk_kda(*x, cp_context=cp)[0], tilekern.chunk_kda(*x, cu_seqlens=cp.cu_seqlens)[0])


@pytest.fixture
def middle(monkeypatch):
    """cp_context of rank 1 of 2, which has the two parts in the middle of a sequence; the other rank's are made up."""
    monkeypatch.setattr(dist, "get_rank", lambda group: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 2)
    monkeypatch.setattr(dist, "all_gather", lambda of_ranks, own, group: [x.copy_(own) for x in of_ranks])
    return tilekern.build_cp_context(torch.tensor([0, 60], device=DEVICE), object(), "zigzag")


def test_checkpointing(middle):
    x = [t.requires_grad_() for t in inputs(True, T=30)]
    o = tilekern.chunk_kda(*x, cp_context=middle)[0]
    again = checkpoint(lambda *x: tilekern.chunk_kda(*x, cp_context=middle)[0], *x, use_reentrant=False)
    assert all(map(torch.equal, torch.autograd.grad(again.sum(), x), torch.autograd.grad(o.sum(), x)))


def test_offsets_written_before_the_backward(middle):
    x = [t.requires_grad_() for t in inputs(True, T=30)]
    o = tilekern.chunk_kda(*x, cp_context=middle)[0]
    middle.cu_seqlens[1] = 20
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(o.sum(), x)


@pytest.mark.parametrize("transform", (torch.func.grad, torch.func.vmap), ids=("grad", "vmap"))
def test_transforms_are_refused(middle, transform):
    q, *x = inputs(True, T=30)
    with pytest.raises(RuntimeError, match="no cp_context within torch.func's transforms"):
        transform(lambda q: tilekern.chunk_kda(q.view(1, *q.shape[-3:]), *x, cp_context=middle)[0].sum())(q)


def test_tangents_are_refused(middle):
    x = [t.requires_grad_() for t in inputs(True, T=30)]
    with forward_ad.dual_level(), pytest.raises(RuntimeError, match="no derivatives in forward mode"):
        tilekern.chunk_kda(forward_ad.make_dual(x[0], x[0].detach()), *x[1:], cp_context=middle)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float64))
def test_torchs_default_type_changes_nothing(middle, dtype):
    x = inputs(True, T=30)
    o = tilekern.chunk_kda(*x, cp_context=middle)[0]
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(tilekern.chunk_kda(*x, cp_context=middle)[0], o)
    finally:
        torch.set_default_dtype(torch.float32)


def test_torchs_default_device_changes_nothing(middle):
    offsets = torch.tensor([0, 60], device=DEVICE)
    with torch.device("meta"):
        cp = tilekern.build_cp_context(offsets, middle.group, "zigzag")
    assert torch.equal(cp.cu_seqlens, middle.cu_seqlens) and cp.cu_seqlens_cpu.device.type == "cpu"


@pytest.mark.parametrize("offsets, layout, words", [((0, 10), "contiguous", "0 to 10, which cannot be divided into 3"), ((0, 12), "ring", "layout is 'ring'"), ((3, 12), "contiguous", "tokens 3 to 12"),
    ((0, 9, 5, 12), "contiguous", r"cu_seqlens\[2\] is 5, but cu_seqlens\[1\] is 9"), ((0.0, 12.0), "zigzag", "cu_seqlens is torch.float32"), ((0,), "zigzag", r"of shape \[1\]")])
def test_what_cannot_be_divided(monkeypatch, offsets, layout, words):
    monkeypatch.setattr(dist, "get_rank", lambda group: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda group: 3)
    with pytest.raises(ValueError, match=words):
        tilekern.build_cp_context(torch.tensor(offsets), object(), layout)


def test_no_group():
    with pytest.raises(ValueError, match="group is None"):
        tilekern.build_cp_context(torch.tensor([0, 12]), None)


def test_a_group_of_other_processes():
    with pytest.raises(ValueError, match="group is one that this process is not in"):
        tilekern.build_cp_context(torch.tensor([0, 12]), dist.GroupMember.NON_GROUP_MEMBER)
