"""Records what another build of llama.cpp asks for, with the settings of a recording that is there.

    PYTHONPATH=src:. python -m lab.record_fit_params PROGRAM FROM.csv OUT.csv [--fuses] [--every N] [--at-once N]

PROGRAM is a `llama-fit-params` with CUDA on a machine with one GPU, FROM.csv one of lab/data/memory whose models are of
the catalogue. Models with experts come all, of others every N-th. Its figures are whole MiB, slots are one, and logits
are reserved for every token of a batch. `--fuses` says that this build keeps what its fused kernels read (fused.py in
think/memory/llama_cpp). `python -m lab.check_memory OUT.csv` then compares.
"""

import argparse
import csv
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.memory_rows import FOLDER
from lab.write_headers import write_header

from unslow.catalog.models import find_model
from unslow.think.blueprints import made_up

_FIGURES = ("model", "context", "compute")
Line = dict[str, str]


def words(line: Line) -> list[str]:
    """The settings of a row in llama.cpp's words."""
    switches = {
        "-nkvo": line["kv_offload"] != "1",
        "--swa-full": line["swa_full"] == "1",
        "--no-op-offload": line["op_offload"] != "1",
    }
    values = {
        "-c": "context", "-b": "batch", "-ub": "ubatch", "-fa": "flash_attention", "-ctk": "kv_type",
        "-ctv": "kv_type_v",
    }  # fmt: skip
    told = [word for flag, name in values.items() for word in (flag, line[name])]
    layers = [] if line["gpu_layers"] == "-1" else ["-ngl", line["gpu_layers"]]
    override = ["-ot", f"{line['override']}=CPU"] if line["override"] else []
    return [*told, *(layers or ["-ngl", "999"]), *override, *(flag for flag, on in switches.items() if on)]


def recorded(program: str, header: Path, line: Line) -> Line | None:
    """The row with this build's figures; None where it does not load."""
    command = [program, "-m", str(header), *words(line), "-fitp", "on", "-fit", "off"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    told = [line.split()[1:4] for line in done.stdout.splitlines() if len(line.split()) == len(_FIGURES) + 1]
    if done.returncode or len(told) < 2:
        print(f"{line['model']}: {done.stderr.strip()[-300:]}", flush=True)
        return None
    places = zip(("dev", "host"), (told[0], told[-1]), strict=True)
    figures = {f"{place}_{name}_mib": mib for place, parts in places for name, mib in zip(_FIGURES, parts, strict=True)}
    return {**line, "parallel": "1", "kv_unified": "1", "outputs": "0", **figures}


def main() -> None:
    """Record every row that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("recording", help="a file of lab/data/memory")
    parser.add_argument("out", type=Path)
    parser.add_argument("--fuses", action="store_true")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--at-once", type=int, default=8)
    args = parser.parse_args()
    with (FOLDER / args.recording).open(newline="") as file:
        lines = [
            line for n, line in enumerate(csv.DictReader(file)) if _has_experts(line["model"]) or not n % args.every
        ]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.at_once) as pool:
        headers = {name: _header(name, Path(folder)) for name in {line["model"] for line in lines}}
        found = list(pool.map(lambda line: recorded(args.program, headers[line["model"]], line), lines))
    kept = [{**line, "fuses": str(int(args.fuses))} for line in found if line]
    with args.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(kept[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    print(f"{len(kept)} of {len(lines)} rows")


def _has_experts(model: str) -> bool:
    name, _, quant = model.partition("@")
    return any("_exps" in tensor.name for tensor in made_up(find_model(name), quant).tensors)


def _header(model: str, folder: Path) -> Path:
    name, _, quant = model.partition("@")
    path = folder / f"{model.replace('/', '_')}.gguf"
    write_header(find_model(name), quant, path)
    return path


if __name__ == "__main__":
    main()
