"""The operators tilekern::{gdn,kda}_{fwd,bwd,prefill}: loads them, and gives them fake kernels and gradients.

    o, final_state, saved = torch.ops.tilekern.gdn_fwd(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, scale, options, state_v_first,
                                                       output_final_state, save)

README.md has the arguments.
"""
import ctypes
import functools
import inspect
import os
from pathlib import Path

import torch
from torch.autograd import forward_ad

L2NORM, RAW_GATE, SIGMOID_BETA, TWICE_BETA, BOUNDED_GATE = 1, 2, 4, 8, 16
"""Bits of `options`, as tilekern/call.h has them."""

CHUNK = 64
GDN_RECORD_BYTES, KDA_RECORD_BYTES, KDA_OUTCOME_BYTES = 7296, 2 * 4480, 256 + 4 * 1024
TOKENS, GRADIENTS, TENSORS = 5, 8, 9  # q k v g beta, A_log dt_bias initial_state, cu_seqlens
FINAL, SAVE = 3, 4  # of the numbers: scale options state_v_first output_final_state save lower_bound


def folder():
    """Where libtilekern_torch.so and what it needs are: the package's own, or $TILEKERN_LIB."""
    return Path(os.environ.get("TILEKERN_LIB") or Path(__file__).parent / "lib")


def load():
    path = folder() / "libtilekern_torch.so"
    if not path.exists():
        raise ImportError(f"tilekern: there is no {path}; the wheel has it, or set TILEKERN_LIB to the folder of a build")
    library = ctypes.CDLL(str(path))
    why = ctypes.create_string_buffer(200)
    library.tilekern_torch_register.argtypes = library.tilekern_torch_unprepared.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    if library.tilekern_torch_register(why, len(why)):
        raise ImportError(f"tilekern: {why.value.decode()} (PyTorch here is {torch.__version__})")
    return library


def error_of(e):
    """A ValueError where an argument is wrong: from C torch lets nothing through but RuntimeErrors."""
    return ValueError(str(e)) if type(e) is RuntimeError and str(e).startswith("tilekern::") else e


def run(op, *args):
    try:
        return op(*args)
    except RuntimeError as e:
        raise error_of(e) from None


def sequences(q, cu_seqlens):
    return q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1


def aligned(n):
    return (n + 255) // 256 * 256


def slots_of(q, cu_seqlens):
    """Chunks of 64 tokens that there is room for."""
    B, T = q.shape[:2]
    return B * ((T + CHUNK - 1) // CHUNK) if cu_seqlens is None else T // CHUNK + cu_seqlens.shape[0] - 1


def kda_state(K, V):
    """Rows and columns of a state as KDA's forward saves it, V first."""
    return (V + 63) // 64 * 64, 64 if K <= 64 else (K + 127) // 128 * 128


def saved_states(saved, q, v, cu_seqlens):
    """Of what KDA's forward saved, the states that enter chunks: [slots, HV, V, K] in bfloat16.  Packed sequences have their chunks one behind the other, from slot start // 64 + n on."""
    slots, (HV, V), K = slots_of(q, cu_seqlens), v.shape[2:], q.shape[3]
    rows, columns = kda_state(K, V)
    begin = aligned(slots * HV * KDA_RECORD_BYTES)
    return saved[begin:begin + slots * HV * rows * columns * 2].view(torch.bfloat16).view(slots, HV, rows, columns)[..., :V, :K]


def saved_bytes(kda, q, v, cu_seqlens):
    """What the forward saves for its backward: the library's numbers, for tensors of unknown extents (tests compare)."""
    B, T, HV, V = v.shape
    K = q.shape[-1]
    some = (T + 2**31 - 1) // 2**31 if kda else 1  # of tokens, which are fewer; a number that depends on data may not be compared with 0
    slots = slots_of(q, cu_seqlens)
    records = KDA_RECORD_BYTES if kda else GDN_RECORD_BYTES
    rows, columns = kda_state(K, V) if kda else (V, K)
    return some * (aligned(slots * HV * records) + aligned(slots * HV * rows * columns * 2) + aligned(B * T * HV * V * 2) + (KDA_OUTCOME_BYTES if kda else 0))


def check_shapes(op, q, k, v, g, beta, kda):
    """The kernels check everything; this is what a fake one needs to have the right answer."""
    if not q.dim() == k.dim() == v.dim() == 4:
        raise ValueError(f"{op}: q, k, v have {q.dim()}, {k.dim()}, {v.dim()} dimensions, not 4")
    if g.dim() != 3 + kda or beta.dim() != 3:
        raise ValueError(f"{op}: g and beta have {g.dim()} and {beta.dim()} dimensions, not {3 + kda} and 3")


def fake_forward(name, nones):
    """nones: what is not wanted is None, not a tensor without elements."""
    kda = name == "kda"

    def fake(q, k, v, g, beta, A_log, dt_bias, initial_state=None, cu_seqlens=None, scale=0.0, options=0, state_v_first=False,
             output_final_state=False, save=False, lower_bound=-5.0):
        check_shapes(f"tilekern::{name}_fwd", q, k, v, g, beta, kda)
        K, (HV, V) = q.shape[3], v.shape[2:]
        n = sequences(q, cu_seqlens) if output_final_state else 0
        dtype = torch.float32 if initial_state is None else initial_state.dtype
        shape = (n, HV, V, K) if state_v_first else (n, HV, K, V)
        state = None if nones and not output_final_state else v.new_empty(shape, dtype=dtype)
        saved = None if nones and not save else v.new_empty(saved_bytes(kda, q, v, cu_seqlens) if save else 0, dtype=torch.uint8)
        return v.new_empty(v.shape), state, saved

    return fake


def fake_backward(nones):
    def fake(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, saved, dout, dfinal_state, scale=0.0, options=0, state_v_first=False,
             wanted=255, lower_bound=-5.0):
        def gradient(i, like, dtype):
            if wanted >> i & 1 and like is not None:
                return q.new_empty(like, dtype=dtype)
            return None if nones else q.new_empty(0, dtype=dtype)

        tokens = [gradient(i, t.shape, t.dtype) for i, t in enumerate((q, k, v, g, beta))]
        gates = [gradient(5 + i, None if t is None else t.shape, torch.float32) for i, t in enumerate((A_log, dt_bias))]
        states = (sequences(q, cu_seqlens), v.shape[2]) + ((v.shape[3], q.shape[3]) if state_v_first else (q.shape[3], v.shape[3]))
        return (*tokens, *gates, gradient(7, states, torch.float32))

    return fake


def fake_prefill(q, k, v, g, beta, A_log, dt_bias, pool, slots, out, cu_seqlens=None, has_initial_state=None, *numbers, **more):
    return None


def on_one_device(op, fake):
    """PyTorch calls a fake kernel, too, where one tensor is on `meta` and the others are not: memory that nobody wrote would be the answer."""
    names = list(inspect.signature(fake).parameters)

    @functools.wraps(fake)
    def checked(*args, **kwargs):
        given = dict(zip(names, args), **kwargs)
        for name, t in given.items():
            if isinstance(t, torch.Tensor) and t.device != given["q"].device:
                raise ValueError(f"{op}: {name} is on {t.device}, but q is on {given['q'].device}")
        return fake(*args, **kwargs)

    return checked


def register_fake(op, fake):
    torch.library.register_fake(op, on_one_device(op, fake))


def refuse_second_derivatives():
    if torch.is_grad_enabled():
        raise RuntimeError("tilekern has no second derivatives: do not ask for create_graph=True")


def refuse_tangents(tensors):
    """An operator that has no rule for them would drop them, and the derivative be 0."""
    if any(t is not None and forward_ad.unpack_dual(t).tangent is not None for t in tensors):
        raise RuntimeError("tilekern has no derivatives in forward mode, as torch.func.jvp and jacfwd ask for")


def refuse_transforms(trained):
    """PyTorch's own words for it are about how autograd.Functions are written."""
    if trained and torch._C._are_functorch_transforms_active():
        raise RuntimeError("tilekern has no gradients within torch.func's grad, vjp, jacrev and vmap: use torch.autograd.grad, or backward()") from None


WANTED = {}  # bits of `wanted` by ctx.needs_input_grad


def wanted_of(needed):
    wanted = WANTED.get(needed)
    if wanted is None:
        wanted = WANTED[needed] = sum(bool(n) << i for i, n in enumerate(needed[:GRADIENTS]))
    return wanted


def gradients(ctx, backward, dout, dfinal_state):
    """Of all tensors, None for what is not wanted."""
    refuse_second_derivatives()
    *tensors, saved = ctx.saved_tensors
    scale, options, v_first, final, save, lower_bound = ctx.numbers
    wanted = wanted_of(ctx.needs_input_grad)
    if dout is None:
        dout = torch.zeros_like(tensors[2])
    if dfinal_state is not None:
        dfinal_state = dfinal_state.float() if final else None
    grads = backward(*tensors, saved, dout, dfinal_state, scale, options, v_first, wanted, lower_bound)
    if wanted >> TOKENS:  # those of states and of gates' parameters are made in float32
        grads = [g if g is None or t is None or g.dtype == t.dtype else g.to(t.dtype) for g, t in zip(grads, tensors)]
    return wanted, grads


def remember(ctx, tensors, saved, numbers):
    ctx.numbers = numbers
    ctx.save_for_backward(*tensors, saved)
    ctx.set_materialize_grads(False)


def setup_context(ctx, inputs, output):
    ctx.mark_non_differentiable(output[2])
    numbers = inputs[TENSORS:]
    remember(ctx, inputs[:TENSORS], output[2] if numbers[SAVE] else None, numbers)


def differentiate(name):
    backward = getattr(torch.ops.tilekern, f"{name}_bwd").default

    def of_all(ctx, dout, dfinal_state, _):
        wanted, grads = gradients(ctx, backward, dout, dfinal_state)
        return (*(g if wanted >> i & 1 else None for i, g in enumerate(grads)), *(None,) * (TENSORS - GRADIENTS + len(ctx.numbers)))

    return of_all


def function(name):
    """NAME_fwd as it is outside of torch.compile, of tensors and a tuple of the other arguments: what torch.library makes of register_autograd takes the
    host several times as long."""
    infer, grads = (getattr(torch.ops.tilekern, f"{name}_{what}").default for what in ("infer", "grads"))

    class Chunked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, numbers):
            o, state, saved = infer(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, *numbers)
            ctx.numbers = numbers
            ctx.save_for_backward(q, k, v, g, beta, A_log, dt_bias, initial_state, cu_seqlens, saved)
            ctx.set_materialize_grads(False)
            return o, state

        @staticmethod
        def backward(ctx, dout, dfinal_state):
            return (*gradients(ctx, grads, dout, dfinal_state)[1], None, None)

    return Chunked


def forward(name, trained, tensors, numbers):
    """(o, final state or None)."""
    if torch.compiler.is_compiling():
        o, state, _ = FORWARD[name](*tensors, *numbers)
        return o, state if numbers[FINAL] else None
    if forward_ad._current_level >= 0:
        refuse_tangents(tensors)
    try:
        return APPLY[name](*tensors, numbers) if trained else INFER[name](*tensors, *numbers)[:2]
    except RuntimeError as e:
        refuse_transforms(trained)
        raise error_of(e) from None


def register():
    for name in ("gdn", "kda"):
        for forward, backward, nones in (("fwd", "bwd", False), ("infer", "grads", True)):
            register_fake(f"tilekern::{name}_{forward}", fake_forward(name, nones))
            register_fake(f"tilekern::{name}_{backward}", fake_backward(nones))
        register_fake(f"tilekern::{name}_prefill", fake_prefill)
        torch.library.register_autograd(f"tilekern::{name}_fwd", differentiate(name), setup_context=setup_context)


LIBRARY = load()
register()
FORWARD, INFER, GRADS = ({name: getattr(torch.ops.tilekern, f"{name}_{what}").default for name in ("gdn", "kda")} for what in ("fwd", "infer", "grads"))
APPLY = {name: function(name).apply for name in ("gdn", "kda")}
