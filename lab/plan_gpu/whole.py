"""The whole way on a GPU of which others hold the most: `unslow plan`, `unslow verify` of it, `unslow tune` around it.

    PYTHONPATH=src:. python -m lab.plan_gpu.whole --server llama-server --models /dev/shm --out FOLDER --case 8b_5g_16k

The three reports, as the commands wrote them, and what they said to a person, lie in FOLDER. Weights are random, so
answers are not compared.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from lab.plan_gpu.cases import LONG_TOKENS, Case, chosen
from lab.plan_gpu.gpu import Holder
from lab.plan_gpu.making import make_all

SPARE_S = 90
"""What a command may take beyond the seconds that it was given: its last turn, and its start."""


def main() -> int:
    """Hold the memory and go all the way; 1 where a command could not run."""
    made = argparse.ArgumentParser(prog="python -m lab.plan_gpu.whole", description=__doc__)
    made.add_argument("--server", type=Path, required=True)
    made.add_argument("--models", type=Path, required=True)
    made.add_argument("--out", type=Path, required=True, help="the folder of reports")
    made.add_argument("--case", required=True)
    made.add_argument("--prompt", type=int, default=LONG_TOKENS)
    made.add_argument("--verify-seconds", type=int, default=60)
    made.add_argument("--tune-seconds", type=int, default=150)
    made.add_argument("--no-gpu", action="store_true", help="nobody holds memory: a try on a CPU")
    args = made.parse_args()
    case = chosen([], [args.case])[0]
    make_all([case.model], args.models, os.cpu_count() or 1)
    args.out.mkdir(parents=True, exist_ok=True)
    with Holder(gpu=not args.no_gpu).leaving(case.free_gib) as free:
        print(f"{case.name}: {free} MiB free", flush=True)
        return 0 if all(_ran(*one, args.out, args.server) for one in commands(args, case)) else 1


def commands(args: argparse.Namespace, case: Case) -> list[tuple[str, list[str], int]]:
    """Each by its name, with its words and the seconds it may take."""
    plan = str(args.out / "plan.json")
    work = ["--prompt", str(case.room_for(args.prompt)), "--answer", str(case.answer_tokens)]
    server = str(args.server.resolve())
    model = str(args.models / f"{case.model}.gguf")
    return [
        ("plan", [model, "-c", str(case.context), *work], SPARE_S),
        ("verify", ["--plan", plan, *work, "--no-answers", "--seconds", str(args.verify_seconds)], args.verify_seconds),
        ("tune", [plan, "--server", server, *work, "--yes", "--seconds", str(args.tune_seconds)], args.tune_seconds),
    ]


def _ran(name: str, words: list[str], seconds: int, out: Path, server: Path) -> bool:
    """Both forms of a report where it costs nothing to ask twice, else the JSON, and all that was said meanwhile."""
    environment = {**os.environ, "PATH": f"{server.resolve().parent}:{os.environ.get('PATH', '')}"}
    began = time.monotonic()
    forms = {"plan": ("--json", "")}.get(name, ("--json",))
    for form in forms:
        command = [sys.executable, "-m", "unslow", name, *words, *([form] if form else [])]
        with (out / f"{name}.{'json' if form else 'txt'}").open("w") as told, (out / f"{name}.log").open("a") as log:
            done = subprocess.run(
                command, stdout=told, stderr=log, env=environment, timeout=seconds + SPARE_S, check=False
            )
    print(f"{name}: status {done.returncode}, {time.monotonic() - began:.0f} s", flush=True)
    return done.returncode in (0, 1, 3)


if __name__ == "__main__":
    sys.exit(main())
