"""Fuzzes `fit`, `predict` and `plan` on GGUF headers and on folders of safetensors with hostile numbers.

    python -m lab.fuzz_models --count 2000              # models from dice; the same ones with the same --seed
    python -m lab.fuzz_models --seconds 240
    python -m lab.fuzz_models replay lab/fuzz/kept/*    # what was kept

Each command must end with an answer or an error of one line, in bounded time and memory. What does not is kept in
lab/fuzz/kept: the model, and the command with its traceback.
"""

import argparse
import io
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType

from lab.fuzz.model_forms import hostile_checkpoint, hostile_gguf
from lab.fuzz.watch import KEPT

from unslow.__main__ import main as unslow

MOST_SECONDS = 20.0
"""Of processor time for one command: searching a plan for a large model takes a few."""
MOST_BYTES = 1024**3
"""More address space than at the start."""
GGUF_COMMANDS = [
    ["fit", "--device", "RTX 3060", "--ram", "16GB"],
    ["fit", "--device", "1GB", "--context", "100000000"],
    ["fit", "--device", "2x RTX 3090", "--quant", "Q4_K_M"],
    ["predict", "--device", "RTX 3060", "--ram", "16GB"],
    ["predict", "--device", "RTX 4090", "--explain"],
    ["plan", "--device", "RTX 3060", "--ram", "16GB"],
    ["plan", "--device", "2x RTX 3090", "--ram", "64GB"],
    ["predict", "--device", "cpu", "--ram", "16GB", "--ram-bandwidth", "50GB/s", "--threads", "4"],
]
CHECKPOINT_COMMANDS = [
    [verb, "--runtime", runtime, "--device", devices, *(["--ram", "64GB"] if runtime == "transformers" else [])]
    for verb in ("fit", "plan", "predict")
    for runtime in ("vllm", "transformers")
    for devices in ("RTX 4090", "2x RTX 3090")
]


class TooSlowError(Exception):
    """A command took more processor time than it may."""


def failure(words: list[str]) -> str:
    """What is wrong with how a command ended; empty where all is well."""
    out, err = io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            unslow([*words])
    except TooSlowError:
        return "TooSlowError\n" + "".join(traceback.format_exc()[-3000:])
    except SystemExit:
        return f"the command line was refused: {err.getvalue()[-300:]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    said = err.getvalue()
    if "Traceback (most recent call last)" in said:
        return said
    shown = out.getvalue()
    absurd = next((word for word in ("inf ", "inf%", " nan", "nan%") if word in shown), "")
    return f"shows {absurd!r}:\n{shown}" if absurd else ""


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlowError


def place_of(why: str) -> str:
    """Where a traceback ends, in the program."""
    frames = [line.strip() for line in why.splitlines() if line.strip().startswith("File ") and "/unslow/" in line]
    where = frames[-1].rpartition("/unslow/")[2].replace('", line ', ":").partition(",")[0] if frames else ""
    return f"{where} {why.strip().splitlines()[-1][:90] if where else why[:90]}"


def made_model(dice: random.Random, folder: Path) -> tuple[Path, list[list[str]]]:
    """A model in a folder, and the commands for it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if dice.random() < 0.6:
        (folder / "model.gguf").write_bytes(hostile_gguf(dice))
        return folder / "model.gguf", GGUF_COMMANDS
    for name, data in hostile_checkpoint(dice).items():
        (folder / name).write_bytes(data)
    return folder, CHECKPOINT_COMMANDS


def fuzz(count: int, seconds: float, seed: int, each: int) -> int:
    """Run commands on so many models; how many ended badly."""
    start, bad, slowest, ran = time.monotonic(), Counter[str](), (0.0, ""), 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(count):
            if time.monotonic() - start > seconds:
                break
            dice = random.Random((seed << 40) + number)
            model, commands = made_model(dice, Path(scratch) / "m")
            for words in dice.sample(commands, min(each, len(commands))):
                before, ran = time.process_time(), ran + 1
                why = failure([words[0], str(model), *words[1:]])
                slowest = max(slowest, (time.process_time() - before, f"{number}: {' '.join(words)}"))
                if why:
                    place = place_of(why)
                    bad[place] += 1
                    if bad[place] == 1:
                        keep(model, f"models-{seed}-{number}", words, why)
                        print(f"BAD {number}: {' '.join(words)}: {place}", flush=True)
    took = time.monotonic() - start
    print(f"{ran} commands in {took:.0f} s, {sum(bad.values())} ended badly in {len(bad)} ways")
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"slowest {slowest[0]:.1f} s ({slowest[1]}), peak {peak_mib} MiB")
    for place, times in bad.most_common():
        print(f"{times:6} {place}")
    return sum(bad.values())


def keep(model: Path, name: str, words: list[str], why: str) -> None:
    """Keep a model with the command that ended badly."""
    target = KEPT / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in [model] if model.is_file() else model.iterdir():
        shutil.copy(file, target)
    (target / "why.txt").write_text(f"{' '.join(words)}\n{why}")


def main() -> int:
    """Fuzz or replay as asked; the status tells whether all was well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("replay", nargs="*", help="`replay` and folders that were kept")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=2, help="commands for each model")
    asked = parser.parse_args()
    signal.signal(signal.SIGPROF, _too_slow)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if not asked.replay:
        return int(fuzz(asked.count, asked.seconds, asked.seed, asked.each) > 0)
    bad = 0
    for folder in map(Path, asked.replay[1:]):
        words = (folder / "why.txt").read_text().splitlines()[0].split(" ")
        gguf = folder / "model.gguf"
        words = _rejoined(words)
        why = failure([words[0], str(gguf if gguf.exists() else folder), *words[1:]])
        print(f"{folder.name}: {place_of(why) if why else 'well'}")
        bad += bool(why)
    return int(bad > 0)


def _rejoined(words: list[str]) -> list[str]:
    """The command whose words, put together with blanks, read so."""
    return next(c for c in (*GGUF_COMMANDS, *CHECKPOINT_COMMANDS) if " ".join(c) == " ".join(words))


if __name__ == "__main__":
    sys.exit(main())
