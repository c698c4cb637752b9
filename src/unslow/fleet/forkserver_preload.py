"""What every judgement reads, read once: imported by the process that all workers of `judging` are forks of."""

from unslow.fleet.judging import judge_member
from unslow.fleet.member import Member

judge_member(Member(key="nobody", runtime="vLLM", model="Llama-3.1-8B", window_s=900.0))
