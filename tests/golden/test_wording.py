"""The fixture `wording`, in runs of pytest on a small suite of its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden.wording import FOLDER, TESTS, stored

CONFTEST = f"""
import sys
from pathlib import Path

sys.path[:0] = [{str(TESTS.parent)!r}]
from tests.golden import wording

wording.TESTS = Path(__file__).parent
wording.FOLDER = wording.TESTS / "stored"
pytest_plugins = ["tests.golden.wording"]
"""
SUITE = """
import pytest

def test_one(wording, tmp_path):
    assert wording("It is slow.", tells="slow") == "It is slow."
    wording(["Two lines:\\nthis one", f"and {tmp_path}/x"])

@pytest.mark.parametrize("name", ["a b", "::[é]\\n\\t", "\\x00", ""])
def test_each(wording, name):
    wording(name, None)
    wording(None)
    wording([])

class TestGroup:
    def test_in_a_class(self, wording):
        wording("In a class.", tells=("In", "class"))
        wording("A head\\n  in line 2.\\nAn end", about="2")

def test_silent():
    pass
"""


class Suite:
    """A folder of tests, and what a run of them prints."""

    def __init__(self, root: Path) -> None:
        self.root, self.stored = root / "tests", root / "tests" / "stored" / "some.txt"
        (self.root / "some").mkdir(parents=True)
        (root / "pytest.ini").write_text("[pytest]\n")
        (self.root / "conftest.py").write_text(CONFTEST)
        self.write(SUITE)

    def write(self, text: str, name: str = "test_it.py") -> None:
        (self.root / "some" / name).write_text(text, "utf-8")

    def run(self, *words: str, at: str = "") -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/some{at}", *words]
        alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # of the plugins that are installed, few are light
        done = subprocess.run(command, cwd=self.root.parent, env=alone, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def suite(tmp_path):
    return Suite(tmp_path)


def test_what_is_stored_is_heard_again_in_any_order_and_on_any_process(suite):
    assert suite.run("--store-wording")[0] == 0
    first = suite.stored.read_text("utf-8")
    assert "test_it.py::test_one\n1 | It is slow.\n2.1 | Two lines:\n    | this one\n2.2 | and <tmp_path>/x\n" in first
    assert "some/test_it.py::test_each[a b]\n1.1 | a b\n1.2 (nothing)\n2 (nothing)\n3 (no text)\n" in first
    assert "::test_in_a_class\n1 | In a class.\n2 | in line 2.\n" in first
    assert "test_silent" not in first
    status, said = suite.run("-p", "xdist.plugin", "-n", "2", "--dist", "loadgroup")
    assert status == 0, said
    assert suite.run("--store-wording", "-k", "class")[0] == 0
    assert suite.stored.read_text("utf-8") == first


def test_other_words_fail_with_the_difference_and_the_command(suite):
    suite.run("--store-wording")
    suite.write(SUITE.replace('"It is slow."', '"It is rather slow."', 1).replace("== ", "!= "))
    status, said = suite.run("-k", "test_one")
    assert status == 1
    assert "- 1 | It is slow." in said
    assert "+ 1 | It is rather slow." in said
    assert "pytest --store-wording 'tests/some/test_it.py'" in said
    assert suite.run("--store-wording", at="/test_it.py::test_one")[0] == 0
    assert "1 | It is rather slow.\n" in (now := suite.stored.read_text("utf-8"))
    assert "1 | In a class.\n" in now


def test_what_is_not_stored_or_no_longer_said_fails_until_it_is_stored_anew(suite):
    suite.run("--store-wording")
    more = SUITE.replace("    pass", "    return")
    suite.write(more.replace("def test_silent():\n", 'def test_silent(wording):\n    wording("A word.")\n'))
    status, said = suite.run()
    assert status == 1
    assert "test_silent says what is not stored" in said
    suite.write(
        SUITE.replace("    wording([])\n", "").replace('wording("In a class.", tells=("In", "class"))', "return")
    )
    status, said = suite.run()
    assert status == 1
    assert "5 failed" in said
    assert "no longer says what is stored" in said
    suite.run("--store-wording")
    assert suite.run()[0] == 0
    assert "class" not in suite.stored.read_text("utf-8")


def test_entries_of_tests_that_are_gone_are_dropped_and_those_of_other_files_stay(suite):
    suite.write("def test_other(wording):\n    wording('Of another file.')\n", "test_other.py")
    suite.run("--store-wording")
    suite.write(SUITE.replace("test_one", "test_renamed"))
    suite.run("--store-wording", at="/test_it.py")
    now = suite.stored.read_text("utf-8")
    assert "test_one" not in now
    assert "test_renamed" in now
    assert "Of another file." in now


def test_a_fact_is_not_stored_away_and_a_failing_test_keeps_its_words(suite):
    suite.run("--store-wording")
    before = suite.stored.read_text("utf-8")
    suite.write(SUITE.replace('"It is slow."', '"It is fast."'))
    status, said = suite.run("--store-wording")
    assert status == 1
    assert "the text does not tell 'slow': It is fast." in said
    assert suite.stored.read_text("utf-8") == before


def test_it_is_stored_by_one_process(suite):
    status, said = suite.run("-p", "xdist.plugin", "--store-wording", "-n", "2")
    assert status != 0
    assert "leave -n out" in said


def test_nothing_is_stored_of_a_test_that_does_not_exist():
    names = {test.split("[")[0] for path in FOLDER.glob("*.txt") for test in stored(path)}
    there = {}
    for name in names:
        file, *_, function = name.split("::")
        if file not in there:
            tree = ast.parse((TESTS / file).read_bytes())
            there[file] = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert function in there[file], name
