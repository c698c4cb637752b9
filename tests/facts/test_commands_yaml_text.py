"""YAML output that a strict reader parses to the same data."""

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.commands import as_yaml

LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
TEXT = LINE | st.sampled_from(
    ["yes", "no", "null", "1m", "12", "a: b", "- x", "#", "{{ $value }}", "on", "", "~", "0x1f", "1e3"]
)
DATA = st.recursive(
    TEXT | st.integers(-9, 10**12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40)
@given(st.dictionaries(TEXT, DATA, min_size=1, max_size=3))
def test_yaml_output_is_read_back(data: dict[str, object]):
    assert yaml.safe_load(as_yaml(data)) == data


def test_multi_line_strings_become_yaml_blocks():
    assert as_yaml({"expr": "a\nand b"}) == "expr: |-\n  a\n  and b\n"
    assert yaml.safe_load(as_yaml({"x": [{"expr": "a\n  and b", "for": "1m"}]})) == {
        "x": [{"expr": "a\n  and b", "for": "1m"}]
    }
