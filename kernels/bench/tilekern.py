"""The kernel library from Python, by ctypes: GDN and KDA on torch tensors, for benchmarks beside other libraries.

    TILEKERN=/path/libtilekern.so python3 ...        # a shared build: cmake -DBUILD_SHARED_LIBS=ON
"""
import ctypes as C
import os

import torch

F32, BF16, F16, I32, I64 = 13, 11, 10, 4, 5
DTYPE = {torch.float32: F32, torch.bfloat16: BF16, torch.float16: F16, torch.int32: I32, torch.int64: I64}
L2NORM, RAW_GATE, SIGMOID_BETA, TWICE_BETA, BOUNDED_GATE = 1, 2, 4, 8, 16


class Strides(C.Structure):
    _fields_ = [(n, C.c_int64) for n in ("batch", "token", "head")]


def common():
    """The fields of tilekern_gdn_params and tilekern_kda_params, but for the last of each."""
    return (
        [("size", C.c_size_t)]
        + [(n, C.c_int64) for n in "batch tokens sequences qk_heads value_heads key_dim value_dim".split()]
        + [("dtype", C.c_int)] + [(n + "_dtype", C.c_int) for n in "gate beta a_log dt_bias state checkpoint seqlens indices".split()]
        + [("state_v_first", C.c_int), ("options", C.c_uint), ("split", C.c_int), ("scale", C.c_float)]
        + [(n, C.c_uint64) for n in "q k v g beta a_log dt_bias cu_seqlens o".split()]
        + [(n + "_strides", Strides) for n in "q k v g beta o".split()]
        + [("initial_state", C.c_uint64), ("final_state", C.c_uint64), ("state_stride", C.c_int64), ("state_slots", C.c_int64)]
        + [("state_indices", C.c_uint64), ("output_indices", C.c_uint64), ("null_slot", C.c_int64), ("has_initial_state", C.c_uint64)]
        + [("checkpoint_state", C.c_uint64), ("checkpoint_stride", C.c_int64), ("checkpoint_slots", C.c_int64), ("checkpoint_offsets", C.c_uint64)]
        + [("checkpoint_every", C.c_int64), ("checkpoint_starts", C.c_uint64), ("checkpoint_indices", C.c_uint64)]
        + [("workspace", C.c_uint64), ("workspace_bytes", C.c_size_t)]
    )


class GdnParams(C.Structure):
    _fields_ = common() + [(n, C.c_uint64) for n in "states u records".split()]


class KdaParams(C.Structure):
    _fields_ = common() + [("lower_bound", C.c_float), ("saved", C.c_uint64), ("saved_bytes", C.c_size_t)]


class Backward(C.Structure):
    """tilekern_gdn_backward_params and tilekern_kda_backward_params."""
    _fields_ = (
        [("size", C.c_size_t), ("forward", C.c_void_p)]
        + [(n, C.c_uint64) for n in "dout dfinal_state dq dk dv dg dbeta da_log ddt_bias dinitial_state".split()]
        + [(n + "_strides", Strides) for n in "dout dq dk dv dg dbeta".split()]
        + [("workspace", C.c_uint64), ("workspace_bytes", C.c_size_t)]
    )


def params(cls, q, v, g, beta, /, **given):
    """The defaults of tilekern_*_params_init and what these tensors say."""
    B, T, H, K = q.shape
    d = dict.fromkeys((n + "_dtype" for n in "a_log dt_bias state checkpoint".split()), F32)
    d.update(size=C.sizeof(cls), batch=B, tokens=T, qk_heads=H, value_heads=v.shape[2], key_dim=K, value_dim=v.shape[3], dtype=DTYPE[q.dtype],
             gate_dtype=DTYPE[g.dtype], beta_dtype=DTYPE[beta.dtype], seqlens_dtype=I32, indices_dtype=I32, null_slot=-1)
    d.update(given)
    return cls(**d)


def pointer(t):
    return 0 if t is None else t.data_ptr()


def backward_params(forward, dout, gradients):
    """`forward` must live as long as these are used.  gradients: tensors by the names of the fields, dq, da_log and so on."""
    return Backward(size=C.sizeof(Backward), forward=C.addressof(forward), dout=pointer(dout), **{n: pointer(t) for n, t in gradients.items()})


class Library:
    """tilekern on the current CUDA device; calls go to torch's current stream."""

    def __init__(self, path=None):
        torch.cuda.current_stream().synchronize()  # there is a context to adopt
        self.kern = C.CDLL(path or os.environ["TILEKERN"], mode=C.RTLD_GLOBAL)
        self.kern.tilekern_last_error.restype = C.c_char_p
        self.device = C.c_void_p()
        self.check(self.kern.tilert_device_open(b"cuda", C.byref(self.device)))
        self.handles = {}

    def check(self, status):
        if status:
            raise RuntimeError(f"{status}: {self.kern.tilekern_last_error().decode()}")

    def handle(self, name):
        if name not in self.handles:
            h = C.c_void_p()
            self.check(getattr(self.kern, f"tilekern_{name}_open")(self.device, C.byref(h)))
            self.handles[name] = h
        return self.handles[name]

    def workspace(self, name, function, p):
        """Of the call that p describes, which has its address from here on; it must live as long as the call."""
        n = C.c_size_t()
        self.check(getattr(self.kern, f"tilekern_{function}_workspace_bytes")(self.handle(name), C.byref(p), C.byref(n)))
        workspace = torch.empty(max(n.value, 256), dtype=torch.uint8, device="cuda")
        p.workspace, p.workspace_bytes = workspace.data_ptr(), n.value
        return workspace

    def prepare(self, name, p, keep, function=None):
        """A function that queues the call; `keep` lives as long as it does.  function: begins the names of those that take p."""
        function = function or name
        h, call, workspace = self.handle(name), C.c_void_p(), self.workspace(name, function, p)
        self.check(getattr(self.kern, f"tilekern_{function}_prepare")(h, C.byref(p), C.byref(call)))
        launch = getattr(self.kern, f"tilekern_{name}_launch")
        keep = (keep, workspace)

        def run():
            self.check(launch(call, C.c_void_p(torch.cuda.current_stream().cuda_stream)))
            return keep

        return run

    def call(self, name, p, function=None):
        """Queues the call that p describes; function: begins the names of those that take p, and is the one called if it is not `name`."""
        function = function or name
        h, workspace = self.handle(name), self.workspace(name, function, p)  # torch gives its memory to later work of this stream only
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(getattr(self.kern, f"tilekern_{name}_forward" if function == name else f"tilekern_{function}")(h, C.byref(p), stream))

    def backward(self, name, forward, dout, gradients):
        """Queues the backward of the call that `forward` describes.  gradients: tensors by the names of the fields, dq, da_log and so on."""
        self.call(name, backward_params(forward, dout, gradients), f"{name}_backward")

    def gdn(self, q, k, v, g, beta, o, cu_seqlens=None, initial_state=None, final_state=None, options=0, split=0, a_log=None, dt_bias=None,
            scale=0.0, v_first=False, state_indices=None, has_initial_state=None, null_slot=-1, saved=(None, None, None)):
        """saved: states, u and records, for the backward.  With state_indices initial_state is the pool, [slots, ...] with any stride of slots, and final states go to the same slots."""
        p = params(GdnParams, q, v, g, beta, options=options, state_v_first=int(v_first), split=split, scale=scale, q=pointer(q), k=pointer(k), v=pointer(v), g=pointer(g),
                   beta=pointer(beta), a_log=pointer(a_log), dt_bias=pointer(dt_bias), cu_seqlens=pointer(cu_seqlens),
                   initial_state=pointer(initial_state), o=pointer(o), final_state=pointer(final_state))
        if cu_seqlens is not None:
            p.sequences, p.seqlens_dtype = len(cu_seqlens) - 1, DTYPE[cu_seqlens.dtype]
        p.states, p.u, p.records = map(pointer, saved)
        for name, t in dict(q=q, k=k, v=v, g=g, beta=beta, o=o).items():
            setattr(p, name + "_strides", Strides(*t.stride()[:3]))
        for name, t in dict(a_log=a_log, dt_bias=dt_bias, state=initial_state).items():
            if t is not None:
                setattr(p, name + "_dtype", DTYPE[t.dtype])
        if state_indices is not None:
            p.state_indices, p.indices_dtype, p.final_state, p.null_slot = pointer(state_indices), DTYPE[state_indices.dtype], p.initial_state, null_slot
            p.state_slots, p.state_stride, p.has_initial_state = len(initial_state), initial_state.stride(0), pointer(has_initial_state)
            p.checkpoint_dtype = p.state_dtype
        return self.prepare("gdn", p, (q, k, v, g, beta, o, cu_seqlens, initial_state, final_state, a_log, dt_bias, state_indices, has_initial_state,
                                        saved))

    def gdn_backward(self, q, k, v, g, beta, dout, gradients, cu_seqlens=None, options=0, saved=(None, None, None)):
        """Without `saved`, what the forward left there, it is scanned again.  gradients: tensors by the names of the fields, dq, da_log and so on."""
        forward = params(GdnParams, q, v, g, beta, options=options, q=pointer(q), k=pointer(k), v=pointer(v), g=pointer(g), beta=pointer(beta),
                         cu_seqlens=pointer(cu_seqlens), **dict(zip("states u records".split(), map(pointer, saved))))
        if cu_seqlens is not None:
            forward.sequences, forward.seqlens_dtype = len(cu_seqlens) - 1, DTYPE[cu_seqlens.dtype]
        return self.prepare("gdn", backward_params(forward, dout, gradients), (forward, q, k, v, g, beta, cu_seqlens, dout, gradients, saved), "gdn_backward")

    def gdn_saved(self, v, key_dim, sequences, packed):
        """Room for what the forward saves: states of chunks, u, records."""
        B, T, HV, V = v.shape
        slots = T // 64 + sequences if packed else B * -(-T // 64)
        empty = lambda *shape, dtype=v.dtype: torch.empty(*shape, dtype=dtype, device=v.device)
        return empty(slots, HV, key_dim, V), empty(B, T, HV, V), empty(slots, HV, 7296, dtype=torch.uint8)

    def kda(self, q, k, v, g, beta, o, cu_seqlens=None, initial_state=None, final_state=None, options=0, a_log=None, dt_bias=None, scale=0.0,
            lower_bound=-5.0):
        p = params(KdaParams, q, v, g, beta, options=options, scale=scale, lower_bound=lower_bound, q=pointer(q), k=pointer(k), v=pointer(v),
                   g=pointer(g), beta=pointer(beta), a_log=pointer(a_log), dt_bias=pointer(dt_bias), cu_seqlens=pointer(cu_seqlens),
                   initial_state=pointer(initial_state), o=pointer(o), final_state=pointer(final_state))
        if cu_seqlens is not None:
            p.sequences, p.seqlens_dtype = len(cu_seqlens) - 1, DTYPE[cu_seqlens.dtype]
        return self.prepare("kda", p, (q, k, v, g, beta, o, cu_seqlens, initial_state, final_state, a_log, dt_bias))

    def kda_backward(self, q, k, v, g, beta, dout, gradients, options=0, a_log=None, dt_bias=None, lower_bound=-5.0, save=False):
        """gradients: tensors by the names of the fields, dq, da_log and so on.  save: what the forward leaves is there (and it is run here), else it is made again."""
        forward = params(KdaParams, q, v, g, beta, options=options, lower_bound=lower_bound, q=pointer(q), k=pointer(k), v=pointer(v), g=pointer(g),
                         beta=pointer(beta), a_log=pointer(a_log), dt_bias=pointer(dt_bias))
        o = saved = None
        if save:
            n = C.c_size_t()
            self.check(self.kern.tilekern_kda_saved_bytes(self.handle("kda"), C.byref(forward), C.byref(n)))
            o, saved = torch.empty_like(v), torch.empty(n.value, dtype=torch.uint8, device="cuda")
            forward.o, forward.saved, forward.saved_bytes = o.data_ptr(), saved.data_ptr(), n.value
            self.prepare("kda", forward, ())()
        return self.prepare("kda", backward_params(forward, dout, gradients), (forward, q, k, v, g, beta, a_log, dt_bias, dout, gradients, o, saved), "kda_backward")
