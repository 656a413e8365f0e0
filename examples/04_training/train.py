"""Trains a small byte-level language model with KDA or GDN layers, with the library's kernels twice and with FLA's, from the same seed.

    python3 examples/04_training/train.py --text FILE --csv loss.csv [--steps 300] [--operators kda,gdn]

Prints the loss of the last steps, how far the curves are apart, the time of a step, and whether two runs of ours end with the same bits; figure.py draws the CSV.
"""
import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch's part of a run has the same bits, too

import argparse
import csv
import hashlib
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import attention

HEADS, DIM, CHANNELS = 4, 128, 512


def short_convolution(x, weight):
    """Causal, over 4 tokens, each channel by itself; x [B][T][C], weight [4][C]."""
    out = x * weight[3]
    for i in range(1, 4):
        out = out + F.pad(x, (0, 0, i, 0))[:, : x.shape[1]] * weight[3 - i]
    return F.silu(out)


class Mixer(nn.Module):
    def __init__(self, name, attend):
        super().__init__()
        inner = HEADS * DIM
        gates = inner if name == "kda" else HEADS
        self.name, self.attend = name, attend
        self.qkv = nn.Linear(CHANNELS, 3 * inner, bias=False)
        self.convolution = nn.Parameter(torch.randn(4, 3 * inner) * 0.5)
        self.gate = nn.Sequential(nn.Linear(CHANNELS, 64, bias=False), nn.Linear(64, gates, bias=False))
        self.beta = nn.Linear(CHANNELS, HEADS, bias=False)
        self.a_log = nn.Parameter(torch.linspace(0.0, 1.0, HEADS))
        self.dt_bias = nn.Parameter(torch.full((HEADS, DIM) if name == "kda" else (HEADS,), -3.0))
        self.out_gate = nn.Linear(CHANNELS, inner, bias=False)
        self.norm = nn.RMSNorm(DIM)
        self.out = nn.Linear(inner, CHANNELS, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = short_convolution(self.qkv(x), self.convolution.to(torch.bfloat16)).view(B, T, 3, HEADS, DIM).unbind(2)
        g = self.gate(x).view(B, T, HEADS, -1)
        g = g if self.name == "kda" else g.squeeze(-1)
        o = self.attend(self.name, q, k, v, g, self.beta(x), self.a_log, self.dt_bias)
        return self.out(self.norm(o).flatten(2) * self.out_gate(x).sigmoid())


class Block(nn.Module):
    def __init__(self, name, attend):
        super().__init__()
        self.mixer, self.norms = Mixer(name, attend), nn.ModuleList(nn.RMSNorm(CHANNELS) for _ in range(2))
        self.up, self.down = nn.Linear(CHANNELS, 2 * 1408, bias=False), nn.Linear(1408, CHANNELS, bias=False)

    def forward(self, x):
        x = x + self.mixer(self.norms[0](x))
        a, b = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(a) * b)


class Model(nn.Module):
    def __init__(self, name, attend, layers):
        super().__init__()
        self.bytes = nn.Embedding(256, CHANNELS)
        self.blocks = nn.Sequential(*(Block(name, attend) for _ in range(layers)))
        self.norm, self.head = nn.RMSNorm(CHANNELS), nn.Linear(CHANNELS, 256, bias=False)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.bytes(tokens))))


def train(name, attend, text, a):
    torch.manual_seed(1)
    model = Model(name, attend, a.layers).cuda()
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
    draw = torch.Generator().manual_seed(2)
    losses, seconds = [], []
    for step in range(a.steps):
        starts = torch.randint(0, len(text) - a.tokens - 1, (a.batch,), generator=draw)
        batch = torch.stack([text[i : i + a.tokens + 1] for i in starts]).cuda().long()
        for group in adam.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * step / a.steps))
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    bits = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()
    return losses, statistics.median(seconds[len(seconds) // 4 :]) * 1e3, bits


def write(path, columns):
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["step", *columns])
        out.writerows([step, *(f"{losses[step]:.5f}" for losses in columns.values())] for step in range(len(next(iter(columns.values())))))


def compare(name, attends, text, a):
    """Trains with each library, ours once more; the losses of each run."""
    losses, ms, bits = {}, {}, {}
    for who, attend in [*attends.items(), ("tilekern, again", attends["tilekern"])]:
        losses[who], ms[who], bits[who] = train(name, attend, text, a)
        print(f"{name} {who}: loss {losses[who][0]:.4f} at first, {statistics.mean(losses[who][-20:]):.4f} in the last 20 of {a.steps} steps, "
              f"{ms[who]:.2f} ms a step, {a.batch * a.tokens / ms[who] * 1e3:.0f} tokens/s", flush=True)
    print(f"{name}: two runs end with {'the same bits' if bits['tilekern'] == bits['tilekern, again'] else 'DIFFERENT BITS'}", flush=True)
    if "fla" in attends:
        apart = [abs(x - y) for x, y in zip(losses["tilekern"], losses["fla"])]
        print(f"{name}: |loss - FLA's| mean {statistics.mean(apart):.4f}, most {max(apart):.4f}; FLA's step / ours {ms['fla'] / ms['tilekern']:.2f}", flush=True)
    return {f"{name} {who}": x for who, x in losses.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--csv", required=True)
    parser.add_argument("--operators", default="kda,gdn", type=lambda s: s.split(","))
    parser.add_argument("--peers", default="fla", help="fla or none")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1024)
    a = parser.parse_args()
    torch.use_deterministic_algorithms(True, warn_only=True)
    with open(a.text, "rb") as f:
        text = torch.frombuffer(bytearray(f.read()), dtype=torch.uint8)
    attends = {"tilekern": attention.ours()}
    if a.peers == "fla":
        attends["fla"] = attention.flas()
    columns = {}
    for name in a.operators:
        columns.update(compare(name, attends, text, a))
        write(a.csv, columns)


if __name__ == "__main__":
    main()
