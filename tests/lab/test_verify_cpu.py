"""The table of verified changes on a CPU."""

from lab.verify_cpu import changes, read_rows, row_of, table

from unslow import __version__
from unslow.facts.verification import Sample, Side
from unslow.think.stats.verification import VerifyContext, judge_verification


def side(rate: float) -> Side:
    samples = tuple(Sample(round=n, decode_tokens_per_s=rate, request_s=64 / rate) for n in range(6))
    return Side(what="llama-server", samples=samples, model="llama_1b", runtime_version="b9000")


def test_a_verification_becomes_a_table_line():
    change = list(changes(4))[3]
    assert change.flags == "-t 16"
    row = row_of(change, 64, judge_verification(side(10.0), side(5.0), VerifyContext(__version__, "EPYC")))
    lines = table([row]).splitlines()
    assert lines[1].split() == [
        "threads:", "4", "times", "the", "cores", "64", "×0.50", "(0.50", "to", "0.50)", "×0.50", "(0.50", "to",
        "0.50)", "-", "slower",
    ]  # fmt: skip
    assert lines[-1] == "EPYC, llama-server b9000, llama_1b"


def test_without_rows_the_table_says_not_measured(tmp_path):
    assert table(read_rows(tmp_path / "none.jsonl")) == "not measured yet"


def test_the_last_row_of_a_change_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"change": "a", "prompt": 1, "n": 1}\n{"change": "a", "prompt": 1, "n": 2}\n')
    assert [row["n"] for row in read_rows(path)] == [2]
