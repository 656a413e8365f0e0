"""libtilert by ctypes, for scripts that time modules beside what torch has.  $TILERT is the library (default: what the loader finds)."""
import ctypes
import os

import torch

TENSOR, SCALAR = 0, 2  # tilert_arg_kind
DTYPES = {torch.int32: 4, torch.float16: 10, torch.bfloat16: 11, torch.float32: 13, torch.float8_e4m3fn: 14}  # tilert_dtype
Extents = ctypes.c_int64 * 5


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("extents", Extents), ("strides", Extents)]


class Arg(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("tensor", Tensor), ("i", ctypes.c_int64), ("f", ctypes.c_double)]


def arg(name, value):
    if not torch.is_tensor(value):
        return Arg(name.encode(), SCALAR, **{"i" if isinstance(value, int) else "f": value})
    assert value.is_contiguous()
    return Arg(name.encode(), TENSOR, Tensor(value.data_ptr(), DTYPES[value.dtype], value.dim(), Extents(*value.shape)))


class Runtime:
    def __init__(self, device="cuda"):
        torch.zeros(1, device=device)  # torch's context, for the runtime to adopt
        self.lib = ctypes.CDLL(os.environ.get("TILERT", "libtilert.so"))
        self.lib.tilert_last_error.restype = ctypes.c_char_p
        self.device, self.modules = ctypes.c_void_p(), {}
        self.call("device_open", device.encode(), ctypes.byref(self.device))

    def call(self, name, *args):
        if getattr(self.lib, "tilert_" + name)(*args):
            raise RuntimeError(f"tilert_{name}: {self.lib.tilert_last_error().decode()}")

    def module(self, path):
        if path not in self.modules:
            self.modules[path] = ctypes.c_void_p()
            self.call("module_open", self.device, path.encode(), ctypes.byref(self.modules[path]))
        return self.modules[path]

    def prepare(self, path, name, **args):
        """A function that queues kernel `name` of a module on torch's current stream, with those of these arguments that it has; it keeps them."""
        kernel, prepared = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("module_kernel", self.module(path), name.encode(), ctypes.byref(kernel))
        list_ = (Arg * len(args))(*(arg(n, v) for n, v in args.items()))
        self.call("prepare_named", kernel, list_, ctypes.c_size_t(len(args)), ctypes.byref(prepared))
        return lambda keep=args: self.call("prepared_launch", prepared, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
