"""The usual speed: what all else is judged by."""

from unslow.think.measuring.catalogue._here import WHILE_GENERATING
from unslow.think.measuring.measurement import Load, Measurement

MEASUREMENT = Measurement(
    "speed",
    "generating answers as usual",
    "to know what this server gives",
    (
        "run.completions",
        "run.decode_tokens_per_s",
        "run.prefill_tokens_per_s",
        "run.time_to_first_token_s",
        "run.client_decode_tokens_per_s",
        "run.depth_tokens",
        "run.queue_s",
        *WHILE_GENERATING,
    ),
    lambda _case: Load(prompt_tokens=160, generated_tokens=16, seconds=9.0),
)
