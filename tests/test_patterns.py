"""No regular expression takes more than linear time: each is tried with texts made from its own parts."""

import subprocess
import sys

import pumped_patterns
import pytest
from pumped_patterns import too_slow

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("source", [r"x*=", r"(?:a+)+b", r"\s*$", r"a.*b.*c", r"\bgpu\w*[^.;]{0,99}\w*z"])
def test_a_quadratic_pattern_is_found(source):
    assert "s for" in too_slow("unslow.commands.fit.gguf:1", source, 0)


def test_a_linear_pattern_passes():
    assert not too_slow("unslow.look.logs.commands:36", r"\bsetx\s{1,8}(\w{1,40})", 0)


def test_every_pattern_is_linear_or_its_text_is_short():
    done = subprocess.run([sys.executable, pumped_patterns.__file__], capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) > 1500, "patterns of catalogues are compiled when they are loaded"
    assert not [line for line in said if line != "fine"]
