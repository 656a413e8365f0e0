"""Context parallelism, as flash-linear-attention's cp_context has it: the tokens of all sequences lie on several ranks, one part of equal length on each, or two.

A part's last sequence may go on in the next part.  It makes M S + R of a state S: R is its state from zero, M that from the identity without v.  Each rank gathers those of all parts and makes of those
before its own the state that enters it, in float64; then it has a call like any other.  Backwards the gradient D of what a part leaves enters the part before as M^T D + E, E that of a part from zero.
"""
from typing import NamedTuple

import torch
import torch.distributed as dist

from . import ops

PARTS = {"contiguous": 1, "zigzag": 2}  # of a rank


class Context(NamedTuple):
    """What build_cp_context makes: attributes of FLA's FLACPContext, those of a rank's parts where it has two."""
    group: object
    cu_seqlens: torch.Tensor
    cu_seqlens_cpu: torch.Tensor
    layout: str
    front_num_seqs: int | None = None
    pre_num_ranks: int | None = None
    post_num_ranks: int | None = None
    pre_num_ranks_by_part: tuple | None = None
    post_num_ranks_by_part: tuple | None = None


class Part(NamedTuple):
    """Tokens of a rank: their place among all parts, the first and the last of the rank's sequences in them, how many parts before and behind have the first and the last one, too."""
    place: int
    first: int
    last: int
    before: int
    behind: int

    @property
    def inner(self):
        """Whether it is one sequence's, which comes from the part before and goes on: it hands the state on."""
        return self.first == self.last and self.before > 0 and self.behind > 0


def place_of(i, rank, world):
    return rank if i == 0 else 2 * world - 1 - rank


def split(offsets, place, length):
    """Of part `place`: the offsets of its sequences from its first token, and how many parts before and behind have the first and the last one, too."""
    begin, end = place * length, (place + 1) * length
    inside = [x for x in offsets if begin < x < end]
    start = max(x for x in offsets if x <= begin)
    stop = min(x for x in offsets if x >= end)
    return [0, *(x - begin for x in dict.fromkeys(inside)), length], place - start // length, (stop - 1) // length - place


def build_cp_context(cu_seqlens, group, layout="contiguous"):
    """The cp_context of this rank of `group`, of the offsets of all sequences, whose tokens are divided among the ranks in equal parts: rank r of W has part r, or, with layout "zigzag", parts r and
    2 W - 1 - r of twice as many, one behind the other.  FLA's fla.ops.cp.build_cp_context does as well, and its convolutions need that one."""
    if layout not in PARTS:
        raise ValueError(f"layout is {layout!r}, not 'contiguous' or 'zigzag'")
    if group is None:  # of a cp_context that is no group
        raise ValueError("group is None, not one of torch.distributed: of all processes it is torch.distributed.group.WORLD")
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("group is one that this process is not in")
    if cu_seqlens.dtype not in (torch.int32, torch.int64) or cu_seqlens.dim() != 1 or len(cu_seqlens) < 2:
        raise ValueError(f"cu_seqlens is {cu_seqlens.dtype} of shape {list(cu_seqlens.shape)}, not int32 or int64 of the offsets of at least one sequence")
    offsets, count = cu_seqlens.tolist(), PARTS[layout] * world
    for n, (a, b) in enumerate(zip(offsets, offsets[1:])):
        if b < a:
            raise ValueError(f"cu_seqlens[{n + 1}] is {b}, but cu_seqlens[{n}] is {a}")
    if offsets[0] != 0 or offsets[-1] < count or offsets[-1] % count != 0:
        raise ValueError(f"the sequences are tokens {offsets[0]} to {offsets[-1]}, which cannot be divided into {count} equal parts")
    length = offsets[-1] // count
    each = [split(offsets, place_of(i, rank, world), length) for i in range(PARTS[layout])]
    own = torch.tensor([0] + [i * length + x for i, (at, _, _) in enumerate(each) for x in at[1:]], dtype=torch.int32, device="cpu")
    before, behind = (tuple(e[i] for e in each) for i in (1, 2))
    context = Context(group, own.to(cu_seqlens.device), own, layout)
    if layout == "zigzag":
        return context._replace(front_num_seqs=len(each[0][0]) - 1, pre_num_ranks_by_part=before, post_num_ranks_by_part=behind)
    return context._replace(pre_num_ranks=before[0], post_num_ranks=behind[0])


def parts_of(cp):
    rank, world, last = dist.get_rank(cp.group), dist.get_world_size(cp.group), len(cp.cu_seqlens) - 2
    if cp.layout == "contiguous":
        return [Part(rank, 0, last, cp.pre_num_ranks, cp.post_num_ranks)]
    bounds = (0, cp.front_num_seqs - 1), (cp.front_num_seqs, last)
    return [Part(place_of(i, rank, world), *bounds[i], cp.pre_num_ranks_by_part[i], cp.post_num_ranks_by_part[i]) for i in range(2)]


def gather(own, cp):
    """What all parts have, by place; `own` is of this rank's parts."""
    world = dist.get_world_size(cp.group)
    of_ranks = [torch.empty_like(own) for _ in range(world)]
    dist.all_gather(of_ranks, own.contiguous(), group=cp.group)
    places = {place_of(i, rank, world): x for rank, parts in enumerate(of_ranks) for i, x in enumerate(parts)}
    return [places[p] for p in sorted(places)]


def follow(steps, turned):
    """M S + R after M S + R, from zero: of each step [M | R] along the last axis, M K x K; with M^T where `turned`."""
    state = None
    for step in steps:
        step = step.double()
        M, R = step[..., :step.shape[-2]], step[..., step.shape[-2]:]
        state = R if state is None else torch.baddbmm(R, M.mT if turned else M, state)
    return state.float()


class Call(NamedTuple):
    """An operator's call on this rank."""
    name: str
    tensors: tuple  # q k v g beta A_log dt_bias
    cu_seqlens: torch.Tensor
    offsets: list
    numbers: tuple  # scale options, save lower_bound
    parts: list

    def infer(self, tensors, initial_state, cu_seqlens, final, save):
        scale, options, _, lower_bound = self.numbers
        return ops.run(ops.INFER[self.name], *tensors, initial_state, cu_seqlens, scale, options, False, final, save, lower_bound)

    def of_sequence(self, n, identity):
        """The state [HV, K, V] that sequence n makes of zero, or, without v, of the identity."""
        k, v, g, beta = (t[:, self.offsets[n]:self.offsets[n + 1]] for t in self.tensors[1:5])
        state, (heads, K) = None, (v.shape[2], k.shape[3])
        if identity:
            v = v.new_zeros(*v.shape[:3], K)
            state = torch.eye(K, dtype=torch.float32, device=v.device).expand(1, heads, K, K).contiguous()
        return self.infer((k, k, v, g, beta, *self.tensors[5:]), state, None, True, False)[1][0]  # a state is not of q, which need not be read

    def states(self, rows, which):
        """[N, HV, K, V], zero but for those of parts."""
        q, _, v = self.tensors[:3]
        x = v.new_zeros(len(self.offsets) - 1, v.shape[2], q.shape[3], v.shape[3], dtype=torch.float32)
        for part, row in zip(self.parts, rows):
            if row is not None:
                x[getattr(part, which)] = row
        return x

    def steps(self, ends, transitions):
        """[parts, HV, K, K + V]: [M | R], zeros where nobody asks."""
        q, _, v = self.tensors[:3]
        K = q.shape[3]
        x = v.new_zeros(len(self.parts), v.shape[2], K, K + v.shape[3], dtype=torch.float32)
        for step, end, transition in zip(x, ends, transitions):
            if end is not None:
                step[..., K:] = end
            if transition is not None:
                step[..., :K] = transition
        return x

    def transitions(self):
        return [self.of_sequence(p.last, True) if p.inner else None for p in self.parts]

    def enter(self, cp, transitions):
        """The states that enter the first sequences of the parts, None for zero."""
        ends = [self.of_sequence(p.last, False) if p.behind > 0 else None for p in self.parts]
        every = gather(self.steps(ends, transitions), cp)
        return [follow(every[p.place - p.before:p.place], False) if p.before > 0 else None for p in self.parts]

    def leave(self, cp, transitions, entered):
        """The gradients of the states that the last sequences of the parts leave, of those of the states that enter all sequences where nothing is left."""
        starts = [entered[p.first] if p.before > 0 else None for p in self.parts]
        every = gather(self.steps(starts, transitions), cp)
        return [follow(every[p.place + p.behind:p.place:-1], True) if p.behind > 0 else None for p in self.parts]


class Across(torch.autograd.Function):
    @staticmethod
    def forward(ctx, cp, call, *tensors):
        transitions = call.transitions()
        entering = call.enter(cp, transitions)
        o, _, saved = call.infer(tensors, call.states(entering, "first"), call.cu_seqlens, False, call.numbers[2])
        ctx.cp, ctx.call = cp, call._replace(tensors=(), cu_seqlens=None)
        ctx.save_for_backward(*tensors, call.cu_seqlens, saved, *entering, *transitions)
        return o

    @staticmethod
    def backward(ctx, dout):
        ops.refuse_second_derivatives()
        n, kept = len(ctx.call.parts), ctx.saved_tensors  # which activation checkpointing unpacks once
        *tensors, cu_seqlens, saved = kept[:-2 * n]
        entering, transitions = kept[-2 * n:-n], kept[-n:]
        call = ctx.call._replace(tensors=tuple(tensors), cu_seqlens=cu_seqlens)
        initial_state = call.states(entering, "first")
        scale, options, _, lower_bound = call.numbers
        if saved is None:
            saved = call.infer(tensors, initial_state, call.cu_seqlens, False, True)[2]

        def grads(dfinal_state, wanted):
            return ops.run(ops.GRADS[call.name], *tensors, initial_state, call.cu_seqlens, saved, dout, dfinal_state, scale, options, False, wanted, lower_bound)

        entered = grads(None, 1 << ops.GRADIENTS - 1)[-1] if any(p.before > 0 for p in call.parts) else None
        leaving = call.leave(ctx.cp, transitions, entered)
        made = grads(call.states(leaving, "last"), ops.wanted_of(ctx.needs_input_grad[2:]))[:len(tensors)]
        return (None, None, *(g if g is None or g.dtype == t.dtype else g.to(t.dtype) for g, t in zip(made, tensors)))


@torch.compiler.disable
def forward(cp, name, trained, tensors, numbers):
    """ops.forward for sequences that begin on other ranks, or go on there: no states are given, and none asked for."""
    scale, options, _, _, save, lower_bound = numbers
    ops.refuse_tangents(tensors[:7])
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError("tilekern has no cp_context within torch.func's transforms: torch.distributed is not in them")
    offsets = (cp.cu_seqlens if cp.cu_seqlens_cpu is None else cp.cu_seqlens_cpu).tolist()
    if offsets[-1] != tensors[0].shape[1]:
        raise ValueError(f"q has {tensors[0].shape[1]} tokens, but the sequences of cp_context end at {offsets[-1]}")
    call = Call(name, tensors[:7], cp.cu_seqlens, offsets, (scale, options, save, lower_bound), parts_of(cp))
    if trained:
        return Across.apply(cp, call, *call.tensors), None
    return call.infer(call.tensors, call.states(call.enter(cp, call.transitions()), "first"), cp.cu_seqlens, False, False)[0], None


def refusal(cp, use_graph):
    """Why a cp_context is not served, or None."""
    if getattr(cp, "layout", None) not in PARTS or not hasattr(cp, "group"):
        return f"cp_context is of type {type(cp).__name__}, not what tilekern.build_cp_context or FLA's makes"
    if use_graph:
        return "use_graph with cp_context is not served"
    return None
