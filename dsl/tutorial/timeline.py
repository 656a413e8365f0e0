#!/usr/bin/env python3
"""timeline.py TRACE.npy OUT.svg [BLOCK ...] [--pieces a,b,c]: a picture of what stamp() recorded (LANGUAGE.md, section 14).

TRACE is [blocks][warps][points][2]: the clock of the multiprocessor, and nanoseconds.  A line for each warp that stamped, a bar from each
point to the next; where pieces are named, point i ends piece i mod their number (a name of "-" leaves a gap)."""
import ast, struct, sys

COLORS = ('#4477aa', '#ee6677', '#228833', '#ccbb44', '#66ccee', '#aa3377')


def read(path):
    """The shape and the numbers of an .npy file of i64."""
    data = open(path, 'rb').read()
    at = 10 + struct.unpack('<H', data[8:10])[0]
    head = ast.literal_eval(data[10:at].decode())
    if head['descr'] != '<i8' or head['fortran_order']:
        sys.exit(f'{path}: i64 in C order is expected')
    return head['shape'], struct.unpack(f'<{(len(data) - at) // 8}q', data[at:])


def bars(numbers, shape, block, warp, pieces):
    """(piece, begin, end) in nanoseconds."""
    points = [numbers[((block * shape[1] + warp) * shape[2] + i) * 2 + 1] for i in range(shape[2])]
    for i, (a, b) in enumerate(zip(points, points[1:])):
        if a and b and pieces[i % len(pieces)] != '-':
            yield i % len(pieces), a, b


def main():
    words = sys.argv[1:]
    pieces = ['']
    if '--pieces' in words:
        i = words.index('--pieces')
        pieces = words[i + 1].split(',')
        del words[i:i + 2]
    if len(words) < 2:
        sys.exit(__doc__)
    shape, numbers = read(words[0])
    rows = [(b, w, list(bars(numbers, shape, b, w, pieces))) for b in map(int, words[2:] or ['0']) for w in range(shape[1])]
    rows = [r for r in rows if r[2]]
    if not rows:
        sys.exit(f'{words[0]}: nothing was recorded')
    low = min(b for r in rows for _, b, _ in r[2])
    high = max(e for r in rows for _, _, e in r[2])
    width, left, step = 900, 90, 24
    x = lambda t: left + (t - low) * width / max(1, high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 40}" height="{step * len(rows) + 60}" font-family="sans-serif" font-size="11">']
    for i, (block, warp, pieces_of) in enumerate(rows):
        y = 10 + i * step
        out.append(f'<text x="4" y="{y + 13}">block {block} warp {warp}</text>')
        for p, a, b in pieces_of:
            out.append(f'<rect x="{x(a):.1f}" y="{y}" width="{max(.5, x(b) - x(a)):.1f}" height="{step - 6}" fill="{COLORS[p % len(COLORS)]}"><title>{pieces[p]} {b - a} ns</title></rect>')
    y = 10 + len(rows) * step
    for i in range(6):
        t = low + (high - low) * i // 5 # no float, which has too few digits for a time of day in nanoseconds
        out.append(f'<line x1="{x(t):.1f}" x2="{x(t):.1f}" y1="6" y2="{y}" stroke="#bbb"/><text x="{x(t):.1f}" y="{y + 14}" text-anchor="middle">{t - low} ns</text>')
    at = left
    for p, name in enumerate(pieces):
        if name and name != '-':
            out.append(f'<rect x="{at}" y="{y + 24}" width="12" height="12" fill="{COLORS[p % len(COLORS)]}"/><text x="{at + 16}" y="{y + 34}">{name}</text>')
            at += 30 + 8 * len(name)
    open(words[1], 'w').write('\n'.join(out) + '\n</svg>\n')


main()
