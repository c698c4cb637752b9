"""The same answer with the samplers of the server and without them."""

from unslow.think.measuring.measurement import Load, Measurement

MEASUREMENT = Measurement(
    "plain_sampling",
    "generating with and without its samplers, in turns",
    "to see what the choice of each token costs",
    ("run.plain_sampling",),
    lambda _case: Load(prompt_tokens=160, generated_tokens=1024, seconds=0.2),
    about=("sampling_on_cpu",),
)
