"""Raw folders: the series that nvidia-smi wrote on a recorded H200, with other readings while the model was loaded."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path

from lab.built_machines.built import MACHINES, Built, Write
from lab.built_machines.nvidia import HW_THERMAL, POWER_CAP, SW_THERMAL
from lab.built_machines.sources import HEAT, LINK_ASLEEP, POWER_AS_EVER, REASONS

BASE = MACHINES / "h200_llama_server_healthy_8b"
KEPT = (
    "machine.txt", "nvidia_smi_q.txt", "nvidia_smi_compute_apps.csv", "props.json", "models.json", "slots.json",
    "proc_status.txt",
)  # fmt: skip
LOADED_MIB = 20000
"""With more memory in use a row is one under load."""
FIRST_REQUEST = "launch_slot_"
SLOWED, RECORDED = "speeds recorded, then slowed by a chosen factor", "speeds recorded"
Row = dict[str, str]


def machines() -> tuple[Built, ...]:
    """All of them."""
    return (
        Built(
            "h200_clocks_fall_with_heat", "gpu_thermal_throttling",
            "the series of an H200 whose clocks fall from 1980 to 345 MHz at 88 °C with the thermal bits set",
            HEAT, _like_h200(_heating, 3.0), figures=SLOWED,
        ),
        Built(
            "h200_power_limit_200_w", "gpu_power_capped",
            "the series of an H200 with its limit at 200 of 700 W: 765 of 1980 MHz, power at the limit", REASONS,
            _like_h200(_capped, 2.1, limit_w=200), figures=SLOWED,
        ),
        Built(
            "h200_power_cap_at_full_speed", "",
            "the series of an H200 with the power bit set at 698 W, clocks and speed as ever", POWER_AS_EVER,
            _like_h200(_at_limit, 1.0), "normal", figures=RECORDED,
        ),
        Built(
            "h200_link_asleep_while_idle", "",
            "the series of an H200 whose link is at generation 1 while idle and at 5 under load",
            LINK_ASLEEP,
            _like_h200(_awake, 1.0, idle={"pcie.link.gen.current": "1"}), "normal", figures=RECORDED,
        ),
    )  # fmt: skip


def _heating(share: float) -> Row:
    """The first third of the samples shows how it gets there."""
    mhz = round(1980 - 1635 * min(1.0, 3 * share))
    return {"clocks.sm": str(mhz), "temperature.gpu": "88", "power.draw": "240.10", **_reason(SW_THERMAL | HW_THERMAL)}


def _capped(_share: float) -> Row:
    return {"clocks.sm": "765", "temperature.gpu": "41", "power.draw": "199.20", **_reason(POWER_CAP)}


def _at_limit(_share: float) -> Row:
    return {"temperature.gpu": "66", "power.draw": "698.00", **_reason(POWER_CAP)}


def _awake(_share: float) -> Row:
    return {"pcie.link.gen.current": "5"}


def _reason(bits: int) -> Row:
    return {"clocks_event_reasons.active": f"0x{bits:016x}", "utilization.gpu": "97"}


def _like_h200(reading: Callable[[float], Row], slower: float, *, limit_w: int = 700, idle: Row | None = None) -> Write:
    """The recorded folder with these readings under load, and requests that take so much longer."""

    def write(folder: Path) -> None:
        for name in KEPT:
            shutil.copy(BASE / name, folder / name)
        described = (BASE / "nvidia_smi_q.txt").read_text()
        (folder / "nvidia_smi_q.txt").write_text(described.replace(": 700.00 W", f": {limit_w}.00 W", 2))
        (folder / "nvidia_smi_query.csv").write_text(_series(reading, idle or {}))
        (folder / "run.json").write_text(json.dumps(_run(slower), indent=1) + "\n")
        lines = (BASE / "server.log").read_text().splitlines(keepends=True)
        started = next(n for n, line in enumerate(lines) if FIRST_REQUEST in line)
        (folder / "server.log").write_text("".join(lines[:started]))

    return write


def _series(reading: Callable[[float], Row], idle: Row) -> str:
    rows = list(csv.DictReader((BASE / "nvidia_smi_query.csv").read_text().splitlines()))
    loaded = [row for row in rows if int(row["memory.used"]) > LOADED_MIB]
    for row in rows:
        row.update(idle)
    for number, row in enumerate(loaded):
        row.update(reading((number + 1) / len(loaded)))
    return "".join(",".join(values) + "\n" for values in (rows[0], *(row.values() for row in rows)))


def _run(slower: float) -> dict[str, object]:
    """The recorded requests, so many times slower."""
    kept = json.loads((BASE / "run.json").read_text())
    timed = ("cache_n", "prompt_n", "prompt_ms", "predicted_n", "predicted_ms")
    runs = [{name: run[name] * (slower if name == "predicted_ms" else 1) for name in timed} for run in kept["runs"]]
    return {"args": kept["args"], "env": {}, "ok": True, "load_s": kept["load_s"], "runs": runs}
