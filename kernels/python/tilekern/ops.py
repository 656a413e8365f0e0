"""The operators tilekern::{gdn,kda}_{fwd,bwd,prefill}: loads them, and gives them fake kernels and gradients.

    o, final_state, saved = torch.ops.tilekern.gdn_fwd(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, options, state_v_first,
                                                       output_final_state, save)

README.md has the arguments.
"""
import ctypes
import os
from pathlib import Path

import torch

L2NORM, RAW_GATE, SIGMOID_BETA, TWICE_BETA, BOUNDED_GATE = 1, 2, 4, 8, 16
"""Bits of `options`, as tilekern/call.h has them."""

CHUNK = 64
GDN_RECORD_BYTES, KDA_RECORD_BYTES = 7296, 2 * 4480
GRADIENTS = 8  # q k v g beta A_log dt_bias initial_state
TENSORS = 9    # those, and cu_seqlens


def folder():
    """Where libtilekern_torch.so and what it needs are: the package's own, or $TILEKERN_LIB."""
    return Path(os.environ.get("TILEKERN_LIB") or Path(__file__).parent / "lib")


def load():
    path = folder() / "libtilekern_torch.so"
    if not path.exists():
        raise ImportError(f"tilekern: there is no {path}; the wheel has it, or set TILEKERN_LIB to the folder of a build")
    register = ctypes.CDLL(str(path)).tilekern_torch_register
    register.restype = ctypes.c_char_p
    failed = register()
    if failed:
        raise ImportError(f"tilekern: {failed.decode()} (PyTorch here is {torch.__version__})")


def run(op, *args):
    """The operator, with a ValueError where an argument is wrong: from C torch lets nothing through but RuntimeErrors."""
    try:
        return op(*args)
    except RuntimeError as e:
        if type(e) is RuntimeError and str(e).startswith("tilekern::"):
            raise ValueError(str(e)) from None
        raise


def sequences(q, cu_seqlens):
    return q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


def saved_bytes(kda, q, v, cu_seqlens):
    """What the forward saves for its backward: the library's numbers, for tensors of unknown extents (tests compare)."""
    B, T, HV, V = v.shape
    K = q.shape[-1]
    up = lambda n: (n + 255) // 256 * 256
    slots = B * ((T + CHUNK - 1) // CHUNK) if cu_seqlens is None else T // CHUNK + cu_seqlens.shape[0] - 1
    records = KDA_RECORD_BYTES if kda else GDN_RECORD_BYTES
    state = (V + 63) // 64 * 64 * (64 if K <= 64 else 128) if kda else K * V
    return up(slots * HV * records) + up(slots * HV * state * 2) + up(B * T * HV * V * 2)


def check_shapes(op, q, k, v, g, beta, kda):
    """The kernels check everything; this is what a fake one needs to have the right answer."""
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ValueError(f"{op}: q, k, v have {q.dim()}, {k.dim()}, {v.dim()} dimensions, not 4")
    if g.dim() != 3 + kda or beta.dim() != 3:
        raise ValueError(f"{op}: g and beta have {g.dim()} and {beta.dim()} dimensions, not {3 + kda} and 3")


def fake_forward(name):
    kda = name == "kda"

    def fake(q, k, v, g, beta, A_log, dt_bias, initial_state=None, cu_seqlens=None, scale=0.0, options=0, state_v_first=False,
             output_final_state=False, save=False, lower_bound=-5.0):
        check_shapes(f"tilekern::{name}_fwd", q, k, v, g, beta, kda)
        K, (HV, V) = q.shape[3], v.shape[2:]
        n = sequences(q, cu_seqlens) if output_final_state else 0
        dtype = torch.float32 if initial_state is None else initial_state.dtype
        state = v.new_empty((n, HV, V, K) if state_v_first else (n, HV, K, V), dtype=dtype)
        return v.new_empty(v.shape), state, v.new_empty(saved_bytes(kda, q, v, cu_seqlens) if save else 0, dtype=torch.uint8)

    return fake


def fake_backward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, saved, dout, dfinal_state, scale=0.0, options=0, state_v_first=False,
                  wanted=255, lower_bound=-5.0):
    def gradient(i, like, dtype):
        return q.new_empty(like if wanted >> i & 1 and like is not None else (0,), dtype=dtype)

    tokens = [gradient(i, t.shape, t.dtype) for i, t in enumerate((q, k, v, g, beta))]
    gates = [gradient(5 + i, None if t is None else t.shape, torch.float32) for i, t in enumerate((A_log, dt_bias))]
    states = (sequences(q, cu_seqlens), v.shape[2]) + ((v.shape[3], q.shape[3]) if state_v_first else (q.shape[3], v.shape[3]))
    return (*tokens, *gates, gradient(7, states, torch.float32))


def fake_prefill(*args, **kwargs):
    return None


def gradients(ctx, name, dout, dfinal_state):
    """Of all inputs, None for what is not wanted."""
    if torch.is_grad_enabled():
        raise RuntimeError("tilekern has no second derivatives: do not ask for create_graph=True")
    *tensors, saved = ctx.saved_tensors
    scale, options, v_first, final, save, lower_bound = ctx.numbers
    wanted = 0
    for i, needed in enumerate(ctx.needs_input_grad[:GRADIENTS]):
        wanted |= needed << i
    if dout is None:
        dout = torch.zeros_like(tensors[2])
    if dfinal_state is not None:
        dfinal_state = dfinal_state.float() if final else None
    grads = BACKWARD[name](*tensors, saved, dout, dfinal_state, scale, options, v_first, wanted, lower_bound)
    # those of states and of gates' parameters are made in float32
    of_tensors = [(g if g.dtype == t.dtype else g.to(t.dtype)) if wanted >> i & 1 else None for i, (g, t) in enumerate(zip(grads, tensors))]
    return (*of_tensors, *(None,) * (TENSORS - GRADIENTS + len(ctx.numbers)))


def remember(ctx, tensors, saved, numbers):
    ctx.numbers = numbers
    ctx.save_for_backward(*tensors, saved if numbers[4] else None)
    ctx.set_materialize_grads(False)


def setup_context(ctx, inputs, output):
    ctx.mark_non_differentiable(output[2])
    remember(ctx, inputs[:TENSORS], output[2], inputs[TENSORS:])


def differentiate(name):
    return lambda ctx, dout, dfinal_state, _: gradients(ctx, name, dout, dfinal_state)


def function(name):
    """NAME_fwd as it is outside of torch.compile: what torch.library makes of register_autograd takes the host several times as long."""
    infer = getattr(torch.ops.tilekern, f"{name}_infer").default

    class Chunked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            o, state, saved = infer(*args)
            remember(ctx, args[:TENSORS], saved, args[TENSORS:])
            return o, state

        @staticmethod
        def backward(ctx, dout, dfinal_state):
            return gradients(ctx, name, dout, dfinal_state)

    return Chunked


def forward(name, trained, *args):
    """(o, final state): args are all of the operator's."""
    if torch.compiler.is_compiling():
        return FORWARD[name](*args)[:2]
    o, state, *_ = run(APPLY[name] if trained else INFER[name], *args)
    return o, state


def register():
    for name in ("gdn", "kda"):
        for what in ("fwd", "infer"):
            torch.library.register_fake(f"tilekern::{name}_{what}", fake_forward(name))
        torch.library.register_fake(f"tilekern::{name}_bwd", fake_backward)
        torch.library.register_fake(f"tilekern::{name}_prefill", fake_prefill)
        torch.library.register_autograd(f"tilekern::{name}_fwd", differentiate(name), setup_context=setup_context)


load()
register()
FORWARD, INFER, BACKWARD = ({name: getattr(torch.ops.tilekern, f"{name}_{what}").default for name in ("gdn", "kda")} for what in ("fwd", "infer", "bwd"))
APPLY = {name: function(name).apply for name in ("gdn", "kda")}
