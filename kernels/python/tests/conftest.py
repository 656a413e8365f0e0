import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("TILERT_NO_RACE_CHECK", "1")  # the kernels have tests of their own


def compile_one_configuration():
    """Of each of FLA's kernels: to choose among all of them takes minutes, and they only have to be right here."""
    import triton

    autotune = triton.autotune
    triton.autotune = lambda configs, *args, **kwargs: autotune(configs[:1], *args, **kwargs)


if os.environ.get("TILEKERN_TEST_DEVICE") == "cuda":
    compile_one_configuration()
