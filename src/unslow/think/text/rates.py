"""Speeds in prose with the words beside each: `60-70 -> 12-18 tok/s after the update`, `about 7 tok/s, was 31`."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from unslow.facts.account import Metric
from unslow.think.text.lines import topics_of

_N = r"\d{1,6}(?:[.,]\d{1,3})?"
_UNIT = (
    r"(?:(?:tok|token|tokens|tk|tks|t)\s?/\s?(?:s|sec|second)\b|(?:tok|tokens?)\s?(?:per|a)\s?(?:s|sec|second)\b"
    r"|tps\b|tok/?s\b|t/s\b)"
)
_SLOW_UNIT = r"(?P<per>ms|s|sec|seconds?)\s?(?:/|per|a)\s?(?:tok(?:en)?|t)\b"
_RANGE = rf"{_N}(?:\s?(?:-|to)\s?{_N})?"
_KIND = r"(?:(?:generation|generated|output|decode|prompt|prefill|input|total) )?"
_ONE = re.compile(rf"(?<![\w./-])(?P<n>{_RANGE})\s?\+?\s?{_KIND}(?:{_UNIT}|{_SLOW_UNIT})")
_ARROW = r"(?:-{1,2}>|=>|>|\bto\b|\bdown to\b)"
_CHANGE = re.compile(
    rf"(?<![\w./-])(?P<a>{_N}(?:\s?-\s?{_N})?)\s?(?:{_UNIT})?\s?{_ARROW}\s?(?P<b>{_N}(?:\s?-\s?{_N})?)\s?\+?\s?{_UNIT}"
)
_OTHER = (
    r"(?:\((?:was|previously|before)|\bwas\b|\bwere\b|used to (?:be|get|have|run at)|instead of|rather than|down from"
    r"|versus|vs\.?|compared (?:to|with)|against|previously|before(?: it was)?|up from)"
)
_AGAINST = re.compile(
    rf"(?<![\w./-])(?P<a>{_RANGE})\s?(?:{_UNIT})[^.;\d]{{0,30}}?{_OTHER}[^.;\d]{{0,25}}?(?P<b>{_RANGE})(?:\s?{_UNIT})?"
    r"(?![.,]?\d)(?!\s?[\w.]*(?:gb|mb|gib|%|k\b|b\b|mhz|w\b|layers|threads|cores|gpus|users|requests|minutes))"
)
_INSTEAD = re.compile(
    rf"(?<![\w./-])(?P<a>{_RANGE}) (?:instead of|rather than|vs\.?|versus|down from|compared (?:to|with)|against) "
    rf"(?:about |around )?(?P<b>{_RANGE})\s?{_UNIT}"
)
_LISTED = re.compile(
    rf"(?P<label>(?<![\w-])-{{0,2}}(?:[a-z]"
    rf"|(?<![\w.])v?\d{{1,3}}\.\d)[\w .+/()-]{{0,24}}?)[ :=]+(?P<n>{_N})(?:\s?{_UNIT})?(?=\s*(?:[,;|]|$|and\b|vs\b))"
)
_COUNT = re.compile(r"(?<![\w.,])\d{1,4} $")
_RATED = re.compile(rf"{_UNIT}|\b(?:tg|pp) ?\d{{2,5}}\b")
"""What tells that the numbers of a list are speeds: a unit, or what llama-bench calls its tests."""
_UNIT_NEXT = re.compile(rf"\s?\+?\s?{_KIND}{_UNIT}")
_FACTOR = re.compile(
    r"(?<![\w.])(?P<n>\d{1,4}(?:\.\d{1,2})?)(?:\s?-\s?(?P<m>\d{1,4}(?:\.\d{1,2})?))?\s?(?:x|times|fold)\s?"
    r"(?:(?:too )?slow(?:er|ly)?|slow[- ]?down|drop|decrease|regression|worse|longer|less|lower|hit)"
    r"|(?:slow(?:er|s|ed)?(?: down)?|drops?(?:ped)?|(?:degrad|decreas|reduc|regress)\w{1,10})[^.;\d]{0,24}?"
    r"(?:by (?:a factor of )?|about |over )?"
    r"(?P<k>\d{1,4}(?:\.\d{1,2})?)(?:\s?-\s?(?P<l>\d{1,4}(?:\.\d{1,2})?))?\s?(?:x|times)(?![\w])"
)
_PERCENT = re.compile(
    r"(?P<p>\d{1,2}(?:\.\d)?)(?:\s?-\s?(?P<q>\d{1,2}(?:\.\d)?))?\s?%\s?"
    r"(?:drop|slower|slow[- ]?down|decrease|loss|less|regression|lower|degradation|hit)"
    r"|(?:drop|slow|decreas|los[st]|degrad|regress)\w{0,10}[^.;\d]{0,16}(?P<r>\d{1,2}(?:\.\d)?)\s?%"
)
_OF_BEFORE = re.compile(
    r"(?P<p>\d{1,2})\s?%\s(?:of\s)?(?:the\s|its\s|my\s)?(?:previous|former|original|earlier|expected|old|prior)"
)
_COUNTED = {"two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "eight": 8.0, "ten": 10.0, "twenty": 20.0}
_TIMES = re.compile(rf"\b({'|'.join(_COUNTED)}) times (?:slower|less|lower|longer|too slow)")
_PARTS = {"half": 2.0, "a third": 3.0, "one third": 3.0, "a quarter": 4.0, "a fifth": 5.0, "a tenth": 10.0}
_PART = re.compile(
    rf"\b(?:at |only |reaches |gives |to |is |runs at )?({'|'.join(_PARTS)}) (?:of|the speed|as fast|its speed)"
)
_WORDS = {"halves": 2.0, "halved": 2.0, "twice as slow": 2.0, "an order of magnitude slow": 10.0}
_PREFILL = re.compile(
    r"\bprompt(?: eval\w*)?(?: rate| speed)?|prefill|\bpp\s?\d*\b|\bpp\d|processing|ingest|input tokens"
)
_DECODE = re.compile(r"\btg\s?\d*\b|\btg\d|generat|\bgen\b|decode|(?<!prompt )\beval\b|output|inference|respon|chat")
_LOAD = re.compile(
    r"(?<!under )(?<!full )(?<!high )(?<!cpu )(?<!gpu )\bload(?:ing|s|ed)?\b|cold start|start-?up"
    r"|reading weights|shards\b|server (?:says |is )?(?:listening|ready|up)\b|to start\b"
)
_FIRST = re.compile(
    r"ttft|first token|time to first|delay before|latency before|waits? before"
    r"|(?:un)?till? (?:the )?first (?:answer|word|token|reply|output|character)|pauses?\b"
    r"|before (?:anything|any (?:text|output|token|word)|(?:the )?(?:answer|reply|response|output))"
    r" (?:starts|begins|appears|comes)"
)
_KINDS: dict[Metric, re.Pattern[str]] = {"first_token": _FIRST, "prefill": _PREFILL, "decode": _DECODE, "load": _LOAD}
_MOST = 1e6
_UNIT_ANYWHERE = re.compile(_UNIT)
_MINE = re.compile(
    rf"(?:^|[,;(] ?|\bbut |\band )(?:me|mine|i(?: only)? (?:get|have)|here|ours)(?: is| only| just"
    rf"| about)* (?P<n>{_N})(?=\s*(?:[.,;)](?!\d)|$|with\b|on\b))"
)
"""`he gets 100 tok/s, me 20`: whose speed it is stands before it, and the unit with the other one."""
_IN_TIME = re.compile(
    r"(?<![\w./-])(?P<n>\d{1,6}) (?:new |output |generated |prompt )?tokens? (?:in|took|takes|within) (?:about "
    r"|around )?"
    r"(?P<s>\d{1,5}(?:\.\d{1,3})?) ?(?P<u>s|sec|seconds?|min|minutes?)\b"
    r"|\b(?:takes?|took|needs?) (?:about |around )?(?P<t>\d{1,5}(?:\.\d{1,3})?) ?(?P<v>s|sec|seconds?|min|minutes?)"
    r" (?:for|to (?:generate|write|produce)) (?P<k>\d{1,6}) tokens?\b"
)
"""`100 tokens in 240 s`, `takes 4 minutes for 100 tokens`."""
_SLOWER = re.compile(
    rf"(?<![\w./-])(?P<a>{_N})\s?(?P<u>ms|s|sec|seconds?)(?P<p>\s?(?:/|per|a)\s?tok(?:en)?\b)?[^.;,\d]{{0,16}}?"
    rf"(?:{_ARROW}|\bbecomes?\b|\bvs\.?|\bversus\b|\binstead of\b|\bwas\b|\bagainst\b)[^.;,\d]{{0,16}}?"
    rf"(?P<b>{_N})\s?(?P=u)\b(?P<q>\s?(?:/|per|a)\s?tok(?:en)?\b)?"
)
"""`21 ms per token becomes 47 ms`: the unit may be whole only once."""
_THEN = re.compile(
    rf"(?<![\w./-])(?P<a>{_RANGE})\s?{_UNIT}(?P<first>[^.;\d]{{0,40}}?)(?:[,;/]|\bbut\b|\band\b|\bthen\b) ?(?:then "
    rf"|only |just |now )*"
    rf"(?P<b>{_N}) (?P<then>(?:after|with|without|on|off|now|later|in|using|when|if|at|once|for)\b[^.;]{{0,40}})"
)
"""`20 tokens/sec first, 9 after a few minutes`: what stands after the second number says what differs."""
_NO_SPEED = re.compile(
    r"(?:^|[\s(/-])(?:rtx|gtx|rx|arc|tesla|quadro|radeon|ryzen(?: \d)?|core|i\d|xeon|epyc|ddr\d\w?|num_\w+|n_\w+"
    r"|n?cmoe|ngl|u?b|c|t|"
    r"np|ctx|context(?: (?:of|size|length))?|threads?|cores?|layers?|batch(?:[-_ ]size)?|build|port|version|driver"
    r"|cuda|rocm"
    r"|windows|ubuntu|debian|fedora|macos|kernel|python|torch|fp|bf|q|gpu|gpus|slot|task|users?|concurrency|parallel"
    r"|max|min"
    r"|top_?[kp]|temp\w*|seed|step|node|gen|pcie|tokens?|prompt of|limit)$"
)
"""Words behind which a bare number is a name or a setting, and no speed."""
_ROSE = re.compile(r"\b(?:went|goes|jumped|rose|improved|increased|sped|up|climbed|great|thanks|finally|happy)\b")
_WISHED = re.compile(
    r"(?:advertis\w*|claim\w*|expect\w*|should (?:be|give|get|reach)|promis\w*|published|vendor|benchmark|table|page"
    r"|roofline|theoretical\w*|ceiling|hop(?:ed|ing)|wish\w*|friends?|reddit\w*|colleagues?|youtube\w*|guys?|someone"
    r"|people)"
    r"[^.;,]{0,30}$"
)
_NEAR = 50  # A speed with such a word so shortly before it is hoped for, not measured


class Speed(NamedTuple):
    """Tokens per second, the words before it, and where it stands in the line."""

    value: float
    metric: Metric
    start: int
    end: int


class Change(NamedTuple):
    """Two speeds of one line; which was first matters less than which is slower."""

    slow: float
    fast: float
    metric: Metric
    labels: tuple[str, str] = ("", "")
    """What stands beside each speed, the slow one's first, in lists such as `bf16 5.6, fp16 192`."""
    sides: tuple[str, str] = ("", "")
    """What a sentence says of each speed, the slow one's first, where it sets one against the other."""
    rose: bool = False  # Whether it is told as a gain, so that the faster one is how it is now


def speeds(text: str) -> Iterator[Speed]:
    """Every speed of a line."""
    for match in _ONE.finditer(text):
        value = middle(match["n"])
        if match["per"]:
            value = 1 / (value * (1e-3 if match["per"] == "ms" else 1.0)) if value else 0.0
        if 0 < value < _MOST and not _WISHED.search(text[max(0, match.start() - _NEAR) : match.start()]):
            yield Speed(value, _of_rate(text[: match.start()], text), *match.span())
    for match in _IN_TIME.finditer(text):
        seconds = float(match["s"] or match["t"]) * (60 if (match["u"] or match["v"]).startswith("m") else 1)
        value = float(match["n"] or match["k"]) / seconds if seconds else 0.0
        if 0 < value < _MOST:
            yield Speed(value, _of_rate(text[: match.start()], match[0]), *match.span())
    if _UNIT_ANYWHERE.search(text):
        for match in _MINE.finditer(text):
            yield Speed(middle(match["n"]), "unknown", *match.span("n"))


def _of_rate(before: str, text: str) -> Metric:
    """The phase of tokens per second: reading a prompt or writing an answer, and never a load."""
    metric = metric_of(before, text)
    if metric in {"prefill", "decode", "unknown"}:
        return metric
    kinds = [phase for phase in phases(before) if phase[0] in {"prefill", "decode"}]
    return max(kinds, key=lambda phase: phase[1])[0] if kinds else "unknown"


def changes(text: str) -> Iterator[Change]:
    """Pairs of speeds: by an arrow, by a word such as `was`, or in a list with labels."""
    found = list(direct_changes(text))
    for match in () if found else _THEN.finditer(text):
        # Two speeds with the unit at the first alone, each with the words behind it
        sides = [(middle(match["a"]), match["first"]), (middle(match["b"]), match["then"])]
        (slow, one), (fast, other) = sorted(sides)
        if 0 < slow < fast < _MOST and not _UNIT_NEXT.match(text, match.end("b")):
            found.append(Change(slow, fast, metric_of(text[: match.start()], text), (one, other)))
    yield from found or _speed_list(text)


def direct_changes(text: str) -> Iterator[Change]:
    """Pairs of speeds that the line itself sets against one another: by an arrow, or by a word such as `was`."""
    for match in chain.from_iterable(p.finditer(text) for p in (_CHANGE, _AGAINST, _INSTEAD, _SLOWER)):
        a, b = middle(match["a"]), middle(match["b"])
        of_times = match.re is _SLOWER
        if min(a, b) <= 0 or max(a, b) >= _MOST or (of_times and not (match["p"] or match["q"])):
            continue
        if of_times:  # per token, as rates
            scale = 1e-3 if match["u"] == "ms" else 1.0
            a, b = 1 / (a * scale), 1 / (b * scale)
        rose = match.re is _CHANGE and b > a and bool(_ROSE.search(text))
        ways, metric = words_beside(text, match), metric_of(text[: match.start()], text)
        yield Change(min(a, b), max(a, b), metric, sides=ways if a <= b else ways[::-1], rose=rose)


def _speed_list(text: str) -> Iterator[Change]:
    """`bf16 eval 5.62 tps, fp16 191.95`: the unit may stand only once."""
    if not _RATED.search(text):
        return
    items = []
    for item in _LISTED.finditer(text):
        counted = _COUNT.search(text[: item.start()])  # `16 threads`
        label = f"{counted[0] if counted else ''}{item['label'].strip(' ,;(')}"
        value, named = middle(item["n"]), item["label"].strip()
        # The number of an item is a speed by its unit, else where it is no setting's and no name's
        flag = text[item.start() - 1 : item.start()] == "-" and " " not in named
        is_speed = _UNIT_NEXT.match(text, item.end("n")) or not (flag or _NO_SPEED.search(named))
        if 0 < value < _MOST and label and is_speed:
            items.append((label, value))
    kinds = {metric_of(label, "") for label, _ in items} - {"unknown"}
    if len(items) < 2 or len(kinds) > 1:  # noqa: PLR2004 (one speed is no comparison, nor are two phases of one run)
        return
    slow, fast = min(items, key=lambda i: i[1]), max(items, key=lambda i: i[1])
    if slow[1] < fast[1]:
        yield Change(slow[1], fast[1], metric_of(text, text), (slow[0], fast[0]))


def slowdown(text: str) -> float | None:
    """How many times slower, where a line says it as a factor, a percentage or a word."""
    if match := _FACTOR.search(text):
        given = [float(match[g]) for g in ("n", "m", "k", "l") if match[g]]
        factor = sum(given) / len(given)
        return factor if factor > 1 else None
    if match := _PERCENT.search(text):
        given = [float(match[g]) for g in ("p", "q", "r") if match[g]]
        return 1 / (1 - min(95.0, sum(given) / len(given)) / 100)
    if match := _OF_BEFORE.search(text):
        return 100 / max(1.0, float(match["p"]))
    if match := _TIMES.search(text):
        return _COUNTED[match[1]]
    if match := _PART.search(text):
        return _PARTS[match[1]]
    return next((factor for words, factor in _WORDS.items() if words in text), None)


def phases(text: str) -> list[tuple[Metric, int]]:
    """Every phase that a text names, and where."""
    return [(kind, match.start()) for kind, pattern in _KINDS.items() for match in pattern.finditer(text)]


def metric_of(before: str, text: str) -> Metric:
    """What a speed is the speed of: by the nearest word before it, else by the line."""
    if before_it := phases(before):
        return max(before_it, key=lambda found: found[1])[0]
    return next((kind for kind, pattern in _KINDS.items() if pattern.search(text)), "unknown")


def middle(text: str) -> float:
    """The middle of `12-18`; a comma stands for the point of a decimal unless three digits follow."""
    parts = [_number(part) for part in re.split(r"\s?(?:-|to)\s?", text) if part]
    return sum(parts) / len(parts) if parts else 0.0


def _number(text: str) -> float:
    whole, comma, rest = text.partition(",")
    return float(whole + rest) if comma and len(rest) == 3 else float(f"{whole}.{rest}" if comma else text)  # noqa: PLR2004


_STOP = re.compile(r"[.;]\s")
_HELD_AGAINST = re.compile(r"\b(?:versus|vs\.?|compared (?:to|with)|against)\b")
"""Words between two speeds behind which all that follows is said of the second."""
_BETWEEN = re.compile(
    r"\(?\b(?:was|were|previously|before(?: it was)?|used to (?:be|get|have|run at)|instead of|rather than"
    r"|(?:down|up) from|becomes?|versus|vs\.?|compared (?:to|with)|against)"
)
_SWITCHED = re.compile(r"^\W*(?:(?:when|with|after|once) )?(?:with(?:out)?(?: it)?|on|off|enabled|disabled)\b")


def words_beside(text: str, match: re.Match[str]) -> tuple[str, str]:
    """What is said of the first and of the second speed; the groups `a` and `b` are where they stand."""
    starts = [stop.end() for stop in _STOP.finditer(text, 0, match.start())]
    stop = _STOP.search(text, match.end())
    before = text[starts[-1] if starts else 0 : match.start()]
    after = text[match.end() : stop.start() if stop else None]
    between = text[match.end("a") : match.start("b")]
    word = _BETWEEN.search(between)
    if word is None:
        # What stands around `60 -> 30` is said of the second speed, unless each end has words for its own
        both = set(topics_of(before)) & set(topics_of(after))
        if both or (topics_of(before) and _SWITCHED.match(after)):
            return before.strip(), after.strip()
        return "", f"{before} {after}".strip()
    first, second = f"{before} {between[: word.start()]}", between[word.end() :]
    if _HELD_AGAINST.search(word[0]):
        return first.strip(), f"{second} {after}".strip()
    closed = "(" in word[0] and ")" in after  # `7 tok/s (was 31) with a grammar`
    return f"{first} {after if closed else ''}".strip(), second.strip()
