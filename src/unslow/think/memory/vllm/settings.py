"""What a user asks of vLLM, in its own defaults."""

from typing import NamedTuple

from unslow.catalog.runtimes_memory import Release, release
from unslow.facts.units import GIB

LARGE_CARD_BYTES = 70 * GIB
LARGEST_CARD_BYTES = 160 * GIB
"""Cards of so much memory get larger batches by default (arg_utils.py get_batch_defaults)."""
LARGEST_SINCE = (0, 12)
ONE_BYTE = ("fp8", "int8")
KV_BYTES = {"float32": 4.0, "float": 4.0, "nvfp4": 0.5625}


class Settings(NamedTuple):
    """The settings that decide memory; 0 and None take vLLM's default."""

    max_model_len: int
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    gpu_memory_utilization: float | None = None
    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    packing: str = ""
    """How the weights are quantised, by the catalogue's name; empty where they are not."""
    kv_cache_dtype: str = "auto"
    kv_cache_memory_bytes: int = 0
    """A cache of this size on each device, whatever the profile says."""
    block_size: int = 16
    dtype_bytes: int = 2
    """Of activations, and of the cache where its type is auto."""
    state_bytes: int = 4
    """Of recurrent states (`--mamba-ssm-cache-dtype`)."""
    enforce_eager: bool = False
    prefix_caching: bool = True
    hybrid_cache: bool = True
    """Off with `--disable-hybrid-kv-cache-manager`: windowed layers then keep everything."""
    small_batches: bool = False
    """Whether a card of any size gets the batches of a small one, as vLLM has it for the A100."""
    linked: bool = True
    """Whether several cards have links of their own (NVLink), for which they hold gigabytes."""
    version: tuple[int, int] = (0, 28)

    @property
    def release(self) -> Release:
        """How this version counts."""
        return release(self.version)

    @property
    def utilization(self) -> float:
        """The share of a card's memory that is asked for."""
        return self.release.utilization if self.gpu_memory_utilization is None else self.gpu_memory_utilization

    @property
    def kv_bytes(self) -> float:
        """Bytes of one number in the cache."""
        if self.kv_cache_dtype.startswith(ONE_BYTE):
            return 1.0
        return KV_BYTES.get(self.kv_cache_dtype, float(self.dtype_bytes if self.kv_cache_dtype == "auto" else 2))

    def on_card(self, total_bytes: int) -> "Settings":
        """With the batches that a server has by default on such a card."""
        large = total_bytes >= LARGE_CARD_BYTES and not self.small_batches
        largest = total_bytes >= LARGEST_CARD_BYTES and self.version >= LARGEST_SINCE
        tokens = self.max_num_batched_tokens or (16384 if largest else 8192 if large else 2048)
        requests = self.max_num_seqs or (1024 if large or largest else 256)
        return self._replace(max_num_batched_tokens=tokens, max_num_seqs=min(requests, tokens))


def stage_layers(layers: int, stages: int) -> list[range]:
    """The layers of each pipeline stage: evenly, what is left over to the stages before the last."""
    sizes = [layers // stages] * stages
    for left in range(layers % stages):
        sizes[-(left + 2)] += 1
    starts = [sum(sizes[:n]) for n in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
