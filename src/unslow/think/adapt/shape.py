"""The model of a case in the numbers that decide its speed."""

import re

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, not_found
from unslow.think.adapt.remembered import once
from unslow.think.instructions import spelled_out
from unslow.think.physics.kv_cache import kv_bytes_per_token
from unslow.think.physics.placement import Shape

_BITS_TOKEN_TABLE, _BITS_OUTPUT = 4.5, 6.5625  # Q4_K and Q6_K, as the K mixes store them
_EXPERT_MATRICES = 3  # gate, up, down
_PARAMETERS_PER_WIDTH_SQUARED = 13  # of a layer with grouped heads: 13.0 in Llama 3 8B, 12.8 in 70B, 14.5 in 1B
_MOST_LAYERS = 130
ACTIVE_PART = re.compile(r"(?<![a-z0-9.])(?:(\d{1,4}(?:\.\d)?)b[-_ ]?)?a(\d{1,3}(?:\.\d)?)b(?![a-z0-9])", re.IGNORECASE)
"""Names of mixtures that say how many parameters there are, and how many a token uses."""


def missing(what: str, how_to_get: str = "") -> MissingFactError:
    """The error that becomes "cannot tell"."""
    return MissingFactError(not_found(what, how_to_get))


def is_mixture(case: Case) -> bool:
    """Whether the model is a mixture of experts: by its file, by the catalogue, or by a name such as 30B-A3B."""
    return case.model.experts.value_or(0) >= 1 or bool(ACTIVE_PART.search(case.model.name.value_or("")))


def kv_per_token(case: Case) -> float:
    """Bytes of keys and values for a token: as allocated, else from the heads; 0 where neither is known."""
    runtime, model = case.runtime, case.model
    cells = runtime.kv_cells.value_or(0)
    if cells and isinstance(runtime.kv_bytes, Known):
        return runtime.kv_bytes.value / cells
    return kv_bytes_per_token(
        model.layers.value_or(0),
        model.kv_heads.value_or(0),
        model.key_length.value_or(0),
        model.value_length.value_or(0),
        (runtime.kv_type_k.value_or("f16"), runtime.kv_type_v.value_or("f16")),
    )


@once
def read_shape(case: Case) -> Shape:
    """The model in plain numbers; MissingFactError where its size or its layers are unknown."""
    model = case.model
    weights = model.weights_bytes.need()
    layers = model.layers.value_or(0) or case.runtime.layers.value_or(0) - 1
    if layers < 1:
        layers = _layers_by_size(case)
    entries = model.vocabulary.value_or(0) * model.width.value_or(0)
    table = model.token_table_bytes.value_or(entries * _BITS_TOKEN_TABLE / 8)
    output = model.output_bytes.value_or(entries * _BITS_OUTPUT / 8)
    outside = table if model.output_tied.value_or(default=False) else table + output
    if outside >= weights:
        raise missing("what the weights consist of", "give the path of the model file")
    layer_bytes = (weights - outside) / layers
    experts = _expert_share(case, layers * layer_bytes)
    return Shape(
        layers, layer_bytes, output, 1 - experts * (1 - _used_share(case)), kv_per_token(case),
        model.width.value_or(4096), model.vocabulary.value_or(0), experts,
    )  # fmt: skip


def _layers_by_size(case: Case) -> int:
    """The number of layers of a dense model by its parameters and width, where no log and no file tells it."""
    model = case.model
    width, vocabulary = model.width.need(), model.vocabulary.need()
    inside = model.parameters.need() - 2 * width * vocabulary
    layers = round(inside / (_PARAMETERS_PER_WIDTH_SQUARED * width**2)) if width else 0
    if not 1 <= layers <= _MOST_LAYERS:  # far more parameters than a dense model of this width has: experts
        raise missing("the number of layers", spelled_out("{load_log}, or the path of the model file", case))
    return layers


def _used_share(case: Case) -> float:
    """The part of the experts that one token uses."""
    experts, used = case.model.experts.value_or(0), case.model.experts_used.value_or(0)
    return used / experts if 0 < used < experts else 1.0


def _expert_share(case: Case, layers_bytes: float) -> float:
    """The part of the layers' bytes that is experts; 0 where none of them sits out."""
    model = case.model
    if _used_share(case) >= 1:
        return 0.0
    if isinstance(model.expert_bytes, Known):
        return min(1.0, model.expert_bytes.value / layers_bytes)
    width, wide = model.expert_width.need(), model.width.need()
    parameters = _EXPERT_MATRICES * width * wide * model.experts.need() * model.layers.need()
    tables = (1 if model.output_tied.value_or(default=False) else 2) * model.vocabulary.value_or(0) * wide
    return min(1.0, parameters / max(1, model.parameters.need() - tables))
