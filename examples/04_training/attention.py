"""GDN and KDA as torch operators with gradients: the library's, and FLA's with the same arguments.

q, k [B][T][H][128], v [B][T][H][128], beta [B][T][H], g [B][T][H][128] (KDA) or [B][T][H] (GDN), all of one dtype; a_log [H], dt_bias [H][128] or [H] in
float32.  Norms of q and k, gates and sigmoid of beta are in the kernels.
"""
import torch

import tilekern

OPTIONS = {
    "kda": tilekern.L2NORM | tilekern.RAW_GATE | tilekern.SIGMOID_BETA | tilekern.BOUNDED_GATE,  # -5 sigmoid(exp(a_log) (g + dt_bias))
    "gdn": tilekern.L2NORM | tilekern.RAW_GATE | tilekern.SIGMOID_BETA,  # -exp(a_log) softplus(g + dt_bias)
}


class Attention(torch.autograd.Function):
    """Keeps its inputs; the backward scans the forward again."""

    @staticmethod
    def forward(ctx, library, name, q, k, v, g, beta, a_log, dt_bias):
        given = [t.contiguous() for t in (q, k, v, g, beta, a_log, dt_bias)]
        o = torch.empty_like(given[2])
        library.call(name, params(name, *given, o=o.data_ptr()))
        ctx.save_for_backward(*given)
        ctx.library, ctx.name = library, name
        return o

    @staticmethod
    def backward(ctx, dout):
        given = ctx.saved_tensors
        grads = [torch.empty_like(t) for t in given]
        ctx.library.backward(ctx.name, params(ctx.name, *given), dout.contiguous(), dict(zip("dq dk dv dg dbeta da_log ddt_bias".split(), grads)))
        return None, None, *grads


def params(name, q, k, v, g, beta, a_log, dt_bias, **more):
    cls = {"kda": tilekern.KdaParams, "gdn": tilekern.GdnParams}[name]
    if name == "kda":
        more["lower_bound"] = -5.0
    names = dict(q=q, k=k, v=v, a_log=a_log, dt_bias=dt_bias, g=g, beta=beta)
    p = tilekern.params(cls, q, v, g, beta, options=OPTIONS[name], **more)
    for n, t in names.items():
        setattr(p, n, t.data_ptr())
    return p


def ours():
    library = tilekern.Library()
    return lambda name, *tensors: Attention.apply(library, name, *tensors)


def flas():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    def attend(name, q, k, v, g, beta, a_log, dt_bias):
        common = dict(q=q, k=k, v=v, g=g, beta=beta, A_log=a_log, dt_bias=dt_bias.flatten(), use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
                      use_beta_sigmoid_in_kernel=True)
        if name == "kda":
            return chunk_kda(**common, safe_gate=True, lower_bound=-5.0)[0]
        return chunk_gated_delta_rule(**common)[0]

    return attend
