"""Times rows of KDA, and some of GDN, with two builds of the library by turns, each in a process of its own, and says whether the bits are the same.

    python3 turns.py FOLDER_A FOLDER_B out.csv [REGEX]      FOLDER: libtilekern.so.0.1, libtilert.so.0.1, libtilekern_torch.so; REGEX: of the rows' names

Names are "forward|again|training kernel|operator BxT Hn Kn[ documents] strong|mild"; again: the backward alone, which scans again; training: forward and backward of what the forward
saved; documents: BxT tokens are packed sequences, those of peers.py's mix of lognormal lengths.  And "training gdn again|saved H/HV LENGTHS", forward and backward.
A time is the median of $ROUNDS (5) rounds, of each the median of triton's do_bench over replays of a CUDA graph, $REP (8) ms.
"""
import functools
import gc
import itertools
import json
import os
import re
import statistics
import subprocess
import sys

SHAPES = [(1, 2048, 8, 128), (1, 2048, 12, 128), (1, 2048, 32, 128), (1, 8192, 8, 128), (1, 8192, 32, 128), (1, 8192, 96, 128), (8, 1024, 8, 128), (8, 1024, 64, 128),
          (8, 4096, 32, 128), (1, 32768, 8, 128), (16, 4096, 16, 64), (8, 8192, 16, 64)]
DOCUMENTS = [(1, 65536, 32, 128, "documents"), (1, 65536, 16, 64, "documents")]
BACKWARD = [(8, 4096, 32, 128), (4, 8192, 32, 128), (1, 8192, 96, 128), (1, 8192, 12, 128), (16, 4096, 16, 64), (8, 8192, 16, 64), (1, 65536, 8, 128)]
SHIFTS = {"strong": 0.0, "mild": 6.0}
GDN = [(h, 2 * h, lengths) for h in (4, 8, 16) for lengths in ("16x4096", "67x978", "documents")] # heads of q and k, of v; sequences


def rows():
    for shapes, kinds, gates in ((SHAPES, ("forward",), SHIFTS), (BACKWARD + DOCUMENTS, ("again", "training"), ("strong",))):
        for shape in shapes:
            for what in ("kernel", "operator"):
                for kind in kinds:
                    yield from ((kind, what, shape, g) for g in gates)
    yield from (("training", "gdn", shape, part) for shape in GDN for part in ("again", "saved"))


def name_of(kind, what, shape, gates):
    if what == "gdn":
        return "{} {} {} {}/{} {}".format(kind, what, gates, *shape)
    B, T, H, K, *packed = shape
    return " ".join([kind, what, f"{B}x{T}", f"H{H}", f"K{K}", *packed, gates])


# ---- one library ----

def call_of(kind, what, shape, gates):
    import torch
    import peers
    import tilekern
    torch.manual_seed(1)
    if what == "gdn":
        return gdn_training(*shape, gates == "saved")
    operator, (_, _, heads, keys, *documents) = what == "operator", shape
    raw, logit, inputs = peers.kda_inputs(*shape[:4], SHIFTS[gates])
    given = list(inputs)
    if operator:
        given = [*raw, logit, torch.randn(heads, device="cuda") * .3, torch.randn(heads * keys, device="cuda") * .3]
    packed = {}
    if documents:
        packed["cu_seqlens"] = torch.tensor([0, *itertools.accumulate(peers.mixes()["lognormal"])], device="cuda", dtype=torch.int32)
    if kind == "forward":
        forward = peers.kda_of(tilekern, operator, output_final_state=True, **packed)
        return lambda: forward(*given)
    dout = torch.randn_like(raw[2])
    if kind == "again":
        return peers.autograd_call(peers.kda_of(tilekern, operator, **packed), given, dout)
    return training(peers.kda_of(tilekern, operator, disable_recompute=True, **packed), given, dout)


def gdn_training(heads, value_heads, lengths, saved):
    import torch
    import peers
    import tilekern
    count, _, each = lengths.partition("x")
    lengths = [int(each)] * int(count) if each else peers.mixes()["lognormal"]
    given = peers.gdn_inputs(heads, value_heads, sum(lengths), 128, 128)
    cu = torch.tensor([0, *itertools.accumulate(lengths)], device="cuda", dtype=torch.int32)
    return training(functools.partial(tilekern.chunk_gated_delta_rule, cu_seqlens=cu, disable_recompute=saved), given.values(), torch.randn_like(given["v"]))


def training(forward, given, dout):
    import torch
    leaves = [x.detach().requires_grad_() for x in given]

    def call():
        o = forward(*leaves)
        return torch.autograd.grad(o[0] if isinstance(o, tuple) else o, leaves, dout)
    return call


def digest(tensors):
    import torch
    sums = []
    for x in (t.contiguous().view(torch.uint8).view(-1) for t in tensors if t is not None):
        words = x[: x.numel() // 4 * 4].view(torch.int32).long()
        sums.append(int((words * (torch.arange(words.numel(), device=x.device) % 65521 + 1)).sum()))
    return sums


def serve():
    """Of each row that comes its bits, and then times of it until the next."""
    import torch
    import peers
    from triton.testing import do_bench
    graph = None
    for line in sys.stdin:
        asked = json.loads(line)
        if "row" in asked:
            graph = call = None
            gc.collect()
            torch.cuda.empty_cache()
            call = call_of(*asked["row"])
            answer = digest(call())
            graph = peers.graph_of(call)
        else:
            answer = do_bench(graph.replay, warmup=5, rep=asked["rep"], return_mode="median")
        print(json.dumps({"answer": answer}), flush=True)


# ---- both ----

class Library:
    def __init__(self, folder, script=__file__):
        self.process = subprocess.Popen([sys.executable, script, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, TILEKERN_LIB=folder, LD_LIBRARY_PATH=folder))

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith('{"answer"'):
                return json.loads(line)["answer"]
        sys.exit("a library's process has ended")


def main(folders, path, wanted=""):
    rounds, rep = int(os.environ.get("ROUNDS", 5)), float(os.environ.get("REP", 8))
    libraries = [Library(f) for f in folders]
    with open(path, "w") as out:
        print("row,a_ms,b_ms,b_over_a,bits", file=out)
        for row in rows():
            name = name_of(*row)
            if not re.search(wanted, name):
                continue
            bits, times = [x.ask(row=row) for x in libraries], [[], []]
            for n in range(rounds):
                for i in (0, 1) if n % 2 == 0 else (1, 0):
                    times[i].append(libraries[i].ask(rep=rep))
            a, b = map(statistics.median, times)
            line = f"{name},{a:.5f},{b:.5f},{b / a:.4f},{'same' if bits[0] == bits[1] else 'DIFFER'}"
            print(line, file=out, flush=True)
            print(line, flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main(sys.argv[1:3], *sys.argv[3:])
