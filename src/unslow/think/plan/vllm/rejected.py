"""What people try with vLLM, held against the recommendation: each is priced, one knob turned at a time."""

from collections.abc import Iterator

from unslow.think.plan.frontier import SAME
from unslow.think.plan.report import RejectedShown
from unslow.think.plan.vllm.memory import Pool
from unslow.think.plan.vllm.question import Choice
from unslow.think.plan.vllm.search import Point, Search
from unslow.think.plan.vllm.space import batches, cache_types, can_split, loads

OFFLOADED = RejectedShown(
    what="--cpu-offload-gb",
    because="weights in the host's memory cross PCIe with every token: a tenth of the speed or less",
)


def rejected(search: Search, chosen: Point) -> list[RejectedShown]:
    """What was tried in vain around the recommendation."""
    found = [r for what, choice in _tries(search, chosen.choice) if (r := _judged(search, chosen, what, choice))]
    return [*found, *_shorter(search, chosen), OFFLOADED]


def _tries(search: Search, choice: Choice) -> Iterator[tuple[str, Choice]]:
    question = search.question
    if not choice.eager:
        yield "--enforce-eager", choice._replace(eager=True)
    if choice.kv == "auto" and "fp8" in cache_types(question):
        yield "--kv-cache-dtype fp8", choice._replace(kv="fp8")
    most = search.pool.most(choice)
    if most > choice.share:
        yield f"--gpu-memory-utilization {most:g}", choice._replace(share=most)
    larger = next((size for size in batches(question) if size > choice.batched), None)
    if larger:
        yield f"--max-num-batched-tokens {larger}", choice._replace(batched=larger)
    for cards in range(1, len(question.hardware.rooms) + 1):
        if cards != choice.cards and can_split(question, choice.checkpoint, cards):
            yield f"--tensor-parallel-size {cards}", choice._replace(tensor=cards, pipeline=1)
    if choice.tensor > 1:
        yield f"--pipeline-parallel-size {choice.tensor}", choice._replace(tensor=1, pipeline=choice.tensor)
    for number, of in enumerate(question.checkpoints):
        if number != choice.checkpoint:
            yield "--quantization fp8" if of.packed_at_load else of.name, choice._replace(checkpoint=number)


def _judged(search: Search, chosen: Point, what: str, choice: Choice) -> RejectedShown | None:
    """Why not; None where another goal would take it, and it stands on the front by itself."""
    question, pool = search.question, search.pool
    if not loads(question, pool, choice.checkpoint, choice.tensor, choice.pipeline):
        return RejectedShown(what=what, because="its part of the weights does not fit a card")
    shorter = choice._replace(context=question.goal.context)
    fewer = shorter._replace(sequences=question.goal.users)
    tried = next((fitted for each in (choice, shorter, fewer) if (fitted := _serving(pool, each))), None)
    if tried is None:
        return RejectedShown(what=what, because=f"no room is left for a request of {shorter.context:,} tokens")
    point = search.point(tried)
    ratio = point.served.request_s.mid / chosen.served.request_s.mid
    seconds = f"{point.served.request_s.mid:.2f} s a request instead of {chosen.served.request_s.mid:.2f} s"
    if tried.context < choice.context:
        seconds += f", with room for {tried.context:,} tokens"
    if ratio > 1 + SAME:
        return RejectedShown(what=what, because=f"slower: {seconds}")
    if ratio >= 1 - SAME:
        return RejectedShown(what=what, because=f"as fast as without it ({seconds})")
    if point.worth.weight_bits < chosen.worth.weight_bits:
        return RejectedShown(what=what, because=f"faster ({seconds}), with other answers: a floor of quality allows it")
    return None


def _serving(pool: Pool, choice: Choice) -> Choice | None:
    """The choice with as much of the memory as it needs; None where that is not to be had."""
    most = pool.most(choice)
    for share in (max(min(choice.share, most), 0.0), most):
        if most and pool.serves(choice._replace(share=share)):
            return choice._replace(share=share)
    return None


def _shorter(search: Search, chosen: Point) -> Iterator[RejectedShown]:
    """A shorter limit saves nothing where it has room."""
    if search.pool.holds(chosen.choice) >= search.question.goal.users:
        because = "it frees nothing: pages of the cache are handed out as requests grow, the limit reserves none"
        yield RejectedShown(what="a shorter --max-model-len", because=because)
