"""Changes to a real llama-server: one that only costs time, and one that breaks the model.

UNSLOW_LLAMA_MODEL names a trained model; random weights have no meaningful perplexity.
"""

import os

import pytest
from doubles import Quiet
from real_llama_server import NEEDED, SERVER

from unslow.commands.verify import VerifyRequest
from unslow.commands.verify.comparison import verify
from unslow.think.stats.verification import verify_status
from unslow.think.stats.verification_report import VerifyReport

MODEL = os.environ.get("UNSLOW_LLAMA_MODEL", "")
pytestmark = [*NEEDED, pytest.mark.skipif(not MODEL, reason="UNSLOW_LLAMA_MODEL names no model")]


def verified(before: str, after: str, **others: object) -> VerifyReport:
    line = f"{SERVER} -m {MODEL} -c 2048"
    wanted = {"before": f"{line} {before}", "after": f"{line} {after}", "answer": 32, "seconds": 60.0, **others}
    report = verify(VerifyRequest(**wanted), Quiet())
    assert isinstance(report, VerifyReport)
    return report


def test_one_thread_is_slower_with_the_same_answers():
    report = verified("-t 2", "-t 1")
    assert (report.verdict, report.answers.verdict) == ("slower", "kept")
    assert report.answers.begin_alike == 1.0
    assert report.answers.perplexity is not None
    assert abs(report.answers.perplexity.increase.mid) < 0.01
    assert {"runtime.threads"} <= {change.setting for change in report.changes}


def test_broken_model_is_detected_even_if_faster():
    report = verified("-t 1", "-t 2 --rope-freq-base 500", together=True)
    assert (report.verdict, verify_status(report)) == ("answers_changed", 1)
    assert report.answers.perplexity is not None
    assert report.answers.perplexity.increase.low > 1.0
    assert report.answers.perplexity.same_choice < 0.5
