"""Times libraries with the GPU to themselves: after a pause, and once it has been busy for long enough that its limit of power holds.

    python3 sustained.py out.csv [--peers fla,cudnn,flash_qla] [--only REGEX] [--seconds 2]

Of each row and library: burst_ms, the median of as many replays of a CUDA graph as fill 20 ms (3 at least), half a second after the last call; sustained_ms, the mean of those in the second half of so
many seconds of replays without a pause; in that half also the mean power (watt), the SM's clock (mhz, the mean of samples) and joule, what a call takes of energy.  Nothing is flushed from the L2: inputs
are much larger.  Rows are some of peers.py's large ones, by the same functions, and checked as there.
"""
import argparse
import csv
import ctypes
import re
import statistics
import time

import torch

import peers

FORWARD = [(8, 4096, 32, 128), (1, 8192, 96, 128), (16, 4096, 16, 64)]
BACKWARD = re.compile(r"(8x4096 H32|1x8192 H96|16x4096 H16) K\d+ strong|16/32 4x8192|8/16 4x8192")


class Gpu:
    """What NVML says of the first GPU."""

    def __init__(self):
        self.nvml, self.device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
        self.nvml.nvmlInit_v2()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def ask(self, function, kind, *of):
        value = kind()
        code = getattr(self.nvml, function)(self.device, *of, ctypes.byref(value))
        if code:
            raise SystemExit(f"{function}: NVML error {code}")
        return value.value

    def mhz(self):
        return self.ask("nvmlDeviceGetClockInfo", ctypes.c_uint, 1)  # NVML_CLOCK_SM

    def joule(self):
        return self.ask("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong) / 1e3

    def fresh_joule(self):
        """When the counter, which moves by steps, has just moved."""
        old = self.joule()
        while (new := self.joule()) == old:
            pass
        return new, time.perf_counter()


def replays(graph, until):
    """Milliseconds of each replay, queued a few at a time until the condition, of their number and sum, holds."""
    times, event = [], lambda: torch.cuda.Event(enable_timing=True)
    while not until(times):
        marks = [event()]
        marks[0].record()
        for _ in range(max(2, min(64, int(10 / statistics.median(times)) if times else 2))):
            graph.replay()
            marks.append(event())
            marks[-1].record()
        torch.cuda.synchronize()
        times += [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]
    return times


def measure(gpu, call, seconds):
    for _ in range(3):
        call()
    graph = peers.graph_of(call)
    replays(graph, lambda t: len(t) >= 2)
    time.sleep(0.5)
    burst = statistics.median(replays(graph, lambda t: len(t) >= 3 and sum(t) >= 20))
    clocks = []

    def busy(seconds):
        end = time.perf_counter() + seconds

        def until(times):
            clocks.append(gpu.mhz())
            return time.perf_counter() >= end
        return replays(graph, until)

    busy(seconds / 2)
    clocks.clear()
    first, begin = gpu.fresh_joule()
    times = busy(seconds / 2)
    last, end = gpu.fresh_joule()
    watt = (last - first) / (end - begin)
    mean = statistics.mean(times)
    return burst, mean, watt, statistics.mean(clocks), watt * mean / 1e3


def rows(a):
    """Names, and of each library its call."""
    for B, T, H, D in FORWARD:
        wanted = peers.chosen(a, [("kernel",), ("operator",)], f"kda forward {{}} {B}x{T} H{H} K{D} strong".format)
        if wanted:
            raw, logit, x = peers.kda_inputs(B, T, H, D, 0.0)
            check, calls = peers.kda_checked(x, B - 1, H - 1), peers.kda_calls(a, raw, logit, x, D, [T] * B, False)
        for name, what in wanted:
            check(*calls[what]["tilekern"](), name)
            yield name, calls[what]
        raw = logit = x = calls = check = None
    narrowed = argparse.Namespace(**{**vars(a), "only": BACKWARD})
    for c in peers.kda_cases(narrowed, "backward"):
        if a.only.search(c.name):
            yield c.name, {n: peers.autograd_call(*of, c.dout) for n, of in {**c.ours, **c.theirs}.items()}
    for name, _, ours, theirs, dout, *_ in peers.gdn_cases(narrowed, "backward {}"):
        name = name.replace(" {}", "")
        if a.only.search(name):
            yield name, {n: peers.autograd_call(*of, dout) for n, of in {**ours, **theirs}.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv")
    parser.add_argument("--peers", default="fla,cudnn,flash_qla,flash_kda", type=lambda s: s.split(","))
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--seconds", type=float, default=2.0)
    a = parser.parse_args()
    a.first, a.rows = 0, None
    torch.manual_seed(0)
    gpu = Gpu()
    with open(a.csv, "w", newline="") as f:
        table = csv.writer(f, lineterminator="\n")
        table.writerow(["row", "library", "burst_ms", "sustained_ms", "watt", "mhz", "joule"])
        for name, calls in rows(a):
            for library, call in calls.items():
                burst, sustained, watt, mhz, joule = measure(gpu, call, a.seconds)
                table.writerow([name, library, f"{burst:.4f}", f"{sustained:.4f}", f"{watt:.0f}", f"{mhz:.0f}", f"{joule:.4f}"])
                f.flush()
                peers.say(f"{name} {library}: {burst:.3f} ms after a pause, {sustained:.3f} sustained, {watt:.0f} W, {mhz:.0f} MHz, {joule:.3f} J")
            calls = call = None
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
