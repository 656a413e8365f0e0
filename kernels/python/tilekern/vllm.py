"""vLLM's prefill of GDN and KDA layers on these kernels: vLLM calls `register` by its entry point vllm.general_plugins in every process.

A step of prefills alone is one call on the convolution's output, raw gates and the states' slots in vLLM's pool.  In other steps, and in versions of vLLM whose
layers are not as they were read (`_forward_core` of QwenGatedDeltaNetAttention as in 0.33, `_forward` of KimiGatedDeltaNetAttention before it), vLLM gathers and
scatters the states, and what is called in between is served: ChunkGatedDeltaRule, chunk_kda_with_fused_gate.  What is not served goes on to vLLM's own
kernels; tilekern.show_config() counts both.  TILEKERN_VLLM=0 in the environment turns it off.
"""
import functools
import importlib.abc
import importlib.util
import inspect
import os
import sys

import torch

from . import log, ops
from .functions import device_refusal

LAYERS = "vllm.model_executor.layers.mamba.gdn."
NULL_SLOT = 0  # vLLM's block of nobody; -1 pads


# ---- what is served ----------------------------------------------------------------------------------------------------

def refusal(q, v, more):
    """Why not these kernels; more: arguments that were not there when vLLM was read."""
    K, V = q.shape[-1], v.shape[-1]
    unknown = sorted(n for n, value in more.items() if value is not None and value is not False)
    if unknown:
        return f"{', '.join(unknown)} is not known here"
    if q.dtype not in (torch.bfloat16, torch.float16):
        return f"q is {q.dtype}, not torch.bfloat16 or torch.float16"
    if K > 256 or V > 256 or K % 8 or V % 8:
        return f"K and V are {K} and {V}, not multiples of 8 up to 256"
    return device_refusal(q)


def served(name, reason):
    log.note(f"vllm.{name}", reason or "served")
    return reason is None


# ---- calls with gathered states ------------------------------------------------------------------------------------------

def chunk_gated_delta_rule(theirs):
    @functools.wraps(theirs)
    def forward(self, q, k, v, g, beta, initial_state, output_final_state, cu_seqlens=None, chunk_indices=None, chunk_offsets=None,
                use_qk_l2norm_in_kernel=True, core_attn_out=None, **more):
        if not served("chunk_gated_delta_rule", refusal(q, v, more)):
            known = dict(chunk_indices=chunk_indices, chunk_offsets=chunk_offsets, core_attn_out=core_attn_out)
            return theirs(self, q=q, k=k, v=v, g=g, beta=beta, initial_state=initial_state, output_final_state=output_final_state, cu_seqlens=cu_seqlens,
                          use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, **{n: t for n, t in known.items() if t is not None}, **more)
        o, state, _ = ops.run(ops.INFER["gdn"], q, k, v, g, beta, None, None, initial_state, cu_seqlens, 0.0, ops.L2NORM if use_qk_l2norm_in_kernel else 0, True,
                              output_final_state)
        if core_attn_out is not None:
            core_attn_out.view(-1)[:o.numel()].copy_(o.view(-1))
        return o, state

    return forward


def chunk_kda_with_fused_gate(theirs):
    @functools.wraps(theirs)
    def function(q, k, v, raw_g, beta=None, A_log=None, g_bias=None, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
                 cu_seqlens=None, safe_gate=None, lower_bound=None, raw_beta=None, out=None, **more):
        if not served("chunk_kda_with_fused_gate", refusal(q, v, more)):
            known = dict(beta=beta, raw_beta=raw_beta, safe_gate=safe_gate, lower_bound=lower_bound, scale=scale, out=out)
            return theirs(q=q, k=k, v=v, raw_g=raw_g, A_log=A_log, g_bias=g_bias, initial_state=initial_state, output_final_state=output_final_state,
                          use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel, cu_seqlens=cu_seqlens, **{n: t for n, t in known.items() if t is not None}, **more)
        bounded = lower_bound is not None and safe_gate is not False
        options = (ops.RAW_GATE | (ops.L2NORM if use_qk_l2norm_in_kernel else 0) | (ops.SIGMOID_BETA if raw_beta is not None else 0)
                   | (ops.BOUNDED_GATE if bounded else 0))
        o, state, _ = ops.run(ops.INFER["kda"], q, k, v, raw_g, beta if raw_beta is None else raw_beta, A_log.view(-1),
                              None if g_bias is None else g_bias.view(-1), initial_state, cu_seqlens, scale or 0.0, options, True, output_final_state, False,
                              lower_bound if bounded else -5.0)
        return o if out is None else out.copy_(o), state

    return function


# ---- calls on the pool ---------------------------------------------------------------------------------------------------

def step_of(module, layer):
    """The step's metadata, or None where there is none (vLLM's profile and warm-up runs)."""
    every = module.get_forward_context().attn_metadata
    return None if every is None else every.get(layer.prefix)


def step_refusal(step):
    if not step.num_prefills:
        return "a step without prefills"
    if step.num_decodes or getattr(step, "spec_sequence_masks", None) is not None:
        return "a step with decodes"
    if getattr(step, "checkpoint", None) is not None or getattr(step, "flashinfer_checkpoint_plan", None) is not None:
        return "a step that keeps checkpoints of prefixes"
    slots, starts = step.non_spec_state_indices_tensor, step.non_spec_query_start_loc
    if slots.dim() != 1 or slots.shape[0] != starts.shape[0] - 1:
        return f"slots are {list(slots.shape)}, but there are {starts.shape[0] - 1} sequences"
    return None


def convolved(module, step, x, weight, bias, activation, state):
    return module.causal_conv1d_fn(x.transpose(0, 1), weight.view(weight.size(0), weight.size(2)), bias, activation=activation, conv_states=state,
                                   has_initial_state=step.has_initial_state, cache_indices=step.non_spec_state_indices_tensor,
                                   query_start_loc=step.non_spec_query_start_loc, metadata=step).transpose(0, 1)


def convolution_state(module, layer):
    state = layer.kv_cache[0]
    return state if module.is_conv_state_dim_first() else state.transpose(-1, -2)


def prefill(name, step, tensors, pool, out, options):
    ops.run(getattr(torch.ops.tilekern, f"{name}_prefill").default, *tensors, pool, step.non_spec_state_indices_tensor, out, step.non_spec_query_start_loc,
            step.has_initial_state, 0.0, options, True, NULL_SLOT)


def gdn_layer(module, theirs):
    @functools.wraps(theirs)
    def _forward_core(self, mixed_qkv, b, a, core_attn_out):
        step = step_of(module, self)
        if step is None:
            return theirs(self, mixed_qkv=mixed_qkv, b=b, a=a, core_attn_out=core_attn_out)
        H, HV, K, V = self.num_k_heads // self.tp_size, self.num_v_heads // self.tp_size, self.head_k_dim, self.head_v_dim
        head = mixed_qkv.new_empty(0, K), mixed_qkv.new_empty(0, V)
        if not served("gdn", step_refusal(step) or refusal(*head, {})):
            return theirs(self, mixed_qkv=mixed_qkv, b=b, a=a, core_attn_out=core_attn_out)
        n = step.num_actual_tokens
        x = convolved(module, step, mixed_qkv[:n], self.conv1d.weight, self.conv1d.bias, self.activation, convolution_state(module, self))
        q, k, v = (t.unflatten(-1, (h, d))[None] for t, h, d in zip(x.split((H * K, H * K, HV * V), -1), (H, H, HV), (K, K, V)))
        prefill("gdn", step, (q, k, v, a[None, :n], b[None, :n], self.A_log, self.dt_bias), self.kv_cache[1], core_attn_out.view(-1, HV, V)[None, :n],
                ops.L2NORM | ops.RAW_GATE | ops.SIGMOID_BETA)

    return _forward_core


def kda_layer(module, theirs):
    @functools.wraps(theirs)
    def _forward(self, q_proj_states, k_proj_states, v_proj_states, g1, beta, core_attn_out):
        step = step_of(module, self)
        given = q_proj_states, k_proj_states, v_proj_states
        D = self.head_dim
        head = g1.new_empty(0, D)
        if step is None or not served("kda", step_refusal(step) or refusal(head, head, {})):
            return theirs(self, *given, g1=g1, beta=beta, core_attn_out=core_attn_out)
        n = step.num_actual_tokens
        states = convolution_state(module, self).chunk(3, dim=-2)
        q, k, v = (convolved(module, step, x[:n], conv.weight, conv.bias, "silu", s).unflatten(-1, (-1, D))[None]
                   for x, conv, s in zip(given, (self.q_conv1d, self.k_conv1d, self.v_conv1d), states))
        prefill("kda", step, (q, k, v, g1[:, :n], beta[:, :n], self.A_log.view(-1), self.dt_bias), self.kv_cache[1], core_attn_out[:, :n],
                ops.L2NORM | ops.RAW_GATE)

    return _forward


# ---- where they go -------------------------------------------------------------------------------------------------------

def is_as_read(method, parameters):
    """Whether a layer's method is the one that these were written for; a step's metadata says whether it keeps checkpoints, where there are any."""
    source = inspect.getsource(method)
    return (list(inspect.signature(method).parameters) == ["self", *parameters.split()]
            and ("checkpoint" not in source or "attn_metadata.flashinfer_checkpoint_plan" in source))


def change_layer(module, cls, method, parameters, make):
    theirs = getattr(cls, method)
    if is_as_read(theirs, parameters):
        setattr(cls, method, make(module, theirs))
    else:
        log.note(f"vllm.{cls.__name__}", f"{method} is another one than was read: states are gathered and scattered by vLLM")


def change_qwen(module):
    cls = module.ChunkGatedDeltaRule
    for name in ("forward_cuda", "forward_native", "forward_cutedsl"):
        if hasattr(cls, name):
            setattr(cls, name, chunk_gated_delta_rule(getattr(cls, name)))
    change_layer(module, module.QwenGatedDeltaNetAttention, "_forward_core", "mixed_qkv b a core_attn_out", gdn_layer)


def change_function(module):
    module.chunk_kda_with_fused_gate = chunk_kda_with_fused_gate(module.chunk_kda_with_fused_gate)


def change_kimi(module):
    if hasattr(module, "chunk_kda_with_fused_gate"):  # from 0.33 on a layer imports it when it runs
        change_function(module)
    change_layer(module, module.KimiGatedDeltaNetAttention, "_forward", "q_proj_states k_proj_states v_proj_states g1 beta core_attn_out", kda_layer)


CHANGES = {LAYERS + "qwen_gdn_linear_attn": change_qwen, LAYERS + "kimi_gdn_linear_attn": change_kimi,
           "vllm.models.kimi_k3.nvidia.ops.third_party.kda": change_function}


def change_module(name, module):
    """A version of vLLM that has changed too much keeps its own kernels, and show_config says so."""
    try:
        CHANGES[name](module)
    except (AttributeError, TypeError, ValueError, OSError) as e:
        log.note(name, f"is another one than was read: {e}")


class AfterImport(importlib.abc.MetaPathFinder):
    """Changes a layer's module when a model imports it: the plugin itself must not, vLLM forks after it."""

    def __init__(self):
        self.busy = False

    def find_spec(self, name, path, target=None):
        if name not in CHANGES or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                change_module(name, module)

            spec.loader.exec_module = exec_module
        return spec


def register():
    if os.environ.get("TILEKERN_VLLM", "1") == "0" or any(isinstance(f, AfterImport) for f in sys.meta_path):
        return
    for name in CHANGES:
        if name in sys.modules:
            change_module(name, sys.modules[name])
    sys.meta_path.insert(0, AfterImport())
