"""A picture of a comparison from a CSV of peers.py: each row's time over the library's, one bar a library, and the hardware's floor.  Needs matplotlib.

    python3 kernels/bench/plot.py results.csv picture.svg [--title "GDN forward, bf16"] [--versions "FlashInfer 0.7.2"]
    python3 kernels/bench/plot.py --run 2026-11-22-h200 report.html       # all files of that run in results/
    python3 kernels/bench/plot.py a.csv b.csv report.html

Device and date are in the file's name, DATE-DEVICE-WHAT.csv.  A report is one page without other files: contents, and the numbers of each file, with a picture where
it compares libraries.
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

COLOURS = {"tilekern": "#1b6ca8", "flashinfer": "#76b900", "fla": "#b0b0b0", "flash_qla": "#e08a1e", "cudnn": "#5b8c5a", "cudnn_bf16": "#a9c7a8"}


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


def compares(path):
    """Whether a file is one of peers.py with another library's times: others have numbers alone."""
    with open(path, newline="") as f:
        columns = next(csv.reader(f))
    return {"row", "tilekern_ms", "floor_ms"} <= set(columns) and len(read(path)[1]) > 0


def picture(path, a):
    out = io.StringIO()
    draw(path, a.title, a.versions).savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close("all")
    return out.getvalue()[out.getvalue().index("<svg"):]


def means(path):
    rows, peers = read(path)
    return ", ".join(f"{p} {geometric_mean(rows, p):.2f}" for p in peers)


def report(sources, a):
    """Long tables are folded."""
    contents, parts = [], []
    for i, path in enumerate(sources):
        name, lines = html.escape(pathlib.Path(path).name), sum(1 for _ in open(path)) - 1
        drawn = compares(path)
        about = f"its time / ours, geometric mean: {means(path)}" if drawn else f"{lines} rows"
        contents.append(f'<li><a href="#f{i}">{name}</a>: {about}</li>')
        numbers = table(path) if lines < 20 else f"<details><summary>{lines} rows</summary>{table(path)}</details>"
        parts.append(f'<h2 id="f{i}">{name}</h2>{picture(path, a) if drawn else ""}{numbers}')
    title = html.escape(a.title or (f"tilekern, run {a.run}" if a.run else "tilekern beside other libraries"))
    return "\n".join([f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title><style>{STYLE}</style><h1>{title}</h1><ul>", *contents, "</ul>", *parts, "</html>"])


def sources_of(a):
    if not a.run:
        return a.sources
    found = sorted((pathlib.Path(__file__).parent / "results").glob(f"{a.run}*.csv"))
    if not found:
        raise SystemExit(f"plot.py: no results/{a.run}*.csv")
    return [*a.sources, *found]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("target")
    parser.add_argument("--run", help="DATE-DEVICE: all files of results/ that begin so")
    parser.add_argument("--title")
    parser.add_argument("--versions", default="")
    a = parser.parse_args()
    if a.target.endswith(".html"):
        pathlib.Path(a.target).write_text(report(sources_of(a), a))
    else:
        draw(sources_of(a)[0], a.title, a.versions).savefig(a.target, bbox_inches="tight", metadata={"Date": None} if a.target.endswith(".svg") else None)


if __name__ == "__main__":
    main()
