"""What a reader must know of what a plan takes for granted."""

from unslow.app.plan.request import PlanRequest
from unslow.app.predict.places import Place
from unslow.facts.blueprint import Blueprint
from unslow.facts.units import GB
from unslow.think.plan.goal import Goal


def host_notes(place: Place, request: PlanRequest) -> tuple[str, ...]:
    """What was assumed of a host that is not here."""
    notes = []
    if place.host_is_assumed:
        speed, cores = float(place.host.bytes_per_s) / GB, float(place.host.threads)
        who = f"{place.named} is taken" if place.device.kind == "cpu" else "the host is taken"
        notes.append(f"{who} to read {speed:.0f} GB/s with {cores:.0f} cores: --ram-bandwidth, --threads")
    shared = place.device.unified or any(room.unified for room in place.rooms)
    if place.machine is None and place.host_room is None and request.ram_bytes is None and not shared:
        notes.append("how much memory the host has was not said: it is taken to have enough for all else: --ram 64GB")
    return tuple(notes)


def context_notes(goal: Goal, plan: Blueprint) -> tuple[str, ...]:
    """That a context is longer than the model was trained for."""
    trained = plan.count("context_length")
    if not trained or goal.context <= trained:
        return ()
    said = f"the model was trained for {trained:,} tokens: answers get worse beyond that"
    return (f"{said}, and a recent llama-server, as Ollama does, ends a conversation there",)
