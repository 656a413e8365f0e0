"""Registers tilekern with flash-linear-attention 0.6 as a backend of chunk_kda and chunk_gated_delta_rule: `import tilekern.fla`, before or after fla.ops.

FLA_TILEKERN=0 in the environment turns it off.  Calls that are not served go to FLA's next backend; tilekern.show_config() counts both.
"""
try:
    from fla.backends import BaseBackend, register
    from fla.ops.kda import chunk_kda as fla_chunk_kda
except ImportError as e:
    raise ImportError(f"tilekern.fla needs flash-linear-attention 0.6 or later ({e})") from e

from . import functions, log


def verdict(function, check, *args, **kwargs):
    """(True, None), or (False, why): what FLA itself refuses is rejected here so that its own error is raised."""
    try:
        reason = check(*args, **kwargs) or functions.device_refusal(args[0] if args else kwargs["q"])
    except (ValueError, AssertionError, DeprecationWarning) as e:
        reason = f"FLA raises: {e}"
    if reason:
        log.note(f"fla.{function}", reason)
    return reason is None, reason


def check_gdn(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
              use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None,
              chunk_indices=None, cp_context=None, **kwargs):
    if "transpose_state_layout" in kwargs:
        return "transpose_state_layout is FLA's to rename"
    cu_seqlens = functions.check_parallel(cp_context, initial_state, output_final_state, cu_seqlens)
    functions.check_gdn(q, k, v, initial_state, cu_seqlens, use_beta_sigmoid_in_kernel, allow_neg_eigval, kwargs)
    return functions.refusal(functions.GDN, q, k, v, g, beta, scale, initial_state, cp_context)


def check_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False,
              use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, safe_gate=False, lower_bound=None, disable_recompute=False,
              return_intermediate_states=False, state_v_first=False, cu_seqlens=None, cu_seqlens_cpu=None, cp_context=None, use_graph=False,
              max_num_seqs=None, **kwargs):
    if "transpose_state_layout" in kwargs:
        return "transpose_state_layout is FLA's to rename"
    cu_seqlens = functions.check_parallel(cp_context, initial_state, output_final_state, cu_seqlens)
    functions.check_kda(q, k, v, g, beta, initial_state, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, safe_gate, lower_bound,
                        disable_recompute, return_intermediate_states, cu_seqlens, use_graph, max_num_seqs, kwargs)
    return functions.refusal(functions.KDA, q, k, v, g, beta, scale, initial_state, cp_context, use_graph) or functions.kda_refusal(
        use_gate_in_kernel, lower_bound, return_intermediate_states, cp_context, kwargs)


class Tilekern(BaseBackend):
    backend_type = "tilekern"
    package_name = None
    env_var = "FLA_TILEKERN"
    default_enable = True
    priority = 2  # before FlashQLA and FlashKDA, whose is 3


@register("gated_delta_rule")
class TilekernGatedDeltaRule(Tilekern):
    def chunk_gated_delta_rule_verifier(self, *args, **kwargs):
        return verdict("chunk_gated_delta_rule", check_gdn, *args, **kwargs)

    def chunk_gated_delta_rule(self, *args, **kwargs):
        return functions.chunk_gated_delta_rule(*args, **kwargs)


@register(fla_chunk_kda)
class TilekernKDA(Tilekern):
    def chunk_kda_verifier(self, *args, **kwargs):
        return verdict("chunk_kda", check_kda, *args, **kwargs)

    def chunk_kda(self, *args, **kwargs):
        return functions.chunk_kda(*args, **kwargs)
