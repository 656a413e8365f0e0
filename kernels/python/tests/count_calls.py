"""For tests of flash-linear-attention: `python -m pytest -p count_calls` has its calls served by tilekern and prints how many were, and why others were not.

In a checkout of FLA, beside an installed tilekern (or TILEKERN_LIB, and kernels/python on PYTHONPATH):

    PYTHONPATH=.../kernels/python/tests python -m pytest -p count_calls tests/ops/test_kda.py tests/ops/test_gdn.py -k test_chunk

FLA skips its tests of grouped heads where a backend may serve them, for TileLang's sake; here they run.  TILEKERN_TEST_DEVICE=cpu runs them on the CPU
device, which is for the small ones.  With pytest-xdist each worker counts its own: $TILEKERN_CALLS is the folder for their counts.
"""
import json
import os

os.environ.pop("FLA_DISABLE_BACKEND_DISPATCH", None)  # a worker of pytest-xdist has it from where this was imported first

import fla.utils  # noqa: E402
import torch  # noqa: E402

import tilekern.fla  # noqa: E402, F401
from tilekern import log  # noqa: E402

os.environ["FLA_DISABLE_BACKEND_DISPATCH"] = "1"  # which FLA has read; its tests look again

if os.environ.get("TILEKERN_TEST_DEVICE") == "cpu":
    fla.utils.device, fla.utils.device_torch_lib = "cpu", torch.cpu


def pytest_runtest_logfinish(nodeid):
    folder = os.environ.get("TILEKERN_CALLS")
    if folder and os.environ.get("PYTEST_XDIST_WORKER"):
        with open(f"{folder}/calls.{os.getpid()}.json", "w") as f:
            json.dump([[*what, n] for what, n in log.counts.items()], f)


def pytest_terminal_summary(terminalreporter):
    for (function, what), n in sorted(log.counts.items()):
        terminalreporter.write_line(f"tilekern: {n} x {function}: {what}")
