"""What the GPU itself reaches: memory, launches and matrix products, through PyTorch; one row for each figure."""

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

GIB, MIB = 2**30, 2**20
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
SCALE = 1 if CUDA else 256  # a machine without a GPU only shows that the script runs


def say(what: str, value: float, unit: str, **more: Any) -> None:
    """One row."""
    print(json.dumps({"measured": what, "value": value, "unit": unit, **more}), flush=True)


def settle() -> None:
    """Wait until the device has nothing left to do."""
    if CUDA:
        torch.cuda.synchronize()


def seconds(act: Callable[[], Any], times: int = 10, rounds: int = 3) -> float:
    """The median of a few rounds of one call's time."""
    act()
    taken = []
    for _ in range(rounds):
        settle()
        began = time.perf_counter()
        for _ in range(times):
            act()
        settle()
        taken.append((time.perf_counter() - began) / times)
    return statistics.median(taken)


def then_settled(act: Callable[[], Any]) -> Callable[[], None]:
    """The call, with the wait for its end."""

    def both() -> None:
        act()
        settle()

    return both


def memory() -> None:
    """Reads and copies, from what fits into the cache to what does not."""
    for mib in (2, 8, 16, 32, 48, 64, 128, 512, 4096):
        data = torch.ones(mib * MIB // 4 // SCALE, dtype=torch.float32, device=DEVICE)
        other = torch.empty_like(data)
        times = max(5, min(2000, 20_000 // mib))
        say("read", data.nbytes / _graphed(partial(torch.amax, data), times), "bytes_per_s", mib=mib)
        say("copy", 2 * data.nbytes / _graphed(partial(other.copy_, data), times), "bytes_per_s", mib=mib)


def _graphed(act: Callable[[], Any], times: int) -> float:
    """The time of one call among many that are launched as one graph."""
    if not CUDA:
        return seconds(act, 3)
    settle()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        act()
    settle()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            act()
    return seconds(graph.replay, 1, 5) / times


def long_ones() -> None:
    """The same without a graph, on much data: reads, writes, copies."""
    data = torch.ones(4 * GIB // 4 // SCALE, dtype=torch.float32, device=DEVICE)
    other = torch.empty_like(data)
    say("long_read", data.nbytes / seconds(lambda: torch.sum(data), 5), "bytes_per_s")
    say("long_write", data.nbytes / seconds(lambda: other.fill_(1.0), 5), "bytes_per_s")
    say("long_copy", 2 * data.nbytes / seconds(lambda: other.copy_(data), 5), "bytes_per_s")
    say("long_add", 3 * data.nbytes / seconds(lambda: torch.add(data, data, out=other), 5), "bytes_per_s")


def launches() -> None:
    """An almost empty kernel again and again, by itself and in a graph; and the way there and back."""
    one = torch.zeros(1, device=DEVICE)
    say("launch", seconds(lambda: one.add_(1), 5000), "s", how="eager")
    if not CUDA:
        return
    for count in (100, 1000):
        say("launch", _graphed(lambda: one.add_(1), count), "s", how=f"graph of {count}")
    say("round_trip", seconds(one.item, 500), "s", how="4 bytes to the host")
    logits, host = torch.zeros(128256, device=DEVICE), torch.empty(128256, pin_memory=True)
    fetched = then_settled(partial(host.copy_, logits, non_blocking=True))
    say("round_trip", seconds(fetched, 500), "s", how="128256 floats")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        one.add_(1)
    say("launch", seconds(then_settled(graph.replay), 500), "s", how="graph of 1 and wait")


def products() -> None:
    """Matrix products of several types and heights."""
    wide, deep = 8192 // (16 if SCALE > 1 else 1), 8192 // (16 if SCALE > 1 else 1)
    for rows in (1, 16, 64, 128, 512, 2048, 8192):
        for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
            a = torch.randn(rows, deep, device=DEVICE).to(dtype)
            b = torch.randn(deep, wide, device=DEVICE).to(dtype)
            took = seconds(partial(torch.matmul, a, b), 20 if CUDA else 1)
            say("product", 2 * rows * deep * wide / took, "flop_per_s", type=name, rows=rows)
        if rows > 16:
            x = torch.randint(-9, 9, (rows, deep), device=DEVICE, dtype=torch.int8)
            y = torch.randint(-9, 9, (wide, deep), device=DEVICE, dtype=torch.int8).t()
            took = seconds(partial(torch._int_mm, x, y), 20 if CUDA else 1)  # noqa: SLF001
            say("product", 2 * rows * deep * wide / took, "flop_per_s", type="int8", rows=rows)


def main() -> None:
    """Everything, the most important first."""
    if CUDA:
        chip = torch.cuda.get_device_properties(0)
        say("chip", chip.multi_processor_count, "multiprocessors", l2_bytes=chip.L2_cache_size, torch=torch.__version__)
    memory()
    long_ones()
    launches()
    products()


if __name__ == "__main__":
    main()
