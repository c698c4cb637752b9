"""The answer for llama.cpp, and for Ollama, which runs it."""

from typing import Any

from unslow import __version__
from unslow.app.fit.gguf_settings import MICRO_BATCH, lines_of, setting_notes, settings_of
from unslow.app.fit.models import OLLAMA, Found, as_quant, find_gguf_model
from unslow.app.fit.request import Request
from unslow.app.fit.rooms import find_rooms, room_notes
from unslow.catalog.mixes import mixes_from_large_to_small
from unslow.facts.errors import UserError
from unslow.facts.units import MIB
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.fit import llama_cpp
from unslow.think.fit.report import FitReport, MemoryShown, ModelShown, QuantShown, RuleShown, WayShown
from unslow.think.fit.rule_of_thumb import rule_of_thumb
from unslow.think.fit.shown import FITS, verdict_of
from unslow.think.memory.llama_cpp.fused import UNFUSED_UNTIL
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.refusals import refusal
from unslow.think.memory.llama_cpp.settings import Settings

_ROUGH = 0.05
"""How far the size of a quant may be from its usual bits for each weight."""
_COARSE_BITS = 3.3
"""Below so many bits for each weight answers suffer visibly."""
_SHORTEST_USEFUL = 2048
_WORTH_A_WORD = 32 * MIB
"""Less is lost in any margin."""
_TIGHT = "less stays free than the margin: llama.cpp's own fit would move layers to the host (--fit off keeps them)"
_TIGHT_IN_OLLAMA = "less stays free than the margin: Ollama would leave layers to the host (num_gpu keeps them)"


@one_judgement()
def gguf_answer(system: System, request: Request) -> FitReport:
    """Whether the model fits, as llama.cpp counts."""
    found = find_gguf_model(system, request.model, request.quant)
    if found.tool == OLLAMA and not request.runtime_named:
        request = request._replace(runtime="ollama")
    rooms, host = find_rooms(system, request.devices, request.ram_bytes)
    if request.tensor_split and len(request.tensor_split) != len(rooms):
        raise UserError(f"--tensor-split has {len(request.tensor_split)} shares for {len(rooms)} GPUs", "one for each")
    hyper = Hyper(found.blueprint)
    trained = found.blueprint.count("context_length", 8192) or 8192
    settings = settings_of(request, trained, rooms, found.settings)
    if why := refusal(hyper, settings):
        raise UserError(f"llama.cpp does not start so: {why}", "see --kv-type, --flash-attention and --parallel")
    margin = llama_cpp.DEFAULT_MARGIN_BYTES if request.margin_bytes is None else request.margin_bytes
    question = llama_cpp.Question(found.blueprint, rooms, host, settings, margin).settled()
    if request.runtime == "ollama" and not request.ubatch and rooms and question.left() < 0:
        small = settings._replace(micro_batch=MICRO_BATCH, batch=request.batch or MICRO_BATCH)
        question = question._replace(settings=small).settled()  # Ollama takes a larger one only where it fits
    notes = setting_notes(request, settings, trained, experts=bool(hyper.experts), gpus=bool(rooms))
    said = (*found.notes, *notes, *room_notes(rooms, host), *_estimate_note(question), *_newer_note(question, hyper))
    return _Gguf(request, found, question).report(said)


def _estimate_note(question: llama_cpp.Question) -> tuple[str, ...]:
    why = question.memory().estimated
    return (f"compute buffers are estimated: {why}",) if why else ()


def _newer_note(question: llama_cpp.Question, hyper: Hyper) -> tuple[str, ...]:
    """What newer builds take more: only experts make a difference, and only on GPUs."""
    if not hyper.experts or not question.rooms or question.settings.fuses:
        return ()
    both = (question.memory(question.settings._replace(fuses=fuses)).needs[:-1] for fuses in (False, True))
    more = max(newer.compute - older.compute for older, newer in zip(*both, strict=True))
    if more < _WORTH_A_WORD:
        return ()
    return (f"builds of llama.cpp after b{UNFUSED_UNTIL} keep {more / MIB:,.0f} MiB more for fused kernels on CUDA",)


class _Gguf:
    """A question, and what follows from the answers to it."""

    def __init__(self, request: Request, found: Found, question: llama_cpp.Question) -> None:
        self._request, self._found, self._question = request, found, question
        self._everything = found.blueprint.count("block_count") + 1
        self._tight = False

    def report(self, notes: tuple[str, ...]) -> FitReport:
        """The whole answer."""
        question, found = self._question, self._found
        devices, host = llama_cpp.shown_needs(question)
        most_layers, most_context = llama_cpp.most_layers(question), self._most_context()
        free_to_choose = self._request.gpu_layers is None and bool(most_layers)
        verdict = verdict_of(devices, host, layers_fit=free_to_choose)
        whole = FITS[verdict] is not False
        quant = None if whole else self._smaller_quant()
        experts = None if whole or self._request.gpu_layers is not None else llama_cpp.fewest_experts_on_host(question)
        set_layers = question.settings.gpu_layers
        if verdict == "tight":
            notes = (*notes, _TIGHT_IN_OLLAMA if self._request.runtime == "ollama" else _TIGHT)
        self._tight = verdict == "tight"
        return FitReport(
            unslow_version=__version__,
            model=_model_shown(found),
            runtime=self._request.runtime,
            settings=_settings_shown(question.settings),
            verdict=verdict,
            fits=FITS[verdict],
            devices=devices,
            host=host,
            gpu_layers=0 if not devices else self._everything if set_layers < 0 else min(set_layers, self._everything),
            all_gpu_layers=self._everything,
            max_gpu_layers=most_layers,
            max_context=None if verdict == "cannot_tell" else most_context,
            kv=llama_cpp.shown_cache(question),
            next_quant=quant,
            least_cpu_moe=experts,
            **self._lines(question.settings),
            ways=() if whole else tuple(self._ways(most_layers, most_context, experts, quant)),
            rule_of_thumb=self._rule(devices, host),
            notes=notes,
        )

    def _most_context(self) -> int | None:
        """In the count that the runtime's own setting has."""
        most = llama_cpp.most_context(self._question)
        return most // self._question.settings.slots if most and self._request.runtime == "ollama" else most

    def _lines(self, settings: Settings) -> dict[str, Any]:
        """What to type, as the fields of a report."""
        lines = lines_of(self._request, self._found, settings, tight=self._tight)
        return {"command": "\n".join(lines), "commands": lines}

    def _ways(
        self, layers: int | None, context: int | None, experts: int | None, quant: QuantShown | None
    ) -> list[WayShown]:
        """What would fit instead, the mildest first."""
        settings, ways = self._question.settings, list[WayShown]()
        if context and context >= _SHORTEST_USEFUL:
            shorter = settings._replace(context=context * (settings.slots if self._request.runtime == "ollama" else 1))
            ways.append(WayShown(what=f"a context of {context:,} tokens", **self._lines(shorter)))
        if smaller := self._smaller_cache():
            ways.append(WayShown(what="the same context in a q8_0 cache", **self._lines(smaller)))
        if experts:
            lines = self._lines(settings._replace(gpu_layers=-1, experts_on_cpu=experts))
            ways.append(WayShown(what=f"the experts of {experts} layers on the host, all else on the GPU", **lines))
        if quant:
            coarse = ", which costs quality" if _mix_bits(quant.name) < _COARSE_BITS else ""
            ways.append(WayShown(what=f"{quant.name}, the largest usual quant that fits whole{coarse}"))
        if layers and layers < self._everything:
            what = f"{layers} of {self._everything} layers on the GPU, the others on the host: much slower"
            ways.append(WayShown(what=what, **self._lines(settings._replace(gpu_layers=layers))))
        return ways

    def _smaller_cache(self) -> Settings | None:
        """The same settings with a quantised cache, where that is enough."""
        settings = self._question.settings._replace(key_type="Q8_0", value_type="Q8_0", flash_attention=True)
        if self._question.settings.key_type != "F16" or refusal(Hyper(self._found.blueprint), settings):
            return None
        return settings if self._question.left(settings) >= 0 else None

    def _smaller_quant(self) -> QuantShown | None:
        """The largest usual quant below this one with which everything fits on the devices."""
        if not self._question.rooms:
            return None
        weights = sum(t.bytes for t in self._found.blueprint.tensors)
        bits = 8 * weights / max(1, self._found.parameters)
        enough = 1 + _ROUGH + self._question.left() / weights  # by the bits alone: only those near it are made up
        smaller = [m for m in mixes_from_large_to_small() if m.bits_per_weight < bits * min(1, enough)]
        names = [m.name for m in smaller if m.name != self._found.quant]
        return llama_cpp.smaller_quant(self._question, names, lambda quant: as_quant(self._found.blueprint, quant))

    def _rule(self, devices: tuple[MemoryShown, ...], host: MemoryShown) -> RuleShown | None:
        needed = sum(d.total_bytes for d in (*devices, host))
        room = sum(r.usable_bytes for r in self._question.rooms) if self._question.rooms else None
        return rule_of_thumb(self._found.parameters, self._found.quant, room, needed)


def _mix_bits(name: str) -> float:
    return next((m.bits_per_weight for m in mixes_from_large_to_small() if m.name == name), 16.0)


def _model_shown(found: Found) -> ModelShown:
    plan = found.blueprint
    return ModelShown(
        name=found.name, architecture=plan.architecture, quant=found.quant, source=found.source,
        parameters=found.parameters, weights_bytes=sum(t.bytes for t in plan.tensors), file_bytes=plan.file_bytes,
        layers=plan.count("block_count"), context_trained=plan.count("context_length"),
    )  # fmt: skip


def _settings_shown(settings: Settings) -> dict[str, str | int | bool]:
    return {
        "context": settings.whole_context,
        "context_per_slot": settings.slot_context,
        "slots": settings.slots,
        "kv_unified": settings.unified,
        "kv_type": settings.key_type.lower(),
        "kv_type_v": settings.value_type.lower(),
        "batch": settings.used_batch,
        "ubatch": settings.used_micro_batch,
        "outputs": settings.most_outputs,
        "flash_attention": {True: "on", False: "off", None: "auto"}[settings.flash_attention],
        "kv_offload": settings.cache_on_gpu,
    }
