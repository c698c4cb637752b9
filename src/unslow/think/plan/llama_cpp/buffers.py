"""What is known of compute buffers: as laid out, and as they are bound to be before that.

Placings that leave the same sort of work to the host need the same buffers, or nearly. As a rule a larger micro-batch
needs no smaller ones, and more with the host doesn't either; a part of what those need is a bound.
"""

from collections.abc import Iterable, Mapping, Sequence

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.plan.llama_cpp.placing import SEVERAL, Kind

Sizes = tuple[int, ...]
"""Of each GPU."""
Guesses = Mapping[Kind, Sizes]
_SMALLEST = 0.6
"""Of what a model needs with less on the host, what it needs at least: as a rule more, but with all layers of Falcon-H1
on the host so little does (tests/think/plan/llama_cpp/test_buffer_bounds.py)."""

_HALF = 0.5
"""Of what a sort of placings needs with a smaller micro-batch, what it needs at least: as a rule more, but seldom the
copies of two layers' keys and values lie side by side with the smaller one, and those of one with the larger."""


class Buffers:
    """Of one model on one machine, by settings."""

    def __init__(self, gpus: int) -> None:
        self._nothing: Sizes = (0,) * gpus
        self._known: dict[Settings, dict[tuple[int, Kind], Sizes]] = {}
        self._smallest: dict[Settings, dict[tuple[int, Kind], Sizes]] = {}
        self._bases: dict[Settings, dict[int, Sizes]] = {}
        self._hints: dict[Settings, dict[tuple[int, Kind], Sizes]] = {}

    def least(self, settings: Settings, guesses: Guesses | None = None) -> "Least":
        """The smallest that each sort of placing can need with these settings; with guesses, what it is as a rule."""
        name, micro = _name(settings), settings.micro_batch
        known = (self._smallest if guesses is None else self._known).get(name, {})
        bases = {size: sizes for size, sizes in self._bases.get(name, {}).items() if size <= micro}
        base = bases[max(bases)] if bases else self._nothing
        return Least(known, micro, guesses, _part(_SMALLEST, base))

    def has_base(self, settings: Settings) -> bool:
        """Whether it is known what they need with nothing on the host."""
        return settings.micro_batch in self._bases.get(_name(settings), {})

    def learn_base(self, settings: Settings, sizes: Sequence[int]) -> None:
        """What they need with nothing on the host, and one batch at a time."""
        self._bases.setdefault(_name(settings), {})[settings.micro_batch] = tuple(sizes)

    def learn(self, settings: Settings, kind: Kind, sizes: Sequence[int], lacking: Sequence[int]) -> None:
        """What a sort of placings needs; where that was known and did not do, so much more is likely."""
        name, key = _name(settings), (settings.micro_batch, kind)
        smallest = self._smallest.setdefault(name, {})
        share = 1 if len(sizes) == 1 else _SMALLEST  # of several GPUs, each needs more or less as layers are divided
        smallest[key] = _smaller([*([smallest[key]] if key in smallest else []), _part(share, tuple(sizes))])
        buffers = self._known.setdefault(name, {})
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
        self, known: Mapping[tuple[int, Kind], Sizes], micro_batch: int, guesses: Guesses | None, smallest: Sizes
    ) -> None:
        self._known = {(micro, kind): sizes for (micro, kind), sizes in known.items() if micro <= micro_batch}
        self._own = {kind: sizes for (micro, kind), sizes in self._known.items() if micro == micro_batch}
        self._guesses, self._smallest = guesses, smallest
        self._found: dict[Kind, Sizes] = {}

    def of(self, kind: Kind) -> Sizes:
        """As laid out, as guessed, else the most that follows from what is known of others."""
        if kind not in self._found:
            self._found[kind] = self._own.get(kind) or self._guessed(kind) or self._bound(kind)
        return self._found[kind]

    def _guessed(self, kind: Kind) -> Sizes | None:
        if self._guesses is None:
            return None
        known = _of_many_layers(self._own, kind) or self._guesses.get(kind) or _of_many_layers(self._guesses, kind)
        return known or _larger(sizes for other, sizes in self._own.items() if bool(other[0]) == bool(kind[0])) or None

    def _bound(self, kind: Kind) -> Sizes:
        """By other micro-batches and sorts, of which something less may do."""
        smaller = [(micro, sizes) for (micro, other), sizes in self._known.items() if other == kind]
        bounds = [_part(_HALF, max(smaller)[1])] if smaller else []
        bounds += [_part(_SMALLEST, sizes) for other, sizes in self._own.items() if _has_less(other, kind)]
        return _larger([self._smallest, *bounds])


def _has_less(one: Kind, other: Kind) -> bool:
    """Whether it leaves the host no work of a sort that the other does not."""
    return one[0] <= other[0] and one[1:] <= other[1:]


def _of_many_layers(known: Guesses, kind: Kind) -> Sizes | None:
    """With several layers on the host, what else is there makes no difference as a rule."""
    if kind[0] < SEVERAL:
        return None
    return _smaller(sizes for (whole, _, _), sizes in known.items() if whole >= SEVERAL) or None


def _smaller(every: Iterable[Sizes]) -> Sizes:
    """The smallest of each GPU."""
    return tuple(map(min, zip(*every, strict=True)))


def _larger(every: Iterable[Sizes]) -> Sizes:
    """The largest of each GPU."""
    return tuple(map(max, zip(*every, strict=True)))


def _part(share: float, sizes: Sizes) -> Sizes:
    return tuple(int(share * size) for size in sizes)


def _name(settings: Settings) -> Settings:
    """What buffers hang on beside the micro-batch and the sort of placing."""
    return settings._replace(micro_batch=0, batch=0)
