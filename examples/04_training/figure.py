"""Draws the losses that train.py wrote: a panel for each operator, a curve for each library.

    python3 examples/04_training/figure.py loss.csv loss.svg
"""
import csv
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 380, 240, 45, 30, 60
LOOKS = {"tilekern": ("#9ecae1", 5), "fla": ("#d62728", 1.2)}  # colour, width: one lies on the other


def panels(rows):
    """{operator: {library: losses}} of the first run of each."""
    out = {}
    for column in rows[0]:
        name, _, who = column.partition(" ")
        if who in LOOKS:
            out.setdefault(name, {})[who] = [float(r[column]) for r in rows]
    return out


def draw(x0, name, curves):
    steps, top = len(next(iter(curves.values()))), 6
    x = lambda step: x0 + WIDTH * step / (steps - 1)
    y = lambda loss: TOP + HEIGHT * (1 - min(loss, top) / top)
    yield f'<text x="{x0}" y="{TOP - 12}" font-weight="bold">{name.upper()}</text>'
    for loss in range(top + 1):
        yield f'<path d="M{x0} {y(loss):.1f}h{WIDTH}" stroke="#ddd"/><text x="{x0 - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>'
    for step in range(0, steps, 50):
        yield f'<text x="{x(step):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{step}</text>'
    for i, (who, losses) in enumerate(curves.items()):
        colour, width = LOOKS[who]
        points = " ".join(f"{x(s):.1f},{y(l):.1f}" for s, l in enumerate(losses))
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-linejoin="round"/>'
        yield f'<path d="M{x0 + WIDTH - 90} {TOP + 20 + 20 * i}h25" stroke="{colour}" stroke-width="{width}"/>'
        yield f'<text x="{x0 + WIDTH - 58}" y="{TOP + 24 + 20 * i}">{who}</text>'


def main(source, target):
    with open(source, newline="") as f:
        every = panels(list(csv.DictReader(f)))
    body = [line for i, (name, curves) in enumerate(every.items()) for line in draw(LEFT + i * (WIDTH + GAP), name, curves)]
    width, height = LEFT + len(every) * (WIDTH + GAP), TOP + HEIGHT + 45
    body.append(f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">loss (nats a byte) by step</text>')
    with open(target, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">\n'
                f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
