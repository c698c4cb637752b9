"""Every pattern of the program, and texts that are made to keep each of them busy."""

import ast
import importlib
import itertools
import pkgutil
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import inf
from pathlib import Path
from re import _constants as codes
from re import _parser as parser
from typing import Any

from unslow.look.logs import amd_smi
from unslow.look.logs.stream import clean_line
from unslow.think.claims.amounts import LONGEST_SENTENCE
from unslow.think.text import lines

PROSE, SENTENCE = lines.LONGEST_LINE, LONGEST_SENTENCE
BOUNDED = {
    "unslow.catalog.bug_reports": PROSE, "unslow.think.text.": PROSE, "unslow.think.claims.": SENTENCE,
}  # fmt: skip
"""Letters of the longest text that these are ever shown; all others may be shown a line of a log, or more."""
OF_TABLES = {
    pattern.pattern
    for pattern in (
        amd_smi._DRIVER, amd_smi._FIRST, amd_smi._SECOND, amd_smi._READINGS, amd_smi._PROCESS, amd_smi._MONITOR,
        amd_smi._ROW,
    )
}  # fmt: skip
"""Shown lines of at most `_WIDEST` letters; the other patterns beside them are shown any."""
FIRST, SHORT, LONG = 1000, 2000, 8000
SUSPECTS, MOST_TEXTS = 3, 64
"""Of the texts that are tried with a pattern, the slowest are looked at more closely."""
NEAR_LINEAR = 8.0
"""How much longer a text may take that is four times as long: 4 where time is linear, 16 where it is quadratic."""
SUSPECT_S, NOTICED_S = 0.0002, 0.008
"""Of processor time for the first text and the long one; less harms nobody, and quadratic patterns take far more."""
MOST_S = 0.05
"""For one line, where its length is bounded."""
GIVEN_UP_S = 0.5
REPEATED = 16
"""A part that may come so often can be pumped."""
TAILS = ("!", "\n!")
Form, Read = tuple[str, str, str], Callable[[str], object]
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
        modules = {name: importlib.import_module(name) for name in names}
        _load_catalogue(modules.values())
        masking = modules["unslow.facts.masking"]
        masking.compile_rules(masking.RULES)
        dialect = modules["unslow.look.logs.dialect"]
        for value in [value for module in modules.values() for value in vars(module).values()]:
            if isinstance(value, dialect.Rules):  # of log lines, each compiled when one is met
                assert all(rule.pattern for rule in value)
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
                code = value.__wrapped__.__code__
                if not code.co_argcount + code.co_kwonlyargcount:
                    value()


def hostile_texts(pattern: str, flags: int) -> set[Form]:
    """A beginning, what to repeat, and an end, for each part of a pattern that may come many times."""
    marks = "".join(dict.fromkeys(re.findall(r"[^\w\s\\?*+^$()]", pattern)))[:4]
    found: set[Form] = set()
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


def _inside(code: Any, argument: Any) -> list[Any]:
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


class TooLongError(Exception):
    """A text was given up."""


def seconds(read: Read, text: str) -> float:
    """The processor time of a text; a second and more is given up, for it could be years."""
    signal.setitimer(signal.ITIMER_VIRTUAL, GIVEN_UP_S)
    start = time.thread_time()
    try:
        read(text)
    except TooLongError:
        return inf
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return time.thread_time() - start


def _give_up(_number: int, _frame: object) -> None:
    raise TooLongError


@cache
def _calls() -> dict[str, tuple[set[tuple[str, str]], list[tuple[int, int, str]]]]:
    """By module: the names on which patterns' methods are called, and between which lines each name is given."""
    source, found = Path(__file__).parents[1] / "src", {}
    for path in source.rglob("*.py"):
        text = path.read_text()
        calls = set(re.findall(r"\b(\w+)\.(search|match|fullmatch|finditer|findall|subn?|split)\b", text))
        given = [
            (statement.lineno, statement.end_lineno or 0, target.id)
            for statement in ast.parse(text).body
            if isinstance(statement, ast.Assign)
            for target in ast.walk(statement.targets[0])
            if isinstance(target, ast.Name)
        ]
        found[".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")] = calls, given
    return found


def ways_of(where: str) -> set[str]:
    """How a pattern that is compiled there is put to a text, by the calls on the name that it is given."""
    module, _, line = where.rpartition(":")
    own, given = _calls().get(module, (set(), []))
    names = {name for first, last, name in given if first <= int(line) <= last}
    used = {
        way
        for calls in (
            [own] if all(name.startswith("_") for name in names) else [calls for calls, _ in _calls().values()]
        )
        for name, way in calls
        if name in names
    }
    return used if used and used <= {"search", "match", "fullmatch"} else {"finditer"}


def made(form: Form, letters: int, where: str) -> str:
    """A text of so many letters, in the form in which those patterns are shown it."""
    text = (form[0] + form[1] * (letters // len(form[1]) + 1))[:letters] + form[2]
    cleaned = where.startswith(("unslow.look.logs.", "unslow.look.paste:"))
    return "\n".join(clean_line(line.encode()) for line in text.split("\n")) if cleaned else text


def too_slow(where: str, source: str, flags: int) -> str:
    """A text whose time grows faster than its length, in words; empty where there is none."""
    pattern = re.compile(source, flags)
    bound = next((letters for package, letters in BOUNDED.items() if where.startswith(package)), 0)
    bound = amd_smi._WIDEST if source in OF_TABLES else bound
    signal.signal(signal.SIGVTALRM, _give_up)
    tried: list[tuple[float, Form, Read]] = []
    for form, way in itertools.product(_some(hostile_texts(source, flags)), sorted(ways_of(where))):
        read = (lambda text: sum(1 for _ in pattern.finditer(text))) if way == "finditer" else getattr(pattern, way)
        tried.append((seconds(read, made(form, bound or FIRST, where)), form, read))
    for took, form, read in sorted(tried, key=lambda one: -one[0])[:SUSPECTS]:
        said = f"{where}: {source[:300]!r} on {form[0]!r}, {form[1]!r} many times, {form[2]!r}: "
        if bound and took > MOST_S and (least := _least(read, made(form, bound, where))) > MOST_S:
            return f"{said}{least:.2f} s for {bound} letters"
        if not bound and took > SUSPECT_S:
            short, long = (_least(read, made(form, letters, where)) for letters in (SHORT, LONG))
            if long > NOTICED_S and (long > NEAR_LINEAR * short or short == inf):
                return f"{said}{short:.4f} s for {SHORT} letters, {long:.4f} s for {LONG}"
    return ""


def _some(forms: set[Form]) -> list[Form]:
    """So few of them that all patterns are tried in seconds: evenly, of the shortest and the longest."""
    ordered = sorted(forms, key=lambda form: (len(form[0] + form[1]), form))
    return ordered[:: max(1, len(ordered) // MOST_TEXTS)]


def _least(read: Read, text: str) -> float:
    """Of three times, as others use the processor too."""
    first = seconds(read, text)
    return min(first, *(seconds(read, text) for _ in range(2))) if first < GIVEN_UP_S / 2 else first


if __name__ == "__main__":  # in a process of its own: it imports the program anew
    asked = tuple(sys.argv[1:]) or ("unslow",)
    for (source, flags), where in all_patterns().items():
        if where.startswith(asked):
            sys.stdout.write(f"{too_slow(where, source, flags) or 'fine'}\n")
