"""Intel GPUs: through the files of the i915 and xe drivers; xpu-smi is asked only for the memory of a card."""

from contextlib import suppress
from typing import Any

from unslow.facts.machine import Gpu, GpuProcess, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import MHZ, Fact, Known, estimated_fact, measured_fact, not_found, not_supported, reported_fact
from unslow.look.kernel import MICRO, MILLI, Sensors, read_number, read_sensors, read_word
from unslow.look.kernel.gpus import DRM, Card, processes_of, read_cards, read_clients, read_link, read_lspci_name
from unslow.look.kernel.gpus import FDINFO as CLIENTS
from unslow.look.logs import xpu_smi
from unslow.look.logs.gpu_facts import gpu_of, with_free
from unslow.look.system import LookError, System, unknown

TURN = 1  # see the probes' own page
INTEL = "0x8086"
WINDOW_S = 0.1
BUILT_IN = "0000:00:02.0"  # where every graphics unit inside an Intel processor is
CLOCKS = ("device/tile0/gt0/freq0/act_freq", "gt/gt0/rps_act_freq_mhz", "gt_act_freq_mhz")
_MOST = ("device/tile0/gt0/freq0/rp0_freq", "gt/gt0/rps_RP0_freq_mhz", "gt_RP0_freq_mhz")
_TEMPERATURES = ("temp1_input", "temp2_input")
_SIZES = ("device/tile0/physical_vram_size_bytes", "device/lmem_total_bytes", "lmem_total_bytes")
REASONS = (("device/tile0/gt0/freq0/throttle", "reason_"), ("gt/gt0", "throttle_reason_"))


def read(system: System) -> Machine:
    """All Intel GPUs; nothing at all where there is none."""
    cards = read_cards(system, INTEL)
    if not cards:
        return Machine()
    discrete_first = sorted(cards, key=lambda card: card.bus_id == BUILT_IN)
    gpus = [_read_gpu(system, index, card) for index, card in enumerate(discrete_first)]
    if any(gpu.kind.value_or("") == "discrete" and not isinstance(gpu.vram_total_bytes, Known) for gpu in gpus):
        for index, gpu in enumerate(gpus):
            bus_id = gpu.bus_id.value_or("")
            with suppress(LookError):
                done = system.run(["xpu-smi", "discovery", "-d", bus_id])
                said = xpu_smi.parse_gpus(done.stdout, "xpu-smi discovery")
                if said and said[0].bus_id.value_or("") == bus_id:
                    gpus[index] = overlaid(said[0], gpu)
    return Machine(gpus=reported_fact(tuple(gpus), DRM))


def _read_gpu(system: System, index: int, card: Card) -> Gpu:
    built_in = card.bus_id == BUILT_IN
    sensors = read_sensors(system, card.device)
    package = sensors.labelled_number("pkg", "input", MILLI)
    event, no_driver = f"{card.device}/uevent", not_found("no driver is named")
    facts: dict[str, Fact[Any]] = {
        "name": read_lspci_name(system, card.bus_id),
        "kind": reported_fact("integrated" if built_in else "discrete", event),
        "driver": reported_fact(card.driver, event) if card.driver else no_driver,
        "bus_id": reported_fact(card.bus_id, event),
        "clock_hz": _first_number(system, card, CLOCKS, MHZ),
        "clock_max_hz": _first_number(system, card, _MOST, MHZ),
        "event_reasons": _read_reasons(system, card),
        "power_w": _read_power(system, sensors),
        "power_limit_w": sensors.number(("power1_max", "power2_max"), MICRO),
        "temperature_c": package if isinstance(package, Known) else sensors.number(_TEMPERATURES, MILLI),
        "memory_temperature_c": sensors.labelled_number("vram", "input", MILLI),
    }
    try:
        processes: Fact[list[GpuProcess]] = reported_fact(processes_of(read_clients(system), card.bus_id), CLIENTS)
    except LookError as error:
        processes = unknown(error, "run as root to see the processes of other users")
    facts["processes"] = processes
    if built_in:
        why = not_supported(f"{card.bus_id} is part of the processor and uses the machine's memory")
        facts |= {"vram_total_bytes": why, "vram_used_bytes": why}
    else:
        held = sum(process.vram_bytes.value_or(0) for process in processes.value_or([]))
        used = estimated_fact(held, f"{CLIENTS}: the sum over the processes that this user may see")
        memory = {"vram_used_bytes": used if isinstance(processes, Known) else processes}
        facts |= with_free({"vram_total_bytes": _first_number(system, card, _SIZES, 1), **memory})
        facts |= read_link(system, card.device)
    return gpu_of(index, "Intel", f"{card.device}/vendor", facts)


def _first_number(system: System, card: Card, files: tuple[str, ...], scale: int) -> Fact[Any]:
    for path in (f"{card.path}/{file}" for file in files):
        try:
            return reported_fact(read_number(system, path) * scale, path)
        except LookError:
            continue
    return not_found(f"{card.path} has none of {', '.join(files)}")


def _read_reasons(system: System, card: Card) -> Fact[Any]:
    for folder, prefix in REASONS:
        path = f"{card.path}/{folder}"
        try:
            names = [name for name in system.list_dir(path) if name.startswith(prefix) and not name.endswith("status")]
        except LookError:
            continue
        reasons = []
        for name in names:
            with suppress(LookError):
                if read_word(system, f"{path}/{name}") == "1":
                    reasons.append(name.removeprefix(prefix))
        if names:
            return reported_fact(reasons, path)
    return not_supported("this driver does not say why it limits the clock")


def _read_power(system: System, sensors: Sensors) -> Fact[Any]:
    """Intel's driver counts energy; power is its growth over a moment."""
    first = sensors.number(("energy1_input", "energy2_input"), MICRO)
    if not isinstance(first, Known):
        return first
    start = system.clock()
    system.sleep(WINDOW_S)
    second, seconds = sensors.number(("energy1_input", "energy2_input"), MICRO), system.clock() - start
    if not isinstance(second, Known) or seconds <= 0 or second.value < first.value:
        return not_found(f"{first.source} did not grow")
    return measured_fact(round((second.value - first.value) / seconds, 3), f"{first.source} over {WINDOW_S:g} s")
