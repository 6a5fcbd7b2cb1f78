"""A process of one tenant that works by PyTorch or CuPy, and speaks the lines that carve's own tenants speak."""

import json
import math
import random
import sys
import time

spec = json.loads(sys.argv[1])
workload = spec["workload"]
chance = random.Random(spec["seed"])


def say(reply):
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


def encoder(batch):
    import torch

    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 12).half().cuda().eval()
    question = torch.randn(batch, 64, 512).half().cuda()

    def piece():
        with torch.no_grad():
            model(question).sum().item()
        return 1.0

    return piece


def torch_products():
    import torch

    def piece():
        left, right = torch.rand(256, 256, device="cuda"), torch.rand(256, 256, device="cuda")
        (left @ right)[0, 0].item()
        return 1.0

    return piece


def torch_burn():
    import torch

    side = 8192
    left = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)
    right = torch.randn(side, side, device="cuda", dtype=torch.bfloat16)

    def piece():
        left @ right
        torch.cuda.synchronize()
        return 2 * side**3 / 1e12

    return piece


def cupy_products():
    import cupy

    def piece():
        str(cupy.dot(cupy.random.rand(256, 256), cupy.random.rand(256, 256))[0, 0])
        return 1.0

    return piece


WORK = {
    "torch-light": lambda: encoder(1),
    "torch-heavy": lambda: encoder(32),
    "torch-batch": torch_products,
    "torch-burn": torch_burn,
    "cupy-batch": cupy_products,
}


def memory():
    if workload.startswith("torch"):
        import torch

        return torch.cuda.memory_allocated() >> 20
    return 0


def percentile(values, percent):
    if not values:
        return 0.0
    return values[min(len(values), max(1, math.ceil(percent / 100 * len(values)))) - 1]


def run(piece, command):
    begun = time.perf_counter()
    took, amount, tenths, last, gap, error = [], 0.0, [], 0.0, 0.0, None
    seconds = command.get("window", math.inf)
    pieces = command.get("job", math.inf)
    try:
        while len(took) < pieces:
            since = time.perf_counter() - begun
            if since >= seconds:
                break
            amount += piece()
            now = time.perf_counter() - begun
            took.append((now - since) * 1e3)
            gap, last = max(gap, now - last), now
            tenths.extend([0] * (int(now * 10) + 1 - len(tenths)))
            tenths[int(now * 10)] += 1
    except RuntimeError as met:
        error = str(met)
    elapsed = time.perf_counter() - begun
    took.sort()
    done = {
        "pieces": len(took),
        "amount": amount,
        "seconds": elapsed,
        "p50_ms": percentile(took, 50),
        "p95_ms": percentile(took, 95),
        "p99_ms": percentile(took, 99),
        "tenths": tenths,
        "longest_gap_ms": max(gap, elapsed - last) * 1e3,
    }
    return done | ({"error": error} if error else {})


def main():
    try:
        piece = WORK[workload]()
        piece()
    except Exception as met:  # whatever it is, whoever started this wants to know it
        say({"failed": f"{type(met).__name__}: {met}"})
        sys.exit(1)
    say({"ready": {"memory_mib": [memory()]}})
    for line in sys.stdin:
        say({"done": [run(piece, json.loads(line))]})


main()
