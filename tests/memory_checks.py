"""What holds of every bar of memory, whatever it is of."""

from unslow.page.view import MemoryBar, WhatIf


def whole(bar: MemoryBar, kind: str) -> int:
    """What parts of a kind would take whole."""
    return sum(part.wanted_bytes or part.bytes for part in bar.parts if part.kind == kind)


def check_sums(answer: WhatIf) -> None:
    """All parts are the capacity; what lacks lies beyond it."""
    for bar in answer.bars:
        lacking = sum(part.bytes for part in bar.parts if part.kind == "lacking")
        assert all(part.bytes >= 0 for part in bar.parts)
        if bar.capacity_bytes is not None:
            assert sum(part.bytes for part in bar.parts) == bar.capacity_bytes + lacking
