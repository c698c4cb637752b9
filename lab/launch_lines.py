"""Which settings of a real llama-server are known, from what, and whether they are true.

Ten launch lines, a router, and the engine that comes with unslow.

    python lab/launch_lines.py --server llama-server --model small.gguf [--record FOLDER]

Each line is started as it stands and read as `unslow` reads it; then once more with `-lv 4`, when the server's own log
tells what it decided. UNSLOW_LLAMA_SERVER and UNSLOW_LLAMA_MODEL stand in for the two options. `--record` keeps what
was read, with that truth beside it, for the tests.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.engine.server import engine_version, start_engine
from unslow.look.keys import headers
from unslow.look.processes import Process, read_processes
from unslow.look.runtimes import llama_cpp
from unslow.look.system import LookError, System
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import INDEX, Recorder

PORT = 18733
KEY = "canary-key-of-a-test"
START_S = 120.0
EMBEDDED = "embedded"


class Line(NamedTuple):
    """A way to start a server; `{model}` and `{folder}` are put in."""

    name: str
    flags: str
    environment: dict[str, str] = {}  # noqa: RUF012 (a default that nobody changes)
    settings: dict[str, Any] = {}  # noqa: RUF012
    """What the line means where the log does not tell it."""


LINES = (
    Line("plain", "-m {model}", settings={"kv_offload": True, "split_mode": "layer"}),
    Line("verbose", "-m {model} -lv 4", settings={"log_level": 4}),
    Line("two_slots", "-m {model} -c 4096 -np 2 -lv 4", settings={"context_set": 4096}),
    Line("shared_cache", "-m {model} -np 3 -kvu -c 3072 --metrics", settings={"metrics_endpoint": True}),
    Line("small_types", "-m {model} -c 2048 -ctk q8_0 -ctv q8_0 -fa on -b 256 -ub 128 -lv 4"),
    Line("no_flash", "-m {model} -c 2048 -fa off -ctk f32 -t 1 -tb 2 --top-k 10", settings={"top_k": 10}),
    Line(
        "environment",
        "-m {model} -t 2",
        {
            "LLAMA_ARG_CTX_SIZE": "2048",
            "LLAMA_ARG_N_PARALLEL": "1",
            "LLAMA_ARG_THREADS": "1",
            "LLAMA_ARG_FLASH_ATTN": "off",
            "LLAMA_ARG_UBATCH": "64",
            "LLAMA_ARG_NO_KV_OFFLOAD": "1",
        },
        {"kv_offload": False, "context_set": 2048},
    ),
    Line(
        "switches",
        "-m {model} -c 1024 -lm none --no-repack --no-op-offload -nkvo -cram 0 --no-cache-prompt -lv 4",
        settings={"repack": False, "op_offload": False, "kv_offload": False, "prompt_cache": False},
    ),
    Line(
        "locked",
        "-m {model} -c 1024 --api-key-file {folder}/keys --api-prefix /llm --host 0.0.0.0 --swa-full --cache-reuse 64"
        " --poll 0 -fit off -ngl 5 -dev none -sm none -ts 3,1 -mg 0 -fitt 512",
        settings={
            "swa_full": True,
            "cache_reuse": 64,
            "polling": 0,
            "fit": False,
            "gpu_layers_set": 5,
            "device_set": "none",
            "tensor_split": [3.0, 1.0],
            "fit_margin_bytes": 512 * MIB,
        },
    ),
    Line(
        "drafting",
        "-m {model} -c 1024 -md {model} --spec-type draft-simple --spec-draft-n-max 4 -lv 4",
        settings={"speculative": "draft-simple", "draft_tokens": 4},
    ),
    Line("router", "--models-dir {folder}/models -c 1024 -np 2 -t 1 -fa off", settings={"context_set": 1024}),
    Line("router_verbose", "--models-dir {folder}/models -c 2048 -ctk q8_0 -lv 4", settings={"context_set": 2048}),
)

_TRUTH: dict[str, tuple[str, Any]] = {
    "context_length": (r"llama_context: n_ctx\s+= (\d+)", int),
    "batch": (r"llama_context: n_batch\s+= (\d+)", int),
    "ubatch": (r"llama_context: n_ubatch\s+= (\d+)", int),
    "kv_type_k": (r"K \((\w+)\)", str),
    "kv_type_v": (r"V \((\w+)\)", str),
    "threads": (r"n_threads = (\d+) \(", int),
    "threads_batch": (r"n_threads_batch = (\d+)\)", int),
    "slots": (r"n_slots = (\d+)", int),
    "context_per_slot": (r"n_ctx_slot = (\d+)", int),
    "kv_unified": (r"n_slots = .*kv_unified = '(\w+)'", lambda word: word == "true"),
    "load_mode": (r"load_mode = ([\w+]+)\)", str),
    "cache_ram_bytes": (r"prompt cache is enabled, size limit: (\d+) MiB", lambda n: int(n) * MIB),
}
_HARMLESS = {"load_mode": [["auto", "mmap"]]}
"""What a default leaves open, and what comes of it here."""


def truth_of(log: str) -> dict[str, Any]:
    """What a log of `-lv 4` says that was decided; the first of several contexts is the model's own."""
    found = {name: (re.search(pattern, log), read) for name, (pattern, read) in _TRUTH.items()}
    truth = {name: read(match[1]) for name, (match, read) in found.items() if match}
    asked = re.search(r"llama_context: flash_attn\s+= (\w+)", log)
    resolved = re.search(r"Flash Attention (enabled|not supported)", log)
    if asked:
        truth["flash_attention"] = (
            (resolved and resolved[1] == "enabled") if asked[1] == "auto" else asked[1] == "enabled"
        )
    if "prompt cache is disabled" in log:
        truth["cache_ram_bytes"] = 0
    return truth


class Started(NamedTuple):
    """A server that runs, and where it writes."""

    pid: int
    log: Path
    url: str


@contextmanager
def started(server: str, line: Line, model: str, folder: Path, extra: str = "") -> Iterator[Started]:
    """Start a line, wait until it answers, and end it."""
    log = folder / f"{line.name}.log"
    flags = line.flags.format(model=model, folder=folder).split()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **line.environment}
    with log.open("wb") as out:
        command = [server, *flags, "--port", str(PORT), *extra.split()]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
    prefix = "/llm" if "--api-prefix" in flags else ""
    try:
        _wait(process, f"http://127.0.0.1:{PORT}{prefix}", log)
        yield Started(process.pid, log, f"http://127.0.0.1:{PORT}{prefix}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    system, deadline = LiveSystem(), time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the server ended: {log.read_text()[-2000:]}")
        try:
            if system.request("GET", f"{url}/health", headers=headers(KEY)).status == 200:
                return
        except LookError:
            pass
        time.sleep(0.2)
    sys.exit(f"no answer in {START_S:.0f} s: {log.read_text()[-2000:]}")


def read_line(system: System, running: Started, line: Line, model: str) -> Subject:
    """What unslow sees of a started line; of a router, its first child."""
    if line.name.startswith("router"):
        _load_in_router(running.url, Path(model).stem)
    mine = llama_cpp.find(_family(running.pid))
    process = Process(system, mine[0].pid, mine[0].name)
    return llama_cpp.read(process, "")[0]


def _family(pid: int) -> list[Process]:
    processes = read_processes(LiveSystem())
    return [p for p in processes if pid in (p.pid, p.parent_pid())]


def _load_in_router(url: str, name: str) -> None:
    system, deadline = LiveSystem(), time.monotonic() + START_S
    system.request("POST", f"{url}/models/load", {"model": name})
    while time.monotonic() < deadline:
        models = system.request("GET", f"{url}/models").json()["data"]
        if any(m["status"]["value"] == "loaded" for m in models):
            return
        time.sleep(0.2)
    sys.exit(f"the router did not load {name}")


def compared(runtime: Runtime, truth: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """A row for each fact: its name, what is known of it, from what, and whether it is true."""
    rows = []
    for name in sorted(truth):
        fact = getattr(runtime, name)
        known = fact.value if isinstance(fact, Known) else None
        harmless = [known, truth[name]] in _HARMLESS.get(name, [])
        verdict = (
            "unknown" if known is None else "true" if known == truth[name] or harmless else f"WRONG: {truth[name]}"
        )
        rows.append((name, str(known), fact.source if isinstance(fact, Known) else fact.why, verdict))
    return rows


def record(folder: Path, line: Line, running: Started, model: str) -> Subject:
    """Read through a recorder; what a container's control group is called is nobody's business."""
    recorder = Recorder(LiveSystem(), folder)
    try:
        subject = read_line(recorder, running, line, model)
    finally:
        recorder.close()
    entries = [msgspec.json.decode(row) for row in (folder / INDEX).read_bytes().splitlines()]
    for entry in entries:
        if entry["question"].endswith("/cgroup"):
            entry["answer"] = "0::/\n"
    (folder / INDEX).write_bytes(b"\n".join(msgspec.json.encode(entry) for entry in entries) + b"\n")
    return subject


def look_at(server: str, model: str, line: Line, folder: Path, records: Path | None) -> bool:
    """Print the rows of one line, and what contradicts; whether no fact is wrong."""
    with started(server, line, model, folder) as running:
        place = records / line.name if records else None
        live = LiveSystem()
        subject = record(place, line, running, model) if place else read_line(live, running, line, model)
    with started(server, line, model, folder, "-lv 4") as running:
        if line.name.startswith("router"):
            _load_in_router(running.url, Path(model).stem)
        truth = truth_of(running.log.read_text(errors="replace")) | line.settings
    rows = compared(subject.runtime, truth)
    print(f"\n{line.name}: {line.flags} {line.environment or ''}")
    for name, value, source, verdict in rows:
        print(f"  {name:18} {value:12} {verdict:10} {source}")
    for contradiction in subject.contradictions:
        print(f"  contradiction: {contradiction}")
    if place:
        kept = {"pid": subject.runtime.pid.need(), "truth": truth}
        (place / "truth.json").write_text(json.dumps(kept, indent=1) + "\n")
    return not any(verdict.startswith("WRONG") for *_, verdict in rows)


def look_at_embedded(model: str) -> bool:
    """The same for the engine that comes with unslow, which always tells what it decided."""
    system = LiveSystem()
    with start_engine(system, model, context=2048, threads=1) as engine:
        subject = llama_cpp.read_embedded(
            system, engine.url, engine.pid, engine_version(), engine.log_path, str(Path(model).resolve())
        )
        truth = truth_of(Path(engine.log_path).read_text(errors="replace"))
    rows = compared(subject.runtime, truth)
    print("\nembedded: the engine of unslow, 2048 tokens, one thread")
    for name, value, source, verdict in rows:
        print(f"  {name:18} {value:12} {verdict:10} {source}")
    return not any(verdict.startswith("WRONG") for *_, verdict in rows)


def prepared(model: str) -> Path:
    """A folder with a key and a folder of models."""
    folder = Path(tempfile.mkdtemp(prefix="launch-lines-"))
    (folder / "keys").write_text(f"# a key that opens nothing\n{KEY}\n")
    (folder / "models").mkdir()
    (folder / "models" / Path(model).name).symlink_to(Path(model).resolve())
    return folder


def main() -> None:
    """Look at every line, or at those that are named; status 1 where something known is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--server", default=os.environ.get("UNSLOW_LLAMA_SERVER"))
    parser.add_argument("--model", default=os.environ.get("UNSLOW_LLAMA_MODEL"))
    parser.add_argument("--folder", type=Path, help="where logs go; default: a new one")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if not args.server or not args.model:
        parser.error("--server and --model are needed")
    folder = args.folder or prepared(args.model)
    lines = [line for line in LINES if not args.names or line.name in args.names]
    good = [look_at(args.server, args.model, line, folder, args.record) for line in lines]
    if not args.names or EMBEDDED in args.names:
        good.append(look_at_embedded(args.model))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
