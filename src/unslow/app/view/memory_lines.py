"""How to run something that runs with other settings: its own line, changed."""

from collections.abc import Iterator

from unslow.app.commands import commands_for
from unslow.app.view.memory_choices import Asked
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.memory.llama_cpp.settings import Settings

_PLAIN = ("F16", "BF16", "F32")


def line_of(case: Case, now: Asked, asked: Asked, settings: Settings) -> str:
    """The lines to type; empty where nothing differs, or where it is another file that nobody has."""
    if asked.quant != now.quant:
        return ""
    changes = list(_changes(now, asked, settings))
    pinned = isinstance(case.runtime.gpu_layers_set, Known) or settings.gpu_layers < 0
    if changes and not pinned and asked.gpu_layers == now.gpu_layers:  # its own fit would choose anew
        changes.append(Knob.GPU_LAYERS.to(asked.gpu_layers))
    try:
        spelled = commands_for(changes, case) if changes else None
    except UserError:  # a runtime that has no words at all
        return ""
    return "\n".join(spelled.lines) if spelled else ""


def _changes(now: Asked, asked: Asked, settings: Settings) -> Iterator[Change]:
    if (asked.context, asked.slots) != (now.context, now.slots):
        yield Knob.CONTEXT_LENGTH.to(settings.context)
    if asked.slots != now.slots:
        yield Knob.PARALLEL.to(asked.slots)
    if asked.kv_type != now.kv_type:
        yield Knob.KV_CACHE_TYPE.to(asked.kv_type)
        if settings.value_type not in _PLAIN:
            yield Knob.FLASH_ATTENTION.to(value=True)
    if asked.gpu_layers != now.gpu_layers:
        yield Knob.GPU_LAYERS.to(asked.gpu_layers)
