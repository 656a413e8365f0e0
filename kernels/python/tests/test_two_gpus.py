"""Tensors on the second of two GPUs while the first is current: the same bits as on the first, and nothing of the caller's is left changed."""
import ctypes
import threading

import pytest
import torch

from reference import DEVICE, inputs

import tilekern

pytestmark = pytest.mark.skipif(DEVICE == "cpu" or torch.cuda.device_count() < 2, reason="needs two GPUs")
FUNCTIONS = dict(gdn=tilekern.chunk_gated_delta_rule, kda=tilekern.chunk_kda)


def on(device, name, seed=0):
    return [t.to(f"cuda:{device}").requires_grad_() for t in inputs(name == "kda", T=200, H=1, HV=2, seed=seed)]


def both(function, x):
    """o, final state, gradients."""
    o, state = function(*x, output_final_state=True)
    torch.manual_seed(7)
    dout = torch.randn(o.shape).to(o)
    return [o, state, *torch.autograd.grad([o, state], x, [dout, torch.ones_like(state)])]


def check_current(device):
    """Torch's current device and, where a context is current, the driver's."""
    assert torch.cuda.current_device() == device
    assert torch.empty(1, device="cuda").device.index == device
    ordinal = ctypes.c_int(-1)
    if ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(ordinal)) == 0:
        assert ordinal.value == device


def check_same(have, want, device):
    for i, (a, b) in enumerate(zip(have, want)):
        assert a.device == torch.device("cuda", device)
        assert torch.equal(a.cpu(), b.cpu()), f"result {i}"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_while_first_is_current(name):
    """By turns, so that calls are remembered and prepared on both."""
    x, want = {d: on(d, name) for d in (1, 0)}, None
    for turn in range(4):
        for d in (1, 0):
            have = both(FUNCTIONS[name], x[d])
            check_current(0)
            want = want or have
            check_same(have, want, d)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_while_second_is_current(name):
    want = both(FUNCTIONS[name], on(0, name))
    with torch.cuda.device(1):
        have = both(FUNCTIONS[name], on(0, name))
        check_current(1)
    check_same(have, want, 0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_stream_of_the_second(name):
    """The inputs arrive late, on the second device's stream, which the work has to wait for."""
    real, want = on(1, name, seed=1), both(FUNCTIONS[name], on(1, name, seed=1))
    late = [torch.full_like(t, float("nan")).requires_grad_() for t in real]
    slow = torch.randn(4096, 4096, device="cuda:1")
    torch.cuda.synchronize(1)
    stream = torch.cuda.Stream(1)
    with torch.cuda.stream(stream), torch.cuda.device(0):
        assert torch.cuda.current_stream(1) == stream
        for _ in range(20):
            slow = slow @ slow / 64
        for t, r in zip(late, real):
            t.data.copy_(r.data)
        have = both(FUNCTIONS[name], late)
        check_current(0)
    stream.synchronize()
    check_same(have, want, 1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_graph_of_the_second(name):
    x = [t.detach() for t in on(1, name)]
    with torch.cuda.device(1):
        for _ in range(3):
            want = FUNCTIONS[name](*x)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            have = FUNCTIONS[name](*x)[0]
    have.fill_(float("nan"))
    torch.cuda.synchronize(1)
    graph.replay()
    torch.cuda.synchronize(1)
    check_current(0)
    check_same([have], [want], 1)


def test_a_thread_for_each():
    """Both at once, a hundred calls each."""
    want = {name: both(FUNCTIONS[name], on(0, name)) for name in FUNCTIONS}
    wrong = []

    def work(device):
        x = {name: on(device, name) for name in FUNCTIONS}
        try:
            for i in range(50):
                for name in FUNCTIONS:
                    check_same(both(FUNCTIONS[name], x[name]), want[name], device)
        except BaseException as e:
            wrong.append(f"cuda:{device}: {e}")

    threads = [threading.Thread(target=work, args=(d,)) for d in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_devices_in_one_call(name):
    q, k, v, g, beta = on(0, name)
    with pytest.raises(ValueError, match="v is on cuda:1, but q is on cuda:0"):
        FUNCTIONS[name](q, k, v.to("cuda:1"), g, beta)
    check_current(0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fla(name):
    pytest.importorskip("fla", reason="flash-linear-attention is not installed")
    import tilekern.fla  # noqa: F401
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda
    from tilekern import log

    function = dict(gdn=chunk_gated_delta_rule, kda=chunk_kda)[name]
    before = log.served(function.__name__)
    have = both(function, on(1, name))
    assert log.served(function.__name__) == before + 1
    check_current(0)
    check_same(have, both(FUNCTIONS[name], on(0, name)), 1)
