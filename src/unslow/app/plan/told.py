"""What a reader must know of what a plan takes for granted."""

from unslow.commands.plan import PlanRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.units import GB
from unslow.think.hardware import Hardware
from unslow.think.plan.goal import Goal


def host_notes(hardware: Hardware, request: PlanRequest) -> tuple[str, ...]:
    """What was assumed of a host that is not here."""
    notes = []
    if hardware.host_is_assumed:
        speed, cores = hardware.processors.bytes_per_s / GB, hardware.processors.cores
        who = f"{hardware.named} is taken" if hardware.device.kind == "cpu" else "the host is taken"
        notes.append(f"{who} to read {speed:.0f} GB/s with {cores} cores: --ram-bandwidth, --threads")
    shared = hardware.device.unified or any(room.unified for room in hardware.rooms)
    if hardware.machine is None and hardware.host_room is None and request.ram_bytes is None and not shared:
        notes.append("how much memory the host has was not said: it is taken to have enough for all else: --ram 64GB")
    return tuple(notes)


def context_notes(goal: Goal, plan: Blueprint) -> tuple[str, ...]:
    """That a context is longer than the model was trained for."""
    trained = plan.count("context_length")
    if not trained or goal.context <= trained:
        return ()
    said = f"the model was trained for {trained:,} tokens: answers get worse beyond that"
    return (f"{said}, and a recent llama-server, as Ollama does, ends a conversation there",)
