"""Bars of times from a CSV of peers.py: one group a row, the library first.  Needs matplotlib.

    python3 kernels/bench/plot.py results.csv results.svg
"""
import csv
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tilekern"  # the same file for the same numbers
import matplotlib.pyplot as plt


def main(source, target):
    with open(source, newline="") as f:
        rows = list(csv.DictReader(f))
    names = [c for c in rows[0] if c.endswith("_ms") and c != "floor_ms" and any(float(r[c]) == float(r[c]) for r in rows)]
    height = 0.8 / len(names)
    _, axes = plt.subplots(figsize=(8, 0.55 * len(rows) + 1))
    for i, name in enumerate(names):
        ratios = [float(r[name]) / float(r["tilekern_ms"]) for r in rows]
        places = [y + (i - len(names) / 2) * height for y in range(len(rows))]
        axes.barh(places, ratios, height, align="edge", label=name[:-3])
        for y, x, r in zip(places, ratios, rows):
            axes.text(x, y + height / 2, f" {float(r[name]):.3f} ms", va="center", fontsize=6)
    axes.set_yticks(range(len(rows)), [r["row"] for r in rows], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.5)
    axes.set_xlabel("time / tilekern's")
    axes.legend(fontsize=7)
    plt.savefig(target, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
