"""The sampler: what all devices do while something is measured, ten or twenty times a second.

Files of the kernel are read in one thread, which also stamps the rows. Each GPU has a thread of its own, because a
driver can hang: its columns then stay empty, and everything else goes on. What is slow to read is read less often. The
rows of about the last hour are kept as they are, older ones ever thinner, so that a day takes no more memory than two
hours. Nothing of it passes through a recording: only the summary does.
"""

from unslow.look.sampler.sampler import Sampler

__all__ = ["Sampler"]
