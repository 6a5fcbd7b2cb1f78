"""Trains a small transformer in steps: a tenant whose kernels are those of PyTorch and cuBLAS.

Reads commands `SECONDS`, one a line, and answers each with steps per second as JSON.
"""

import json
import sys
import time

import torch

torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0, device="cuda")
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
batch = torch.randn(8, 256, 1024, device="cuda")


def step():
    optimiser.zero_grad(set_to_none=True)
    # In full precision: with tensor cores the whole card is held back by its power, and a limited tenant runs faster than its share.
    loss = model(batch).square().mean()
    loss.backward()
    optimiser.step()


for _ in range(10):
    step()
torch.cuda.synchronize()
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    seconds = float(line)
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
    print(json.dumps({"per_s": done / (time.perf_counter() - begin)}), flush=True)
