from doubles import FakeSystem

from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.runtimes.llama_cpp.flags import parse_help, read_options, read_own_options
from unslow.look.system import FinishedCommand, LookError

HELP = """----- common params -----

-h,    --help, --usage                  print usage and exit
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
-ts,   --tensor-split N0,N1,N2,...      fraction of the model, e.g. 3,1
--draft, --draft-n, --draft-max N       the argument has been
                                        removed. use --spec-draft-n-max or
--spec-draft-n-max N                    number of tokens to draft
"""
MANY = "\n".join(f"--flag-{number} N    a flag" for number in range(60))
SERVER = Runtime().with_facts(pid=reported_fact(7, "x"), command=reported_fact(["llama", "serve", "-m", "x"], "x"))


def test_flags_and_their_text_are_parsed_from_help():
    options = parse_help(HELP)
    assert set(options) == {
        "-h", "--help", "--usage", "-fa", "--flash-attn", "-kvo", "--kv-offload", "-nkvo", "--no-kv-offload", "-ts",
        "--tensor-split", "--spec-draft-n-max",
    }  # fmt: skip
    assert "LLAMA_ARG_FLASH_ATTN" in options["-fa"]
    assert "-fa" not in options["-kvo"]


def test_text_that_is_not_help_has_no_flags():
    assert parse_help("") == {}
    assert parse_help("error while loading shared libraries\n  --not-a-flag\n---\n") == {}


def test_help_of_the_running_program_is_read_once():
    system = FakeSystem(
        links={"/proc/7/exe": "/opt/llama"}, commands={"/opt/llama serve --help": FinishedCommand(0, MANY, "")}
    )
    first = read_own_options(system, SERVER)
    assert len(first) == 60
    system.commands.clear()
    assert read_own_options(system, SERVER) is first


def test_only_the_servers_own_program_is_run_for_help():
    class Strict(FakeSystem):
        def run(self, command, timeout_s=0):
            raise AssertionError(command)

    for program in ("/usr/bin/python3", "/bin/sh", "/opt/llama-server (deleted)"):
        assert read_own_options(Strict(links={"/proc/7/exe": program}), SERVER) == {}
    boxed = Runtime().with_facts(pid=reported_fact(7, "x"), container=reported_fact("docker", "x"))
    assert read_own_options(Strict(links={"/proc/7/exe": "/app/llama-server"}), boxed) == {}
    assert read_own_options(Strict(), Runtime()) == {}
    assert read_own_options(Strict(), SERVER) == {}


def test_a_program_without_help_output_gives_no_options():
    gone = FakeSystem(commands={"/x/llama-server --help": LookError("took too long")})
    assert read_options(gone, "/x/llama-server") == {}
    assert read_options(FakeSystem(commands={"/y --help": FinishedCommand(127, "", "no such library")}), "/y") == {}
