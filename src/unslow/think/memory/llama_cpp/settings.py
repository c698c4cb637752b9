"""What a user asks of llama.cpp, in its own defaults."""

from typing import NamedTuple

from unslow.facts.values import padded

CELLS_PADDING = 256  # the context, and the cells of each slot, are multiples of this


class Settings(NamedTuple):
    """The settings that decide memory."""

    context: int = 4096  # All tokens together (`-c`); divided among the slots unless they share one cache
    batch: int = 2048
    micro_batch: int = 512
    slots: int = 1
    unified: bool = False  # Whether the slots share one cache (`-kvu`)
    key_type: str = "F16"
    value_type: str = "F16"
    flash_attention: bool | None = None
    """None lets llama.cpp decide: on, where the device of every layer can compute it."""
    outputs: int = 0  # The most tokens of a batch whose logits are wanted: a server's slots; 0 means every token
    gpu_layers: int = -1  # How many layers go to the GPUs, the output counted as one; -1 for all
    cache_on_gpu: bool = True
    offload_ops: bool = True
    """Whether GPUs compute long prompts with weights borrowed from the host (`--no-op-offload` forbids it)."""
    full_windows: bool = False  # Whether sliding-window layers keep the whole context (`--swa-full`)
    experts_on_cpu: int = 0  # Of how many layers, from the first, the experts stay on the host (`--n-cpu-moe`)
    overrides: tuple[tuple[str, str], ...] = ()
    """Patterns of tensor names, and the device that matching ones go to (`-ot`)."""
    split: tuple[float, ...] = ()  # The shares of several GPUs; by their free memory where empty
    fuses: bool = False
    """Whether CUDA keeps what its fused kernels read, as builds after b10586 do (see scheduler.py)."""

    @property
    def transposes_values(self) -> bool:
        """Whether values lie transposed in the cache: where flash attention is forbidden, not where it only fails."""
        return self.flash_attention is False

    @property
    def cache_types(self) -> str:
        """The type of keys and values in small letters; both where they differ, the keys' first."""
        key, value = self.key_type.lower(), self.value_type.lower()
        return key if key == value else f"{key}/{value}"

    @property
    def slot_context(self) -> int:
        """The cells that a slot has, as llama.cpp pads them."""
        whole = padded(self.context, CELLS_PADDING)
        return whole if self.unified else padded(whole // self.slots, CELLS_PADDING)

    @property
    def streams(self) -> int:
        """Caches side by side."""
        return 1 if self.unified else self.slots

    @property
    def whole_context(self) -> int:
        """What the context comes to after padding."""
        return self.slot_context * self.streams

    @property
    def used_batch(self) -> int:
        """The batch, which the context limits."""
        return min(self.batch, self.context)

    @property
    def used_micro_batch(self) -> int:
        """The largest piece of a batch that is computed at once."""
        return min(self.used_batch, self.micro_batch or self.used_batch)

    @property
    def tokens(self) -> int:
        """The tokens of that piece, equally many of each slot."""
        return padded(min(self.whole_context, self.used_micro_batch), self.slots)

    @property
    def most_outputs(self) -> int:
        """The tokens of a piece whose logits are wanted at most."""
        return min(self.whole_context, self.used_micro_batch, self.outputs or self.used_batch)


def ollama_micro_batch(context: int) -> int:
    """What Ollama takes for a context of one request where memory allows it, else 512.

    generationBatchForContext in its server/sched.go, since 0.30.
    """
    return 512 if context <= 4096 else 1024 if context <= 32768 else 2048  # noqa: PLR2004
