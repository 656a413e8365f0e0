"""chunk_kda and chunk_gated_delta_rule with the signatures, defaults and errors of flash-linear-attention 0.6, which need not be installed.

What FLA takes and these kernels do not is a ValueError that says so; `refusal` is the same in words, for those who then call something else.
"""
import functools
import warnings
from typing import NamedTuple

import torch
import torch.nn.functional as F

from . import context, log, ops


class Kind(NamedTuple):
    """What the kernels of an operator take."""
    name: str
    chunks: tuple
    max_key: int
    max_value: int


FLOATS = torch.float32, torch.bfloat16, torch.float16
GDN = Kind("gdn", (16, 32, 64), 256, 256)
KDA = Kind("kda", (32, 64), 256, 256)


# ---- what FLA refuses, in its words -----------------------------------------------------------------------------

def renamed(kwargs, state_v_first):
    if "transpose_state_layout" not in kwargs:
        return state_v_first
    if state_v_first:
        raise ValueError("Cannot pass both `state_v_first` and the deprecated `transpose_state_layout`.")
    if not torch.compiler.is_compiling():  # which has no graph for a warning
        warnings.warn("`transpose_state_layout` is deprecated and renamed to `state_v_first`.", DeprecationWarning, stacklevel=3)
    return kwargs["transpose_state_layout"]


def check_sequences(q, initial_state, cu_seqlens):
    if cu_seqlens is None:
        return
    if q.shape[0] != 1:
        raise ValueError(f"The batch size is expected to be 1 rather than {q.shape[0]} when using `cu_seqlens`."
                         f"Please flatten variable-length inputs before processing.")
    if initial_state is not None and initial_state.shape[0] != len(cu_seqlens) - 1:
        raise ValueError(f"The number of initial states is expected to be equal to the number of input sequences, "
                         f"i.e., {len(cu_seqlens) - 1} rather than {initial_state.shape[0]}.")


def check_parallel(cp_context, initial_state, final, cu_seqlens):
    """The offsets that the call then has."""
    if cp_context is None:
        return cu_seqlens
    assert initial_state is None, "Initial state is not supported for CP"
    assert not final, "Output final state is not supported for CP"
    if hasattr(cp_context, "cu_seqlens"):
        cu_seqlens = cp_context.cu_seqlens
        assert cu_seqlens is not None, "cu_seqlens is required for CP"
    return cu_seqlens


def check_chunk(kind, kwargs, what):
    chunk = kwargs.get("chunk_size", 64)
    if chunk not in kind.chunks:
        raise ValueError(what.format(chunk))


def check_sigmoid(use_beta_sigmoid_in_kernel, allow_neg_eigval):
    if allow_neg_eigval and not use_beta_sigmoid_in_kernel:
        raise ValueError("`allow_neg_eigval=True` requires `use_beta_sigmoid_in_kernel=True`.")


def check_gdn(q, k, v, initial_state, cu_seqlens, sigmoid, twice, kwargs):
    if q.shape[2] != k.shape[2]:
        raise ValueError(f"q and k must have the same number of heads, but got q.shape[2]={q.shape[2]} and k.shape[2]={k.shape[2]}")
    H, HV = q.shape[2], v.shape[2]
    if HV % H != 0:
        raise ValueError(f"For GVA, num_v_heads (HV={HV}) must be evenly divisible by num_heads (H={H}), but got HV % H = {HV % H}")
    if "head_first" in kwargs:
        raise DeprecationWarning("head_first has been removed. Inputs must be in `[B, T, H, ...]` format.")
    check_chunk(GDN, kwargs, "`chunk_size` must be 16, 32, or 64 for Gated Delta Rule, got {}.")
    check_sequences(q, initial_state, cu_seqlens)
    check_sigmoid(sigmoid, twice)
    if kwargs.get("use_gate_in_kernel"):
        assert kwargs.get("A_log") is not None, "A_log must be provided when use_gate_in_kernel=True."


def check_kda_gate(use_gate_in_kernel, safe_gate, lower_bound, A_log):
    if use_gate_in_kernel and A_log is None and lower_bound is None:
        raise ValueError("`A_log` must be provided when `use_gate_in_kernel=True` and `lower_bound` is not set.")
    if safe_gate and use_gate_in_kernel:
        if lower_bound is None:
            raise ValueError("`lower_bound` must be specified when `safe_gate=True` and `use_gate_in_kernel=True`.")
        if not (-5 <= lower_bound < 0):
            raise ValueError(f"`lower_bound` must be in the safe range [-5, 0), got {lower_bound}.")


def check_kda_shapes(q, k, v, g, beta):
    B, T, H, K, HV = *q.shape, v.shape[2]
    assert q.shape == k.shape, f"q and k must have the same shape, got q={q.shape} vs k={k.shape}"
    assert K <= 256, f"Currently we only support key headdim <=256 for KDA, got {K}."
    assert HV % H == 0, (f"For GVA, num_v_heads (HV={HV}) must be evenly divisible by num_qk_heads (H={H}), but got HV % H = {HV % H}")
    assert g.shape == (B, T, HV, K), f"g must have shape [B, T, HV, K]={[B, T, HV, K]}, got {list(g.shape)}"
    assert beta.shape == (B, T, HV), f"beta must have shape [B, T, HV]={[B, T, HV]}, got {list(beta.shape)}"


def check_kda(q, k, v, g, beta, initial_state, gate, sigmoid, twice, safe_gate, lower_bound, recompute, intermediate, cu_seqlens, use_graph, max_num_seqs, kwargs):
    check_sequences(q, initial_state, cu_seqlens)
    if initial_state is not None:
        assert initial_state.dtype == torch.float32, "initial_state must be in float32."
    check_kda_gate(gate, safe_gate, lower_bound, kwargs.get("A_log"))
    check_chunk(KDA, kwargs, "`chunk_size` must be either 32 or 64 for KDA, got {}.")
    check_sigmoid(sigmoid, twice)
    if intermediate:
        assert torch.is_inference_mode_enabled(), "return_intermediate_states is only allowed in inference mode"
        assert not recompute, "return_intermediate_states must be used with disable_recompute=False"
    check_kda_shapes(q, k, v, g, beta)
    if use_graph and cu_seqlens is not None and max_num_seqs is not None:
        assert cu_seqlens.shape[0] - 1 == max_num_seqs, (
            f"cu_seqlens must be padded with zero-length tail sequences to exactly max_num_seqs + 1 entries, got {cu_seqlens.shape[0] - 1} sequences "
            f"with max_num_seqs={max_num_seqs}")


# ---- what FLA takes and the kernels do not -------------------------------------------------------------------------

def needs_gradient(q, k, v, g, beta, initial_state, kwargs):
    if not torch.is_grad_enabled():
        return False
    if q.requires_grad or k.requires_grad or v.requires_grad or g.requires_grad or beta.requires_grad:
        return True
    if initial_state is not None and initial_state.requires_grad:
        return True
    return bool(kwargs) and any(t is not None and t.requires_grad for t in (kwargs.get("A_log"), kwargs.get("dt_bias")))


def refusal(kind, q, k, v, g, beta, scale, initial_state, cp_context, use_graph=False):
    """Why a call that FLA serves is not one of these kernels', or None."""
    K, V = q.shape[-1], v.shape[-1]
    reason = None if cp_context is None else context.refusal(cp_context, use_graph)
    if reason:
        return reason
    if q.dtype not in (torch.bfloat16, torch.float16):
        return f"q is {q.dtype}, not torch.bfloat16 or torch.float16"
    if not q.dtype == k.dtype == v.dtype:
        return f"q, k and v are {q.dtype}, {k.dtype} and {v.dtype}, not of one type"
    for name, t in (("g", g), ("beta", beta)):
        if t.dtype not in FLOATS:
            return f"{name} is {t.dtype}, not torch.float32, torch.bfloat16 or torch.float16"
    if K > kind.max_key or V > kind.max_value:
        return f"K and V are {K} and {V}, but at most {kind.max_key} and {kind.max_value} are served"
    if scale == 0:
        return "scale is 0, which the kernels take for K^-0.5"
    if initial_state is not None and initial_state.dtype not in FLOATS:
        return f"initial_state is {initial_state.dtype}, not torch.float32, torch.bfloat16 or torch.float16"
    if q.device.type not in ("cuda", "cpu"):
        return f"q is on {q.device}, not on a CUDA device or the CPU"
    return None


def device_refusal(q):
    if q.is_cuda and torch.cuda.get_device_capability(q.device) != (9, 0):
        return f"{q.device} is of compute capability {torch.cuda.get_device_capability(q.device)}, not (9, 0)"
    return None


# ---- the call --------------------------------------------------------------------------------------------------------

def channels(n):
    return (n + 7) // 8 * 8


class Extent(NamedTuple):
    n: int
    of: str


def padded(name, t, *extents):
    """Zeros behind the last axes of a tensor, which must have these extents: its extents are then those of the others, and the operator sees no difference."""
    if t is None:
        return t
    for i, e in enumerate(extents, t.dim() - len(extents)):
        if t.shape[i] != e.n:
            raise ValueError(f"{name}.shape[{i}] is {t.shape[i]}, but {e.of} is {e.n}")
    more = [x for e in reversed(extents) for x in (0, channels(e.n) - e.n)]
    return F.pad(t, more) if any(more) else t


def bias_padded(t, heads, K):
    if t is None:
        return t
    if t.numel() != heads * K.n:
        raise ValueError(f"dt_bias.shape[0] is {t.numel()}, but the heads and channels of g make {heads * K.n}")
    return padded("dt_bias", t.view(-1, K.n), K).flatten()


def call(kind, trained, tensors, numbers, forward):
    """The operator on channels that its kernels take, a multiple of 8: zeros are added and taken away."""
    K, V = tensors[0].size(-1), tensors[2].size(-1)
    if K % 8 == 0 and V % 8 == 0:
        return forward(kind.name, trained, tensors, numbers)
    q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens = tensors
    scale, options, v_first, final, *others = numbers
    keys, values = Extent(K, "q.shape[3]"), Extent(V, "v.shape[3]")
    q, k, v, initial_state = (padded(name, t, *extents) for name, t, *extents in (
        ("q", q, keys), ("k", k, keys), ("v", v, values), ("initial_state", initial_state, *((values, keys) if v_first else (keys, values)))))
    if kind is KDA:
        g, dt_bias = padded("g", g, keys), bias_padded(dt_bias, g.shape[2], keys)
    o, state = forward(kind.name, trained, (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens), (scale or K**-0.5, options, v_first, final, *others))
    if final:
        state = (state[..., :V, :K] if v_first else state[..., :K, :V]).contiguous()
    return o[..., :V].contiguous(), state


def option_bits(l2norm, gate, sigmoid, twice, bounded=False):
    return ((ops.L2NORM if l2norm else 0) | (ops.RAW_GATE if gate else 0) | (ops.SIGMOID_BETA if sigmoid else 0)
            | (ops.TWICE_BETA if sigmoid and twice else 0) | (ops.BOUNDED_GATE if bounded else 0))


def parameters(kwargs):
    """A_log and dt_bias of a raw gate; a model that was cast to bfloat16 has them so, and their gradients are made in float32."""
    both = kwargs.get("A_log"), kwargs.get("dt_bias")
    return tuple(t if t is None or (t.dtype == torch.float32 and t.dim() == 1) else t.float().flatten() for t in both)


def refuse(function, reason):
    if not torch.compiler.is_compiling():
        log.note(function, reason)
    raise ValueError(f"{function}: {reason}")


def attempt(function, diagnose, arguments, early, kind, trained, tensors, numbers, cp_context, forward=ops.forward):
    """The call.  The operator checks everything itself, so that `diagnose`, FLA's checks in FLA's words, waits until it has failed - but where it is to be
    `early`: what is wrong would be seen later only, or not at all."""
    compiling = torch.compiler.is_compiling()
    if early or compiling:
        diagnose(*arguments)
    if cp_context is not None:
        tensors = *tensors[:-1], cp_context.cu_seqlens
        if cp_context.group is not None:
            forward = functools.partial(context.forward, cp_context)
    if compiling:
        return call(kind, trained, tensors, numbers, forward)
    try:
        result = call(kind, trained, tensors, numbers, forward)
    except (ValueError, IndexError):
        diagnose(*arguments)
        raise
    log.note(function, "served")
    return result


def diagnose_gdn(q, k, v, g, beta, scale, initial_state, final, sigmoid, twice, cu_seqlens, cp_context, trained, kwargs):
    ops.check_shapes("chunk_gated_delta_rule", q, k, v, g, beta, False)
    cu_seqlens = check_parallel(cp_context, initial_state, final, cu_seqlens)
    check_gdn(q, k, v, initial_state, cu_seqlens, sigmoid, twice, kwargs)
    reason = refusal(GDN, q, k, v, g, beta, scale, initial_state, cp_context)
    if reason:
        refuse("chunk_gated_delta_rule", reason)


def diagnose_kda(q, k, v, g, beta, scale, initial_state, final, gate, sigmoid, twice, safe_gate, lower_bound, recompute, intermediate, cu_seqlens, cp_context,
                 use_graph, max_num_seqs, trained, kwargs):
    ops.check_shapes("chunk_kda", q, k, v, g, beta, True)
    cu_seqlens = check_parallel(cp_context, initial_state, final, cu_seqlens)
    check_kda(q, k, v, g, beta, initial_state, gate, sigmoid, twice, safe_gate, lower_bound, recompute, intermediate, cu_seqlens, use_graph, max_num_seqs, kwargs)
    reason = refusal(KDA, q, k, v, g, beta, scale, initial_state, cp_context, use_graph) or kda_refusal(gate, lower_bound, intermediate, cp_context, kwargs)
    if reason:
        refuse("chunk_kda", reason)


def chunk_gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_cpu: torch.Tensor | None = None,
    chunk_indices: torch.Tensor | None = None,
    cp_context=None,
    **kwargs,
):
    """Gated delta rule, as fla.ops.gated_delta_rule.chunk_gated_delta_rule.

    q, k [B, T, H, K], v [B, T, HV, V], g and beta [B, T, HV], states [N, HV, K, V], the final one in float32, with state_v_first [N, HV, V, K]; returns
    (o, final state or None).  kwargs: use_gate_in_kernel, A_log, dt_bias [HV], chunk_size (which changes nothing here), disable_recompute: keep what the
    backward needs instead of making it again.
    """
    if kwargs:
        state_v_first = renamed(kwargs, state_v_first)
    gate = bool(kwargs) and kwargs.get("use_gate_in_kernel", False)
    trained = needs_gradient(q, k, v, g, beta, initial_state, kwargs)
    early = kwargs or allow_neg_eigval or scale == 0 or cp_context is not None or (initial_state is not None and initial_state.dtype not in FLOATS)
    A_log, dt_bias = parameters(kwargs) if gate else (None, None)
    if initial_state is not None and initial_state.dtype in FLOATS[1:]:
        initial_state = initial_state.float()  # FLA computes with it in float32, and its final state is so
    return attempt("chunk_gated_delta_rule", diagnose_gdn,
                   (q, k, v, g, beta, scale, initial_state, output_final_state, use_beta_sigmoid_in_kernel, allow_neg_eigval, cu_seqlens, cp_context, trained, kwargs), early,
                   GDN, trained, (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens),
                   (scale or 0.0, option_bits(use_qk_l2norm_in_kernel, gate, use_beta_sigmoid_in_kernel, allow_neg_eigval), bool(state_v_first),
                    output_final_state, trained and bool(kwargs) and kwargs.get("disable_recompute", False), -5.0), cp_context)


def kda_refusal(use_gate_in_kernel, lower_bound, return_intermediate_states, cp_context, kwargs):
    if return_intermediate_states and cp_context is not None:
        return "return_intermediate_states with cp_context is not served"
    if return_intermediate_states and kwargs.get("chunk_size", ops.CHUNK) != ops.CHUNK:
        return f"return_intermediate_states with a chunk_size of {kwargs['chunk_size']} is not served, but that of {ops.CHUNK} is"
    if use_gate_in_kernel and lower_bound is not None and not -5 <= lower_bound < 0:
        return f"lower_bound is {lower_bound}, not in [-5, 0)"
    return None


def keep(saved, name, trained, tensors, numbers):
    """ops.forward, which leaves what a backward would need in `saved`."""
    o, state, kept = ops.run(ops.INFER[name], *tensors, *numbers[:ops.SAVE], True, *numbers[ops.SAVE + 1:])
    saved += [kept, tensors[0], tensors[2]]
    return o, state


def intermediate_states(saved, K, V, v_first, cu_seqlens, offsets):
    """The states that enter chunks, [B, chunks, HV, K, V] of the type of q, rounded to bfloat16, of packed sequences one after the other."""
    saved, q, v = saved
    B, T, HV = v.shape[:3]
    if T == 0:
        h = v.new_empty(B, 0, HV, V, K, dtype=torch.bfloat16)
    elif cu_seqlens is None:
        h = ops.saved_states(saved, q, v, None).unflatten(0, (B, -1))
    else:
        offsets = (cu_seqlens if offsets is None else offsets).tolist()
        slots = [a // ops.CHUNK + n + i for n, (a, b) in enumerate(zip(offsets, offsets[1:])) for i in range((b - a + ops.CHUNK - 1) // ops.CHUNK)]
        h = ops.saved_states(saved, q, v, cu_seqlens)[torch.tensor(slots, dtype=torch.int64, device=saved.device)][None]
    h = h[..., :V, :K]
    return (h if v_first else h.mT).contiguous().to(q.dtype)


def chunk_kda(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_cpu: torch.Tensor | None = None,
    cp_context=None,
    use_graph: bool = False,
    max_num_seqs: int | None = None,
    **kwargs,
):
    """Kimi delta attention, as fla.ops.kda.chunk_kda.

    q, k [B, T, H, K], v [B, T, HV, V], g [B, T, HV, K], beta [B, T, HV], states as chunk_gated_delta_rule's; returns (o, final state or None) and, with
    return_intermediate_states, the states that enter chunks of 64 tokens, [B, chunks, HV, K, V] of the type of q, rounded to bfloat16.
    kwargs: A_log [HV], dt_bias [HV * K], chunk_size (which changes nothing here).  A gate is exact, safe_gate or not; any call may be captured.
    """
    if kwargs:
        state_v_first = renamed(kwargs, state_v_first)
    trained = needs_gradient(q, k, v, g, beta, initial_state, kwargs)
    early = (kwargs or allow_neg_eigval or use_gate_in_kernel or use_graph or return_intermediate_states or scale == 0 or initial_state is not None
             or cp_context is not None)
    A_log, dt_bias = parameters(kwargs) if use_gate_in_kernel else (None, None)
    if (trained or return_intermediate_states) and g.dtype != torch.float32 and g.dtype != q.dtype:
        g = g.float()
    bounded = use_gate_in_kernel and lower_bound is not None
    saved = []
    o, state = attempt("chunk_kda", diagnose_kda,
                   (q, k, v, g, beta, scale, initial_state, output_final_state, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, safe_gate, lower_bound,
                    disable_recompute, return_intermediate_states, cu_seqlens, cp_context, use_graph, max_num_seqs, trained, kwargs), early,
                   KDA, trained, (q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens),
                   (scale or 0.0, option_bits(use_qk_l2norm_in_kernel, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, bounded),
                    bool(state_v_first), output_final_state, disable_recompute and trained, lower_bound if bounded else -5.0), cp_context,
                   functools.partial(keep, saved) if return_intermediate_states else ops.forward)
    if not return_intermediate_states:
        return o, state
    return o, state, intermediate_states(saved, q.shape[3], v.shape[3], state_v_first, cu_seqlens, cu_seqlens_cpu)
