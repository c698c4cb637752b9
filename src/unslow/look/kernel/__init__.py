"""The small text formats in which the Linux kernel answers, shared by the probes that read them."""
