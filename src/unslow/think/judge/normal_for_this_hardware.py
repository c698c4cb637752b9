"""The speed is what this hardware gives for this model.

## Why it is so
One stream of tokens reads all active weights, and the keys and values so far, for every token. Memory bandwidth over
those bytes is the ceiling; real engines reach a half to nine tenths of it, small models less, because every layer
also costs a fixed time.

## How to confirm
The measured speed lies within, or above, the interval that physics gives for the same model, quant and context with
every cause cured. The report shows both, and the share of the ceiling that is reached. A well-predicted spill is not
normal: what is cured counts, not what is set up.

Guides give speeds that no memory allows, such as 72 tokens per second for a 70B model in 4 bits on a card of 1 TB/s,
where 42.5 GB for each token leave at most 24. Hold any table against the ceiling first (`unslow check "CLAIM"`).

## What would move it
Fewer bytes for each token: a smaller quant, a smaller model, a mixture of experts with a small active part (all of its
experts must still fit: the active part sets the speed, the whole the memory). More tokens for each read: several
requests at once, which help all together and not one alone, or a draft model where its tokens are accepted. More
bandwidth: another GPU; chips made for inference keep the weights in on-chip memory and reach thousands of tokens per
second on models that fit. Flash attention, more threads or a faster disk move nothing here.

## Safety
Nothing is wrong. Advice to "optimise" a system that is already at its limit costs time and quality.
"""

TITLE = "Normal for this hardware"
NEARLY = 0.97  # Of the interval's low end: repeats of one measurement differ by a few percent themselves


def reaches_achievable(measured: float, achievable_low: float) -> bool:
    """Whether the measured speed reaches the interval that is achievable, as nearly as anybody can measure it."""
    return measured >= NEARLY * achievable_low
