"""What a PCI Express link carries one way."""

LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""By generation: transfers per second and lane after the line code (8b/10b, 128b/130b, FLITs), PCI-SIG."""
COPIED_SHARE = 0.8
"""What a large copy reaches: about 12.5 of 15.8 GB/s on 3.0 x16 and 25 of 31.5 on 4.0 x16 in CUDA's bandwidthTest."""


def link_bytes_per_s(generation: float, lanes: float) -> float:
    """What large copies reach; a generation that is not known counts as the newest that is."""
    lane = LANE_BYTES_PER_S.get(int(generation), LANE_BYTES_PER_S[max(LANE_BYTES_PER_S)])
    return max(1.0, COPIED_SHARE * lane * max(1.0, lanes))
