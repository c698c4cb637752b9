"""What Transformers takes for granted of a text model: it leaves these values out of a nested `config.json`.

A config inside another (`text_config`) is saved without the values that equal the defaults of its class, so that a
vision model's file can be silent about its number of heads. One TOML for each `model_type`, by the names of
`config.json`.
"""

from functools import cache

from unslow.catalog import entries

Setting = bool | int | str | list[int]


@cache
def _all_defaults() -> dict[str, dict[str, Setting]]:
    return dict(entries("config_defaults", dict[str, Setting]))


def config_defaults(model_type: str) -> dict[str, Setting]:
    """The defaults of that `model_type`; none where it is not known as the inner model of another."""
    return {key: value for key, value in _all_defaults().get(model_type, {}).items() if key != "source"}
