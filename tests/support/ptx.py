"""ptx - runs a kernel's PTX on the host, a thread at a time: scalar instructions, global memory, what one thread computes for itself.

Written from the PTX ISA; what it does not know ends it.  Approximate functions are rounded once.
"""
import math, operator, re, struct
from fractions import Fraction

MASK = {8: 0xff, 16: 0xffff, 32: 0xffffffff, 64: (1 << 64) - 1}
DIGITS = {'f32': (24, -126, 127), 'f16': (11, -14, 15), 'bf16': (8, -126, 127)}


def bits_of(t):
    return {'f16': 16, 'bf16': 16, 'f32': 32, 'f16x2': 32, 'bf16x2': 32}.get(t) or int(t[1:])


def signed(v, bits):
    return v - (1 << bits) if v >> (bits - 1) else v


def to_float(v, t):
    if t == 'f16':
        return struct.unpack('<e', struct.pack('<H', v & 0xffff))[0]
    return struct.unpack('<f', struct.pack('<I', (v & 0xffff) << 16 if t == 'bf16' else v & MASK[32]))[0]


def rounded(x, t):
    """The nearest of type t to a float, an int or a Fraction, as a float; ties to even."""
    digits, least, most = DIGITS[t]
    if isinstance(x, float):
        if x == 0 or math.isinf(x) or math.isnan(x):
            return x
        x = Fraction(x)
    if x == 0:
        return 0.0
    size = abs(x)
    e = size.numerator.bit_length() - size.denominator.bit_length()
    e -= size < Fraction(2) ** e
    unit = Fraction(2) ** (max(e, least) - digits + 1)
    n = round(size / unit) * unit
    if n >= Fraction(2) ** (most + 1):
        return math.copysign(math.inf, x)
    return math.copysign(float(n), x)


def from_float(x, t):
    """Of a float that type t has."""
    if math.isnan(x):
        return {'f16': 0x7fff, 'bf16': 0x7fff, 'f32': 0x7fffffff}[t]
    if t == 'f16':
        return struct.unpack('<H', struct.pack('<e', x))[0]
    v = struct.unpack('<I', struct.pack('<f', x))[0]
    return v >> 16 if t == 'bf16' else v


def round_bits(x, t):
    return from_float(rounded(x, t), t)


# ---- instructions: functions of the bits of their operands ----

def of_floats(t, f):
    """Exact enough in double to be rounded again, or nan."""
    def run(*args):
        try:
            return round_bits(f(*(to_float(a, t) for a in args)), t)
        except OverflowError:
            return from_float(math.inf, t)
    return run


def fma(a, b, c):
    if all(map(math.isfinite, (a, b, c))):
        x = Fraction(a) * Fraction(b) + Fraction(c)
        return x if x else a * b + c
    return a * b + c


def rcp(x):
    if abs(x) < 2.0 ** -126:
        return math.copysign(math.inf, x)
    y = 1 / x
    return y if abs(y) >= 2.0 ** -126 or math.isnan(y) else math.copysign(0.0, y)


def least(a, b):
    return b if math.isnan(a) else a if math.isnan(b) else min(a, b)


def most(a, b):
    return b if math.isnan(a) else a if math.isnan(b) else max(a, b)


def floor(x):
    return x if math.isinf(x) or math.isnan(x) else math.copysign(float(math.floor(x)), x)


FLOATS = {'add': operator.add, 'sub': operator.sub, 'mul': operator.mul, 'fma': fma, 'min': least, 'max': most, 'neg': operator.neg, 'abs': abs, 'rcp': rcp}


def divide(a, b):
    if b == 0:  # unspecified, nothing ends: LLVM moves divisions whose result is not used then
        return 0x5a5a5a5a5a5a5a5a
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def shift(op, t):
    n = bits_of(t)

    def run(a, k):
        a, k = a & MASK[n], k & MASK[32]
        if op == 'shl':
            return a << k & MASK[n] if k < n else 0
        if t[0] == 's':
            return signed(a, n) >> min(k, n - 1) & MASK[n]
        return a >> k if k < n else 0
    return run


def of_integers(op, t, mods):
    n = bits_of(t)
    read = (lambda v: signed(v & MASK[n], n)) if t[0] == 's' else (lambda v: v & MASK[n])
    table = {'add': lambda a, b: a + b, 'sub': lambda a, b: a - b, 'min': min, 'max': max, 'neg': operator.neg, 'abs': abs, 'not': operator.invert, 'and': operator.and_, 'or': operator.or_,
             'xor': operator.xor, 'mov': lambda a: a, 'div': divide, 'rem': lambda a, b: a - divide(a, b) * b}
    if op == 'mul' or op == 'mad':
        width = MASK[2 * n] if 'wide' in mods else MASK[n]
        down = n if 'hi' in mods else 0
        third = (lambda c: signed(c, 2 * n) if 'wide' in mods and t[0] == 's' else c)
        if op == 'mul':
            return lambda a, b: (read(a) * read(b) >> down) & width
        return lambda a, b, c: ((read(a) * read(b) >> down) + third(c)) & width
    f = table[op] if 'relu' not in mods else lambda a, b: max(table[op](a, b), 0)
    return lambda *args: f(*map(read, args)) & MASK[n]


def compare(cond, t):
    names = {'eq': operator.eq, 'ne': operator.ne, 'lt': operator.lt, 'le': operator.le, 'gt': operator.gt, 'ge': operator.ge, 'lo': operator.lt, 'ls': operator.le, 'hi': operator.gt,
             'hs': operator.ge}
    if t in DIGITS:
        def run(a, b):
            a, b = to_float(a, t), to_float(b, t)
            either = math.isnan(a) or math.isnan(b)
            if cond in ('nan', 'num'):
                return either == (cond == 'nan')
            return either if cond[-1] == 'u' and either else not either and names[cond[:2]](a, b)
        return run
    n, f = bits_of(t), names[cond]
    read = (lambda v: signed(v & MASK[n], n)) if t[0] == 's' else (lambda v: v & MASK[n])
    return lambda a, b: f(read(a), read(b))


def convert(to, source, mods):
    n = bits_of(source)

    def number(v):
        return to_float(v, source) if source in DIGITS else signed(v & MASK[n], n) if source[0] == 's' else v & MASK[n]
    if to in DIGITS:
        if 'rmi' in mods:
            return lambda v: from_float(floor(number(v)), to)
        return lambda v: round_bits(number(v), to)
    m = bits_of(to)
    low, high = (-(1 << (m - 1)), (1 << (m - 1)) - 1) if to[0] == 's' else (0, MASK[m])
    if source in DIGITS:
        assert 'rzi' in mods, mods

        def run(v):
            x = number(v)
            if math.isnan(x):
                return 0 if m == 32 else 1 << 63
            return max(low, min(high, int(x) if math.isfinite(x) else (high if x > 0 else low))) & MASK[64]
        return run
    if to[0] == 's':
        return lambda v: signed(number(v) & MASK[m], m) & MASK[64]
    return lambda v: number(v) & MASK[m]


def permute(a, b, chosen):
    """prmt: bytes of two words, or, with bit 3, eight times a byte's sign."""
    both, word = a & MASK[32] | (b & MASK[32]) << 32, 0
    for k in range(4):
        byte = both >> 8 * (chosen >> 4 * k & 7) & 0xff
        word |= (255 * (byte >> 7) if chosen >> 4 * k & 8 else byte) << 8 * k
    return word


def halves(f):
    """On packed pairs."""
    return lambda *args: f(*(a & 0xffff for a in args)) | f(*(a >> 16 & 0xffff for a in args)) << 16


class Memory:
    """Buffers, each at an address of its own."""

    def __init__(self):
        self.buffers = []

    def add(self, data):
        self.buffers.append(data)
        return len(self.buffers) << 40

    def at(self, address, size):
        data, offset = self.buffers[(address >> 40) - 1], address & ((1 << 40) - 1)
        assert offset + size <= len(data) and offset % size == 0, f'{size} bytes at {offset} of {len(data)}'
        return data, offset

    def load(self, address, size):
        data, at = self.at(address, size)
        return int.from_bytes(data[at:at + size], 'little')

    def store(self, address, size, v):
        data, at = self.at(address, size)
        data[at:at + size] = (v & MASK[8 * size]).to_bytes(size, 'little')


class Kernel:
    """One entry as a function of Python: a case of a loop for each block of its code, a variable for each register, which holds bits."""

    def __init__(self, text, name):
        head = re.search(rf'\.entry {name}\((.*?)\)', text, re.S)
        self.params = re.findall(r'(\w+)(?:,|\s*$)', head[1])
        body = text[text.index('{', head.end()) + 1:]
        body = body[:body.index('\n}')]
        body = re.sub(r'//.*', '', body)
        self.env, self.tables, blocks, labels = {}, {}, [[]], {}
        for table in re.finditer(r'(\$\w+):\s*\.branchtargets\s*([^;]*);', body):
            self.tables[table[1]] = re.findall(r'\$\w+', table[2])
        body = re.sub(r'\$\w+:\s*\.branchtargets\s*[^;]*;', '', body)
        for piece in re.split(r';|(?<=:)\n', body):
            piece = ' '.join(x for x in piece.split('\n') if not x.strip().startswith('.')).strip()
            label = re.match(r'^(\$\w+):$', piece)
            if label:
                blocks.append([])
                labels[label[1]] = len(blocks) - 1
            elif piece and piece not in '{}':
                blocks[-1].append(piece)
        self.count = 0
        local = re.search(r'__local_depot\d+\[(\d+)\]', body)
        code = ['def run(params, tid, memory):', f'\tlocal, pc = memory.add(bytearray({int(local[1]) if local else 0})), 0', '\twhile True:']
        code += ['\t\t' + x for x in self.chosen(blocks, 0, len(blocks))]
        targets = {table: [labels[x] for x in names] for table, names in self.tables.items()}
        self.env.update(LABELS=labels, TARGETS=targets.get, SIGNED=signed)
        exec('\n'.join(code), self.env)
        self.run = self.env['run']

    def chosen(self, blocks, first, end):
        """Block pc of those."""
        if end - first > 1:
            middle = (first + end) // 2
            halves = self.chosen(blocks, first, middle), self.chosen(blocks, middle, end)
            return [f'if pc < {middle}:', *('\t' + x for x in halves[0]), 'else:', *('\t' + x for x in halves[1])]
        return [x for piece in blocks[first] for x in self.instruction(piece)] + [f'pc = {end}']

    def let(self, f):
        self.count += 1
        self.env[f'F{self.count}'] = f
        return f'F{self.count}'

    def operand(self, text, t):
        text = text.strip()
        if text[0] == '%':
            return {'%tid.x': 'tid', '%ctaid.x': '0', '%nctaid.x': '1'}.get(text, text[1:])
        if text.startswith('0f'):
            return str(int(text[2:], 16))
        if re.match(r'^-?\d|^0x', text):
            return str(int(text.rstrip('U'), 0) & MASK[64])
        if text == 'tile_shared':
            return '0'
        if text.startswith('__local_depot'):
            return 'local'
        raise ValueError(f'operand {text}')

    def instruction(self, piece):
        guard = re.match(r'^@(!?)%(p\d+)\s+(.*)', piece)
        if guard:
            return [f'if {"not " if guard[1] else ""}{guard[2]}:'] + ['\t' + x for x in self.instruction(guard[3])]
        op, _, rest = piece.partition(' ') if ' ' in piece and '\t' not in piece.split(' ')[0] else piece.partition('\t')
        name, *mods = op.strip().split('.')
        t = mods[-1] if mods else ''
        args = [x.strip() for x in re.findall(r'\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+', rest) if x.strip()]
        if name == 'bra':
            return [f'pc = LABELS[{args[0]!r}]', 'continue']
        if name == 'ret':
            return ['return']
        if name == 'brx':
            return [f'pc = TARGETS({args[1]!r})[{self.operand(args[0], t)} & 0xffffffff]', 'continue']
        if name == 'ld' and 'param' in mods:
            return [f'{args[0][1:]} = params[{self.params.index(args[1][1:-1])}]']
        if name in ('ld', 'st'):
            return self.access(name, mods, args)
        if name == 'shfl':
            return [f'{args[0][1:]} = {self.operand(args[1], t)}']
        if name == 'mov' and '{' in rest:
            return self.pack(args)
        d, sources = args[0][1:], [self.operand(x, t) for x in args[1:]]
        if name == 'cvta':
            return [f'{d} = {sources[0]}']
        if name == 'selp':
            return [f'{d} = ({sources[0]} if {sources[2]} else {sources[1]}) & {MASK[bits_of(t)]}']
        if t == 'pred':
            ops = {'and': '&', 'or': '|', 'xor': '^'}
            if name in ops:
                return [f'{d} = bool({sources[0]}) {ops[name]} bool({sources[1]})']
            return [f'{d} = {"not " if name == "not" else ""}bool({sources[0]})']
        if name == 'mov':
            return [f'{d} = {sources[0]} & {MASK[bits_of(t)]}']
        assert 'relu' not in mods or t[0] == 's', op
        if name == 'setp':
            f = compare(mods[0], t)
        elif name == 'cvt' and t == 'f32' and 'x2' in mods[-2]:
            to = mods[-2][:-2]
            g = convert(to, t, mods)
            f = lambda hi, lo: g(hi) << 16 | g(lo)
        elif name == 'cvt':
            f = convert(mods[-2], t, mods)
        elif name in ('shl', 'shr'):
            f = shift(name, t)
        elif t[-2:] == 'x2':
            f = halves(of_floats(t[:-2], FLOATS[name]))
        elif 'NaN' in mods:
            f = of_floats(t, lambda a, b: a + b if math.isnan(a) or math.isnan(b) else FLOATS[name](a, b))
        elif t in DIGITS:
            f = of_floats(t, FLOATS[name])
        elif name == 'prmt':
            f = permute
        elif name == 'bfe':
            n = bits_of(t)
            assert t[0] == 'u' or t[0] == 's'
            f = (lambda a, at, m: (a >> (at & 255) & (1 << (m & 255)) - 1)) if t[0] == 'u' else (lambda a, at, m: signed(a >> at & (1 << m) - 1, m) & MASK[n])
        elif name == 'bfi':
            n = bits_of(t)
            f = lambda a, b, at, m: (b & ~(((1 << m) - 1) << at) | (a & (1 << m) - 1) << at) & MASK[n]
        elif name in ('popc', 'clz'):
            n = bits_of(t)
            f = (lambda a: bin(a & MASK[n]).count('1')) if name == 'popc' else (lambda a: n - (a & MASK[n]).bit_length())
        elif name == 'shf':
            f = lambda lo, hi, k: (((hi << 32 | lo) << (k & 31) >> 32) if 'l' in mods else (hi << 32 | lo) >> (k & 31)) & MASK[32]
            assert 'wrap' in mods
        elif name == 'lop3':
            f = lambda a, b, c, table: sum((table >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | c >> k & 1) & 1) << k for k in range(32))
        else:
            f = of_integers(name, t, mods)
        return [f'{d} = {self.let(f)}({", ".join(sources)})']

    def access(self, name, mods, args):
        t = mods[-1]
        size = bits_of(t) // 8
        count = next((int(m[1:]) for m in mods if m in ('v2', 'v4', 'v8')), 1)
        place, value = (args[1], args[0]) if name == 'ld' else (args[0], args[1])
        m = re.match(r'^\[%(\w+)(?:\+(-?\d+))?\]$', place)
        at = f'{m[1]} + {m[2] or 0}'
        names = re.findall(r'[^,{}\s]+', value)
        lines = [f'assert ({at}) % {size * count} == 0, "misaligned"']
        for k, x in enumerate(names):
            if name == 'ld':
                sign = f'SIGNED(memory.load({at} + {k * size}, {size}), {8 * size}) & {MASK[64]}' if t[0] == 's' else f'memory.load({at} + {k * size}, {size})'
                lines.append(f'{x[1:]} = {sign}')
            else:
                lines.append(f'memory.store({at} + {k * size}, {size}, {self.operand(x, t)})')
        return lines

    def pack(self, args):
        d, s = args
        if s[0] == '{':
            parts = re.findall(r'%\w+|-?\d+', s)
            n = 64 // len(parts) if d.startswith('%rd') else 32 // len(parts)
            return [f'{d[1:]} = ' + ' | '.join(f'({self.operand(x, "")} & {MASK[n]}) << {n * k}' for k, x in enumerate(parts))]
        parts = re.findall(r'[%\w]+', d)
        n = 64 // len(parts) if s.startswith('%rd') else 32 // len(parts)
        return [f'{x[1:]} = {s[1:]} >> {n * k} & {MASK[n]}' for k, x in enumerate(parts) if x != '_']


def kernel(text, name):
    """The function run(params, tid, memory) of an entry."""
    return Kernel(text, name).run
