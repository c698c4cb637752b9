"""What is known of compute buffers: as laid out, and as they are bound to be before that.

Placings that leave the same sort of work to the host need the same buffers, or nearly. A larger micro-batch never
needs smaller ones, so what a smaller one needs is a bound for it.
"""

from collections.abc import Mapping, Sequence

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.placing import SEVERAL, Kind

Sizes = tuple[int, ...]
"""Of each GPU."""
Guesses = Mapping[Kind, Sizes]


class Buffers:
    """Of one model on one machine, by settings."""

    def __init__(self, gpus: int) -> None:
        self._nothing: Sizes = (0,) * gpus
        self._known: dict[Settings, dict[tuple[int, Kind], Sizes]] = {}
        self._hints: dict[Settings, dict[tuple[int, Kind], Sizes]] = {}

    def own(self, settings: Settings, kind: Kind) -> Sizes | None:
        """As they were laid out; None where they were not."""
        return self._known.get(_name(settings), {}).get((settings.micro_batch, kind))

    def least(self, settings: Settings, guesses: Guesses | None = None) -> "Least":
        """The smallest that each sort of placing can need with these settings."""
        return Least(self._known.get(_name(settings), {}), settings.micro_batch, guesses, self._nothing)

    def learn(self, settings: Settings, kind: Kind, sizes: Sequence[int], lacking: Sequence[int]) -> None:
        """What a sort of placings needs; where that was known and did not do, so much more."""
        buffers = self._known.setdefault(_name(settings), {})
        key = (settings.micro_batch, kind)
        known = buffers.get(key)
        if known is not None:
            sizes = [max(size, old + max(0, less)) for size, old, less in zip(sizes, known, lacking, strict=False)]
        buffers[key] = tuple(sizes)

    def hint(self, settings: Settings, kind: Kind, sizes: Sequence[int]) -> None:
        """What somebody else laid out: only a guess is made of it."""
        self._hints.setdefault(_name(settings), {})[settings.micro_batch, kind] = tuple(sizes)

    def guesses(self, settings: Settings) -> dict[Kind, Sizes]:
        """Those with the same micro-batch and any cache: a first guess, which a layout corrects."""
        found: dict[Kind, Sizes] = {}
        for other, known in (*self._hints.items(), *self._known.items()):
            if other.cache_on_gpu == settings.cache_on_gpu:
                found |= {kind: sizes for (micro, kind), sizes in known.items() if micro == settings.micro_batch}
        return found


class Least:
    """A bound for every sort of placing; where there are guesses, what it will be as a rule."""

    def __init__(
        self, known: Mapping[tuple[int, Kind], Sizes], micro_batch: int, guesses: Guesses | None, nothing: Sizes
    ) -> None:
        self._known = {(micro, kind): sizes for (micro, kind), sizes in known.items() if micro <= micro_batch}
        self._own = {kind: sizes for (micro, kind), sizes in self._known.items() if micro == micro_batch}
        self._guesses = guesses
        self._any = min(self._known.values(), default=nothing)
        self._found: dict[Kind, Sizes] = {}

    def of(self, kind: Kind) -> Sizes:
        """As laid out, as guessed, as with the next smaller micro-batch, else the smallest of any sort."""
        if kind not in self._found:
            self._found[kind] = self._own.get(kind) or self._guessed(kind) or self._bound(kind)
        return self._found[kind]

    def _guessed(self, kind: Kind) -> Sizes | None:
        if self._guesses is None:
            return None
        return _of_many_layers(self._own, kind) or self._guesses.get(kind) or _of_many_layers(self._guesses, kind)

    def _bound(self, kind: Kind) -> Sizes:
        smaller = [(micro, sizes) for (micro, other), sizes in self._known.items() if other == kind]
        return max(smaller)[1] if smaller else self._any


def _of_many_layers(known: Guesses, kind: Kind) -> Sizes | None:
    """With several layers on the host, what else is there makes no difference as a rule."""
    if kind[0] < SEVERAL:
        return None
    return min((sizes for (whole, _, _), sizes in known.items() if whole >= SEVERAL), default=None)


def _name(settings: Settings) -> Settings:
    """What buffers hang on beside the micro-batch and the sort of placing."""
    return settings._replace(micro_batch=0, batch=0)
