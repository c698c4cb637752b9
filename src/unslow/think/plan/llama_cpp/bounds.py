"""What narrows the search: bounds of compute buffers, placings tried before, and those that can be the quickest."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import inf

from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import SEVERAL, Kind, Ledger, Placing, fewest_on_host, split_layers
from unslow.think.plan.llama_cpp.question import Abilities

Sizes = tuple[int, ...]  # of each GPU
Guesses = Mapping[Kind, Sizes]
Split = tuple[int, ...]  # how many layers each GPU has
Rooms = Mapping[Kind, tuple[float, ...]]
"""What each GPU has for weights and cache, by the sort of placing: every sort has buffers of its own."""
Placed = tuple[Placing, tuple[int, ...]]  # a placing, and how many layers each GPU has
_SMALLEST = 0.6
"""Of what a model needs with less on the host, what it needs at least: as a rule more, but with all layers of Falcon-H1
on the host so little does (tests/think/plan/llama_cpp/test_buffer_bounds.py)."""
_HALF = 0.5
"""Of what a sort of placings needs with a smaller micro-batch, what it needs at least: as a rule more, but seldom the
copies of two layers' keys and values lie side by side with the smaller one, and those of one with the larger."""


class PlacingTrials:
    """The placings tried of one way; what follows from each answer is kept, so that nothing is laid out twice."""

    def __init__(self) -> None:
        self.times = 0
        self._most: dict[Placing, float] = {}  # By the smallest placing of a sort: what of it may lie on GPUs
        self._splits: set[tuple[Placing, Split]] = set()
        self._fewest: dict[int, tuple[int, int]] = {}
        """By whole layers on the host: the pieces beside them with which it fits; with more it is no quicker."""
        self._least = -1  # What GPUs must have more than: with so little there, the host has no room for the rest
        self._is_host_open = True

    def fits(self, placing: Placing) -> None:
        """It was found."""
        self.times += 1
        self._fewest[placing.whole] = (placing.apart, placing.pieces)

    def lacks_gpu(self, placing: Placing, gpu_bytes: int, split: Split = (), better: Split = ()) -> None:
        """GPUs have no room for that, nor for more of its sort, unless there is a split that was not tried yet."""
        self.times += 1
        self._splits.add((placing, split))
        if (placing, better) in self._splits or better == split:
            # The smallest placing with as many whole layers, and as many pieces of the layer after the last
            self._most[Placing(placing.whole, min(placing.apart, 1), placing.pieces)] = gpu_bytes - 1

    def lacks_host(self, gpu_bytes: int) -> None:
        """The host has no room for what that leaves it, nor for more."""
        self.times += 1
        self._least = max(self._least, gpu_bytes)

    def close_host(self) -> None:
        """The host alone was tried."""
        self.times += 1
        self._is_host_open = False

    def most_bytes(self, least: Placing) -> float:
        """What placings of a sort may have on GPUs."""
        return self._most.get(least, inf)

    def is_open(self, placing: Placing, gpu_bytes: int) -> bool:
        """Whether it may fit and be quicker than what was found."""
        known = self._fewest.get(placing.whole)
        return gpu_bytes > self._least and (known is None or (placing.apart, placing.pieces) < known)

    @property
    def is_host_open(self) -> bool:
        """Whether the host alone may do."""
        return self._is_host_open and self._least < 0


_NOTHING = PlacingTrials()


class Fitting:
    """The placings of one model that can be the quickest, as far as its runtime can be told.

    Of each number of whole layers on the host, the fewest pieces that follow: more pieces on the host are never
    faster beside as many whole layers, so nothing else has to be priced.
    """

    def __init__(self, pieces: Pieces, gpus: int, abilities: Abilities, speeds: tuple[float, ...] = ()) -> None:
        self._layers, self._gpus = len(pieces.layers), gpus
        self._speeds = speeds  # Of GPUs that are unlike: the quickest take what they can
        self._sizes = [len(layer.pieces) for layer in pieces.layers]
        self._abilities = abilities
        self._found: dict[tuple[object, ...], list[Placed]] = {}
        self._asked: dict[int, Ledger | PlacingTrials] = {}  # Which keeps them, and with them their numbers

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """All sorts that there are."""
        whole = range(min(SEVERAL, self._layers) + 1)
        return tuple(dict.fromkeys(least.kind for some in whole for least in self._sorts(some)))

    def placings(self, ledger: Ledger, rooms: Rooms, tried: PlacingTrials | None = None) -> list[Placed]:
        """All that can be the quickest where GPUs have so much room, without what was tried."""
        tried = tried or _NOTHING
        key = id(ledger), id(tried), tried.times, tuple(rooms.values())
        if key not in self._found:
            self._asked |= {id(ledger): ledger, id(tried): tried}
            self._found[key] = []
            for whole in range(self._layers + 1 if self._gpus else 0):
                placed = self._fewest(ledger, rooms, whole, tried)
                if placed and tried.is_open(placed[0], ledger.gpu_bytes(placed[0])):
                    self._found[key].append(placed)
            if tried.is_host_open:
                self._found[key].append((Placing(self._layers), (0,) * self._gpus))
        return self._found[key]

    def _fewest(self, ledger: Ledger, rooms: Rooms, whole: int, tried: PlacingTrials) -> Placed | None:
        """The fewest pieces on the host, beside so many whole layers, that the GPUs one by one hold the rest."""
        best: Placing | None = None
        for least in self._sorts(whole):
            found = fewest_on_host(ledger, least, rooms[least.kind], tried.most_bytes(least))
            if found and (best is None or ledger.gpu_bytes(found) > ledger.gpu_bytes(best)):
                best = found
            if best and best.first_complete == whole:  # no pieces at all
                break
        return best and (best, split_layers(ledger, best, rooms[best.kind], self._speeds))

    def _sorts(self, whole: int) -> Iterator[Placing]:
        """The smallest placing of each sort."""
        yield Placing(whole)
        if not self._abilities.apart or whole >= self._layers:
            return
        pieces = max(1, *self._sizes) if self._abilities.partly else 1
        yield from (Placing(whole, 0, some) for some in range(1, pieces))
        yield from (Placing(whole, 1, some) for some in range(pieces if whole + 1 < self._layers else 1))


class Buffers:
    """What is known of the compute buffers of one model on one machine, by settings.

    Placings that leave the same sort of work to the host need the same buffers, or nearly. As a rule a larger
    micro-batch needs no smaller ones, and more on the host doesn't either; a part of what those need is a bound.
    """

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
        smallest[key] = _of_each(min, [*([smallest[key]] if key in smallest else []), _part(share, tuple(sizes))])
        buffers = self._known.setdefault(name, {})
        known = buffers.get(key)
        if known is not None:
            sizes = [max(size, old + max(0, less)) for size, old, less in zip(sizes, known, lacking, strict=False)]
        buffers[key] = tuple(sizes)

    def hint(self, settings: Settings, kind: Kind, sizes: Sequence[int]) -> None:
        """An unknown layout: only guessed."""
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
            known = self._own.get(kind)
            if not known and self._guesses is not None:
                known = _of_many_layers(self._own, kind) or self._guesses.get(kind)
                known = known or _of_many_layers(self._guesses, kind)
                alike = (sizes for other, sizes in self._own.items() if bool(other[0]) == bool(kind[0]))
                known = known or _of_each(max, alike)
            self._found[kind] = known or self._bound_sizes(kind)
        return self._found[kind]

    def _bound_sizes(self, kind: Kind) -> Sizes:
        """By other micro-batches and sorts, of which something less may do."""
        smaller = [(micro, sizes) for (micro, other), sizes in self._known.items() if other == kind]
        bounds = [_part(_HALF, max(smaller)[1])] if smaller else []
        for other, sizes in self._own.items():
            if other[0] <= kind[0] and other[1:] <= kind[1:]:  # it leaves no other sort of work to the host
                bounds.append(_part(_SMALLEST, sizes))
        return _of_each(max, [self._smallest, *bounds])


def _of_many_layers(known: Guesses, kind: Kind) -> Sizes | None:
    """With several layers on the host, what else is there makes no difference as a rule."""
    if kind[0] < SEVERAL:
        return None
    return _of_each(min, (sizes for (whole, _, _), sizes in known.items() if whole >= SEVERAL)) or None


def _of_each(end: Callable[..., int], every: Iterable[Sizes]) -> Sizes:
    """The smallest or the largest size of each GPU."""
    return tuple(map(end, zip(*every, strict=True)))


def _part(share: float, sizes: Sizes) -> Sizes:
    return tuple(int(share * size) for size in sizes)


def _name(settings: Settings) -> Settings:
    """What buffers hang on beside the micro-batch and the sort of placing."""
    return settings._replace(micro_batch=0, batch=0)
