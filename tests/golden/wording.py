"""What tests hear the program say, kept: the fixture `wording` compares it with files that one command writes anew.

`wording(report.summary)` in a test compares that text with the one that is stored for this test, by its name and the
number of the call within it. `pytest --store-wording tests/think` stores what these tests hear now: read the difference
in git, and commit it. A fact that must be in the text, whatever its words are, is given as `tells`: it is not stored.
Of a long text, `about="5.9 GiB"` takes the lines that hold this fact.
"""

import difflib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pytest
from tests.golden.files import STORED
from tests.golden.running import masked

TESTS = Path(__file__).parents[1]
FOLDER = STORED / "wording"
_LONGEST_LINE = 600

Said = str | Iterable[str | None] | None
Calls = list[list[str]]
"""The lines of every call of a test."""
_S = TypeVar("_S", bound=Said)
_RUN = pytest.StashKey["Run"]()
_HEARD = pytest.StashKey[Calls]()


class Run:
    """What is to be stored after a run, for which everything that is heard is kept."""

    def __init__(self) -> None:
        self.heard: dict[Path, dict[str, Calls]] = defaultdict(dict)
        self.there: dict[Path, set[str]] = defaultdict(set)
        self.stored = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-wording", action="store_true", help="store the texts that tests give to `wording`")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("store_wording"):
        if config.getoption("numprocesses", 0):
            raise pytest.UsageError("--store-wording runs in one process: leave -n out")
        config.stash[_RUN] = Run()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before any is left out by -k or -m: the tests that there are, of files that were collected whole."""
    if run := config.stash.get(_RUN, None):
        in_part = {(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args if "::" in arg}
        for item in items:
            if item.path not in in_part:
                run.there[item.path].add(_name(item))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """A test that came to its end has said all that is stored of it."""
    result = yield
    heard, run = pyfuncitem.stash.get(_HEARD, []), pyfuncitem.config.stash.get(_RUN, None)
    if run:
        run.heard[pyfuncitem.path][_name(pyfuncitem)] = heard
    elif len(heard) < len(before := _before(pyfuncitem)):
        gone = [line for call in before[len(heard) :] for line in call]
        pytest.fail(_failure(pyfuncitem, "no longer says what is stored", gone, []), pytrace=False)
    return result


@pytest.fixture
def wording(request: pytest.FixtureRequest) -> Callable[..., object]:
    """Compares a text, or several, with what is stored for this test; gives back what it got."""
    item = request.node
    heard: Calls = item.stash.setdefault(_HEARD, [])
    heard.clear()  # a test that is run again says everything again
    places = {str(request.getfixturevalue("tmp_path")): "<tmp_path>"} if "tmp_path" in request.fixturenames else {}

    def compare(*said: _S, tells: str | tuple[str, ...] = (), about: str = "") -> _S | tuple[_S, ...]:
        one = said[0] if len(said) == 1 else said
        if about:
            assert isinstance(one, str), "lines are taken of one text"
            assert about in one, f"the text does not tell {about!r}: {one}"
            one = "\n".join(line.strip() for line in one.splitlines() if about in line)
        if not (one is None or isinstance(one, str)):
            one = tuple(one)
        whole = one if isinstance(one, str) else "\n".join(text for text in one or () if text)
        for fact in (tells,) if isinstance(tells, str) else tells:
            assert fact in whole, f"the text does not tell {fact!r}: {whole}"
        lines = _lines(len(heard) + 1, one, places)
        heard.append(lines)
        if _RUN not in item.config.stash:
            before = _before(item)
            if len(before) < len(heard):
                pytest.fail(_failure(item, "says what is not stored", [], lines))
            elif before[len(heard) - 1] != lines:
                pytest.fail(_failure(item, "says other words", before[len(heard) - 1], lines))
        return said[0] if len(said) == 1 else said

    return compare


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    run = session.config.stash.get(_RUN, None)
    if not run or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return
    for path in {_file(test) for test in (*run.heard, *run.there)}:
        found = {
            test: calls for test, calls in stored(path).items() if (at := TESTS / test.split("::")[0]) not in run.there
            or test in run.there[at]
        }  # fmt: skip
        found |= {test: calls for at, tests in run.heard.items() if _file(at) == path for test, calls in tests.items()}
        run.stored += sum(calls != stored(path).get(test, []) for test, calls in found.items())
        run.stored += sum(test not in found for test in stored(path))
        store(path, found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if run := terminalreporter.config.stash.get(_RUN, None):
        terminalreporter.write_line(f"wording: {run.stored} tests say other words than before: git diff {FOLDER}")


@cache
def stored(path: Path) -> dict[str, Calls]:
    """What is stored in a file, by the names of tests."""
    tests: dict[str, Calls] = {}
    calls: Calls = []
    for line in path.read_bytes().decode().split("\n")[:-1] if path.exists() else ():
        if line[:1].isdigit():
            if line.split(" ")[0].partition(".")[2] in ("", "1"):
                calls.append([])
            calls[-1].append(line)
        elif line.startswith(" "):
            calls[-1].append(line)
        elif line:
            calls = tests.setdefault(line, [])
    return tests


def store(path: Path, tests: dict[str, Calls]) -> None:
    """Write what tests say, in the order of their names."""
    lines = [line for test in sorted(tests) if tests[test] for line in ("", test, *chain(*tests[test]))]
    stored.cache_clear()
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes("\n".join([*lines[1:], ""]).encode())
    else:
        path.unlink(missing_ok=True)


def _before(item: pytest.Item) -> Calls:
    return stored(_file(item.path)).get(_name(item), [])


def _file(test: Path) -> Path:
    """Where the texts of a file of tests are: with those of the other files of its folder in `tests`."""
    parts = test.relative_to(TESTS).parts
    return FOLDER / f"{parts[0] if len(parts) > 1 else 'tests'}.txt"


def _name(item: pytest.Item) -> str:
    """A test by its file and its name, in one line; without the group that pytest-xdist adds to it."""
    inside = [each.name for each in item.listchain() if isinstance(each, pytest.Class | pytest.Function)]
    name = "::".join([item.path.relative_to(TESTS).as_posix(), *inside])
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in name)


def _lines(number: int, said: str | tuple[str | None, ...] | None, places: dict[str, str]) -> list[str]:
    """How one call is stored: every text has its number, further lines of it are set in."""
    if not said:
        return [f"{number} {'(nothing)' if said is None else '(no letter)' if said == '' else '(no text)'}"]
    texts = {f"{number}": said} if isinstance(said, str) else {f"{number}.{n}": text for n, text in enumerate(said, 1)}
    lines = []
    for head, text in texts.items():
        if text is None:
            lines.append(f"{head} (nothing)")
            continue
        for place, name in places.items():
            text = text.replace(place, name)  # noqa: PLW2901 - the same text, without the folder of this run
        first, *others = masked(text).replace("\r", "␍").split("\n")
        lines += [f"{head} | {first}", *(f"{' ' * len(head)} | {line}" for line in others)]
    return lines


def _failure(item: pytest.Item, what: str, before: list[str], now: list[str]) -> str:
    found = difflib.ndiff(before, now)
    shown = [line[:_LONGEST_LINE].rstrip() for line in found]
    again = f"pytest --store-wording '{item.path.relative_to(TESTS.parent).as_posix()}'"
    return "\n".join([f"{_name(item)} {what} (- stored, + now):", *shown, f"If these words are meant: {again}"])
