"""What a CPU reaches of its read bandwidth with the embedded engine: a check of physics/decode, rows to learn.

Made-up models of several sizes and mixes, with the bandwidth measured beside every run, threads taking turns:

    python lab/cpu_decode.py llama_135m llama_1b llama_3b --quants Q4_K_M Q8_0 --out rows.jsonl
"""

import argparse
import contextlib
import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unslow.facts.errors import UserError
from unslow.facts.values import GB
from unslow.look.bench.ram_bandwidth import read_ram_bandwidth
from unslow.look.bench.timing import complete as one_completion
from unslow.look.bench.timing import decode_rate
from unslow.look.engine import engine_version, start_engine
from unslow.look.engine.made_up_models import default_cache
from unslow.look.requests import Plan, Target
from unslow.look.system.live import LiveSystem

ROUNDS, TOKENS, PROMPT = 3, 24, 128
VECTORS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "asimddp", "i8mm", "sve")
_FACT = re.compile(r"^(vendor_id|cpu family|model|model name|flags|Features)\s*: (.*)$", re.MULTILINE)


def cpu_facts(cpuinfo: str) -> dict[str, Any]:
    """Which processor it is, as /proc/cpuinfo tells, without anything that names the machine."""
    found = dict(reversed(_FACT.findall(cpuinfo)))
    flags = (found.pop("flags", "") or found.pop("Features", "")).split()
    return {
        **dict(sorted(found.items())),
        "processors": len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)),
        "vectors": [name for name in VECTORS if name in flags],
    }


def measure(system: LiveSystem, path: str, threads: list[int]) -> Iterator[dict[str, Any]]:
    """A row for each number of threads: every sample of tokens per second, and the bandwidth beside it."""
    rows: dict[int, dict[str, Any]] = {n: {"threads": n, "decode": [], "prompt": [], "memory": []} for n in threads}
    with contextlib.ExitStack() as stack:
        engines = {n: stack.enter_context(start_engine(system, path, threads=n)) for n in threads}
        for number in range(ROUNDS + 1):
            for n, engine in engines.items():
                memory = read_ram_bandwidth(system)
                available = (memory.read_one_core_bytes_per_s if n == 1 else memory.read_bytes_per_s).need()
                words = f"Round {number}.".ljust(PROMPT, "x") if number else "Warm up."
                done = one_completion(system, Target(engine.url), Plan(), words, TOKENS).completion
                if number:
                    rows[n]["memory"].append(round(available / GB, 2))
                    rows[n]["decode"].append(round(decode_rate(done), 2))
                    rows[n]["prompt"].append(round(done.prompt_tokens / done.prefill_s, 2))
                    rows[n]["prompt_tokens"] = done.prompt_tokens
    yield from rows.values()


def line(row: dict[str, Any]) -> str:
    """The row for a person: tokens per second, and the bytes they read as a share of the bandwidth."""
    speed, prompt = statistics.median(row["decode"]), statistics.median(row["prompt"])
    read = speed * row["file_bytes"] / GB
    share = read / statistics.median(row["memory"])
    return (
        f"{row['shape']:12} {row['quant']:7} {row['threads']} threads {speed:7.1f} tok/s {read:6.1f} GB/s,"
        f" {share:.0%} of the bandwidth; prompt {prompt:7.1f} tok/s"
    )


def main() -> None:
    """Print a row for each shape, mix and number of threads."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="+")
    parser.add_argument("--quants", nargs="+", default=[""], help="default: the shape's own")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, help="where to add the rows as JSON")
    args = parser.parse_args()
    system = LiveSystem()
    facts = {"cpu": cpu_facts(Path("/proc/cpuinfo").read_text("utf-8")), "engine": f"xllamacpp {engine_version()}"}
    for shape, quant in ((s, q) for s in args.shapes for q in args.quants):
        try:
            path = default_cache().model(shape, quant)
        except UserError as error:
            print(shape, quant, error)
            continue
        said = {"shape": shape, "quant": path.stem.split("-")[3], "file_bytes": path.stat().st_size, "tokens": TOKENS}
        for row in measure(system, str(path), args.threads):
            print(line(said | row), flush=True)
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(said | row | facts) + "\n")


if __name__ == "__main__":
    main()
