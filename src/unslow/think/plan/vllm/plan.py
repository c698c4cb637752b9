"""The plan for vLLM: the front and the recommendation as the report shows them."""

from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from unslow.facts.knob import Knob, Setting
from unslow.facts.values import GIB
from unslow.think.fit.answers import shown_held
from unslow.think.memory.vllm import vllm_memory
from unslow.think.physics.terms import Interval
from unslow.think.plan.pareto_front import FrontAndChoice, pareto_front, thin_front
from unslow.think.plan.quality import hf_quality
from unslow.think.plan.report import OptionShown, SearchedShown, changes_of, shown_settings, shown_speed
from unslow.think.plan.vllm.choices import Choice, VllmPlanQuestion, freest, refused_requests
from unslow.think.plan.vllm.search import Point, Search, admitted_points, best_point, felt_rate, rejected_options
from unslow.think.speed.question import USUAL_LINK

_TIGHT = 0.95  # a share from which on little is left for what is not counted, such as another program's start


def vllm_options(question: VllmPlanQuestion) -> FrontAndChoice:
    """Every combination looked at, the front of them, and the best for the goal."""
    search = Search(question)
    priced, combinations = search.all_points()
    before = _running(search)
    current = shown_option(question, before, before) if before else None
    fine = admitted_points(question, priced)
    refusals = tuple(refused_requests(question, search.pool))
    searched = SearchedShown(combinations=combinations, priced=len(priced), laid_out=len(priced))
    if not fine:
        reason, hint = _why_nothing(question, priced)
        return FrontAndChoice((), None, refusals, searched, (), reason, hint, current)
    points = pareto_front(fine, attrgetter("worth"), lambda point: (-point.worth.ease, -point.worth.left))
    chosen = best_point(question, points)
    options = [p for p in thin_front(points, attrgetter("worth"), chosen) if p is chosen or p.changed or not before]
    return FrontAndChoice(
        tuple(shown_option(question, point, before) for point in options),
        options.index(chosen) if chosen else None,
        (*refusals, *(rejected_options(search, chosen) if chosen else ())),
        msgspec.structs.replace(searched, laid_out=len(options)),
        tuple(_notes(search, chosen)) if chosen else (),
        current=current,
    )


def _running(search: Search) -> Point | None:
    """What runs now: by its own count of the cache where it has one, since it started with it."""
    question = search.question
    if question.current is None:
        return None
    point = search.point(question.current)
    served, users = point.served, question.goal.users
    if question.measured_pool:
        holds = question.measured_pool // max(1, question.conversation)
        places = max(1, min(holds, question.current.sequences, users))
        served = search.pace.serve(question.current, places, users, keeps=holds >= users and question.prefix_caching)
    if question.offloaded_bytes:  # every step waits for weights that come from the host
        waits_s = question.offloaded_bytes / USUAL_LINK
        decode = Interval(*(1 / (1 / rate + waits_s) for rate in served.decode))
        request_s = served.request_s.shift((question.goal.answer_tokens + 1) * waits_s)
        served = served._replace(decode=decode, request_s=request_s)
    return point._replace(served=served, worth=point.worth._replace(speed=1 / served.request_s.mid))


def _notes(search: Search, chosen: Point) -> Iterator[str]:
    holds, question = search.pool.holds(chosen.choice), search.question
    yield f"the KV cache holds at least {holds:,} conversations of {question.conversation:,} tokens"
    if question.goal.context > question.trained_context:
        yield f"the model was trained for {question.trained_context:,} tokens: a longer context is not planned"
    if (free := len(question.hardware.rooms) - chosen.choice.cards) > 0:
        yield f"{free} of the cards stay free for a second copy"


def _why_nothing(question: VllmPlanQuestion, points: Sequence[Point]) -> tuple[str, str]:
    """Why no combination serves the goal, and what would."""
    goal = question.goal
    if not points:
        weights = sum(part.bytes for part in question.checkpoints[0].parts) / GIB
        free = sum(room.usable_bytes for room in question.hardware.rooms) / GIB
        sizes = f"the weights take {weights:.1f} GiB, the cards have {free:.1f} GiB free"
        hint = "use a smaller format (--quant AWQ), a shorter context, or more cards"
        return f"vLLM does not start with {goal.context:,} tokens: {sizes}", hint
    fastest = max(felt_rate(goal, p) for p in points)
    if goal.least_tokens_per_s is not None and fastest < goal.least_tokens_per_s:
        reason = f"the fastest combination gives {fastest:.1f} tok/s per conversation"
        return reason, "lower the required speed or the number of users"
    return "no combination meets the quality floor", "allow more loss, or use a larger quant"


def shown_option(question: VllmPlanQuestion, point: Point, before: Point | None = None) -> OptionShown:
    """The option; `before` is what runs now."""
    choice, served, of = point.choice, point.served, question.checkpoints[point.choice.checkpoint]
    knobs, rooms = settings_of(question, choice), freest(question, choice.cards)
    if rooms != list(question.hardware.rooms[: choice.cards]):  # not the first cards, but those that have the most free
        numbers = [n for n, room in enumerate(question.hardware.rooms) if any(room is one for one in rooms)]
        knobs.append((Knob.DEVICE.value, ",".join(map(str, numbers[: choice.cards]))))
    settings = shown_settings(knobs, dict(settings_of(question, question.now)))
    together = served.decode.mid * served.at_once if question.goal.users > 1 else None
    of_fp8 = choice.kv.startswith("fp8")
    risks = {
        "little VRAM stays free: run nothing else on the GPU": choice.share >= _TIGHT,
        "scales are 1.0 unless the checkpoint has its own: compare answers before relying on it": of_fp8,
        "the weights are quantized at load: compare answers before relying on it": of.packed_at_load,
    }
    held = vllm_memory(question.shape, of.parts, question.settings(choice), question.card_bytes).devices
    return OptionShown(
        name=choice_name(question, choice),
        quant=of.quant,
        context=choice.context,
        changes=changes_of(settings, lambda knob: _why(question, point, knob)),
        settings=settings,
        speed=shown_speed(served.decode, served.prefill, served.request_s, together),
        quality=hf_quality(of.quant, of.types, choice.kv, question.parameters, question.architecture),
        devices=tuple(shown_held(card, room) for room, card in zip(rooms, held, strict=True)),
        costs=tuple(option_costs(question, point, before)),
        risk="; ".join(risk for risk, is_there in risks.items() if is_there),
        speedup=before.served.request_s.mid / served.request_s.mid if before else None,
    )


def settings_of(question: VllmPlanQuestion, choice: Choice) -> list[tuple[str, Setting]]:
    """Every knob with its value."""
    of = question.checkpoints[choice.checkpoint]
    found: list[tuple[str, Setting]] = [
        (Knob.MEMORY_SHARE.value, choice.share),
        (Knob.CONTEXT_LENGTH.value, choice.context),
        (Knob.PARALLEL.value, choice.sequences),
        (Knob.BATCH.value, choice.batched),
        (Knob.KV_CACHE_TYPE.value, choice.kv),
        (Knob.GRAPHS.value, not choice.eager),
        (Knob.SPLIT_MODE.value, f"layer {choice.pipeline}" if choice.pipeline > 1 else choice.tensor),
    ]
    if question.offloaded_bytes:
        found.append((Knob.GPU_LAYERS.value, None if choice is question.current else -1))
    if of.path:
        found.append((Knob.MODEL_FILE.value, of.path))
    if of.packed_at_load:
        found.append((Knob.QUANT_KERNEL.value, "fp8"))
    return found


def _why(question: VllmPlanQuestion, point: Point, knob: str) -> str:
    choice = point.choice
    return {
        Knob.MEMORY_SHARE.value: "all that is free, or what the conversations need",
        Knob.CONTEXT_LENGTH.value: f"the KV cache has room for one request of {choice.context:,} tokens",
        Knob.PARALLEL.value: f"for {question.goal.users} at a time; fewer sequences need less memory for sampling",
        Knob.BATCH.value: "prompt tokens per step: more speed up prefill and need more memory",
        Knob.KV_CACHE_TYPE.value: "half the bytes for the KV cache"
        if choice.kv.startswith("fp8")
        else "16 bits per element",
        Knob.GRAPHS.value: "no CUDA graphs, which saves their memory"
        if choice.eager
        else "CUDA graphs: the launches of a step are recorded once",
        Knob.SPLIT_MODE.value: f"each token is computed by {choice.cards} cards",
        Knob.DEVICE.value: "other processes use less of these cards",
        Knob.GPU_LAYERS.value: "weights in host memory cross PCIe for every token",
    }.get(knob, "")


def choice_name(question: VllmPlanQuestion, choice: Choice) -> str:
    """A few words: the format, the cards, the length, the share, and what else is not as usual."""
    of, split = question.checkpoints[choice.checkpoint], "pipeline" if choice.pipeline > 1 else "tensor"
    cards = f"{choice.cards} cards {split} parallel, " if choice.cards > 1 else ""
    cache = "" if choice.kv == "auto" else f", {choice.kv} cache"
    eager, usual = ", eager" if choice.eager else "", question.default()
    few = f", {choice.sequences} at once" if choice.sequences != usual.sequences else ""
    batches = f", batches of {choice.batched:,}" if choice.batched != usual.batched else ""
    return f"{of.quant}, {cards}{choice.context:,} tokens{cache}{few}{batches}{eager}, {choice.share:.0%} of memory"


def option_costs(question: VllmPlanQuestion, point: Point, before: Point | None) -> Iterator[str]:
    """What it gives up against what runs now, and what it serves."""
    served, users = point.served, question.goal.users
    if served.at_once < users:
        yield f"only {served.at_once} of {users} conversations fit at once: the others wait"
    if not served.keeps and question.goal.kept_tokens:
        yield f"the {question.goal.kept_tokens:,} earlier tokens are reprocessed with every question"
    if before is None:
        return
    if point.choice.context < before.choice.context:
        yield f"no request longer than {point.choice.context:,} tokens (now {before.choice.context:,})"
    if point.choice.sequences < before.choice.sequences:
        yield f"at most {point.choice.sequences} requests at once (now {before.choice.sequences})"
    if point.worth.cache_bits < before.worth.cache_bits:
        yield "KV cache in 8 bits instead of 16"
    if point.worth.left < before.worth.left:
        yield f"{(before.worth.left - point.worth.left) * question.card_bytes / GIB:.1f} GiB more VRAM"
