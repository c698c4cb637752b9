"""A number comes from the shape, else from the layout, and may differ from layer to layer."""

from unslow.think.blueprints import Numbers

STATED = {"layers": 5, "width": 64, "heads": 4, "kv_heads": [0, 2], "key_length": None}
DERIVED = {"key_length": "width // heads", "heads": "1", "recurrent": "kv_heads == 0", "late": "layer >= 3"}


def test_shape_wins_over_layout():
    numbers = Numbers(STATED, DERIVED)
    assert numbers.number("heads") == 4
    assert numbers.number("key_length") == 16
    assert numbers.number("unheard of") is None
    assert numbers.number("layers") == 5


def test_list_repeats_over_the_layers():
    layers = [Numbers(STATED, DERIVED, layer) for layer in range(5)]
    assert [n.number("kv_heads") for n in layers] == [0, 2, 0, 2, 0]
    assert [n.number("recurrent") for n in layers] == [True, False, True, False, True]
    assert [n.number("late") for n in layers] == [False, False, False, True, True]


def test_whole_model_uses_the_largest_value_and_no_layer():
    numbers = Numbers(STATED, DERIVED)
    assert numbers.number("kv_heads") == 2
    assert numbers.number("late") is False
