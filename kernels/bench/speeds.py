"""Writes the speeds into the README at the top and the tables of gdn/RESULTS.md, kda/RESULTS.md and the README here (tables.py), from the results of one run and older ones, the newest of
each, and the run's pictures.  Needs matplotlib for those.

    python3 kernels/bench/speeds.py 2026-11-23-h200              # DATE-DEVICE, as the files in results/ begin; left out: the newest
    python3 kernels/bench/speeds.py 2026-11-23-h200 --check      # says what would change, 1 if anything

A row of ROWS without a file is left as it stands, and named.  What has no row here (attention, whose numbers no file holds) is left alone.
"""
import argparse
import csv
import importlib.util
import pathlib
import re
import subprocess
import sys

import tables

HERE = pathlib.Path(__file__).parent
README = HERE.parent.parent / "README.md"
TABLES = [HERE / "README.md", HERE.parent / "gdn" / "RESULTS.md", HERE.parent / "kda" / "RESULTS.md"]
PICTURE = "gdn-mixes-flashinfer"  # in the README
PICTURES = {PICTURE: "GDN forward, mixes of sequences, one H200", "gdn-backward-flashqla": "GDN backward, one H200", "gdn-training-flashqla": "GDN forward and backward, one H200",
            "kda-fla": "KDA forward, one H200", "kda-training-fla-cudnn": "KDA forward and backward, one H200"}
HEADING = re.compile(r"(\*\*How fast\*\* - one )\S+, \d+-\d+-\d+( to \d+-\d+-\d+)?(?=,)")

# What the README's row begins with, and what stands there (N: how many rows); beside; file; column of the peer; patterns of rows, one for each cell.
ROWS = [
    ("GDN forward,", "GDN forward, N mixes of sequences as servers have them", "FlashInfer 0.7.2", "gdn-mixes-flashinfer", "flashinfer_ms", ["gdn "]),
    ("the same as an engine", "the same as an engine calls it, from the convolution's output to states in a pool, N mixes", "FlashInfer with vLLM's copies around it",
     "gdn-engine-flashinfer", "flashinfer_ms", ["engine "]),
    ("GDN backward", "GDN backward, N shapes, forward scanned again; from what it saved", "FlashQLA 0.1.3", "gdn-backward-flashqla", "flash_qla_ms",
     ["gdn backward again ", "gdn backward saved "]),
    ("KDA forward", "KDA forward, N shapes, strong gates; mild ones", "cuDNN frontend 1.32", "kda-forward", "cudnn_ms",
     ["kda kernel .* K128 strong", "kda kernel .* K128 mild"]),
    ("KDA backward", "KDA backward, N shapes, strong gates, forward scanned again; from what it saved", "cuDNN frontend 1.32", "kda-backward-final", "cudnn_ms",
     ["kda backward kernel .* K128 strong recomputed", "kda backward kernel .* K128 strong saved"]),
    ("the same |", "the same", "FLA 0.6 (Triton, TileLang)", "kda-backward-final", "fla_ms",
     ["kda backward kernel .* K128 strong recomputed", "kda backward kernel .* K128 strong saved"]),
]


def ratios(files, column, pattern):
    """{row: (the peer's time over ours, the file)}, each of the newest file that has both."""
    found = {}
    for path in files:
        with open(path, newline="") as f:
            for r in csv.DictReader(f):
                ratio = tables.number(r.get(column)) / tables.number(r["tilekern_ms"])
                if re.match(pattern, r["row"]) and ratio == ratio:
                    found.setdefault(r["row"], (ratio, path))
    return found


def line_of(files, about, beside, column, patterns):
    """The line, and the files that it has rows of."""
    rows = [ratios(files, column, p) for p in patterns]
    if not all(rows):
        raise SystemExit(f"speeds.py: no file like {files[0].name} has a row `{patterns[[bool(x) for x in rows].index(False)]}` with {column}")
    found, used = [[ratio for ratio, _ in x.values()] for x in rows], {path for x in rows for _, path in x.values()}
    counts = " and ".join(sorted({str(len(x)) for x in found}, key=int, reverse=True))
    return f"| {about.replace(' N ', f' {counts} ')} | {beside} | " + "; ".join(map(tables.spread, found)) + " |", used


def written(text, run):
    dates = []
    for begin, about, beside, name, column, patterns in ROWS:
        files = [path for _, path in tables.files_of([name], run)]
        if not files:
            print(f"left as it is, for want of {name}: {about}")
            continue
        old = re.compile(rf"^\| {re.escape(begin)}.*$", re.M)
        new, used = line_of(files, about, beside, column, patterns)
        dates += [path.name[:10] for path in used]
        if len(old.findall(text)) != 1:
            raise SystemExit(f"speeds.py: README.md has {len(old.findall(text))} rows that begin with `{begin}`, not 1")
        text = old.sub(lambda _: new, text)
        if name == PICTURE:
            text = re.sub(r"results/\d+-\d+-\d+-[a-z0-9]+-" + PICTURE, f"results/{files[0].stem}", text)
    dates = sorted({min(dates), max(dates)}) if dates else [run[:10]]
    return HEADING.sub(rf"\g<1>{run.split('-')[3].upper()}, {' to '.join(dates)}", text)


def draw(run):
    for name, title in PICTURES.items():
        source = HERE / "results" / f"{run}-{name}.csv"
        if source.exists():
            subprocess.run([sys.executable, HERE / "plot.py", source, source.with_suffix(".svg"), "--title", title, "--versions", tables.versions_of(source)], check=True)


def last_run():
    return max(m[0] for p in (HERE / "results").glob("*.csv") if (m := re.match(r"\d+-\d+-\d+-[a-z0-9]+(?=-)", p.name)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default=last_run())
    parser.add_argument("--check", action="store_true")
    a = parser.parse_args()
    if not re.fullmatch(r"\d+-\d+-\d+-[a-z0-9]+", a.run):
        parser.error(f"{a.run} is no DATE-DEVICE")
    changed = False
    for path in (README, *TABLES):
        before = path.read_text()
        after = written(before, a.run) if path == README else tables.written(before, a.run)
        lines = set(before.splitlines())
        for line in after.splitlines():
            if line not in lines:
                print(f"{path.parent.name}/{path.name}: {line}")
        changed |= after != before
        if not a.check:
            path.write_text(after)
    if a.check:
        sys.exit(changed)
    if importlib.util.find_spec("matplotlib"):
        draw(a.run)
    else:
        print("no pictures: matplotlib is not installed")


if __name__ == "__main__":
    main()
