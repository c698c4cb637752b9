"""What vLLM's profiling run takes off the budget: the peak of a full batch, its libraries and its captured graphs.

The run pushes `max_num_batched_tokens` through the model and then samples for `max_num_seqs` requests. On large cards,
where 1024 requests are the default, it is the logits in several copies that peak, not the layers.
"""

from unslow.catalog.runtimes_memory import kernel, vllm_profile
from unslow.facts.hf_shape import HfShape
from unslow.facts.units import padded
from unslow.think.memory.held import NOTHING, Spread
from unslow.think.memory.vllm.settings import Settings

HIDDEN_COPIES = 4
"""Of the hidden state while a feed-forward runs: the stream, the residual, its input and its output."""
KEPT_COPIES = 2
"""Of them while the sampler runs."""
PASSED_COPIES = 2
"""Of them that a pipeline stage hands to the next."""
LOGIT_BYTES = 4
VOCABULARY_STEP = 64
CAPTURE_SIZES_USUAL = 51
UNLINKED = 1.5
"""Over the least that several cards were seen to hold for exchange: only those with NVLink hold gigabytes for it."""
PEAK_LOW, PEAK_HIGH = 0.85, 1.12
"""How far other kernels and other samplers lie from this sum; 60 published profiles lie within."""


def activation_peak(shape: HfShape, settings: Settings, *, first: bool, last: bool) -> Spread:
    """The peak of the profiling run on one rank of a pipeline stage."""
    batch = settings.max_num_batched_tokens * settings.dtype_bytes
    passed = 0 if first and last else PASSED_COPIES * shape.width * batch
    sampled = _sampled(shape, settings) if last else 0
    peak = max(_forward(shape, settings) + passed, sampled) + vllm_profile().buffers
    if kernel(settings.packing).workspace:
        peak += _expert_workspace(shape, settings)
    tower = vllm_profile().tower if shape.other_parameters else 0
    return Spread(round(peak * PEAK_LOW), peak + tower, round(peak * PEAK_HIGH) + 2 * tower)


def _forward(shape: HfShape, settings: Settings) -> int:
    """The largest layer's activations for a full batch."""
    dense = 0 if all(shape.has_experts(layer) for layer in range(shape.layers)) else shape.feed_forward
    inner = (3 if shape.gated else 2) * max(dense, shape.shared_width)
    projected = 3 * shape.heads * max(shape.key_length, shape.full_key_length)
    widest = max(inner, projected) // settings.tensor_parallel
    return (HIDDEN_COPIES * shape.width + widest) * settings.max_num_batched_tokens * settings.dtype_bytes


def _sampled(shape: HfShape, settings: Settings) -> int:
    """The sampler's copies of the logits, beside the batch that they come from."""
    requests = min(settings.max_num_seqs, settings.max_num_batched_tokens)
    copies = settings.release.sampler_copies * LOGIT_BYTES + settings.dtype_bytes
    logits = round(requests * padded(shape.vocabulary, VOCABULARY_STEP) * copies)
    return logits + KEPT_COPIES * shape.width * settings.max_num_batched_tokens * settings.dtype_bytes


def _expert_workspace(shape: HfShape, settings: Settings) -> int:
    """What the experts' kernel keeps: each token as often as it has experts, before and between their matrices."""
    inner = 2 * shape.expert_width // settings.tensor_parallel
    rows = settings.max_num_batched_tokens * shape.experts_used
    return rows * (shape.width + inner) * settings.dtype_bytes if shape.experts else 0


def capture_sizes(settings: Settings) -> int:
    """How many batch sizes graphs are captured for: 1, 2, 4, then every 8th, from 256 on every 16th."""
    largest = min(settings.max_num_seqs * 2, 512, settings.max_num_batched_tokens)
    small = sum(size <= largest for size in (1, 2, 4))
    return small + len(range(8, min(largest + 1, 256), 8)) + len(range(256, largest + 1, 16))


def graphs(shape: HfShape, settings: Settings) -> Spread:
    """The captured graphs of one rank."""
    if settings.enforce_eager:
        return NOTHING
    known = vllm_profile()
    layers = shape.layers // settings.pipeline_parallel
    mid = capture_sizes(settings) / CAPTURE_SIZES_USUAL * (known.graphs + known.graphs_layer * layers)
    return Spread(round(mid / known.graphs_factor), round(mid), round(mid * known.graphs_factor))


def beside_torch(settings: Settings) -> Spread:
    """What the run leaves beside PyTorch's memory, within the budget."""
    known = vllm_profile()
    if settings.tensor_parallel > 1:
        return _exchanged(Spread(*known.beside_parallel), settings)
    return Spread(*(known.beside_pipeline if settings.pipeline_parallel > 1 else known.beside))


def context(settings: Settings) -> Spread:
    """What the driver and the library for exchange hold before anything is loaded, on top of the budget."""
    several = settings.tensor_parallel * settings.pipeline_parallel > 1
    return (
        _exchanged(Spread(*vllm_profile().context_parallel), settings) if several else Spread(*vllm_profile().context)
    )


def _exchanged(seen: Spread, settings: Settings) -> Spread:
    """What several cards hold for exchange: without links of their own the least that was seen, and half of it more."""
    if settings.linked:
        return seen
    most = min(seen.high, round(seen.low * UNLINKED))
    return Spread(seen.low, min(seen.mid, most), most)
