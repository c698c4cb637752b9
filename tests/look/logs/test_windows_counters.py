import pytest

from unslow.facts.values import NOT_LOOKED
from unslow.look.logs.dialect import Text
from unslow.look.logs.windows import TEXT_DIALECTS, parse_counted_gpus

CARD, CHIP = "luid_0x00000000_0x00016058_phys_0", "luid_0x00000000_0x000190BD_phys_0"
PATHS = [
    rf"\\H\GPU Adapter Memory({CARD})\Dedicated Usage",
    rf"\\H\GPU Adapter Memory({CHIP})\Dedicated Usage",
    rf"\\H\GPU Adapter Memory({CARD})\Shared Usage",
    rf"\\H\GPU Process Memory(pid_7_{CARD})\Dedicated Usage",
    rf"\\H\GPU Process Memory(pid_7_{CARD})\Shared Usage",
]
TYPEPERF = f"""\
"(PDH-CSV 4.0)",{",".join(f'"{path}"' for path in PATHS)}
"11/06/2026 10:00:00.000","1800000000.000000","0.000000","100.000000","1.000000","2.000000"
"11/06/2026 10:00:01.000","8165261312.000000","0.000000","3328599654.000000","7516192768.000000","3221225472.000000"
Exiting, please wait...
The command completed successfully.
"""
GET_COUNTER = rf"""
Timestamp                 CounterSamples
---------                 --------------
11/6/2026 10:00:00 AM     \\host\gpu adapter memory({CARD.lower()})\shared usage :
                          3328599654

                          \\host\gpu adapter memory({CARD.lower()})\dedicated usage :
                          8165261312
"""
LISTS = f"""
Name           : {CARD}
DedicatedUsage : 8165261312
SharedUsage    : 3328599654

Name           : pid_7_{CARD}
DedicatedUsage : 7516192768
SharedUsage    : 3221225472
"""


@pytest.mark.parametrize("text", [TYPEPERF, GET_COUNTER, LISTS])
def test_windows_counters_list_only_adapters_with_memory_in_use(text: str):
    (gpu,) = parse_counted_gpus(text)
    assert (gpu.vram_used_bytes.need(), gpu.shared_used_bytes.need()) == (8165261312, 3328599654)
    assert gpu.vendor == NOT_LOOKED


@pytest.mark.parametrize("text", [TYPEPERF, LISTS])
def test_windows_counters_give_memory_per_process(text: str):
    (process,) = parse_counted_gpus(text)[0].processes.need()
    assert (process.pid, process.vram_bytes.need(), process.shared_bytes.need()) == (7, 7516192768, 3221225472)


def test_the_last_counter_row_counts_and_names_its_line():
    assert parse_counted_gpus(TYPEPERF)[0].shared_used_bytes.source == "performance counters:3"


@pytest.mark.parametrize("text", [TYPEPERF, GET_COUNTER, LISTS])
def test_windows_counters_are_found_amid_prose(text: str):
    lines = ["so slow", *text.splitlines(), "why?"]
    (gpu,) = TEXT_DIALECTS["windows_counters"](Text(lines, "p")).machine.gpus.need()
    assert gpu.shared_used_bytes.need() == 3328599654


@pytest.mark.parametrize(
    "text", ["", '"(PDH-CSV 4.0)"', '"(PDH-CSV 4.0)","x"\n"a","b"', "Name : luid_0x0_0x1", '"' * 10**5]
)
def test_garbage_and_truncated_windows_counters_give_no_gpus(text: str):
    assert parse_counted_gpus(text) == ()
