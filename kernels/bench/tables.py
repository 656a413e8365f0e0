"""The comparisons in gdn/RESULTS.md, kda/RESULTS.md and the README here, from the files of results/; speeds.py writes them.

What is between `<!-- NAME -->` and `<!-- end -->` is made here: a table of TABLES, `gdn bars`, `kda bars`, `files`.  A row is that of the newest file up to the run's date which
has it, DATE-DEVICE-STEM.csv or, of the same day, DATE-DEVICE-STEM-earlier.csv; what is older than the table's newest has its date beside it.  A cell is our time (saved, again);
then of each peer its time: over ours, bold where it is ahead.
"""
import csv
import math
import pathlib
import re
from typing import NamedTuple

RESULTS = pathlib.Path(__file__).parent / "results"
PEERS = {"cudnn": "cuDNN", "cudnn_bf16": "cuDNN, bf16 gates", "flash_kda": "FlashKDA", "fla": "FLA", "fla_unsafe": "FLA, `safe_gate=False`", "flashinfer": "FlashInfer", "flash_qla": "FlashQLA"}
VERSIONS = {"cudnn": "frontend 1.32", "cudnn_bf16": "frontend 1.32", "flash_kda": "of vLLM 0.33", "fla": "0.6", "fla_unsafe": "0.6", "flashinfer": "0.7.2", "flash_qla": "0.1.3"}
PARTS = ["", "saved", "again"]


class Table(NamedTuple):
    stems: list  # of files
    command: str
    head: str  # of the first column
    row: str  # what a row is called in the files: `line`, `part`, and more
    group: str = ""  # what has a mean of its own
    line: str = "{line}"
    column: str = ""
    otherwise: str = "Not timed."  # without a file
    peers: str = ".*"  # beside which it is; a table of one peer has only rows that are timed beside it


KDA = r" (?P<what>kernel|operator) (?P<line>.+) H(?P<heads>\d+) K(?P<k>\d+) (?P<gates>strong|mild|initial)"
KEPT = r": keeps (?P<kept>\d+) MB(?P<theirs>.*)"
SHAPE = "{line}, {heads} heads{k64}"
TABLES = {
    "gdn mixes": Table(["gdn-mixes-flashinfer"], "mixes --peers flashinfer", "sequences", r"gdn (?P<heads>\S+) (?P<line>.+)", column="{heads}"),
    "gdn rows": Table(["gdn-flashinfer"], "gdn --peers flashinfer", "q/k / value heads, sequences", r"gdn (?P<line>.+)"),
    "gdn flashqla": Table(["gdn-flashqla", "gdn-peers"], "gdn --peers flash_qla,flashinfer", "q/k / value heads, sequences", r"gdn (?P<line>.+)"),
    "gdn engine": Table(["gdn-engine-flashinfer"], "engine --peers flashinfer", "sequences", r"engine (?P<heads>\S+) (?P<line>.+)", column="{heads}"),
    "gdn backward": Table(["gdn-backward-flashqla"], "gdn_backward --peers flash_qla,fla", "q/k / value heads, sequences", r"gdn backward (?P<part>again|saved) (?P<line>.+)"),
    "gdn training": Table(["gdn-training-flashqla"], "gdn_training --peers flash_qla,fla", "q/k / value heads, sequences",
                          r"gdn forward, backward (?P<part>again|saved) (?P<line>.+)" + KEPT),
    "gdn eager": Table(["gdn-eager"], "gdn_backward gdn_training --eager --peers flash_qla,fla", "q/k / value heads, sequences",
                       r"gdn (?P<what>backward|forward, backward) (?P<part>again|saved) (?P<line>[^:]+).*", column="{what}"),
    "kda forward": Table(["kda-forward", "kda-fla"], "kda --peers cudnn,cudnn_bf16,flash_kda", "sequences, heads", "kda" + KDA, "K = {k}", SHAPE, "{what}, {gates}",
                         peers="cudnn|flash_kda"),
    "kda fla": Table(["kda-fla"], "kda --peers fla", "sequences, heads", "kda" + KDA, "K = {k}", SHAPE, "{what}, {gates}", peers="fla"),
    "kda initial": Table(["kda-initial"], "kda_initial --peers cudnn,flash_kda", "sequences, heads", "kda" + KDA, "K = {k}", SHAPE, "{what}"),
    "kda initial backward": Table(["kda-initial-backward"], "kda_backward --peers cudnn --only initial", "sequences, heads", "kda backward" + KDA + " (?P<part>recomputed|saved)",
                                  "K = {k}{documents}", SHAPE, "{what}", peers="cudnn"),
    "kda bf16": Table(["kda-forward", "kda-fla"], "kda --peers cudnn,cudnn_bf16,flash_kda", "sequences, heads", "kda" + KDA, "K = {k}", SHAPE, "{what}, {gates}", peers="cudnn_bf16"),
    "kda mixes": Table(["kda-mixes"], "kda_mixes --peers cudnn,cudnn_bf16,flash_kda,fla", "sequences, heads", "kda" + KDA, "{packed}", SHAPE, "{what}, {gates}",
                       peers="cudnn|flash_kda|fla"),
    "kda engine": Table(["kda-engine-final"], "kda_engine --peers cudnn,flash_kda", "sequences", r"kda engine (?P<heads>\d+) (?P<line>.+)", column="{heads} heads"),
    "kda backward": Table(["kda-backward-final"], "kda_backward --peers fla,cudnn",
                          "sequences, heads", "kda backward" + KDA + " (?P<part>recomputed|saved)",
                          "K = {k}{documents}, {what}", SHAPE + ", {what}", "{gates}"),
    "kda training": Table(["kda-training-fla-cudnn"], "kda_training --peers fla,cudnn", "sequences, heads",
                          "kda forward, backward (?P<part>again|saved)" + KDA + KEPT, "K = {k}{documents}, {what}", SHAPE + ", {what}", "{gates}"),
    "kda eager": Table(["kda-eager"], "kda_backward kda_training --eager --peers fla,cudnn", "sequences, heads",
                       r"(?=.* (?P<part>again|saved|recomputed)\b)kda (?P<which>backward|forward, backward)(?: again| saved)?" + KDA + ".*",
                       "K = {k}{documents}, {what}", SHAPE + ", {what}", "{which}, {gates} gates"),
}


class Bar(NamedTuple):
    """What best peer (or `peer`) / ours should be at least, in the mean or in each row."""

    about: str
    least: float
    each: bool
    table: str
    group: str = ".*"
    column: str = ".*"
    line: str = ".*"
    part: str = ".*"
    peer: str = ".*"


LARGE = r"(?!1 x (1024|2048)).*, (32|64|96) heads"

BARS = {
    "gdn": [
        Bar("11 rows beside FlashInfer, mean", 1.8, False, "gdn rows"),
        Bar("each of them", 1.15, True, "gdn rows"),
        Bar("mixes 7168 + 31 x U(17,256) and lognormal", 1.3, True, "gdn mixes", line="7168.*|lognormal.*"),
        Bar("mix 1238 .. 519", 1.2, True, "gdn mixes", line="1238.*"),
        Bar("mixes 7239 + 953 x 1 and 2050 x 16", 1.75, True, "gdn mixes", line="7239.*|2050.*"),
        Bar("backward, saved, over FlashQLA, mean", 2.2, False, "gdn backward", part="saved", peer="flash_qla"),
        Bar("each row, saved and again", 1, True, "gdn backward"),
    ],
    "kda": [
        *(Bar(f"forward, {what}, {gates} gates, best peer, mean", least, False, "kda forward", column=f"{what}, {gates}")
          for what in ("kernel", "operator") for gates, least in (("strong", 2.5), ("mild", 5))),
        Bar("each row", 1, True, "kda forward"),
        Bar("each row beside FLA", 1, True, "kda fla"),
        Bar("each mix", 1, True, "kda mixes", "mixes"),
        Bar("each packed sequence by itself, 129 to 16,385 tokens", 1, True, "kda mixes", "one sequence"),
        *(Bar(f"forward, {what}, K = 128, over FLA, 8,192 tokens of 32 heads and more, mean of strong gates", 6, False, "kda fla", "K = 128", f"{what}, strong", LARGE)
          for what in ("kernel", "operator")),
        *(Bar(f"forward, {what}, K = 64, over FLA, mean of strong gates", 5, False, "kda fla", "K = 64", f"{what}, strong") for what in ("kernel", "operator")),
        *(Bar(f"backward, {what}, K = {k}, {part}, over FLA, mean of strong gates", least, False, "kda backward", f"K = {k}, {what}", "strong", part=part, peer="fla")
          for what in ("kernel", "operator") for k, part, least in ((128, "saved", 7.5), (128, "again", 6), (64, "saved", 6), (64, "again", 5))),
        *(Bar(f"backward, kernel, {part}, over cuDNN, mean of strong gates", least, False, "kda backward", "K = 128, kernel", "strong", part=part, peer="cudnn")
          for part, least in (("saved", 4), ("again", 3))),
        Bar("each row, saved and again", 1, True, "kda backward"),
    ],
}


class Row(NamedTuple):
    ours: float
    theirs: dict
    date: str
    floor: float
    kept: str

    def ratio(self, peer):
        return self.theirs[peer] / self.ours


def number(text):
    return float(text) if text not in (None, "") else math.nan


def ms(x):
    return re.sub(r"^0\.|(?<=\.\d\d\d)0$", lambda m: m[0].strip("0"), f"{x:.2f}" if x >= 10 else f"{x:.3f}" if x >= 0.1 else f"{x:.4f}")


def times(x):
    return re.sub(r"^0\.", ".", f"{x:.2f}")


def spaced(name):
    return re.sub(r"\s*(\+|\.\.)\s*", r" \1 ", re.sub(r"(?<=\d)x(?=[\dU])", " x ", name)).replace("lognormal", "lognormal, 65536 in all")


def mean(found):
    return math.exp(sum(map(math.log, found)) / len(found))


def newest(rows):
    return max((r.date for r in rows), key=lambda date: (date[:10], -len(date)), default="")


def files_of(stems, run):
    """(date, path), the newest first."""
    found = []
    for path in RESULTS.glob(f"*-{run[11:]}-*.csv"):
        named = re.fullmatch(rf"(\d+-\d+-\d+)-{run[11:]}-(.+?)(-earlier)?", path.stem)
        if named and named[2] in stems and named[1] <= run[:10]:
            found.append((named[1], not named[3], -stems.index(named[2]), path))
    return [(date if first else f"{date}, earlier", path) for date, first, _, path in sorted(found, reverse=True)]


class Rows:
    """{(group, line, column): {part: Row}} in the order of the files, groups in theirs."""

    def __init__(self, table, run):
        self.table, self.at, self.files = table, {}, []
        for date, path in files_of(table.stems, run):
            with open(path, newline="") as f:
                used = [self.add(r, date) for r in csv.DictReader(f)]
            self.files += [path] if any(used) else []
        order = list(dict.fromkeys(g for g, _, _ in self.at))
        self.at = {key: self.at[key] for group in order for key in self.at if key[0] == group}
        self.date = newest(r for parts in self.at.values() for r in parts.values())

    def add(self, r, date):
        named, ours = re.fullmatch(self.table.row, r["row"]), number(r["tilekern_ms"])
        if not named or ours != ours:
            return False
        theirs = {p: number(r[f"{p}_ms"]) for p in PEERS if f"{p}_ms" in r and re.fullmatch(self.table.peers, p)}
        if not theirs:  # a file of other peers
            return False
        theirs = {p: t for p, t in theirs.items() if t == t}
        if self.table.peers in PEERS and not theirs:
            return False
        x = {n: v or "" for n, v in named.groupdict().items()}
        x.update(line=spaced(x["line"]), k64=", K = 64" if x.get("k") == "64" else "", documents=", documents" if "documents" in x["line"] else "",
                 packed="one sequence" if re.fullmatch(r"1x\d+", x["line"]) else "mixes")
        part = x.get("part", "").replace("recomputed", "again")
        key = self.table.group.format(**x), self.table.line.format(**x), self.table.column.format(**x)
        parts = self.at.setdefault(key, {})
        if part in parts:
            return False
        kept = x.get("theirs", "").strip(", ")
        kept = {"": x.get("kept", ""), **dict(k.rsplit(" ", 1) for k in kept.split(", ") if kept)}
        parts[part] = Row(ours, theirs, date, number(r.get("floor_ms")), kept)
        return True

    def peers(self, column):
        found = {p for (_, _, c), parts in self.at.items() if c == column for r in parts.values() for p in r.theirs}
        return [p for p in PEERS if p in found]

    def columns(self):
        """In the files' order, but those of the kernel before those of the operator."""
        return sorted(dict.fromkeys(c for _, _, c in self.at), key=lambda c: c.startswith("operator"))

    def lines(self):
        return list(dict.fromkeys((g, line) for g, line, _ in self.at))

    def chosen(self, last, **patterns):
        """(key, part, Row) of those that match, all or only those of the newest date among them."""
        found = [(key, part, r) for key, parts in self.at.items() for part, r in parts.items()
                 if all(re.fullmatch(patterns.get(n, ".*"), x) for n, x in zip(("group", "line", "column", "part"), (*key, part)))]
        date = newest(r for *_, r in found)
        return [x for x in found if not last or x[2].date == date]


def cell(parts, peers, date):
    in_order = [parts[p] for p in PARTS if p in parts]
    text, there = [", ".join(ms(r.ours) for r in in_order)], [p for p in peers if p in in_order[0].theirs]
    for p in peers if there else []:
        text.append(f"{ms(in_order[0].theirs[p])}: " + ", ".join(f"**{times(r.ratio(p))}**" if r.ratio(p) < 1 else times(r.ratio(p)) for r in in_order) if p in there else "-")
    return "; ".join(text) + ("" if in_order[0].date == date else f" ({in_order[0].date})")


def spread(found):
    """The mean, and from where to where."""
    return times(mean(found)) + (f", {times(min(found))} to {times(max(found))}" if len(found) > 1 else "")


def ratios(rows, peer, last, **patterns):
    """Of saved and of again, or of what is there."""
    best = lambda r: min(r.theirs.values()) / r.ours
    found = [[best(r) if peer == "best" else r.ratio(peer) for *_, r in rows.chosen(last, part=part, **patterns) if r.theirs and peer in ("best", *r.theirs)] for part in PARTS]
    return [x for x in found if x]


def mean_lines(rows, **patterns):
    """(peer, whether with older rows, ratios)"""
    some = [r for *_, r in rows.chosen(False, **patterns)]
    peers = [p for p in PEERS if any(p in r.theirs for r in some)] + (["best"] if any(len(r.theirs) > 1 for r in some) else [])
    for peer in peers:
        last, every = (ratios(rows, peer, x, **patterns) for x in (True, False))
        if peer == "best" and every in (ratios(rows, p, False, **patterns) for p in peers[:-1]):
            return
        yield peer, False, last
        if every != last:
            yield peer, True, every


def written_means(rows):
    """Below a table: of each group and column, and of all columns where they are heads."""
    groups, columns, text = list(dict.fromkeys(g for g, _, _ in rows.at)), rows.columns(), []
    chosen = [(", ".join(x for x in (g, c) if x), {"group": re.escape(g), "column": re.escape(c)}) for g in groups for c in columns]
    for about, patterns in chosen + ([("all", {})] if "heads" in rows.table.column else []):
        for peer, older, found in mean_lines(rows, **patterns):
            name = ("best peer" if peer == "best" else PEERS[peer]) + (", with older rows" if older else "")
            if found and len(found[0]) > 1:
                text.append(f"| {about + ': ' if about else ''}{name} | {len(found[0])} | " + " | ".join(map(spread, found)) + " |")
    wide = ["saved", "again"] if "part" in rows.table.row else ["mean, least to most"]
    return ["", "| geometric means over ours | rows | " + " | ".join(wide) + " |", "|---" * (2 + len(wide)) + "|", *text] if text else []


def heading(rows, column):
    saved = "saved, again" if "part" in rows.table.row else ""
    return f"{', '.join(x for x in (column, saved) if x) or 'ours'}; " + "; ".join(PEERS[p] for p in rows.peers(column))


def written_table(name, run):
    table = TABLES[name]
    rows = Rows(table, run)
    if not rows.at:
        return table.otherwise
    columns, every = rows.columns(), [r for parts in rows.at.values() for r in parts.values()]
    floors = [{ms(r.floor) for c in columns for r in rows.at.get((*line, c), {}).values() if r.floor == r.floor} for line in rows.lines()]
    more = {about: of for about, of, there in (("MB kept: saved, again", kept_of, any(r.kept[""] for r in every)), ("floor", floor_of, max(map(len, floors)) == 1)) if there}
    head = [table.head, *(heading(rows, c) for c in columns), *more]
    picture = rows.files[0].with_suffix(".svg")
    drawn = f" ([picture](../bench/results/{picture.name}))" if picture.exists() else ""
    peers = {p for r in every for p in r.theirs}
    text = [f"One H200, {rows.date}, ms, `peers.py {table.command}`{drawn}; {versions(peers)}.", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for group, line in rows.lines():
        at = {c: rows.at[group, line, c] for c in columns if (group, line, c) in rows.at}
        dates = {r.date for parts in at.values() for r in parts.values()}
        date = dates.pop() if len(dates) == 1 else rows.date
        label = line + ("" if date == rows.date else f" ({date})")
        cells = [cell(at[c], rows.peers(c), date) if c in at else "" for c in columns] + [of(at) for of in more.values()]
        text.append("| " + " | ".join([label, *cells]) + " |")
    return "\n".join(text + written_means(rows))


def floor_of(at):
    return next((ms(r.floor) for parts in at.values() for r in parts.values() if r.floor == r.floor), "")


def versions(peers):
    return ", ".join(dict.fromkeys(f"{PEERS[p].split(',')[0]} {VERSIONS[p]}" for p in PEERS if p in peers))


def versions_of(path):
    """Of the libraries that a file has times of."""
    with open(path, newline="") as f:
        return versions({c[:-3] for r in csv.DictReader(f) for c, t in r.items() if c[:-3] in PEERS and number(t) == number(t)})


def kept_of(at):
    parts = next(p for p in at.values() if p)
    ours = ", ".join(parts[p].kept[""] for p in PARTS if p in parts)
    theirs = next(iter(parts.values())).kept
    return "; ".join([ours, *(f"{PEERS[p]} {theirs[p]}" for p in PEERS if p in theirs)])


def over(bar, r):
    """Of the peers that the bar is about, the best one's time over ours."""
    found = [r.ratio(p) for p in r.theirs if re.fullmatch(bar.peer, p)]
    return [min(found)] if found else []


def bar_line(bar, run):
    rows = Rows(TABLES[bar.table], run).chosen(False, group=bar.group, line=bar.line, column=bar.column, part=bar.part)
    found = [(key, part, r.date, x) for key, part, r in rows for x in over(bar, r)]
    if not found:
        return f"| {bar.about} | {bar.least} | not timed |"
    if not bar.each:
        have = mean([x for *_, x in found])
        dates = sorted({date[:10] for _, _, date, _ in found})
        text = f"{have:.2f} of {len(found)} row{'s' * (len(found) > 1)}, {' and '.join(dates)}"
        return f"| {bar.about} | {bar.least} | {'**missed**, ' if have < bar.least else ''}{text} |"
    below = {}
    for (_, line, column), part, _, x in found:
        if x < bar.least:
            below.setdefault(line, []).append((x, ", ".join(p for p in (column, part) if p)))
    missed = sum(map(len, below.values()))
    if missed > 8:  # of each line the least
        below = {line: [(min(of)[0], "")] for line, of in below.items()}
    named = "; ".join(f"{line}: " + ", ".join(f"{p} {times(x)}".strip() for x, p in of) for line, of in below.items())
    return f"| {bar.about} | {bar.least} | " + (f"**missed** in {missed} of {len(found)}{', the least of each' * (missed > 8)}: {named}" if missed else f"all {len(found)}") + " |"


def written_bars(family, run):
    return "\n".join(["| best peer / ours | at least | |", "|---|---|---|", *(bar_line(bar, run) for bar in BARS[family])])


def written_files(run):
    """For the README: of which files a table is."""
    text = ["| table | `peers.py` | files, the newest first |", "|---|---|---|"]
    for name, table in TABLES.items():
        rows = Rows(table, run)
        if rows.at:
            text.append(f"| {name} | `{table.command}` | " + ", ".join(f"`{path.stem}`" for path in rows.files) + " |")
    return "\n".join(text)


def written(text, run):
    """The text with what is between its marks made anew."""

    def made(found):
        name = found[1]
        family = name.split()[0]
        new = written_files(run) if name == "files" else written_bars(family, run) if name == f"{family} bars" else written_table(name, run)
        return f"<!-- {name} -->\n{new}\n<!-- end -->"

    return re.sub(r"<!-- ([a-z0-9 ]+) -->\n.*?<!-- end -->", made, text, flags=re.S)
