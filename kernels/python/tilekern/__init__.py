"""GDN and KDA kernels for Hopper GPUs, and for CPU tensors: functions with flash-linear-attention's signatures, and PyTorch operators.

    from tilekern import chunk_kda, chunk_gated_delta_rule     # instead of fla.ops.kda, fla.ops.gated_delta_rule
    import tilekern.fla                                        # or: FLA's functions and layers use these kernels
"""
__version__ = "0.1.0"
__all__ = ["build_cp_context", "chunk_gated_delta_rule", "chunk_kda", "ops", "show_config"]

try:
    from . import ops
    from .config import show_config
    from .context import build_cp_context
    from .functions import chunk_gated_delta_rule, chunk_kda
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise

    def __getattr__(name):
        """Without PyTorch there is the C library: python -m tilekern --cmake-dir."""
        if name in __all__:
            raise ImportError(f"tilekern.{name} needs PyTorch 2.10 or later, which is not installed")
        raise AttributeError(name)
