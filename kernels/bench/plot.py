"""A picture of a comparison from a CSV of peers.py: each row's time over the library's, one bar a library, and the hardware's floor.  Needs matplotlib.

    python3 kernels/bench/plot.py results.csv picture.svg [--title "GDN forward, bf16"] [--versions "FlashInfer 0.7.2"]
    python3 kernels/bench/plot.py a.csv b.csv report.html

Device and date are in the file's name, DATE-DEVICE-WHAT.csv.  A report has the picture and the numbers of each file.
"""
import argparse
import csv
import html
import io
import math
import pathlib
import re

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tilekern"  # the same file for the same numbers
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt

COLOURS = {"tilekern": "#1b6ca8", "flashinfer": "#76b900", "fla": "#b0b0b0", "flash_qla": "#e08a1e", "cudnn": "#5b8c5a"}


def read(path):
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    there = lambda r, c: float(r[c]) == float(r[c])
    peers = [c[:-3] for c in rows[0] if c.endswith("_ms") and c not in ("floor_ms", "tilekern_ms") and any(there(r, c) for r in rows)]
    return [r for r in rows if any(there(r, f"{p}_ms") for p in peers)], peers


def heading(path, title):
    """Title, and the line below it."""
    named = re.match(r"(\d+-\d+-\d+)-([a-z0-9]+)-(.*)", pathlib.Path(path).stem)
    date, device, what = named.groups() if named else ("", "", pathlib.Path(path).stem)
    return title or what.replace("-", " "), ", ".join(x for x in (f"NVIDIA {device.upper()}" if device else "", date) if x)


def geometric_mean(rows, peer):
    ratios = [float(r[f"{peer}_ms"]) / float(r["tilekern_ms"]) for r in rows if float(r[f"{peer}_ms"]) == float(r[f"{peer}_ms"])]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def bars(axes, rows, names):
    height = 0.8 / len(names)
    for i, name in enumerate(names):
        ratios = [float(r[f"{name}_ms"]) / float(r["tilekern_ms"]) for r in rows]
        places = [y - 0.4 + i * height for y in range(len(rows))]
        label = name if name == "tilekern" else f"{name} (geometric mean {geometric_mean(rows, name):.2f})"
        axes.barh(places, [x if x == x else 0 for x in ratios], height, align="edge", label=label, color=COLOURS.get(name))
        for y, x, r in zip(places, ratios, rows):
            if x == x:
                axes.text(x, y + height / 2, f" {float(r[f'{name}_ms']):.3f} ms", va="center", fontsize=6)


def draw(path, title=None, versions=""):
    rows, peers = read(path)
    names = ["tilekern", *peers]
    title, below = heading(path, title)
    figure, axes = plt.subplots(figsize=(8.5, (0.2 + 0.17 * len(names)) * len(rows) + 1.4))
    bars(axes, rows, names)
    for y, r in enumerate(rows):
        floor = float(r["floor_ms"]) / float(r["tilekern_ms"])
        axes.plot([floor, floor], [y - 0.4, y + 0.4], color="black", linewidth=1, label="roofline: 790 TFLOP/s, 4.3 TB/s" if y == 0 else None)
    axes.set_yticks(range(len(rows)), [r["row"] for r in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 1.12 * max(float(r[f"{n}_ms"]) / float(r["tilekern_ms"]) for r in rows for n in names if float(r[f"{n}_ms"]) == float(r[f"{n}_ms"])))
    axes.axvline(1, color="black", linewidth=0.5, linestyle=":")
    axes.set_xlabel("time / tilekern's: lower is better; at the bars, milliseconds", fontsize=8)
    axes.set_title(title + "\n", fontsize=11, loc="left")
    axes.text(0, 1.0, ", ".join(x for x in (below, versions) if x) + "\n", transform=axes.transAxes, fontsize=7, va="center")
    axes.legend(fontsize=7, loc="lower center", bbox_to_anchor=(0.5, -0.9 / figure.get_size_inches()[1] - 0.02), ncols=3, frameon=False)
    return figure


def table(path):
    with open(path, newline="") as f:
        lines = list(csv.reader(f))
    cells = lambda line, tag: "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in line)
    return "<table><tr>" + cells(lines[0], "th") + "</tr>" + "".join(f"<tr>{cells(x, 'td')}</tr>" for x in lines[1:]) + "</table>"


STYLE = "body{font:14px sans-serif;max-width:70em;margin:2em auto}table{border-collapse:collapse}td,th{padding:.15em .6em;text-align:right}td:first-child{text-align:left}tr:nth-child(even){background:#f3f3f3}"


def report(sources, a):
    parts = [f"<!doctype html><meta charset=utf-8><title>tilekern</title><style>{STYLE}</style><h1>tilekern beside other libraries</h1>"]
    for path in sources:
        picture = io.StringIO()
        draw(path, a.title, a.versions).savefig(picture, format="svg", bbox_inches="tight", metadata={"Date": None})
        parts.append(f"<h2>{html.escape(pathlib.Path(path).name)}</h2>{picture.getvalue()[picture.getvalue().index('<svg'):]}{table(path)}")
    return "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("target")
    parser.add_argument("--title")
    parser.add_argument("--versions", default="")
    a = parser.parse_args()
    if a.target.endswith(".html"):
        pathlib.Path(a.target).write_text(report(a.sources, a))
    else:
        draw(a.sources[0], a.title, a.versions).savefig(a.target, bbox_inches="tight", metadata={"Date": None} if a.target.endswith(".svg") else None)


if __name__ == "__main__":
    main()
