"""The memory of Transformers: weights by device map, the cache it grows or sets aside, and the peaks of its kernels."""
