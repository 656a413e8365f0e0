"""GDN and KDA with gradients: the library's functions, and FLA's, which take the same arguments.

q, k, v [B][T][H][128], beta [B][T][H], g [B][T][H][128] (KDA) or [B][T][H] (GDN), all of one dtype; a_log [H], dt_bias [H][128] or [H] in float32.  Norms of q
and k, gates and sigmoid of beta are in the kernels: -5 sigmoid(exp(a_log) (g + dt_bias)) for KDA, -exp(a_log) softplus(g + dt_bias) for GDN.
"""


def attention(chunk_kda, chunk_gated_delta_rule):
    def attend(name, q, k, v, g, beta, a_log, dt_bias):
        common = dict(q=q, k=k, v=v, g=g, beta=beta, A_log=a_log, dt_bias=dt_bias.flatten(), use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
                      use_beta_sigmoid_in_kernel=True)
        if name == "kda":
            return chunk_kda(**common, safe_gate=True, lower_bound=-5.0)[0]
        return chunk_gated_delta_rule(**common)[0]

    return attend


def ours():
    from tilekern import chunk_gated_delta_rule, chunk_kda

    return attention(chunk_kda, chunk_gated_delta_rule)


def flas():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    return attention(chunk_kda, chunk_gated_delta_rule)
