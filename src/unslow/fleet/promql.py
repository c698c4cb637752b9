"""An expression of the catalogue as the query that is sent, and as words for where a value comes from."""

import re
from collections.abc import Sequence

MARK = "unslow_is"
"""The label by which the parts of one answer are told apart."""
STEP_S = 60.0
"""Of subqueries: a quarter of an hour has fifteen steps then, and ten thousand GPUs are cheap."""
_FEWEST_STEPS, _MOST_STEPS = 15, 60
"""In a window: the single step of a short one may lie before the first sample, and a count of it is then nought."""
_NAMES = re.compile(r"(?<![A-Za-z0-9_:])([A-Za-z_:][A-Za-z0-9_:]*)\{")
_HOW = {
    "avg_over_time": "mean of", "max_over_time": "the most of", "min_over_time": "the least of",
    "stddev_over_time": "spread over", "increase": "counted over", "rate": "a second over", "changes": "changes in",
    "last_over_time": "the last of", "count_over_time": "part of",
}  # fmt: skip


def filled(expression: str, matchers: str, window_s: float, ago_s: float = 0.0) -> str:
    """The expression with the user's matchers and window in it, `ago_s` before now."""
    step_s = float(round(max(min(STEP_S, window_s / _FEWEST_STEPS), window_s / _MOST_STEPS)))
    ago = f" offset {ago_s:.0f}s" if ago_s else ""
    text = expression.replace("[W:S]", f"[{window_s:.0f}s:{step_s:.0f}s]{ago}")
    text = text.replace("[W]", f"[{window_s:.0f}s]{ago}").replace("/ N", f"/ {window_s / step_s:.0f}")
    if not matchers:
        return text.replace("{}", "")
    return re.sub(r"\{([^}]*)\}", lambda braces: "{" + ",".join(filter(None, (braces[1], matchers))) + "}", text)


def folded(expression: str, fold: str, own: Sequence[str], same: Sequence[str] = ()) -> str:
    """One series for each target: copies are dropped first, then parts are put together."""
    if not fold:
        return expression
    whole = f"max without ({', '.join(same)}) ({expression})" if same else expression
    return f"{fold} without ({', '.join((*own, *same))}) ({whole})" if own or same else whole


def marked(expression: str, mark: str) -> str:
    """The same with a label that tells what it is."""
    return f'label_replace({expression}, "{MARK}", "{mark}", "", "")'


_WHILE_BUSY = re.compile(r" and \S+ >= ")
"""A reading of those moments alone in which another one is high."""


def any_of(terms: Sequence[str]) -> str:
    """All of them, nested in pairs: in a row, the first would be compared again with each that follows."""
    left = list(terms)
    while len(left) > 1:
        pairs = [" or ".join(left[place : place + 2]) for place in range(0, len(left), 2)]
        left = [f"({pair})" for pair in pairs] if len(pairs) > 1 else pairs
    return left[0] if left else ""


def source_of(expression: str, window_s: float) -> str:
    """The metrics of an expression and how they were taken, for a reader."""
    names = list(dict.fromkeys(_NAMES.findall(expression.partition(" unless ")[0])))
    how = next((words for function, words in _HOW.items() if f"{function}(" in expression), "")
    busy = " while busy" if _WHILE_BUSY.search(expression) else ""
    return f"{' and '.join(names)}, {how} {window_s / 60:g} min{busy}" if how else " and ".join(names)
