"""Every pattern of the program, and texts that are made to keep each of them busy."""

import ast
import importlib
import itertools
import pkgutil
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any

from unslow.look.logs.cleaning import clean_line
from unslow.look.logs.dialect import LONGEST_LINE
from unslow.think.claims.text import LONGEST_SENTENCE
from unslow.think.words import lines

LONGEST = {"unslow.look.": LONGEST_LINE, "unslow.facts.": LONGEST_LINE, "unslow.think.claims.": LONGEST_SENTENCE}
"""Letters of the longest text that the patterns of a package are shown; any other is shown prose, or a few words."""
NEAR_LINEAR = 8.0
"""How much longer a text may take that is four times as long: 4 where time is linear, 16 where it is quadratic."""
NOTICED_S = 0.02
"""Less can be noise, and harms nobody; a quadratic pattern takes several times that for the longest line of a log."""
MOST_TEXTS = 24
REPEATED = 16
"""A part that may come so often can be pumped."""
TAILS = ("!", "\n!")
LETTERS = " a0"
"""What a part is repeated with, where it can be; beside them, the marks that stand in the pattern itself."""


def all_patterns() -> dict[tuple[str, int], str]:
    """The source and flags of every pattern that the program compiles, and where it was seen."""
    found: dict[tuple[str, int], str] = {}
    compiling = re._compile  # type: ignore[attr-defined]

    def noting(pattern: Any, flags: int) -> re.Pattern[str]:
        made = compiling(pattern, flags)
        if isinstance(made.pattern, str):
            frame = sys._getframe(1)
            while frame.f_back and frame.f_globals.get("__name__") in ("re", "enum"):
                frame = frame.f_back
            name = str(frame.f_globals.get("__name__"))
            if name.startswith("unslow"):
                found.setdefault((made.pattern, made.flags), f"{name}:{frame.f_lineno}")
        return made

    re._compile = noting  # type: ignore[attr-defined]
    try:
        package = importlib.import_module("unslow")
        names = [
            info.name for info in pkgutil.walk_packages(package.__path__, "unslow.") if "__main__" not in info.name
        ]
        for name in names:  # anew where a test has imported it before
            sys.modules.pop(name, None)
        _load_catalogue([importlib.import_module(name) for name in names])
    finally:
        re._compile = compiling  # type: ignore[attr-defined]
    return found


def _load_catalogue(modules: Iterable[Any]) -> None:
    """Call the loaders, which compile what their files hold; they take no arguments."""
    for module in modules:
        if not module.__name__.startswith("unslow.catalog."):
            continue
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear") and value.__module__ == module.__name__:
                value.cache_clear()
                if not value.__wrapped__.__code__.co_argcount:
                    value()


def hostile_texts(pattern: str, flags: int) -> set[tuple[str, str, str]]:
    """A beginning, what to repeat, and an end, for each part of a pattern that may come many times."""
    marks = "".join(dict.fromkeys(re.findall(r"[^\w\s\\?*+^$()]", pattern)))[:4]
    found: set[tuple[str, str, str]] = set()
    for before, body in _repeats(parser.parse(pattern, flags), ""):
        pumps = {text for letter in LETTERS + marks if (text := _sample(body, letter)) and len(text) < 40} or {"a"}
        for pumped, tail in itertools.product(pumps, TAILS):
            found.add((before, pumped, tail))
            found.add(("", before + pumped, tail))
    return found


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, Any]]:
    """Every part that may come many times, with a text that leads to it."""
    for code, argument in tree:
        for inner in _inside(code, argument):
            yield from _repeats(inner, before)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT) and argument[1] >= REPEATED:
            yield before, argument[2]
        before = (before + _sample([(code, argument)], "a"))[-200:]


def _inside(code: Any, argument: Any) -> list[Any]:  # noqa: PLR0911 (one for each kind of part)
    match code:
        case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
            return [argument[2]]
        case codes.SUBPATTERN:
            return [argument[3]]
        case codes.BRANCH:
            return list(argument[1])
        case codes.ASSERT | codes.ASSERT_NOT:
            return [argument[1]]
        case codes.ATOMIC_GROUP:
            return [argument]
        case codes.GROUPREF_EXISTS:
            return [part for part in argument[1:] if part]
        case _:
            return []


def _sample(tree: Any, letter: str) -> str:
    """A short text that the part matches, of this letter where it can be; what looks around adds nothing."""
    text = ""
    for code, argument in tree:
        match code:
            case codes.LITERAL:
                text += chr(argument)
            case codes.NOT_LITERAL:
                text += letter if ord(letter) != argument else "b"
            case codes.ANY:
                text += letter
            case codes.IN:
                text += _member(argument, letter)
            case codes.MAX_REPEAT | codes.MIN_REPEAT | codes.POSSESSIVE_REPEAT:
                text += _sample(argument[2], letter) * max(argument[0], min(1, argument[1]))
            case codes.SUBPATTERN:
                text += _sample(argument[3], letter)
            case codes.BRANCH:
                text += _sample(argument[1][0], letter)
            case codes.ATOMIC_GROUP:
                text += _sample(argument, letter)
    return text


def _member(members: Any, letter: str) -> str:
    """The letter where the class has it, else one that it has."""
    likely = (letter, *"a0 A.-_/=:,;\n\t\"'()[]{}<>|!?+*#%&~@$^\\`×éZ9fz")
    allowed = re.compile(_class_of(members))
    return next((one for one in likely if allowed.match(one)), "")


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _class_of(members: Any) -> str:
    parts = []
    for code, argument in members:
        match code:
            case codes.NEGATE:
                parts.append("^")
            case codes.LITERAL:
                parts.append(re.escape(chr(argument)))
            case codes.RANGE:
                parts.append(f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}")
            case codes.CATEGORY:
                parts.append(_CATEGORIES[argument])
    return f"[{''.join(parts)}]"


def seconds(read: Callable[[str], object], text: str) -> float:
    """What reading the text takes, of processor time."""
    start = time.thread_time()
    read(text)
    return time.thread_time() - start


def growth(read: Callable[[str], object], form: tuple[str, str, str], longest: int) -> float:
    """How much longer a text takes that is four times as long; 0 where the longest takes next to nothing."""

    def made(letters: int) -> str:
        text = (form[0] + form[1] * (letters // len(form[1]) + 1))[:letters] + form[2]
        return "\n".join(clean_line(line.encode()) for line in text.split("\n"))

    if any(seconds(read, made(n)) > NOTICED_S for n in (22, longest // 8)):  # it would never end below
        return float("inf")
    if longest <= lines.LONGEST_LINE or seconds(read, made(longest // 4)) < NOTICED_S / 64:
        return 0.0
    short, long = (min(seconds(read, made(n)) for _ in range(3)) for n in (longest // 4, longest))
    return long / max(short, 1e-9) if long >= NOTICED_S else 0.0


@cache
def _sources() -> dict[str, str]:
    return {str(path): path.read_text() for path in (Path(__file__).parents[1] / "src").rglob("*.py")}


def ways_of(where: str) -> set[str]:
    """How a pattern that is compiled there is put to a text, by the calls on the name that it is given."""
    module, _, line = where.rpartition(":")
    own = next((t for p, t in _sources().items() if p.endswith(f"{module.replace('.', '/')}.py")), "")
    names = {
        target.id
        for statement in ast.parse(own).body
        if isinstance(statement, ast.Assign) and statement.lineno <= int(line) <= (statement.end_lineno or 0)
        for target in ast.walk(statement.targets[0])
        if isinstance(target, ast.Name)
    }
    calls = {
        way
        for name in names
        for text in ([own] if name.startswith("_") else _sources().values())
        for way in re.findall(rf"\b{name}\.(search|match|fullmatch|finditer|findall|subn?|split)\b", text)
    }
    return calls if calls and calls <= {"match", "fullmatch"} else {"search"}


def too_slow(where: str, source: str, flags: int) -> str:
    """A text whose time grows faster than its length, in words; empty where there is none."""
    pattern = re.compile(source, flags)
    longest = next((n for package, n in LONGEST.items() if where.startswith(package)), lines.LONGEST_LINE)
    reads: list[Callable[[str], object]] = [
        (lambda text: sum(1 for _ in pattern.finditer(text))) if way == "search" else getattr(pattern, way)
        for way in ways_of(where)
    ]
    for form, read in itertools.product(_some(sorted(hostile_texts(source, flags))), reads):
        if (grows := growth(read, form, longest)) > NEAR_LINEAR:
            return f"{where}: {source[:200]!r} on {form[0]!r}, {form[1]!r} many times, {form[2]!r}: {grows:.0f} times"
    return ""


def _some(forms: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """So few of them that all patterns are tried in seconds; the shortest repeat most."""
    return sorted(forms, key=lambda form: len(form[0] + form[1]))[:MOST_TEXTS]
