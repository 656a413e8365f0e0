"""Times KDA's and GDN's kernels by themselves (CUPTI, us) in turns.py's rows, with any number of builds of the library by turns, each in a process of its own.

    python3 kernel_times.py out.csv REGEX FOLDER...      as turns.py; a folder twice, by another name, says what two loads of one library differ by

A time is what all launches of a kernel take in a call, the median of $ROUNDS (5) rounds, of each the mean of $CALLS (12) calls, one after the other: L2 has what the call before left.
"""
import gc
import json
import os
import re
import statistics
import sys

import turns


def serve():
    """Of each row that comes its bits, and then its kernels' times until the next."""
    import torch
    from torch.profiler import ProfilerActivity, profile
    call = None
    for line in sys.stdin:
        asked = json.loads(line)
        if "row" in asked:
            call = None
            gc.collect()
            torch.cuda.empty_cache()
            call = turns.call_of(*asked["row"])
            answer = turns.digest(call())
        else:
            call()
            torch.cuda.synchronize()
            with profile(activities=[ProfilerActivity.CUDA]) as seen:
                for _ in range(asked["calls"]):
                    call()
                torch.cuda.synchronize()
            answer = {}
            for e in seen.events():
                if e.name.startswith(("kda_", "gdn_")):
                    answer[e.name] = answer.get(e.name, 0) + e.device_time / asked["calls"]
        print(json.dumps({"answer": answer}), flush=True)


def main(path, wanted, *folders):
    rounds, calls = int(os.environ.get("ROUNDS", 5)), int(os.environ.get("CALLS", 12))
    libraries = [turns.Library(f, __file__) for f in folders]
    with open(path, "w") as out:
        print("row,kernel", *(os.path.basename(os.path.normpath(f)) + "_us" for f in folders), "bits", sep=",", file=out)
        for row in turns.rows():
            name = turns.name_of(*row)
            if not re.search(wanted, name):
                continue
            bits, times = [x.ask(row=row) for x in libraries], [{} for _ in libraries]
            for n in range(rounds):
                for i in range(len(libraries)) if n % 2 == 0 else reversed(range(len(libraries))):
                    for kernel, t in libraries[i].ask(calls=calls).items():
                        times[i].setdefault(kernel, []).append(t)
            for kernel in times[0]:
                line = ",".join([name, kernel, *(f"{statistics.median(t[kernel]):.2f}" if kernel in t else "nan" for t in times), "same" if all(b == bits[0] for b in bits) else "DIFFER"])
                print(line, file=out, flush=True)
                print(line, flush=True)


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main(*sys.argv[1:])
