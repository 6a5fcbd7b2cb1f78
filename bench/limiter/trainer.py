"""Trains a small transformer in steps: a tenant whose kernels are those of PyTorch and cuBLAS.

Reads commands `steps SECONDS` or `marks SECONDS`, one a line, and answers each as JSON: steps per second, or when which part of a step ended,
in nanoseconds of the GPU's clock.
"""

import json
import sys
import time
import warnings

import torch

# The first layer's input wants no gradient, and its hook is told so each time.
warnings.filterwarnings("ignore", message="Full backward hook")

torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, device="cuda")
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
batch = torch.randn(8, 256, 1024, device="cuda")
marks = None


def mark(place):
    """Notes that the GPU has got to a place of the step, if anybody wants to know."""
    if marks is not None:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        marks.append((event, place))


for place, one in enumerate(model.layers):
    one.register_forward_hook(lambda *_, place=place: mark(place))
    one.register_full_backward_hook(lambda *_, place=place: mark(len(model.layers) + place))


def step():
    optimiser.zero_grad(set_to_none=True)
    # In full precision: with tensor cores the whole card is held back by its power, and a limited tenant runs faster than its share.
    loss = model(batch).square().mean()
    loss.backward()
    optimiser.step()
    mark(2 * len(model.layers))


def steps(seconds):
    for _ in range(2):
        step()
    torch.cuda.synchronize()
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        step()
        # The result is looked at now and then, as training loops do.
        done += 1
        if done % 4 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return done / (time.perf_counter() - begin)


for _ in range(10):
    step()
torch.cuda.synchronize()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    kind, seconds = line.split()
    if kind == "steps":
        print(json.dumps({"per_s": steps(float(seconds))}), flush=True)
        continue
    marks = []
    mark("begin")
    steps(float(seconds))
    begin = marks[0][0]
    told = [(int(begin.elapsed_time(event) * 1e6), place) for event, place in marks[1:]]
    marks = None
    print(json.dumps({"marks": told}), flush=True)
