import msgspec

from unslow.facts.model import HfShape, LayerKind

PLAIN = {"layers": 4, "width": 8, "vocabulary": 16, "heads": 2, "kv_heads": 1, "key_length": 4, "value_length": 4}


def test_layers_use_full_attention_by_default():
    shape = HfShape(**PLAIN)
    assert [shape.kind(n) for n in range(4)] == [LayerKind.FULL] * 4
    assert all(shape.keeps(n) for n in range(4))
    assert not any(shape.has_experts(n) for n in range(4))


def test_layers_that_share_a_kv_cache_keep_none():
    shape = HfShape(**PLAIN, shared_kv_layers=2, kinds=(LayerKind.RECURRENT, *[LayerKind.FULL] * 3))
    assert [shape.keeps(n) for n in range(4)] == [False, True, False, False]


def test_full_attention_layers_may_have_their_own_heads():
    kinds = (LayerKind.WINDOW, LayerKind.FULL) * 2
    shape = HfShape(**PLAIN, kinds=kinds, full_kv_heads=3, full_key_length=5)
    assert [shape.kv_heads_of(n) for n in range(2)] == [1, 3]
    assert [(shape.key_length_of(n), shape.value_length_of(n)) for n in range(2)] == [(4, 4), (5, 5)]


def test_experts_may_start_late_and_alternate():
    assert [HfShape(**PLAIN, experts=8, leading_dense=1).has_experts(n) for n in range(4)] == [False, True, True, True]
    assert [HfShape(**PLAIN, experts=8, expert_step=2).has_experts(n) for n in range(4)] == [False, True, False, True]


def test_a_shape_is_read_from_plain_data():
    told = {**PLAIN, "kinds": ["window", "full", "recurrent", "bare"]}
    assert msgspec.convert(told, HfShape).kind(3) is LayerKind.BARE
