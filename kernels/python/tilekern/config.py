"""What there is and what was called."""
import ctypes
import os
import platform
import sys

import torch

from . import log, ops


def driver():
    try:
        version = ctypes.c_int()
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
        return f"{version.value // 1000}.{version.value % 1000 // 10}"
    except OSError:
        return "none"


def devices():
    if not torch.cuda.is_available():
        return ["no GPU: CPU tensors only"]
    names = []
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        served = "" if (p.major, p.minor) == (9, 0) else ", not served: the kernels are for 9.0"
        names.append(f"cuda:{i} {p.name}, compute capability {p.major}.{p.minor}{served}")
    return names


def unprepared():
    """Why calls are not launched as graphs, where that failed."""
    why = ctypes.create_string_buffer(200)
    count = ops.LIBRARY.tilekern_torch_unprepared(why, len(why))
    return [("calls", f"{count} could not be made graphs and go kernel by kernel: {why.value.decode()}")] if count else []


def config():
    """Lines of (name, value)."""
    from . import __version__

    lines = [("tilekern", __version__), ("libraries", str(ops.folder())), ("torch", torch.__version__), ("python", platform.python_version()),
             ("CUDA driver", driver()), *(("device", d) for d in devices())]
    fla = sys.modules.get("fla")
    lines.append(("FLA", "not imported" if fla is None else f"{getattr(fla, '__version__', '?')}, "
                  + ("backend registered" if "tilekern.fla" in sys.modules else "import tilekern.fla registers the backend")))
    lines += [(n, os.environ[n]) for n in ("TILEKERN_LIB", "TILEKERN_LOG", "FLA_TILEKERN") if n in os.environ]
    lines += unprepared()
    lines += [(function, f"{n} x {what}") for (function, what), n in sorted(log.counts.items())]
    return lines


def show_config(file=None):
    """Prints versions and devices, and how many calls were served or rejected, and why."""
    for name, value in config():
        print(f"{name:12s} {value}", file=file)
