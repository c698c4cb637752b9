"""What the host reaches: its memory read by all cores, and the link to the GPU. Prints one row for each figure."""

import platform
import subprocess
from functools import partial
from pathlib import Path

import msgspec
import torch
from lab.h200_speed.micro import CUDA, DEVICE, MIB, say, seconds, then_settled

from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.system.live import LiveSystem


def host() -> None:
    """The processor in words, and its memory."""
    told = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    flags = next((line for line in told.splitlines() if line.startswith("Flags")), "")
    kept = [line for line in told.splitlines() if not line.startswith(("Flags", "Vulnerability"))]
    wide = [flag for flag in flags.split() if flag.startswith(("avx", "amx", "f16c", "fma"))]
    say("host", 0, "", lscpu=kept, flags=wide, kernel=platform.release())
    pages = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    say("huge_pages", 0, "", setting=pages.read_text().strip() if pages.exists() else "")
    for _ in range(3):
        memory = msgspec.to_builtins(read_ram_bandwidth(LiveSystem()))
        say("ram_read", 0, "bytes_per_s", **{k: v for k, v in memory.items() if k.startswith("read")})


def link() -> None:
    """Copies to and from the GPU, from pinned and from pageable memory."""
    for mib in (1, 16, 256, 1024):
        data = torch.empty(mib * MIB, dtype=torch.uint8, device=DEVICE)
        for how, pinned in (("pinned", True), ("pageable", False)):
            there = torch.ones(mib * MIB, dtype=torch.uint8, pin_memory=pinned and CUDA)
            times = max(3, min(100, 512 // mib))
            up = seconds(partial(data.copy_, there, non_blocking=True), times)
            say("to_device", data.nbytes / up, "bytes_per_s", how=how, mib=mib)
            down = seconds(then_settled(partial(there.copy_, data, non_blocking=True)), times)
            say("to_host", data.nbytes / down, "bytes_per_s", how=how, mib=mib)


if __name__ == "__main__":
    host()
    link()
