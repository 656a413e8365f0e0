"""Calls captured into CUDA graphs: replayed with other numbers, while calls are prepared and forgotten, as the first ones of a process."""
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from reference import DEVICE, inputs

import tilekern

pytestmark = pytest.mark.skipif(DEVICE == "cpu", reason="CUDA graphs are of GPUs")
FUNCTIONS = dict(gdn=tilekern.chunk_gated_delta_rule, kda=tilekern.chunk_kda)
REMEMBERED = 512  # calls that are kept prepared (torch/device.h)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_graph(name):
    """Forward and backward captured, replayed with other numbers and other offsets."""
    x = [t.requires_grad_() for t in inputs(name == "kda", T=200, H=1, HV=2)]
    cu = torch.tensor([0, 50, 200], device=DEVICE)
    dout = torch.randn(x[2].shape, device=DEVICE).bfloat16()

    def step():
        o, state = FUNCTIONS[name](*x, cu_seqlens=cu, output_final_state=True)
        return [o, state, *torch.autograd.grad(o, x, dout)]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    cu.copy_(torch.tensor([0, 133, 200], device=DEVICE))
    for a, b in zip(x, inputs(name == "kda", T=200, H=1, HV=2, seed=1)):
        a.data.copy_(b)
    graph.replay()
    torch.cuda.synchronize()
    for have, want in zip([t.clone() for t in captured], step()):
        assert torch.equal(have, want)


class Beside:
    """A thread that calls on a stream of its own, so that calls are prepared and forgotten there, while the body runs."""

    def __init__(self, call):
        self.call, self.ready, self.over, self.calls = call, threading.Event(), threading.Event(), 0

    def run(self):
        with torch.cuda.stream(torch.cuda.Stream()):
            while not self.over.is_set():
                self.call(3 + self.calls // 2 % (2 * REMEMBERED) * 2**-12)
                self.calls += 1
                if self.calls == 4 * REMEMBERED:  # torch has the memory by now: it may not allocate during a capture
                    torch.cuda.synchronize()
                    self.ready.set()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(60)
        self.first = self.calls
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@torch.no_grad()
@pytest.mark.parametrize("name", FUNCTIONS)
def test_forgotten_during_a_capture(name):
    """A capture of more calls than are remembered, some of them twice, gives up every call that was prepared before, and so does a thread beside it;
    the graph lives on when its own calls have been forgotten."""
    x = inputs(name == "kda", T=70, H=1, HV=2)
    dout = torch.randn(x[2].shape, device=DEVICE).bfloat16()
    backward = getattr(torch.ops.tilekern, f"{name}_grads").default  # several kernels: a call that is prepared is a graph
    call = lambda scale: backward(*x, *[None] * 5, dout, None, scale, 0, False, 31)[:5]
    before, within, after = ([base + i * 2**-12 for i in range(2 * REMEMBERED)] for base in (0.5, 1.0, 2.0))
    for scale in before:
        call(scale), call(scale)
    graph = torch.cuda.CUDAGraph()
    with Beside(call) as beside, torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.synchronize()
        graph.capture_begin(capture_error_mode="global")  # torch.cuda.graph would empty the cache that the thread beside it lives on
        captured = [call(scale) for scale in within]
        again = [call(scale) for scale in within[-5:] * 3]
        graph.capture_end()
    torch.cuda.synchronize()
    assert beside.calls > beside.first
    for scale in after:
        call(scale), call(scale)
    for _ in range(2):
        for grads in captured + again:
            for t in grads:
                t.fill_(float("nan"))
        graph.replay()
        for grads, scale in zip(captured + again, within + within[-5:] * 3):
            assert all(torch.equal(a, b) for a, b in zip(grads, call(scale)))


FIRST = """
import torch
from reference import inputs
import tilekern
x = [t.requires_grad_() for t in inputs({kda}, T=70, H=1, HV=2)]
dout = torch.randn(x[2].shape, device="cuda").bfloat16()
torch.autograd.grad((x[0] * 2).sum(), x[0])  # torch's own first times
def step():
    o, state = tilekern.{function}(*x, output_final_state=True, use_qk_l2norm_in_kernel=True)
    return [o, state, *torch.autograd.grad(o, x, dout)]
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = step()
graph.replay()
assert all(torch.equal(a, b) for a, b in zip(captured, step()))
print("equal")
"""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_calls_of_a_process(name):
    """Kernels are loaded onto the device within the capture."""
    program = FIRST.format(kda=name == "kda", function=FUNCTIONS[name].__name__)
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=Path(__file__).parent, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "equal\n", run.stderr[-2000:]
