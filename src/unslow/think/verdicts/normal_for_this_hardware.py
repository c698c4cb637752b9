"""The speed is what this hardware gives for this model.

## Why it is so
One stream of tokens reads all active weights, and the keys and values so far, for every token. Memory bandwidth over
those bytes is the ceiling; real engines reach a half to nine tenths of it, small models less, because every layer
also costs a fixed time.

## How to confirm
The measured speed lies within, or above, the interval that physics gives for the same model, quant and context with
every cause cured. The report shows both, and the share of the ceiling that is reached.

## What would move it
Fewer bytes for each token: a smaller quant, a smaller model, a mixture of experts with a small active part. More
tokens for each read: several requests at once, a draft model. More bandwidth: another GPU; chips made for inference
keep the weights in on-chip memory and reach thousands of tokens per second on models that fit.

## Safety
Nothing is wrong. Advice to "optimise" a system that is already at its limit costs time and quality.
"""

TITLE = "Normal for this hardware"


def reached(measured: float, achievable_low: float) -> bool:
    """Whether the measured speed reaches the interval that is achievable."""
    return measured >= achievable_low
