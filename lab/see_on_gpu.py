"""One model on a GPU that others have filled, seen with every tool that draws: what the page and its pictures show.

python -m lab.see_on_gpu --server llama-server --model FILE.gguf --out FOLDER [--leave-gib 5.5] [--seconds 240]

A program takes all but a few GiB of the GPU's memory; llama-server is started as people start it, diagnosed (with a
recording), measured (the protocol, depths, users) while `unslow watch --json` looks on, planned for, and verified. The
folder then holds the recording, the benchmarks, the plan, the verification, and what the watching itself cost.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PORT = 8741
START_S = 120.0
SETTLED_S = 5.0
"""After that the live screen has started; what starting costs is told apart."""
MINE = [sys.executable, "-m", "unslow"]


def main() -> int:
    """All of it, each step with its time; what fails does not end the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--leave-gib", type=float, default=5.5)
    parser.add_argument("--flags", default="-c 16384 -np 4 --metrics")
    parser.add_argument("--seconds", type=float, default=120.0, help="for the verification")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["XDG_DATA_HOME"] = str(options.out / "data")
    taker = taken(options.leave_gib)
    log = (options.out / "server.log").open("w")
    words = [options.server, "-m", options.model, "--port", str(PORT), "--host", "127.0.0.1"]
    server = subprocess.Popen([*words, *shlex.split(options.flags)], stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(f"http://127.0.0.1:{PORT}/health")
        seen(options, f"http://127.0.0.1:{PORT}")
    finally:
        server.kill()
        server.wait()
        proved(options)
        if taker:
            taker.terminate()  # it ends the one who holds the memory
            taker.wait()
    return 0


def taken(leave_gib: float) -> "subprocess.Popen[bytes] | None":
    """A process that holds the GPU's memory but for so much; none where all is to be left."""
    if not leave_gib:
        return None
    words = [sys.executable, "-m", "lab.take_vram", "--kind", "leave", "--hold-gib", str(leave_gib), "--seconds", "900"]
    taker = subprocess.Popen(words)
    time.sleep(8.0)
    return taker


def wait_for(url: str) -> None:
    """Until the server answers."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.3)
    raise SystemExit("the server does not answer")


def seen(options: argparse.Namespace, url: str) -> None:
    """Diagnosed, planned for, and measured under a watching eye."""
    out = options.out
    step(["diagnose", url, "--record", str(out / "recording"), "--save", str(out / "seen.json")], out / "diagnose.txt")
    step(["plan", url, "--json"], out / "plan.json")
    with (out / "watch.jsonl").open("w") as moments:
        watch = subprocess.Popen([*MINE, "watch", url, "--json"], stdout=moments)
        time.sleep(SETTLED_S)
        began, before_s = time.monotonic(), cpu_s(watch.pid)
        step(["bench", url, "-q", "-o", str(out / "bench.json")], out / "bench.txt")
        step(["bench", url, "-q", "--sweep", "depth", "-o", str(out / "depth.json")], out / "depth.txt")
        step(["bench", url, "-q", "--sweep", "users", "-o", str(out / "users.json")], out / "users.txt")
        cost = (cpu_s(watch.pid) - before_s) / (time.monotonic() - began)
        watch.terminate()
        watch.wait()
    (out / "watch_cost.json").write_text(json.dumps({"share_of_one_core": cost, "start_cpu_s": before_s}))
    step(["report", url, "-o", str(out / "report.html")], out / "report.txt")


def proved(options: argparse.Namespace) -> None:
    """Before and after by the plan, with the server out of the way."""
    words = ["verify", "--plan", str(options.out / "plan.json"), "--seconds", str(options.seconds)]
    step([*words, "-o", str(options.out / "verify.json")], options.out / "verify.txt")


def step(words: list[str], output: Path) -> None:
    """One command, its output kept; its status and time are told."""
    began = time.monotonic()
    with output.open("w") as kept:
        status = subprocess.run([*MINE, *words], stdout=kept, check=False).returncode
    print(f"{time.monotonic() - began:6.1f} s  status {status}  unslow {words[0]}", flush=True)


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.exit(main())
