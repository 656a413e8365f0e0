"""What a profile says of a kernel's roles and source lines: where its warps are, what they wait for, what shared memory moves.

    cmake -B build/lines -DTILE_KERNEL_LINES=ON ...          # kernels with source lines; of one's own: tilec without --strip
    ncu --kernel-name regex:kda_forward --section SourceCounters --import-source yes -o profile PROGRAM
    ncu -i profile.ncu-rep --page source --csv --print-source cuda,sass --launch-count 1 > profile.csv
    python3 lines.py profile.csv [MOST]                      # MOST (40): so many lines

Shares are of all samples, instructions (of warps) and wavefronts of shared memory (128 bytes); of a role only what stands in its own file, for functions that are imported
may be several roles'.  Reasons are those of ncu's samples, in percent of the role's or the line's.
"""
import collections
import csv
import functools
import pathlib
import re
import sys

COLUMNS = {"samples": "# Samples", "instructions": "Instructions Executed", "wavefronts": "L1 Wavefronts Shared"}


class Place:
    """What was counted at a line, in a role or everywhere."""

    def __init__(self):
        self.counts, self.reasons = collections.Counter(), collections.Counter()

    def add(self, counts, reasons):
        self.counts.update(counts)
        self.reasons.update(reasons)

    def text(self, all):
        shares = (f"{100 * self.counts[c] / (all.counts[c] or 1):5.1f}%" for c in COLUMNS)
        reasons = (f"{name} {100 * n / (self.counts['samples'] or 1):.0f}" for name, n in self.reasons.most_common(4) if n)
        return "  ".join(shares) + "  " + ", ".join(reasons).ljust(64)


def number(text):
    try:
        return float(text.replace(",", ""))
    except ValueError:  # "-"
        return 0.0


def read(path):
    """{(file, line): (source, Place)}: the rows of lines, which have no address, and not those of their instructions."""
    lines, file, head = {}, None, None
    for row in csv.reader(open(path)):
        if row[:1] == ["File Path"]:
            file = row[1]
        elif row[:1] == ["Line No"]:
            head = row
        elif head and len(row) == len(head) and row[0] and row[2] == "-":
            cell = dict(zip(head, row))
            _, place = lines.setdefault((file, int(row[0])), (row[1].strip(), Place()))
            place.add({c: number(cell[n]) for c, n in COLUMNS.items()},
                      {n.removeprefix("stall_"): number(x) for n, x in cell.items() if n.startswith("stall_") and not n.endswith("(Not Issued)")})
    if not lines:
        sys.exit(f"lines.py: {path} has no lines: a page of `--page source --csv --print-source cuda,sass`, of a kernel with source lines?")
    return lines


@functools.cache
def roles_of(file):
    """[(first line, name)] of a .tile file."""
    source = pathlib.Path(file)
    return [(i, m[1]) for i, text in enumerate(source.read_text().split("\n"), 1) if (m := re.match(r"\t(?:if \(.*\) )?role (\w+)", text))] if source.exists() else []


def place_of(file, line):
    """The role that a line stands in, "functions" before the first one, the name of a file without roles."""
    return next((name for first, name in reversed(roles_of(file)) if line >= first), "functions") if roles_of(file) else pathlib.Path(file).name


def main(path, most=40):
    lines, all, roles = read(path), Place(), {}
    for (file, line), (_, place) in lines.items():
        all.add(place.counts, place.reasons)
        roles.setdefault(place_of(file, line), Place()).add(place.counts, place.reasons)
    print(f"{all.counts['samples']:.0f} samples, {all.counts['instructions']:.0f} instructions, {all.counts['wavefronts']:.0f} wavefronts\n")
    print("role or file         samples  instr.  wavefr.  reasons")
    for name, place in sorted(roles.items(), key=lambda r: -r[1].counts["samples"]):
        print(name.ljust(20), place.text(all))
    print()
    for (file, line), (source, place) in sorted(lines.items(), key=lambda x: -x[1][1].counts["samples"])[:int(most)]:
        print(f"{pathlib.Path(file).name}:{line}".ljust(24), place.text(all), source[:100])


if __name__ == "__main__":
    main(*sys.argv[1:3]) if sys.argv[1:] else sys.exit(__doc__)
