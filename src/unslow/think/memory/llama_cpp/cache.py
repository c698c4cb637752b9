"""The cache of llama.cpp: what each layer keeps, what the host tells it, and how it is written and read."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.values import pad_to
from unslow.think.memory.llama_cpp.graph import Graph, Node, UnknownLayoutError, block_of, four, row_bytes
from unslow.think.memory.llama_cpp.hyperparameters import CELLS_PADDING, LOW_RATIO, Hyper, Settings
from unslow.think.memory.llama_cpp.places import Places

_PICKED_INSIDE = ("attention", "post_norm", "sum", "feed_forward")  # After these, only the wanted tokens go on


class Kernels(NamedTuple):
    """Which operations run as one kernel; llama.cpp spells out those that a layer's device can't compute."""

    flash_attention: bool = True
    delta_step: bool = True  # A gated delta network, one token for each sequence
    delta_chunk: bool = True  # The same for many tokens
    stream_sums: bool = True  # What a layer reads of several residual streams
    stream_weights: bool = True  # How much of each stream goes into each
    stream_writes: bool = True  # What a layer adds to them
    indexer: bool = True  # What picks the tokens that sparse attention sees


class Build:
    """A graph under construction for one model, its settings and its placement."""

    def __init__(
        self, hyper: Hyper, settings: Settings, places: Places, kernels: Kernels, tokens: int | None = None
    ) -> None:
        self.hyper, self.settings, self.places, self.kernels = hyper, settings, places, kernels
        self.graph = Graph()
        self.fused: list[tuple[int, Node]] = []  # The nodes that are one kernel, with their layers
        self.layers: Sequence[int] = ()  # Those that are laid out; as many as surely do where unknown
        self.ends: list[Node] = []  # What each of them hands on
        self.is_trial = tokens is not None  # Whether the graph is only made to see which kernels can be used
        self.tokens = settings.tokens if tokens is None else tokens
        self.sequence_tokens = self.tokens // settings.slots  # The tokens of each sequence, which all have equally many
        self.block = hyper.block
        self._tensors = hyper.blueprint.by_name
        self._weights: dict[tuple[str, int], Node] = {}
        self._inputs: dict[str, Node] = {}
        self.token_numbers = self.graph.input("I32", self.tokens, name="tokens")
        self.positions = self.graph.input("I32", self.tokens * hyper.positions, name="positions")
        asked = settings._replace(outputs=0) if hyper.habits.has_encoder else settings
        outputs = asked.most_outputs if tokens is None else tokens
        self.wanted = self.graph.input("I32", outputs, name="wanted outputs")

    def has(self, name: str) -> bool:
        return name in self._tensors

    def weight(self, name: str, place: int | None = None) -> Node:
        """A tensor of the model, where it lies or at a given place."""
        home = self.places.tensor(name) if place is None else place
        if (name, home) not in self._weights:
            tensor = self._tensors.get(name)
            if tensor is None:
                architecture = self.hyper.blueprint.architecture
                raise UnknownLayoutError(f"unknown layers in the architecture {architecture!r}: no {name}")
            if tensor.type not in quants():
                raise UnknownLayoutError(f"{name} has an unknown type")
            node = Node("none", tensor.type, four(tensor.shape), name=name)
            node.home, node.is_weight = home, True
            self._weights[name, home] = node
        return self._weights[name, home]

    def size(self, key: str) -> int:
        """A number of the file that sizes are made of; UnknownLayoutError where it has none."""
        number = self.hyper.blueprint.count(key)
        if number < 1:
            raise UnknownLayoutError(f"the file has no {key}")
        return number

    def picks(self, layer: int) -> str:
        """Where in this layer the wanted tokens are picked; empty where all go on."""
        place = self.hyper.habits.picks_outputs
        return place if layer == self.hyper.layers - 1 and place in _PICKED_INSIDE else ""

    def shared_input(self, kind: str, *shape: int, name: str) -> Node:
        """An input that several layers read, made when the first one asks for it."""
        if name not in self._inputs:
            self._inputs[name] = self.graph.input(kind, *shape, name=name)
        return self._inputs[name]

    def linear(self, x: Node, name: str) -> Node:
        """A product with a weight, and its bias where it has one."""
        product = self.graph.mul_mat(self.weight(f"{name}.weight"), x)
        if self.has(f"{name}.scale"):
            product = self.graph.mul(product, self.weight(f"{name}.scale"))
        return self.graph.add(product, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else product

    def norm(self, x: Node, name: str, op: str = "") -> Node:
        """A norm with its weight and bias; without a weight of that name, the norm alone."""
        normed = self.graph.norm(x, op or self.hyper.norm)
        full = f"{name}.weight"
        weight = full if self.has(full) else name  # some files leave out what the name ends with elsewhere
        if self.has(weight):
            normed = self.graph.mul(normed, self.weight(weight))
        return self.graph.add(normed, self.weight(f"{name}.bias")) if self.has(f"{name}.bias") else normed

    def cache_tensor(self, kind: str, layer: int, *shape: int) -> Node:
        node = Node("none", kind, four(shape), name=f"cache {layer}")
        node.home = self.places.cache(layer)
        return node


_ROTATION = 64  # the smallest matrix that quantised keys and values are rotated with


class LayerCache(NamedTuple):
    """One layer's part of the cache, of all slots."""

    layer: int
    cells: int  # The tokens that each slot has room for; 0 for a layer that only keeps a state
    tables: tuple[Node, ...]

    @property
    def bytes(self) -> int:
        """All of it, without what a device adds."""
        return sum(table.bytes for table in self.tables)


class CacheInputs(NamedTuple):
    """What the host tells a kind of cache before each computation."""

    mask: Node
    key_rows: Node | None = None
    value_rows: Node | None = None
    key_rotation: Node | None = None
    value_rotation: Node | None = None


def layer_caches(hyper: Hyper, settings: Settings) -> list[LayerCache]:
    """The cache, layer by layer; layers that have none of their own are left out."""
    return [_layer_cache(hyper, settings, il) for il in range(hyper.all_layers) if hyper.has_own_cache(il)]


def _layer_cache(hyper: Hyper, settings: Settings, layer: int) -> LayerCache:
    tables: tuple[Node, ...] = ()
    if hyper.recurrent[layer]:  # the last inputs of a convolution, and what a layer remembers of all before
        elements = (hyper.convolution_elements, hyper.memory_elements)
        tables = tuple(Node("none", "F32", (n, max(1, settings.slots), 1, 1)) for n in elements)
    if hyper.recurrent[layer] and not hyper.attends(layer):
        return LayerCache(layer, 0, tables)
    cells = cells_of(hyper, settings, layer)
    if hyper.is_compressed:
        return LayerCache(layer, cells, tuple(_compressed_tables(hyper, settings, layer, cells)))
    widths = [(settings.key_type, hyper.key_length(layer) * hyper.kv_heads[layer])]
    if not hyper.is_latent:
        own = hyper.value_length(layer) * hyper.kv_heads[layer]  # transposed, all layers take as many as the widest
        widths.append((settings.value_type, hyper.widest_values if settings.transposes_values else own))
    if hyper.has_indexer(layer):
        widths.append((settings.key_type, hyper.index_length))
        if not hyper.is_latent:  # these values are never read
            widths.append((settings.value_type, hyper.value_length(layer)))
    more = (Node("none", kind, (width, cells, settings.streams, 1)) for kind, width in widths)
    return LayerCache(layer, cells, (*tables, *more))


def cells_of(hyper: Hyper, settings: Settings, layer: int) -> int:
    """The tokens that a slot's cache of this layer holds."""
    whole = settings.slot_context
    if not hyper.layer_windows[layer] or settings.full_windows:
        return whole
    sharing = settings.slots if settings.unified else 1
    return pad_to(min(whole, hyper.window * sharing + settings.used_micro_batch), CELLS_PADDING)


def _compressed_tables(hyper: Hyper, settings: Settings, layer: int, cells: int) -> Iterator[Node]:
    """The last tokens; rows of many tokens, and the tokens that do not fill one yet; those of an indexer."""
    kind, slots, length = settings.key_type, settings.slots, hyper.key_length(layer)
    yield Node("none", kind, (length, cells, slots, 1))
    ratio = hyper.compressions[layer]
    if not ratio or layer >= hyper.layers:
        return
    parts = 2 if ratio == LOW_RATIO else 1
    for width in (length, hyper.index_length) if ratio == LOW_RATIO else (length,):
        yield Node("none", kind, (width, compressed_cells(settings, ratio), slots, 1))
        yield from (Node("none", "F32", (parts * width, parts * ratio, slots, 1)) for _ in range(2))


def compressed_cells(settings: Settings, ratio: int) -> int:
    """The compressed rows that a slot has room for."""
    return pad_to(max(1, -(-settings.slot_context // ratio)), CELLS_PADDING)


def cache_inputs(build: Build, layer: int) -> CacheInputs:
    """The inputs of the cache that this layer and all of its kind use."""
    hyper, settings, graph = build.hyper, build.settings, build.graph
    kind, tokens = "F16" if build.kernels.flash_attention else "F32", build.tokens
    if not hyper.reads_cache:
        return CacheInputs(graph.input(kind, tokens, tokens, name="mask"))
    value_rows = None
    if not hyper.is_latent and not hyper.is_compressed:
        width = hyper.widest_values if settings.transposes_values else 1
        value_rows = graph.input("I64", tokens * width, name="value rows")
    mask, key_rows = mask_input(build, layer, kind), graph.input("I64", tokens, name="key rows")
    key_rotation = value_rotation = None
    if not hyper.is_latent and _can_rotate(build, layer, "key"):
        key_rotation = rotation_input(build, hyper.key_length(layer))
    if not hyper.is_latent and block_of(settings.value_type)[0] > 1 and _can_rotate(build, layer, "value"):
        value_rotation = graph.input("F32", _ROTATION, _ROTATION, name="value rotation")
    return CacheInputs(mask, key_rows, value_rows, key_rotation, value_rotation)


def mask_input(build: Build, layer: int, kind: str) -> Node:
    """Which tokens of the cache each new one sees."""
    streams = build.settings.streams
    cells = cells_of(build.hyper, build.settings, layer)
    return build.graph.input(kind, cells, build.tokens // streams, 1, streams, name="mask")


def rotation_input(build: Build, length: int, *, always: bool = False) -> Node | None:
    """A matrix that keys of this length are rotated with, where they are quantised."""
    if not always and block_of(build.settings.key_type)[0] == 1:
        return None
    size = length & -length  # the largest power of two that divides it
    return build.graph.input("F32", size, size, name="key rotation")


def _can_rotate(build: Build, layer: int, what: str) -> bool:
    """Whether all heads of this cache are equally long, and those of the first layer are of a fitting length."""
    hyper = build.hyper
    if hyper.window and any(hyper.recurrent):
        return False  # llama.cpp has no rotation for such a pair of caches beside states
    length_of = hyper.key_length if what == "key" else hyper.value_length
    kin = [il for il in range(hyper.all_layers) if hyper.has_own_cache(il) and hyper.attends(il)]
    lengths = {length_of(il) for il in kin if hyper.layer_windows[il] == hyper.layer_windows[layer]}
    return len(lengths) == 1 and length_of(0) % _ROTATION == 0


def store_in_cache(
    build: Build, layer: int, key: Node | None, value: Node | None, inputs: CacheInputs
) -> tuple[Node, Node]:
    """The keys and values of the whole cache as views, after the new ones were written; those given without a cache."""
    hyper, settings = build.hyper, build.settings
    if inputs.key_rows is None and key is not None and value is not None:
        return key, value
    # Its own cache, or that of a layer that it shares
    own = hyper.layers_with_cache
    owner = layer if layer < own else own - (2 if hyper.layer_windows[layer] else 1)
    length, heads, cells = hyper.key_length(owner), hyper.kv_heads[owner], cells_of(hyper, settings, owner)
    keys = _store_rows(build, owner, settings.key_type, (length, heads, cells), key, inputs.key_rows)
    if hyper.is_latent:
        length = value.shape[0] if value is not None else length
        return keys, build.graph.view(keys, (length, *keys.shape[1:]), keys.strides[1:])
    shape = hyper.value_length(owner), heads, cells
    if settings.transposes_values:
        return keys, _store_transposed(build, owner, shape, value, inputs.value_rows)
    return keys, _store_rows(build, owner, settings.value_type, shape, value, inputs.value_rows)


def store_single_head(build: Build, layer: int, key: Node, rows: Node | None, cells: int) -> Node:
    """The keys of a whole cache with one head for all, such as an indexer's, after the new ones were written."""
    return _store_rows(build, layer, build.settings.key_type, (key.shape[0], 1, cells), key, rows)


def _store_rows(
    build: Build, layer: int, kind: str, shape: tuple[int, int, int], new: Node | None, rows: Node | None
) -> Node:
    """A whole cache of (length, heads, cells), after a row for each new token or block of them was written."""
    graph, streams, (length, heads, cells) = build.graph, build.settings.streams, shape
    width = length * heads
    cache = build.cache_tensor(kind, layer, width, cells, streams)
    if new is not None and rows is not None:
        new = graph.view(new, (width, rows.shape[0]), (new.strides[2],))
        target = cache if streams == 1 else graph.reshape(cache, width, cells * streams)
        graph.expand(graph.set_rows(target, new, rows))
    row = row_bytes(kind, width)
    return graph.view(cache, (length, heads, cells, streams), (row_bytes(kind, length), row, row * cells))


def _store_transposed(
    build: Build, layer: int, shape: tuple[int, int, int], value: Node | None, rows: Node | None
) -> Node:
    """The same of values with a row for each element, filled up to the width of the widest layer."""
    graph, settings, (length, heads, cells) = build.graph, build.settings, shape
    kind, width = settings.value_type, build.hyper.widest_values
    cache = build.cache_tensor(kind, layer, width, cells, settings.streams)
    if value is not None and rows is not None:
        own = value.shape[0] * value.shape[1]
        merged = value.strides[2] == row_bytes(value.kind, own)
        new = graph.reshape(value, own, build.tokens) if merged else graph.cont(value, own, build.tokens)
        if own < width:
            new = graph.pad(new, width - own)
        target = graph.reshape(cache, 1, cache.elements)
        graph.expand(graph.set_rows(target, graph.reshape(new, 1, new.elements), rows))
    row = row_bytes(kind, cells)
    return graph.view(cache, (cells, heads, length, settings.streams), (row * length, row, row * width))
