"""Attention beside torch's cuDNN and flash back ends, on a GPU: checks each module, then TFLOP/s, by turns in one process.

    TILERT=libtilert.so python3 peers.py FOLDER        # FOLDER: the modules as CMake writes them, attention_full.tmod, backward_full.tmod, ...

Every row is checked before it is timed.  Backward counts all three kernels.  Causal work counts half."""
import os, re, sys, torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend
sys.path.append(os.path.join(os.path.dirname(__file__), '../../kernels/bench'))
from tilert import Runtime

SHAPES = ((8, 2048, 16, 16), (4, 4096, 16, 16), (2, 8192, 16, 16), (1, 16384, 16, 16), (1, 4096, 16, 16), (4, 4096, 32, 8), (4, 4095, 16, 16))
CHECKS = ((1, 128, 128, 1, 1), (2, 1000, 1000, 4, 2), (3, 1, 1, 2, 2), (1, 130, 1400, 2, 1))
BACKENDS = (('cuDNN', SDPBackend.CUDNN_ATTENTION), ('flash', SDPBackend.FLASH_ATTENTION))
folder = sys.argv[1] if len(sys.argv) > 1 else '.'
bad = 0
torch.set_default_device('cuda')
runtime = Runtime()


def prepare(module, kernel, **args):
    return runtime.prepare(os.path.join(folder, module + '.tmod'), kernel, **args)


def by_turns(functions, rounds=8, ms=10):
    """The median of each; every round begins with another one, and every other goes backwards: what a kernel gets of a GPU at its power limit depends
    on the one before it."""
    def span(f, n):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        for _ in range(n):
            f()
        b.record()
        return a, b
    for f in functions:
        f()
    counts = []
    for f in functions:
        a, b = span(f, 2)
        torch.cuda.synchronize()
        counts.append(max(1, int(2 * ms / a.elapsed_time(b))))
    times = [[] for _ in functions]
    for r in range(rounds):
        order = [(r // 2 + i) % len(functions) for i in range(len(functions))][::-1 if r % 2 else 1]
        spans = {i: span(functions[i], counts[i]) for i in order}
        torch.cuda.synchronize()
        for i, (a, b) in spans.items():
            times[i].append(a.elapsed_time(b) / counts[i])
    return [sorted(t)[rounds // 2] for t in times]


def rel(a, b):
    return ((a.float() - b.float()).square().mean() / b.float().square().mean().clamp_min(1e-6)).sqrt().item()


def expect(what, error, most):
    global bad
    if not error < most:
        bad += 1
        print('WRONG', what, f'{error:.1e}', flush=True)


def inputs(B, T, S, H, G, D=128, dtype=torch.bfloat16):
    torch.manual_seed(1)
    return [torch.randn(B, n, h, D).to(dtype) for n, h in ((T, H), (S, G), (S, G), (T, H))]


def reference(q, k, v, causal):
    T, S, r = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    q, k, v = (x.float().transpose(1, 2) for x in (q, k.repeat_interleave(r, 2), v.repeat_interleave(r, 2)))
    x = q @ k.transpose(2, 3) * q.shape[3] ** -.5
    if causal:
        x = x.masked_fill(torch.arange(S)[None] > torch.arange(T)[:, None] + S - T, -torch.inf)
    return (x.softmax(-1) @ v).transpose(1, 2)


flat = lambda x: x.view(-1, *x.shape[2:])
starts = lambda lengths: torch.tensor([0] + lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32)


def forward(module, q, k, v, lengths=None):
    """The call, o and lse; sequences of these lengths in one row, or the rows of a batch."""
    o, lse = torch.full_like(q, torch.nan), torch.full((q.shape[2], q.shape[0] * q.shape[1]), torch.nan)
    more = dict(cu_q=starts(lengths), cu_k=starts(lengths)) if lengths else dict(queries=q.shape[1], keys=k.shape[1])
    return prepare(module, 'attention', q=flat(q), k=flat(k), v=flat(v), o=flat(o), lse=lse, counter=torch.zeros(2, dtype=torch.int32),
                   scale=q.shape[3] ** -.5, **more), o, lse


def backward(module, q, k, v, d_o, o, lse):
    (B, T, H, D), S = q.shape, k.shape[1]
    rows = (H, B * T // 64 + B + 1)
    grads = [torch.full_like(x, torch.nan) for x in (q, k, v)]
    a = dict(q=flat(q), k=flat(k), v=flat(v), d_o=flat(d_o), o=flat(o), lse=lse, cu_q=starts([T] * B), cu_k=starts([S] * B), scale=D ** -.5,
             lse2=torch.empty(*rows, 64), delta=torch.empty(*rows, 64), dq_sum=torch.full((*rows, D, 64), torch.nan), longest=S, most=T)
    a.update({n: flat(x) for n, x in zip(('dq', 'dk', 'dv'), grads)})
    last = 'query_gradients' if 'deterministic' in module else 'queries'
    calls = [prepare(module, k, **a) for k in ('rows', 'gradients', last)]
    return lambda: [f() for f in calls], grads


def check(module, gradients, causal):
    for shape in CHECKS:
        x = [t.requires_grad_() for t in inputs(*shape)[:3]]
        want, d_o = reference(*x, causal), inputs(*shape)[3]
        grads = torch.autograd.grad(want, x, d_o.float())
        q, k, v = (t.detach() for t in x)
        f, o, lse = forward(module, q, k, v)
        f(), f()
        expect(f'{module} {shape}', rel(o, want), 6e-3)
        for name in gradients:
            f, got = backward(name, q, k, v, d_o, o, lse)
            f(), f()
            for n, a, b in zip(('dq', 'dk', 'dv'), got, grads):
                expect(f'{name} {shape} {n}', rel(a, b), 1e-2)


def torch_calls(q, k, v, causal, d_o=None):
    for name, backend in BACKENDS:
        x = [t.detach().transpose(1, 2).requires_grad_(d_o is not None) for t in (q, k, v)]
        def f(x=x, backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=q.shape[2] != k.shape[2])
        try:
            out = f()
            yield name, f if d_o is None else lambda out=out, x=x: torch.autograd.grad(out, x, d_o.transpose(1, 2), retain_graph=True)
        except RuntimeError as e:
            print(f'{name}: {str(e)[:100]}')


def table(module, gradients, causal, shapes, D=128):
    """Rows of TFLOP/s; what the first of ours is to the first of torch's, forward and backward."""
    ratios = {}
    for B, T, H, G in shapes:
        q, k, v, d_o = inputs(B, T, T, H, G, D)
        f, o, lse = forward(module, q, k, v)
        f()
        text, flops = '', B * H * T * T * D * (2 if causal else 4)
        for kind, factor, ours, peers in (('forward', 1, [(module, f)], list(torch_calls(q, k, v, causal))),
                                          ('backward', 2.5, [(g, backward(g, q, k, v, d_o, o, lse)) for g in gradients], list(torch_calls(q, k, v, causal, d_o)))):
            if not ours:
                continue
            want = peers[0][1]() if peers else None
            if kind == 'forward' and peers:
                expect(f'{module} {B, T, H, G}', rel(o, want.transpose(1, 2)), 8e-3)
            if kind == 'backward':
                for name, (call, got) in ours:
                    call()
                    for a, b in zip(got, want or ()):
                        expect(f'{name} {B, T, H, G}', rel(a, b.transpose(1, 2)), 1e-2)
                ours = [(name, call) for name, (call, _) in ours]
            calls = [c for _, c in ours + peers]
            times = by_turns(calls[:len(ours) + 1]) + by_turns(calls[len(ours) + 1:])       # flash by itself: it draws less power, which the next one has
            rates = [factor * flops / t * 1e-9 for t in times]
            text += f' {kind} ' + ', '.join(f'{n} {r:.0f}' for (n, _), r in zip(ours + peers, rates)) + ';'
            for (n, _), r in zip(ours, rates):
                ratios.setdefault(n, []).append(r / rates[len(ours)] if peers else 1)
        print(f'{"causal" if causal else "full"} B{B} T{T} H{H}/{G} D{D}:{text}', flush=True)
    for n, r in ratios.items():
        print(f'  {n} over {BACKENDS[0][0]}: {torch.tensor(r).log().mean().exp():.3f}, least {min(r):.2f}')


def packed(module, causal):
    torch.manual_seed(3)
    ragged = (480 + torch.randint(0, 41, (32,), device='cpu')).tolist()
    rows = {'32 of 512': [512] * 32, '32 of 480 to 520': ragged, '4 of 4096': [4096] * 4, '4 of 3000 to 5001': [4000, 5001, 3000, 4383]}
    calls, work = [], []
    for name, lengths in rows.items():
        n = sum(lengths)
        q, k, v, _ = inputs(1, n, n, 16, 16)
        f, o, _ = forward(module, q, k, v, lengths)
        f(), f()
        at = 0
        for length in lengths[:3]:
            part = slice(at, at + length)
            if length < 5000:
                expect(f'{module} {name}', rel(o[:, part], reference(q[:, part], k[:, part], v[:, part], causal)), 6e-3)
            at += length
        calls.append(f)
        work.append(sum(n * n for n in lengths) * 16 * 128 * (2 if causal else 4))
    print(f'{module}:', ', '.join(f'{n} {w / t * 1e-9:.0f}' for n, w, t in zip(rows, work, by_turns(calls))), flush=True)


def narrowed(x):
    """x in e4m3, and what each sequence and head was divided by."""
    scale = x.float().abs().amax((1, 3)) / 448
    return (x.float() / scale[:, None, :, None]).to(torch.float8_e4m3fn), scale


def fp8_forward(module, x):
    (B, T, H, D), data = x[0][0].shape, {}
    o, lse = torch.full((B, T, H, D), torch.nan, dtype=torch.bfloat16), torch.full((H, B * T), torch.nan)
    for n, (bits, scale) in zip('qkv', x):
        data.update({n: flat(bits), n + '_scale': scale.contiguous()})
    return prepare(module, 'attention', **data, o=flat(o), lse=lse, counter=torch.zeros(2, dtype=torch.int32), scale=D ** -.5, queries=T,
                   keys=x[1][0].shape[1]), o


def cudnn_fp8(x, causal):
    """cuDNN's call by its frontend's package, with one scale for each tensor; its o is of 8 bits."""
    import cudnn
    scales = [t.float().abs().max() / 448 for t in x]
    data = [(t.float() / s).to(torch.float8_e4m3fn).transpose(1, 2) for t, s in zip(x, scales)]
    o, number = torch.empty_like(data[0]), lambda f: torch.full((1, 1, 1, 1), float(f))
    g = cudnn.pygraph(io_data_type=cudnn.data_type.FP8_E4M3, intermediate_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
    tensors = [g.tensor(dim=list(t.shape), stride=list(t.stride()), data_type=cudnn.data_type.FP8_E4M3) for t in data]
    numbers = [number(f) for f in (*scales, 1 / 448, 448, 64)]
    named = {n: g.tensor_like(f) for n, f in zip(('descale_q', 'descale_k', 'descale_v', 'descale_s', 'scale_s', 'scale_o'), numbers)}
    out, _, *most = g.sdpa_fp8(q=tensors[0], k=tensors[1], v=tensors[2], **named, attn_scale=data[0].shape[3] ** -.5, use_causal_mask=causal, generate_stats=False)
    out.set_output(True).set_dim(list(o.shape)).set_stride(list(o.stride())).set_data_type(cudnn.data_type.FP8_E4M3)
    for m in most:
        m.set_output(True).set_dim([1, 1, 1, 1]).set_stride([1, 1, 1, 1]).set_data_type(cudnn.data_type.FLOAT)
    g.validate(), g.build_operation_graph(), g.create_execution_plans([cudnn.heur_mode.A]), g.check_support(), g.build_plans()
    pack = dict(zip(tensors + list(named.values()) + [out] + most, data + numbers + [o] + [number(0) for _ in most]))
    space = torch.empty(max(1, g.get_workspace_size()), dtype=torch.uint8)
    return lambda: g.execute(pack, space), lambda: o.float().transpose(1, 2) / 64


def fp8(module, wide, causal, shapes, D=128):
    """8 bits beside our own of 16 and, where its package is there, cuDNN's of 8."""
    ratios = []
    for B, T, H, G in shapes:
        narrow = [narrowed(t) for t in inputs(B, T, T, H, G, D)[:3]]
        x = [(bits.float() * scale[:, None, :, None]).bfloat16() for bits, scale in narrow]
        calls, flops = {}, B * H * T * T * D * (2 if causal else 4)
        f, o = fp8_forward(module, narrow)
        f(), f()
        g, want, _ = forward(wide, *x)
        g()
        expect(f'{module} {B, T, H, G}', rel(o, want), 4e-2)
        calls[module], calls[wide] = f, g
        text = f'error {rel(o, want):.4f}'
        try:
            calls['cuDNN'], theirs = cudnn_fp8(x, causal)
            calls['cuDNN']()
            text += f', cuDNN {rel(theirs(), want):.4f}'
        except Exception as e:
            print('cuDNN fp8:', str(e)[:100])
        rates = [flops / t * 1e-9 for t in by_turns(list(calls.values()))]
        print(f'{"causal" if causal else "full"} B{B} T{T} H{H}/{G} D{D}: ' + ', '.join(f'{n} {r:.0f}' for n, r in zip(calls, rates)) + ';', text, flush=True)
        ratios.append([rates[0] / r for r in rates[1:]])
    for n, r in zip(list(calls)[1:], zip(*ratios)):
        print(f'  {module} over {n}: {torch.tensor(r).log().mean().exp():.3f}, least {min(r):.2f}')


def main():
    have = lambda *names: [n for n in names if os.path.exists(os.path.join(folder, n + '.tmod'))]
    print(torch.cuda.get_device_name(), 'torch', torch.__version__)
    for causal, name in ((False, 'full'), (True, 'causal')):
        gradients = have('backward_' + name) + (have('backward_deterministic') if causal else [])
        check('attention_' + name, gradients, causal)
        table('attention_' + name, gradients, causal, SHAPES)
    for module in have('attention_64', 'attention_64_full', 'attention_256', 'attention_256_causal'):
        D = int(re.search(r'\d+', module)[0])
        causal = module in ('attention_64', 'attention_256_causal')
        table(module, have(module.replace('attention', 'backward')), causal, ((4, 4096, 2048 // D, 2048 // D),), D)
    for module in have('attention_fp8', 'attention_fp8_causal'):
        fp8(module, module.replace('fp8', 'full').replace('full_', ''), 'causal' in module, SHAPES)
    for module in have('attention_packed', 'attention_packed_causal'):
        packed(module, 'causal' in module)
    print('WRONG' if bad else 'all right')
    return bad != 0


if __name__ == '__main__':
    sys.exit(main())
