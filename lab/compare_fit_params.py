"""Compares computed memory with what your own llama.cpp says, for models of the catalogue and no file at all.

    python -m lab.compare_fit_params PATH/TO/llama-fit-params [MODEL ...] [--context 8192] [--quant Q4_K_M]

For each model a header is written as a sparse file, `llama-fit-params -fitp on` accounts it without allocating, and its
whole MiB of weights, cache and compute are printed beside ours: for each GPU of this machine, then for the host.
llama-fit-params reserves logits for every token of a batch, so ours do too. Other builds than b10586 may differ, and a
build without a GPU leaves weights out of its figure that it repacks for the CPU.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

from lab.write_headers import write_header

from unslow.catalog.models import find_model
from unslow.look.probes import read_machine
from unslow.look.system.live import LiveSystem
from unslow.think.blueprints import made_up
from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.memory.llama_cpp.need import memory_of

MIB = 1024**2
USUAL = ("llama-3.1-8b", "qwen3-30b-a3b", "gemma-3-12b", "gpt-oss-20b", "deepseek-v2-lite", "granite-4.0-h-tiny")


def accounted(program: str, model: Path, context: int) -> list[list[int]]:
    """MiB of weights, cache and compute, for each device and for the host."""
    words = [program, "-m", str(model), "-c", str(context), "-np", "1", "-fitp", "on"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return [[int(n) for n in line.split()[1:4]] for line in done.stdout.splitlines() if len(line.split()) == 4]


def main() -> None:
    """Print a line for each model and device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="*", default=USUAL)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--quant", default="Q4_K_M")
    args = parser.parse_args()
    gpus = read_machine(LiveSystem())[0].gpus.value_or(())
    free = [float(gpu.vram_free_bytes.value_or(1)) for gpu in gpus]
    settings = Settings(context=args.context)
    for word in args.models:
        model = find_model(word)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "header.gguf"
            write_header(model, args.quant, path)
            theirs = accounted(args.program, path, args.context)
        ours = memory_of(made_up(model, args.quant), settings, free).needs
        for n, (want, have) in enumerate(zip(theirs, ours, strict=True)):
            place = f"GPU {n}" if n < len(free) else "host"
            parts = "  ".join(f"{w:>7} {h // MIB:>7}" for w, h in zip(want, have, strict=True))
            print(f"{model.name:<28} {place:<6} {parts}")


if __name__ == "__main__":
    main()
