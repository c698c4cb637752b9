import pytest

from unslow.facts.errors import UserError
from unslow.fleet.queries import Options, parse_matchers


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("", ""),
        ("{}", ""),
        ('{cluster="a",env=~"prod.*"}', 'cluster="a",env=~"prod.*"'),
        ("cluster=a, env!=test", 'cluster="a",env!="test"'),
        ("a='b\"c'", 'a="b\\"c"'),
        (r'a=~"x\\d+"', r'a=~"x\\d+"'),
        (r'a=~"x\d+"', r'a=~"x\\d+"'),
        ('a="}[1h]) or vector(1) #"', 'a="}[1h]) or vector(1) #"'),
        ('a="b",', 'a="b"'),
    ],
)
def test_matchers_are_normalised(given, written):
    assert parse_matchers(given) == written


@pytest.mark.parametrize(
    "given",
    [
        "cluster", 'a="b"}', 'a="b" or up', "a=b}", '__name__="up"', 'a="b', "a=`b`", '1a="b"', 'a="b" c="d"', "{{{",
        "a=" + "b" * 3000,
    ],
)  # fmt: skip
def test_invalid_matcher_is_a_user_error(given):
    with pytest.raises(UserError) as error:
        parse_matchers(given)
    assert "env=~" in error.value.hint


def test_engine_matchers_apply_to_engines_only():
    options = Options(match='cluster="a"', engines="namespace=llm")
    assert options.matchers() == 'cluster="a"'
    assert options.matchers(engines=True) == 'cluster="a",namespace="llm"'


def test_user_labels_take_precedence():
    labels = Options(join="host=machine_id, gpu=exported_pod_name").labels()
    assert labels.host[0] == "machine_id"
    assert "node" in labels.host
    assert labels.gpu[0] == "exported_pod_name"
    assert labels.pod[0] == "pod"


@pytest.mark.parametrize("join", ["host", "host=", "place=node", 'host=a"b', "host==a"])
def test_invalid_join_is_a_user_error(join):
    with pytest.raises(UserError) as error:
        Options(join=join).labels()
    assert "host=machine" in error.value.hint
