"""The header of a 40 GB model with a vocabulary of 128K, read by unslow and by the `gguf` package, side by side.

    python -m venv /somewhere && /somewhere/bin/pip install gguf
    python benchmarks/gguf_header.py /somewhere/bin/python [--rounds 7] [--folder DIR]

The file is sparse: 8 MB of header, with tokens, scores, types and merges as many as Llama 3 has, and 723 tensors of a
70B shape whose weights are never there. Each reading is a fresh process; rounds are interleaved.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from unslow.catalog.quants import quants
from unslow.look.engine.made_up_models import Float32, Int32, TensorPlan, Value, encoded_header, padding

VOCABULARY, MERGES, LAYERS = 128_256, 280_147, 80
WIDTH, FEED_FORWARD, KV_WIDTH = 8192, 28_672, 1024
MOST_SHARE, MOST_MEMORY_BYTES = 0.1, 30e6

# VmHWM and not the peak of getrusage, which a process inherits from the one that started it
CHILD = """
import json, sys, time
start = time.perf_counter()
{imports}
imported = time.perf_counter()
{read}
done = time.perf_counter()
with open("/proc/self/status") as file:
    peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
print(json.dumps(dict(read_s=done - imported, peak_bytes=peak, found=found)))
"""
OURS = CHILD.format(
    imports="from unslow.look.models.gguf import blueprint, read_gguf\nfrom unslow.look.system.live import LiveSystem",
    read="model = blueprint(read_gguf(LiveSystem(), sys.argv[1]))\n"
    "found = [len(model.tensors), sum(t.bytes for t in model.tensors), model.vocabulary]",
)
THEIRS = CHILD.format(
    imports="from gguf import GGUFReader",
    read="model = GGUFReader(sys.argv[1])\n"
    "found = [len(model.tensors), int(sum(t.n_bytes for t in model.tensors)),"
    " len(model.fields['tokenizer.ggml.tokens'].data)]",
)


def words(count: int, pieces: int) -> Iterator[str]:
    """Made-up tokens as long as those of Llama 3: most have three to nine bytes, a few in a thousand over thirty."""
    dice = random.Random(3)
    for _ in range(count):
        lengths = (max(1, min(64, round(dice.lognormvariate(1.7, 0.5)))) for _ in range(pieces))
        yield " ".join("".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=n)) for n in lengths)


def tensor_plans() -> Iterator[TensorPlan]:
    """A 70B shape in Q4_K with an output matrix of Q6_K."""
    layer = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, KV_WIDTH), "attn_v": (WIDTH, KV_WIDTH)}
    layer |= {"attn_output": (WIDTH, WIDTH), "ffn_gate": (WIDTH, FEED_FORWARD), "ffn_up": (WIDTH, FEED_FORWARD)}
    layer |= {"ffn_down": (FEED_FORWARD, WIDTH)}
    yield _plan("token_embd.weight", "Q4_K", WIDTH, VOCABULARY)
    for n in range(LAYERS):
        yield from (_plan(f"blk.{n}.{name}.weight", "Q4_K", *shape) for name, shape in layer.items())
        yield from (_plan(f"blk.{n}.{name}.weight", "F32", WIDTH) for name in ("attn_norm", "ffn_norm"))
    yield _plan("output_norm.weight", "F32", WIDTH)
    yield _plan("output.weight", "Q6_K", WIDTH, VOCABULARY)


def _plan(name: str, kind: str, *shape: int) -> TensorPlan:
    quant = quants()[kind]
    elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
    return TensorPlan(name, shape, quant.ggml_type, quant.bytes_of(elements))


def write_model(path: Path) -> None:
    """The header, and a hole for the weights."""
    metadata: dict[str, Value] = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": list(words(VOCABULARY, 1)),
        "tokenizer.ggml.scores": Float32([0.0] * VOCABULARY),
        "tokenizer.ggml.token_type": Int32([1] * VOCABULARY),
        "tokenizer.ggml.merges": list(words(MERGES, 2)),
    }
    plans = list(tensor_plans())
    header = encoded_header(metadata, plans)
    path.write_bytes(header)
    os.truncate(path, len(header) + sum(p.bytes + padding(p.bytes) for p in plans))


class Reading:
    """What one way of reading took, over all rounds."""

    def __init__(self, python: str, code: str) -> None:
        self._command = [python, "-c", code]
        self.all_s: list[float] = []
        self.read_s: list[float] = []
        self.peak_bytes: list[int] = []
        self.found: list[int] = []

    def again(self, path: Path) -> None:
        """One more round, in a process of its own."""
        start = time.perf_counter()
        done = subprocess.run([*self._command, str(path)], capture_output=True, text=True, check=True)
        self.all_s.append(time.perf_counter() - start)
        told = json.loads(done.stdout)
        self.read_s.append(told["read_s"])
        self.peak_bytes.append(told["peak_bytes"])
        self.found = told["found"]

    def row(self, name: str) -> str:
        """Medians, and the largest peak."""
        read_s, all_s = statistics.median(self.read_s), statistics.median(self.all_s)
        return f"{name:8} {read_s * 1e3:9.1f} ms {all_s * 1e3:9.1f} ms {max(self.peak_bytes) / 1e6:9.1f} MB"


def main() -> int:
    """Print the table; the status tells whether both goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="an interpreter that has the gguf package")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", help="where the sparse file goes")
    arguments = parser.parse_args()
    ours, theirs = Reading(sys.executable, OURS), Reading(arguments.python, THEIRS)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "model.gguf"
        write_model(path)
        print(f"a file of {path.stat().st_size / 1e9:.1f} GB, {path.stat().st_blocks * 512 / 1e6:.1f} MB of it there")
        for _ in range(arguments.rounds):
            ours.again(path)
            theirs.again(path)
    if ours.found != theirs.found:
        raise SystemExit(f"they do not agree: {ours.found} and {theirs.found} (tensors, bytes, tokens)")
    print(f"{'':8} {'reading':>12} {'the process':>12} {'peak':>12}")
    print(ours.row("unslow"), theirs.row("gguf"), sep="\n")
    share = statistics.median(ours.read_s) / statistics.median(theirs.read_s)
    whole = statistics.median(ours.all_s) / statistics.median(theirs.all_s)
    print(f"unslow takes {share:.1%} of the time of reading and {whole:.1%} of the process (goal {MOST_SHARE:.0%})")
    return int(max(share, whole) > MOST_SHARE or max(ours.peak_bytes) > MOST_MEMORY_BYTES)


if __name__ == "__main__":
    sys.exit(main())
