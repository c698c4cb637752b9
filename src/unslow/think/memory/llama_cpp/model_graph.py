"""The compute graph of a whole model, layer by layer, with the inputs that the host gives it."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import TypeAlias

from unslow.facts.model import Tensor
from unslow.think.memo import remember_once
from unslow.think.memory.llama_cpp import attention, deepseek
from unslow.think.memory.llama_cpp.cache import Build, CacheInputs, cache_inputs
from unslow.think.memory.llama_cpp.delta_net import delta_net
from unslow.think.memory.llama_cpp.feed_forward import feed_forward
from unslow.think.memory.llama_cpp.gemma3n import AltUp
from unslow.think.memory.llama_cpp.graph import Node, UnknownLayoutError
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.memory.llama_cpp.kimi import ResidualAttention, kimi_delta
from unslow.think.memory.llama_cpp.minimax import BlockSparse, lightning_attention
from unslow.think.memory.llama_cpp.places import UNUSUAL_TYPES, Places
from unslow.think.memory.llama_cpp.recurrent import StateRows, mamba, short_convolution
from unslow.think.memory.llama_cpp.rwkv import Rwkv
from unslow.think.memory.llama_cpp.transformer import add_output, embedded_tokens, end_layer, transformer_layer

_LONGEST_PERIOD = 12
_KEPT_PERIODS = 4
_CYCLE = 6  # the gaps alternate from layer to layer, or come back after three: only whole cycles can be left out
_FIRST, _LAST = 4, 2  # Layers at either end that are always laid out: as a rule gaps settle or alternate after two
_MORE = 3  # layers that are laid out beyond one that goes where none went before: the next would as a rule
_WORTH = 0.5  # of all layers; with more of them a try that fails costs as much as it can save
_Steps: TypeAlias = dict[tuple[Hashable, Hashable], Hashable]  # By the gaps before a layer and its kind: those after it


def laid_out_layers(hyper: Hyper, places: Places) -> list[int]:
    """The layers to build, in order; the first and the last are always there."""
    # After a few equal layers the allocator finds the same gaps as a layer before, so that further ones can't make the
    # buffer larger. A model of eighty layers costs what one of ten does. Often fewer do, as a layout tells (Settling).
    kinds: list[Hashable] = []
    for layer, alike in enumerate(alike_layers(hyper)):
        tensors = _tensors(hyper, layer)
        homes = {places.tensor(f"blk.{layer}.{t.name}") for t in tensors}
        # A layer that must not be left out is like no other: weights on the host are copied to a GPU for long prompts,
        # and copies of many sizes leave gaps that never settle; an indexer's picks live on from layer to layer; an
        # encoder's layers have other names
        is_alone = not tensors or hyper.has_indexer(layer) or (places.host in homes and places.host > 0)
        kinds.append(layer if is_alone else (alike, tuple(sorted(homes)), places.layers[layer]))
    return fold_repeats(kinds)


def fold_repeats(kinds: Sequence[Hashable]) -> list[int]:
    """Places in a sequence, without what only repeats what comes before it more often than needed."""
    kept: list[int] = []
    start, end = 0, len(kinds)
    while start < end:
        period, length = 1, 1  # with which the sequence repeats from here for longest, and for how long it does
        for candidate in range(1, _LONGEST_PERIOD + 1):
            stop = start + candidate
            while stop < end and kinds[stop] == kinds[stop - candidate]:
                stop += 1
            if stop - start >= (_KEPT_PERIODS + 1) * candidate and stop - start > length:
                period, length = candidate, stop - start
        spare = max(0, length // period - _KEPT_PERIODS) // _CYCLE * _CYCLE * period
        cut = start + (_KEPT_PERIODS // 2) * period
        kept += [*range(start, cut), *range(cut + spare, start + length)] if spare else range(start, start + length)
        start += length
    return kept


def placed_kinds(hyper: Hyper, places: Places, *, exact: bool = False) -> list[Hashable]:
    """For each layer all that decides which backends compute its part of the graph: sizes do not.

    Exact, all that its part of the graph and of the buffers hangs on, copies of weights of the host too.
    """
    kinds: list[Hashable] = []
    for layer, alike in enumerate(alike_layers(hyper)):
        tensors = _tensors(hyper, layer)
        if not tensors or hyper.has_indexer(layer):
            kinds.append(layer)
            continue
        homes = tuple(places.tensor(f"blk.{layer}.{t.name}") for t in tensors)
        more: Hashable = ()
        if not exact:
            more = tuple(t.type if t.type in UNUSUAL_TYPES else "" for t in tensors)
        elif places.host and places.host in homes:  # lent to the GPUs
            more = tuple(t.bytes for t in tensors)
        kinds.append((alike, homes, more, places.layers[layer], places.cache(layer), hyper.ends_loop(layer)))
    return kinds


class Settling:
    """The layers of one model that are laid out, more with each try that shows that they are too few.

    From the same gaps a layer of the same kind goes to the same gaps. So a few layers are laid out, and the steps from
    gaps to gaps are written down; where those that were left out, step by step, end at the gaps that they begin with,
    they would have changed nothing.
    """

    def __init__(self, kinds: Sequence[Hashable]) -> None:
        self._kinds, self._last_ones = kinds, {kind: layer for layer, kind in enumerate(kinds)}
        self.kept = fewest_layers(kinds)

    @property
    def is_worth_a_try(self) -> bool:
        """Whether it saves much to leave out so many."""
        return len(self.kept) <= _WORTH * len(self._kinds)

    def settles(self, states: Sequence[Hashable]) -> bool:
        """Whether those left out change nothing, by the gaps after each kept layer; else some of them are kept."""
        # Only steps of this very layout count: its size is that of the largest of them.
        steps: _Steps = {}
        for n, layer in enumerate(self.kept):
            if (
                n and layer != self._last_ones[self._kinds[layer]]
            ):  # the last of a kind gives back what only that kind reads
                steps.setdefault((states[n - 1], self._kinds[layer]), states[n])
        gaps = zip(pairwise(self.kept), states, strict=False)
        missing = {layer for (before, after), state in gaps for layer in self._missing(before, after, state, steps)}
        self.kept = sorted({*self.kept, *missing})
        return not missing

    def _missing(self, before: int, after: int, start: Hashable, steps: _Steps) -> Iterator[int]:
        """Of the layers between two: those after the last that ends at the gaps that the first one begins with."""
        state: Hashable = start
        back, reached = before, before
        for layer in range(before + 1, after):
            state, reached = steps.get((state, self._kinds[layer])), layer
            if state is None:
                reached = min(layer + _MORE, after - 1)
                break
            if state == start:
                back = layer
        yield from range(back + 1, reached + 1)


def fewest_layers(kinds: Sequence[Hashable]) -> list[int]:
    """Both ends, the first and the last of each kind, and each kind once after every other that it comes after."""
    # What layers share is so made by the same layer and given back after the same one as if all of them were there. An
    # even number is left out at a time, for gaps may alternate.
    last_ones = {kind: layer for layer, kind in enumerate(kinds)}
    kept = {*range(min(_FIRST, len(kinds))), *range(max(0, len(kinds) - _LAST), len(kinds)), *last_ones.values()}
    seen: set[Hashable] = set()
    for layer, pair in enumerate(pairwise(kinds)):
        if pair not in seen:
            seen.add(pair)
            kept.update((layer, layer + 1))
    kept.update(before + 1 for before, after in pairwise(sorted(kept)) if (after - before) % 2 == 0)
    return sorted(kept)


def alike_layers(hyper: Hyper) -> list[int]:
    """For each layer, the first one that has such tensors, of whatever types, and habits."""

    def kind(layer: int) -> Hashable:
        """All that tells a layer from another one, wherever both lie."""
        numbers = (hyper.heads[layer], hyper.kv_heads[layer], hyper.experts_used[layer], hyper.compressions[layer])
        habits = (
            hyper.layer_windows[layer], hyper.recurrent[layer], layer < hyper.layers_with_cache,
            attention.has_rope(hyper, layer), hyper.clamps("exp", layer), hyper.clamps("shexp", layer),
            layer < hyper.blueprint.count("n_deepstack_layers"),
        )  # fmt: skip
        return tuple((t.name, t.shape) for t in _tensors(hyper, layer)), numbers, habits

    first: dict[Hashable, int] = {}
    return remember_once(hyper, "layers alike", lambda: [first.setdefault(kind(n), n) for n in range(hyper.layers)])


def _tensors(hyper: Hyper, layer: int) -> Sequence[Tensor]:
    every = hyper.blueprint.layer_tensors
    return every[layer] if layer < len(every) else ()


Mixer = Callable[[Build, int, Node, StateRows], Node]
_BY_TENSOR: tuple[tuple[str, Mixer], ...] = (
    ("ssm_conv1d_q.weight", kimi_delta),
    ("ssm_ba.weight", delta_net),
    ("ssm_beta.weight", delta_net),
    ("shortconv.conv.weight", short_convolution),
    ("attn_norm_2.weight", lightning_attention),
)
"""The first tensor that a layer has tells; one with none of them is a state-space layer."""


class Inputs:
    """All inputs but the tokens and their positions."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._caches: dict[bool, CacheInputs] = {}
        self._distances: Node | None = None
        self.encode = attention.CrossAttention(build)
        rows = build.graph.input("I32", build.settings.slots, name="state rows")
        self.state_rows = StateRows(build.graph.view(rows, rows.shape[:1]), build.graph.view(rows, (0,)))

    def cache(self, layer: int) -> CacheInputs:
        """Those of the layer's kind of cache."""
        windowed = self._build.hyper.layer_windows[layer]
        if windowed not in self._caches:
            self._caches[windowed] = cache_inputs(self._build, layer)
        return self._caches[windowed]

    def distance_bias(self, layer: int) -> Node | None:
        """A bias of the scores for each distance, in models that know places by it alone (T5)."""
        build, graph = self._build, self._build.graph
        names = (f"{build.block(owner)}.attn_rel_b.weight" for owner in (layer, 0))
        name = next((name for name in names if build.has(name)), "")
        if not name:
            return None
        if self._distances is None:
            self._distances = graph.input("I32", self.cache(layer).mask.shape[0], build.tokens, name="distances")
        cells, tokens = self._distances.shape[:2]
        found = graph.get_rows(build.weight(name), graph.reshape(self._distances, cells * tokens))
        # For each head and each pair of tokens, by how far these are from each other: (cells, tokens, heads)
        return graph.cont(graph.permute(graph.reshape(found, found.shape[0], cells, tokens), 2, 0, 1, 3))

    @cached_property
    def blocks(self) -> BlockSparse:
        """What picks blocks of tokens, in models that attend to these."""
        return BlockSparse(self._build, self.cache(0).mask)

    @cached_property
    def indexer(self) -> deepseek.Indexer | None:
        """What picks the tokens that attention sees, in models that have it."""
        return deepseek.Indexer(self._build) if self._build.hyper.index_length else None


def build_graph(build: Build) -> None:
    """Add the nodes that read a prompt."""
    if not build.hyper.habits.is_known:
        raise UnknownLayoutError(f"unknown layers in the architecture {build.hyper.blueprint.architecture!r}")
    start, inputs, layers = embedded_tokens(build), Inputs(build), range(build.hyper.layers)
    x = start.x
    mix: Callable[[int, Node], Node] = partial(_mix_tokens, build, inputs)
    own: AltUp | ResidualAttention | deepseek.HyperConnections | None = None
    if build.has("altup_proj.weight"):
        own = AltUp(build, start)
    elif build.has("output_res_score.weight"):
        own = ResidualAttention(build)
    elif build.has("output_hc_fn.weight"):
        own, mix = deepseek.HyperConnections(build), deepseek.CompressedAttention(build).attend
    if own:  # layers that carry more than one sum
        x = own.begin(x)
        for layer in layers:
            x = own.layer(layer, x, partial(mix, layer))
        x = own.end(x)
    elif build.hyper.is_rwkv:
        rwkv = Rwkv(build, inputs.state_rows)
        for layer in layers:
            x = rwkv.layer(layer, x)
    else:
        for layer in build.layers or laid_out_layers(build.hyper, build.places):
            x = end_layer(build, layer, _layer(build, layer, x, inputs), start)
            build.ends.append(x)
    add_output(build, x)


def _layer(build: Build, layer: int, x: Node, inputs: Inputs) -> Node:
    if build.has(f"{build.block(layer)}.cross_attn_q.weight"):
        # One that attends to its own tokens first, and then, as others do to their own, to those of an encoder
        mixed = _mix_tokens(build, inputs, layer, build.norm(x, f"{build.block(layer)}.attn_norm"))
        return transformer_layer(build, layer, build.graph.add(mixed, x), partial(inputs.encode.attend, layer))

    def mix(normed: Node) -> Node:
        mixed = _mix_tokens(build, inputs, layer, normed)
        if not build.hyper.habits.both_kinds:
            return mixed
        again = build.norm(x, f"{build.block(layer)}.attn_norm")
        return build.graph.add(mixed, recurrent_mixer(build, layer)(build, layer, again, inputs.state_rows))

    return transformer_layer(build, layer, x, mix)


def _mix_tokens(build: Build, inputs: Inputs, layer: int, x: Node) -> Node:
    """The first half of a layer, in which tokens see each other: attention, or a state."""
    name = build.block(layer)
    if not build.hyper.attends(layer):
        if build.hyper.recurrent[layer]:
            return recurrent_mixer(build, layer)(build, layer, x, inputs.state_rows)
        # A product in place of attention (some layers of Nemotron 51B), or nothing but a feed-forward network
        is_product = build.has(f"{name}.attn_output.weight")
        return build.linear(x, f"{name}.attn_output") if is_product else feed_forward(build, layer, x)
    # Attention to blocks of tokens (MiniMax M3) takes flash attention, and a cache of its own for each slot
    separate = build.settings.slots == 1 or not build.settings.unified
    if build.hyper.is_latent:
        result = deepseek.latent_attention(build, layer, x, inputs.cache(layer), inputs.indexer)
    elif build.has(f"{name}.attn_kv_b.weight"):
        result = attention.attend(build, layer, deepseek.expanded_heads(build, layer, x), inputs.cache(layer))
    elif build.has(f"{name}.indexer.k_proj.weight") and build.kernels.flash_attention and separate:
        result = inputs.blocks.attend(layer, x, attention.heads_of(build, layer, x), inputs.cache(layer))
    else:
        extras = attention.Extras(score_bias=inputs.distance_bias(layer))
        heads = attention.heads_of(build, layer, x)
        result = attention.attend(build, layer, heads, inputs.cache(layer), extras)
    return attention.attention_output(build, layer, x, result)


def recurrent_mixer(build: Build, layer: int) -> Mixer:
    """What a layer that keeps a state computes."""
    return next((mixer for tensor, mixer in _BY_TENSOR if build.has(f"{build.block(layer)}.{tensor}")), mamba)
