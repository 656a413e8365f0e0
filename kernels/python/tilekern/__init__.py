"""GDN and KDA kernels for Hopper GPUs, and for CPU tensors: functions with flash-linear-attention's signatures, and PyTorch operators.

    from tilekern import chunk_kda, chunk_gated_delta_rule     # instead of fla.ops.kda, fla.ops.gated_delta_rule
    import tilekern.fla                                        # or: FLA's functions and layers use these kernels
"""
from . import ops
from .config import show_config
from .functions import chunk_gated_delta_rule, chunk_kda

__version__ = "0.1.0"
__all__ = ["chunk_gated_delta_rule", "chunk_kda", "ops", "show_config"]
