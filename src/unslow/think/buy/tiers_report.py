"""The versioned answer of `unslow tiers`."""

from unslow.think.speed.report import RateShown, Shown

TIERS_SCHEMA = "unslow.tiers/1"


class RunsShown(Shown, frozen=True, kw_only=True):
    """A model that fits whole."""

    model: str
    parameters: int
    is_sparse: bool
    """Whether a token meets only some of its experts."""
    quant: str
    """The finest usual one that fits."""
    weights_bytes: int
    most_context: int | None
    """The longest that fits with it, up to what the model was trained for."""
    tokens_per_s: RateShown | None
    """On the typical device of the tier."""
    prefill_tokens_per_s: RateShown | None = None
    backend: str = ""
    """What both were predicted with."""
    alike: int = 0
    """How many others of the catalogue have the same shape."""


class MissesShown(Shown, frozen=True, kw_only=True):
    """A model that just does not fit, and what would make it."""

    model: str
    parameters: int
    quant: str
    lacks_bytes: int
    would_fit: str
    """What to give up; empty where nothing usual helps."""


class TierShown(Shown, frozen=True, kw_only=True):
    """A size of memory."""

    memory_bytes: int
    unified: bool
    device: str
    """The typical one: of the middle bandwidth among those with so much memory, of cards those of the cheaper half;
    empty where there is none."""
    devices: int
    """How many of the catalogue have so much."""
    bytes_per_s: float | None
    runs: tuple[RunsShown, ...] = ()
    """The largest first."""
    misses: tuple[MissesShown, ...] = ()


class TiersReport(Shown, frozen=True, kw_only=True):
    """What each size of memory runs."""

    schema: str = TIERS_SCHEMA
    unslow_version: str
    context: int
    quant_least: str
    models: int
    """How many models were gone through."""
    tiers: tuple[TierShown, ...] = ()
    notes: tuple[str, ...] = ()
