"""What a user asks of Transformers, in the defaults of `generate`."""

from typing import NamedTuple

LATENTS_SINCE = (5, 15)
"""From here on latents are cached as they are; before, the keys and values of all heads that are made from them."""
LAST_LOGITS_SINCE = (4, 45)
"""From here on `generate` computes the logits of the last position alone; before, of all, and in float32."""


class Settings(NamedTuple):
    """The settings that decide memory."""

    prompt_tokens: int
    new_tokens: int = 1
    batch: int = 1
    cache: str = "dynamic"
    """`dynamic` grows with each token; `static` is set aside whole (`cache_implementation="static"`)."""
    attention: str = "sdpa"
    """`sdpa`, `flash` or `eager` (`attn_implementation`)."""
    padded: bool = False
    """Whether prompts of one batch differ in length, so that attention needs a mask."""
    dtype_bytes: int = 2
    """Of activations and of the cache."""
    all_logits: bool = False
    """Whether the logits of every position are wanted, as a bare call of the model gives them."""
    device_map: str = "auto"
    """`auto` (balanced), `sequential`, or `single` for all on the first device."""
    version: tuple[int, int] = (5, 17)

    @property
    def tokens(self) -> int:
        """The length of a sequence at the end."""
        return self.prompt_tokens + self.new_tokens
