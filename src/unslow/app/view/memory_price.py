"""How fast a model should be with its layers placed so: the prices of `unslow plan`, with their intervals."""

from typing import NamedTuple

from unslow.catalog.learned_speed import spread_of
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.hyper import hyper_of
from unslow.think.memory.llama_cpp.places import Places
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.price import Pricing
from unslow.think.report import Range
from unslow.think.speed import stacked  # noqa: F401 (loads numpy, which the first slider would wait for)
from unslow.think.speed.group import CPU, DENSE, MOE, PARTIAL, PREFILL, SEVERAL

_SHARE = 4
"""Of a short context, what a prompt takes, and what an answer does: a quarter each."""


class Speeds(NamedTuple):
    """Tokens per second of one conversation, and of its prompt."""

    decode: Range
    prefill: Range
    group: str = ""
    """What its interval was learned from, such as models that lie in part with the host."""

    def like(self, expected: "PriceFactors") -> "Speeds":
        """As the report speaks of what runs, for settings of the same kind; others keep their own price."""
        if self.group != expected.group:
            return self
        return Speeds(_like(self.decode, expected.decode), _like(self.prefill, expected.prefill), self.group)


class PriceFactors(NamedTuple):
    """The report's expectation of what runs over its price: three factors of the price's middle, None where none."""

    group: str = ""
    decode: Range | None = None
    prefill: Range | None = None


class Priced(NamedTuple):
    """The work that is done by one conversation, and by how many threads."""

    threads: int
    work: Work = Work()
    whole_first: int = 0
    """Of how many layers, from the first, the movable matrices lie with the host, wherever the layer does."""

    def speeds(self, pieces: Pieces, hardware: Hardware, settings: Settings) -> Speeds:
        """With these settings; GPUs have what their free memory is a share of."""
        shares = tuple(map(float, hardware.free_bytes))
        homes = Places(hyper_of(pieces.blueprint), settings, settings.split or shares).layers
        gpus = len(shares)
        split = tuple(homes.count(gpu) for gpu in range(gpus))
        whole = sum(home == gpus for home in homes[: len(pieces.layers)]) if gpus else len(pieces.layers)
        placing = Placing(whole, max(0, min(self.whole_first, len(pieces.layers)) - whole))
        pricing = Pricing(pieces, hardware, _within(self.work, settings.slot_context))
        price = pricing.price(settings, placing, split, self.threads)
        group = _group(placing, split, sparse=pieces.is_sparse)
        backend = "cpu" if group == CPU else hardware.setting.backend
        decode, prefill = spread_of(group, backend), spread_of(PREFILL, backend)
        return Speeds(
            _range(price.decode_tokens_per_s, decode.low, decode.high),
            _range(price.prefill_tokens_per_s, prefill.low, prefill.high),
            group,
        )


def _within(work: Work, context: int) -> Work:
    """The work, cut to a shorter context."""
    if work.tokens <= context:
        return work
    prompt, answer = min(work.prompt, max(1, context // _SHARE)), min(work.answer, max(1, context // _SHARE))
    return Work(prompt, max(0, min(work.kept, context - prompt - answer)), answer)


def _group(placing: Placing, split: tuple[int, ...], *, sparse: bool) -> str:
    if not any(split):
        return CPU
    if placing.first_complete:
        return PARTIAL
    if sum(map(bool, split)) > 1:
        return SEVERAL
    return MOE if sparse else DENSE


def _range(mid: float, low: float, high: float) -> Range:
    return Range(low=mid * low, mid=mid, high=mid * high)


def _like(speed: Range, factors: Range | None) -> Range:
    if factors is None:
        return speed
    return Range(low=speed.mid * factors.low, mid=speed.mid * factors.mid, high=speed.mid * factors.high)
