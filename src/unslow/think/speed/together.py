"""Rows that are looked up alike, priced as arrays: the speed of each, with its interval."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from unslow.think.physics.terms import least
from unslow.think.speed.bases import Base
from unslow.think.speed.group import DEEP_FROM
from unslow.think.speed.outcome import prompt_token_seconds, step_seconds
from unslow.think.speed.question import Question, prompt_terms, step_terms
from unslow.think.speed.stacked import Floats, Indices, stacked

Rates: TypeAlias = tuple[Floats, Floats, Floats]
"""Low, most likely, high."""


class Part(NamedTuple):
    """Rows of one base, with the scale of their weights."""

    base: Base
    rows: Indices
    scales: Floats


def rates(parts: Sequence[Part], depths: Floats) -> Rates:
    """The three speeds of each row of these parts, one part after the other; `depths` are those of the whole table."""
    bases = [part.base for part in parts]
    index = np.repeat(np.arange(len(parts)), [len(part.rows) for part in parts])
    depths = depths[np.concatenate([part.rows for part in parts])]
    scales = np.concatenate([part.scales for part in parts])
    asks = [base.asked for base in bases]
    tokens = _taken([a.tokens for a in asks], index)
    is_prompt = asks[0].kind == "pp"
    question = _scaled(stacked([base.question for base in bases], index), scales)
    question = question._replace(depth=depths if is_prompt else depths + tokens / 2)
    with np.errstate(all="ignore"):
        micro_batch = _taken([a.micro_batch for a in asks], index)
        made = 1.0 if is_prompt else question.tokens
        seconds = prompt_token_seconds(question, tokens, micro_batch) if is_prompt else step_seconds(question)
        terms = prompt_terms(question, tokens, micro_batch) if is_prompt else step_terms(question)
        mid = np.broadcast_to(np.asarray(made / seconds, dtype=np.float64), index.shape)
        return _interval(mid, np.divide(made, least(terms)), bases, index, depths)


def _taken(values: Sequence[float], index: Indices) -> Floats:
    return np.asarray(values, dtype=np.float64)[index]


def _scaled(question: Question, scales: Floats) -> Question:
    """With the weights as large as the files are."""
    if (scales == 1).all():
        return question
    totals, host = question.totals, question.host
    return question._replace(
        totals=totals.scaled(scales) if totals else None,
        host=host._replace(totals=host.totals.scaled(scales)) if host else None,
    )


def _interval(mid: Floats, ceiling: Any, bases: Sequence[Base], index: Indices, depths: Floats) -> Rates:
    """The interval that was learned, wider where less is known, and never above the ceiling."""
    is_deep = depths >= DEEP_FROM
    shallow, deep = [base.shallow for base in bases], [base.deep for base in bases]
    down = np.where(is_deep, _taken([s.low for s in deep], index), _taken([s.low for s in shallow], index))
    up = np.where(is_deep, _taken([s.high for s in deep], index), _taken([s.high for s in shallow], index))
    wider = _taken([base.trust.wider for base in bases], index)
    top = np.maximum(mid, np.minimum(mid * up**wider, ceiling))
    return mid * down**wider, mid, top
