#!/usr/bin/env python3
"""reports.py LOGS SOURCES EXPLAINED - counts what compute-sanitizer reported in the folder LOGS by tool, kernel and source lines.

A report is explained by a line of the file EXPLAINED: tool | kernel | text of one access's source line | text of the other's | why.
Texts are parts of lines of the sources, so that they hold when lines move; an empty one is any.  The exit status is 1 when something is not.
"""
import collections
import pathlib
import re
import sys

ACCESS = re.compile(r"(Read|Write|Atomic) access at ([\w<>:, ]+?)(?:\(.*?\))?(?:\+0x[0-9a-f]+)? in (\S+):(\d+)")
PLACE = re.compile(r"(?:at|in) ([\w]+)(?:\(.*?\))?(?:\+0x[0-9a-f]+)? in (\S+):(\d+)")
HAZARDS = re.compile(r"\[(\d+) hazards?\]")


def source_line(sources, kernel, file, line):
    """The line's text; of files of one name that in the folder of the kernel's family."""
    found = sorted(sources.rglob(pathlib.Path(file).name), key=lambda p: (p.parent.name != kernel.split("_")[0], p.parent.name != "stages"))
    lines = found[0].read_text().splitlines() if found else []
    return lines[line - 1].strip() if line <= len(lines) else ""


def blocks(log):
    """What the tool wrote, a report at a time."""
    block = []
    for text in log.read_text(errors="replace").splitlines():
        text = text.removeprefix("=========").strip() if text.startswith("=========") else ""
        if text:
            block.append(text)
        elif block:
            yield block
            block = []
    if block:
        yield block


def reports_of(block, sources):
    """(kernel, one access, the other) with times, an access being (what, file:line, text)."""
    joined = "\n".join(block)
    accesses = [(m[1], m[2].split()[-1], m[3], int(m[4])) for m in ACCESS.finditer(joined)]
    if "Race reported" in joined and len(accesses) >= 2:
        times = max([int(n) for n in HAZARDS.findall(joined)] or [1])
        named = [(what, f"{file}:{line}", source_line(sources, kernel, file, line)) for what, kernel, file, line in accesses]
        for other in sorted(set(named[1:])):
            yield (accesses[0][1], named[0], other), times
    elif not re.match(r"COMPUTE-SANITIZER|(ERROR|RACECHECK|LEAK) SUMMARY|Target application", block[0]):
        m = PLACE.search(joined)
        text = re.sub(r"0x[0-9a-f]+|[0-9,]+ bytes", "X", block[0])
        place = (text, f"{m[2]}:{m[3]}", source_line(sources, m[1], m[2], int(m[3]))) if m else (text, "", "")
        yield (m[1] if m else "", place, ("", "", "")), 1


def explanation(rules, tool, kernel, one, other):
    for number, (of, name, first, second, why) in enumerate(rules, 1):
        ways = ((one, other), (other, one))
        if of == tool and name in kernel and any(first in a[2] + a[0] and second in b[2] + b[0] for a, b in ways):
            return number
    return 0


def main():
    logs, sources, explained = map(pathlib.Path, sys.argv[1:4])
    rows = [line.split("|") for line in explained.read_text().splitlines() if line and not line.startswith("#")]
    rules = [[field.strip() for field in row] for row in rows]
    count = collections.Counter()
    for log in sorted(logs.glob("*.log")):
        tool = log.name.split(".")[0]
        for block in blocks(log):
            for (kernel, one, other), times in reports_of(block, sources):
                count[tool, kernel, one, other] += times
    unexplained = 0
    used = collections.Counter()
    for (tool, kernel, one, other), times in sorted(count.items(), key=lambda item: (item[0][0], item[0][1], -item[1])):
        number = explanation(rules, tool, kernel, one, other)
        used[number] += 1
        unexplained += number == 0
        mark = f"({number})" if number else "NEW"
        print(f"{times:8} {mark:>4} {tool} {kernel}: {one[0]} {one[1]} {one[2][:40]!r}, {other[0]} {other[1]} {other[2][:40]!r}")
    for number, rule in enumerate(rules, 1):
        print(f"({number}) {used[number]} reports: {rule[4]}")
    print(f"reports that nothing explains: {unexplained}")
    sys.exit(unexplained != 0)


main()
