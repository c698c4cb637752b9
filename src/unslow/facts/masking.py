"""Takes out of a snapshot and of texts what could name a person or open a door.

For every file that leaves the machine.
"""

import re
from collections.abc import Callable
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple, TypeVar

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.snapshot import Snapshot

# What in a text could name a person or open a door, and what is written in its place.
# Every pattern is bounded, so that a megabyte of one letter is read once and not again from each of its places.

_MASKED = r"\g<keep>masked"
# A value as people write one: in quotes up to the next quote, else up to a blank or a mark of punctuation.
# Keys are listed with commas and no blank between them.
_BARE = r"(?:[^\s\"',;&\]})<>|]|,(?=[^\s\"',])){1,4096}"
_VALUE = rf"(?:(?<=\")[^\"\n]{{1,4096}}|(?<=')[^'\n]{{1,4096}}|{_BARE})"
_WORD = r"[^\s\"',]+"
_IS = r"\\{0,3}[\"']?[ \t]{0,40}[=:][ \t]{0,4}\[?\\{0,3}[\"']?"
_NAME = r"[^\\/\s\"':]{1,64}"
# In any spelling: secret_key, secretKey, aws_secret_access_key, AccountKey, private-token. `eos_token` opens nothing.
_KEY_NAME = (
    r"api[-_ ]?keys?|passw(?:ord|d)|passphrase|secret"
    r"|(?:secret|private|access|account|auth|signing|encryption|master|shared|client|service|ssh|deploy|webhook)"
    r"(?:[-_]?access)?[-_]?key(?:[-_]?id)?|shared[-_]?access[-_]?signature"
    r"|(?<![a-z])(?:hf|auth|oauth|access|refresh|secret|hub|bearer|private|session|security|personal|deploy|bot|api|job"
    r"|registry|gitlab|github|csrf|sas)[-_]?(?:access[-_]?)?token"
)
_KEY_FLAG = r"--?(?:hft|hordekey|(?:[a-z]{1,20}[-_]){0,3}(?:api[-_]?key|token|secret|(?:[a-z]{1,20})?passw(?:or)?d))"
_KEY_VARIABLE = r"[A-Z][A-Z0-9_]{0,60}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)"
# Of a word that may be one of English, only a digit or a capital letter inside says that it is a key; `350ms` is none.
_LIKE_KEY = r"(?=\S{0,200}\d|\S{0,200}(?-i:[a-z][A-Z]))(?=\S{0,200}[A-Za-z])(?!\d[\d.,]{0,12}[A-Za-z/%]{0,12}(?![\w-]))"
_KEY_LIKE = _LIKE_KEY + r"[\w+/=.~!$%^*-]{8,4096}"
_ONE_OF_KEYS = r"(?:\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[^\s\"'/-][^\s\"'/]{0,512})"
_SPOKEN = r"(?:passw(?:ord|d|ort)|passphrase|kennwort|mot de passe|contrase(?:ñ|n)a|senha|api[- ]?key|secret[- ]key)"
_IS_SAID = r"(?:\s{0,4}(?:=>?|->|:)|\s{1,4}(?:is|was|ist|est|es|será|to)(?=[\s:=])[:=]?)\s{0,4}[\"'`]?"
_ISSUERS = (
    r"sk|gh[oprsu]|github_pat|gl(?:pat|dt|rt|cbt|ptt|soat|ft|agent)|xox[a-z](?:-\d)?|xapp|gsk|r8|nvapi|xai|pplx|dckr_pat"
    r"|tskey|tvly|csk|[sr]k_(?:live|test)|whsec|shp(?:at|ss|ca|pa)|do[opr]_v1|lin_api|PMAK|GOCSPX|AGE-SECRET-KEY|pul|rpa"
)
_TOKENS = (  # of those whose marks are words too, only what is as long as theirs
    r"npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|ya29\.[\w-]{8,}|1//0[\w-]{20,}|hv[bsr]\.[\w-]{20,}|dapi[0-9a-f]{32}"
    r"|(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|\d{8,10}:AA[\w-]{30,}|[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,}"
)


class Rule(NamedTuple):
    """A pattern, and what stands there afterwards; `keep` is the part before the secret."""

    pattern: str
    instead: str = _MASKED


_PEOPLE = (
    # a user's name may hold blanks, which only the next slash or the quotes around the path tell from its end
    Rule(r"(?i)(?P<keep>[\"'](?:/[\w.-]{1,64}){0,4}/(?:home|users)/)[^/\n\"':]{1,64}(?=[/\"'])", r"\g<keep>user"),
    Rule(rf"(?i)(?P<keep>/(?:home|users)/)(?:{_NAME}(?: (?!-){_NAME}){{1,2}}(?=/)|[^/\s\"':]+)", r"\g<keep>user"),
    # where removable disks are mounted: /media/NAME/DISK; some call the disk itself there
    Rule(
        rf"(?P<keep>/(?:run/)?media/)"
        rf"(?!(?:cdrom|floppy|usb|disk|data|storage|models?|nas|hdd|ssd|nvme)[\w-]{{0,8}}(?![^/\s\"':]))"
        rf"(?:{_NAME}(?: (?!-){_NAME}){{1,2}}(?=/[^\s/])|{_NAME})",
        r"\g<keep>user",
    ),
    Rule(r"(?<![\w/~.-])~[A-Za-z_][\w.-]{0,31}(?=/)", "~user"),
    Rule(
        rf"(?i)(?P<keep>[a-z]:[\\/]{{1,4}}users[\\/]{{1,4}})(?:{_NAME}(?: {_NAME}){{1,2}}(?=[\\/])|{_NAME})",
        r"\g<keep>user",
    ),
    Rule(r"(?<![\w.@-])[A-Za-z_][\w.-]{0,31}@[\w-]{1,63}(?=:[~/])", "user@host"),  # a shell's prompt
    Rule(
        r"(?<![A-Za-z0-9._%+-])(?<!://)[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}\.[A-Za-z0-9.-]{1,255}", "masked@mail"
    ),
)
_DEVICES = (
    Rule(r"\bGPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "GPU-masked"),
    Rule(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "masked-uuid"),
    Rule(rf"(?i)(?P<keep>\b(?:board id|pdi|udid){_IS}){_WORD}"),
    Rule(rf"(?i)(?P<keep>serial(?:[ _]?number)?(?: \(system\))?{_IS})(?=[^\s\"',]{{0,60}}\d){_WORD}"),
    Rule(r"(?i)(?P<keep>\bunique[ _]?id[\"']?[ \t]{0,40}[:=]?[ \t]{0,4}[\"']?)(?:0x)?[0-9a-f]{6,}\b"),
    Rule(r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])", "masked-mac"),
)
_KEYS = (
    # what stands before the @ of a URL, its scheme left out or not, and what is left of it where the rest was cut off
    Rule(r"(?P<keep>://)[^/\s\"'<>]{1,512}@", r"\g<keep>masked@"),
    Rule(r"(?P<keep>://)[^/\s:@\"'<>\[\]]{1,256}:(?![\d$\[{<%]|\w{0,5}PORT)[^/\s\"'<>,]{1,256}"),
    Rule(
        r"(?<![\w.@/:-])[\w.%+-]{1,64}:[^\s@/:\"']{1,128}@(?=[\w-]{1,63}(?:\.[\w.-]{1,255})?:\d{2,5}\b|\d{1,3}\.)",
        "masked@",
    ),
    Rule(rf"\b(?:{_ISSUERS})[_-][A-Za-z0-9_-]{{8,}}", "masked-token"),
    # `hf_transfer` and `hf_hub_download` are names of programs: a token is long, or mixes its letters with digits
    Rule(r"\bhf_(?:[A-Za-z0-9]{16,}|(?=[a-z]{0,40}[0-9A-Z])[A-Za-z0-9]{8,})\b", "masked-token"),
    Rule(rf"\b(?:{_TOKENS})", "masked-token"),
    Rule(r"(?P<keep>hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/)[\w/-]{8,}"),
    # up to its end, or to where it was cut off
    Rule(
        r"(?P<keep>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)(?!masked)"
        r"(?:[A-Za-z0-9+/=\s\\:,]|-(?!----)){0,20000}+(?:-----END [A-Z0-9 ]{0,40}-----)?"
    ),
    Rule(r"(?i)\b(?P<keep>bearer\s{1,4})[A-Za-z0-9._~+/=-]+"),
    # a scheme and what proves it, or either alone
    Rule(
        rf"(?i)(?P<keep>\b(?:proxy-)?authorization{_IS})"
        rf"(?:(?<=[\"'])[^\"'\n]{{1,4096}}|{_VALUE}(?: {{1,4}}(?!-){_VALUE})?)"
    ),
    Rule(r"(?i)(?P<keep>\b(?:set-)?cookie:[ \t]{1,4})[^\"'\n]{1,4096}"),
    # `docker run --user 1000:1000` opens nothing
    Rule(
        r"(?P<keep>(?<![\w-])(?:-u[ =]?|--(?:proxy-)?user[ =])[\"']?)(?!\d+:\d+\b)[^\s:\"'@/]{1,128}:[^\s\"']{1,4096}"
    ),
    Rule(
        r"(?i)(?P<keep>[?&](?:key|token|sig|signature|auth|secret|code)=|\bx-(?:amz|goog)-(?:signature|credential|security-token)=)[^\s\"'&#]+"
    ),
    Rule(
        rf"(?P<keep>(?<![A-Za-z0-9_]){_KEY_VARIABLE}(?:=|[\"']?[ \t]{{0,4}}=[ \t]{{0,4}}|:[ \t]{{0,4}})[\"']?){_VALUE}"
    ),
    Rule(
        rf"(?i)(?P<keep>\b(?:setx?|setenv|export)\s{{1,4}}[\"']?(?-i:{_KEY_VARIABLE})[\"']?\s{{1,4}}[\"']?)(?!=){_VALUE}"
    ),
    Rule(rf"(?P<keep>(?<![A-Za-z0-9_]){_KEY_VARIABLE} [\"']?){_KEY_LIKE}"),
    # flags that carry a secret, as a shell, a JSON list or Python prints them; vLLM takes several keys, up to the next
    Rule(
        rf"(?i)(?P<keep>(?<![\w-])--api[-_]key[ \t=]{{1,3}}){_ONE_OF_KEYS}"
        rf"(?:[ \t]{{1,4}}{_ONE_OF_KEYS}){{1,16}}(?=[ \t]{{1,4}}-)"
    ),
    Rule(rf"(?i)(?P<keep>(?<![\w-]){_KEY_FLAG}[\"']?[ \t=,]{{1,3}}[\"']?)(?!-){_VALUE}"),
    Rule(rf"(?i)(?P<keep>(?<![\w-])--api[-_]key[ =]masked[ \t]{{1,4}}){_KEY_LIKE}(?:[ \t]{{1,4}}{_KEY_LIKE}){{0,16}}"),
    Rule(rf"(?i)(?P<keep>(?:{_KEY_NAME})\\{{0,3}}[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}\[)[^\]\n]{{1,4096}}"),
    Rule(rf"(?i)(?P<keep>(?:{_KEY_NAME}){_IS})(?!true\b|false\b|null\b|none\b){_VALUE}"),
    # as people say it: "my password for the box is ..."
    Rule(rf"(?i)(?P<keep>\b{_SPOKEN}(?: (?:for|of|to|on)(?: [^\s:=]{{1,40}}){{1,4}}?)?{_IS_SAID}){_VALUE}"),
    Rule(rf"(?i)(?P<keep>(?<![a-z_-])(?:{_SPOKEN}|secret|token|key){_IS_SAID}){_KEY_LIKE}"),
    Rule(
        rf"(?i)(?P<keep>(?<![a-z_-])(?:{_SPOKEN}|secret|token|key) {{1,4}}[\"'`]?)"
        rf"{_LIKE_KEY}[\w+=~!$%^*]{{8,4096}}(?![\w.-])"
    ),
    # `"eos_token": 2` is no secret, nor is a word after "the first token:"
    Rule(rf"(?i)(?P<keep>(?<![a-z_])token{_IS})(?=[^\s\"',;&]{{0,200}}\d)(?!\d+\b)[^\s\"',;&\]}}]{{8,}}"),
)
_STARTS = (
    r"(?=\(?(?:[A-Z][A-Za-z]{1,20} ?pid=|INFO|DEBUG|WARN|ERROR|TRACE|time=|level=|\[(?:GIN|INFO|DEBUG|WARN|ERROR|\d)|"
    r"\d{4}[-/]\d\d|\d\d[:-]\d\d|srv |slot |que |(?:llama|ggml|print|load|common|main|init|clip|sched)\w{0,30}: ))"
)
_LOG_LINE, _NOT_LOG_LINE = rf"\n{_STARTS}", rf"\n(?!{_STARTS})"
# A text in quotes, with escaped ones inside, on one line or several; where the end was cut off, the rest of its line.
_QUOTED = (
    rf"(?:\"(?:[^\"\\\n]|\\.|{_NOT_LOG_LINE}){{1,200000}}+\"|\"(?:[^\"\\\n]|\\.)++"
    rf"|'(?:[^'\\\n]|\\.|{_NOT_LOG_LINE}){{1,200000}}+'|'(?:[^'\\\n]|\\.)++"
    r"|\\\"(?:[^\"\\\n]|\\\\+.|\\[^\"\\])++(?:\\\")?|`[^`\n]{1,100000}`?)"
)
_ASKED = (
    r"(?:system|user|negative|formatted|chat|full|input|raw|final|rendered)?[-_ ]?prompts?|prompt[-_]?text|inputs?"
    r"|input[-_]text|contents?|text|quer(?:y|ies)|question|instructions?|generated(?:[-_]text)?"
    r"|reasoning(?:[-_]content)?|thinking|refusal|arguments|output[-_]text|formatted_chat|user[-_](?:input|message)"
)
_NUMBERED = r"(?:prompt|input|output|generated|context)[-_]?(?:token[-_]?)?ids?"
_PROMPTS = (
    # vLLM: everything up to the parameters, which may be lines
    Rule(
        r"(?P<keep>\b(?:Received request|Request|Generated response|Adding request) [^\s:]{1,120}(?: details)?: "
        r"(?:prompt|output|inputs?): )(?s:.)*?"
        r"(?=, (?:params|sampling_params|(?:prompt|output)_token_ids|prompt_embeds|lora_request|finish_reason)\b"
        rf"|{_LOG_LINE}|\Z)"
    ),
    # KoboldCpp prints the answer as it is
    Rule(
        r"(?P<keep>(?:^|\n)Output: )(?=[^\n])(?s:.)*?"
        rf"(?=\n(?:Input: |Processing |Generating |CtxLimit|\[|\d+\.\d+\.\d+\.\d+)|{_LOG_LINE}|\Z)"
    ),
    Rule(rf"(?i)(?P<keep>(?<![\w-])(?:{_NUMBERED})\\{{0,3}}[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}\[)[\d,\s.-]++"),
    # JSON, Python's words and those of Go: a prompt is quoted, and how long it is, is not
    Rule(
        rf"(?i)(?P<keep>(?<![\w-])(?:{_ASKED})\\{{0,3}}[\"']?[ \t]{{0,4}}[=:]\s{{0,4}}\[\s{{0,20}})"
        rf"(?:{_QUOTED}[,\s]{{0,20}})++"
    ),
    Rule(
        rf"(?i)(?P<keep>(?<![\w-])(?:{_ASKED})\\{{0,3}}[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}})(?!(?:\"\"|''))"
        rf"(?!\\?[\"'`]masked){_QUOTED}",
        r'\g<keep>"masked"',
    ),
    Rule(r"(?P<keep>(?<![\w-])prompt=)(?![\d\"'\[]|(?:true|false|null|none|masked)\b)\S{1,4096}"),
    Rule(
        rf"(?P<keep>(?<!\S)(?:--prompt|--system-prompt|-sys|-p)(?:[ \t]{{1,4}}|=))"
        rf"(?=[\"'][^\"'\s]{{0,200}}\s){_QUOTED}",
        r'\g<keep>"masked"',
    ),
)
RULES_WITHOUT_PROMPTS: tuple[Rule, ...] = (*_KEYS, *_PEOPLE, *_DEVICES)  # a password before an @ is no mail's address
RULES: tuple[Rule, ...] = (*_PROMPTS, *RULES_WITHOUT_PROMPTS)
# Versions of drivers have four numbers too, so an address counts where a URL, a port or a log of requests says so.
_FOUR = r"\d{1,3}(?:\.\d{1,3}){3}"
_ADDRESS = re.compile(
    r"(?P<before>://\[?"
    r"|(?i:(?<![a-z])(?:host|hostname|client|peer|remote|addr\w{0,5}|ip|forwarded-for|bind|listen)"
    r"[\"']?[ =:,]{1,4}[\"']?)"
    r"|\|\s{0,16}|\b(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) [^\s\"]{1,2000} "
    r"|(?i:\b(?:connect\w{0,5}|disconnect\w{0,5}|requests?|accept\w{0,3}|client|listening|bound|host|server|peer)"
    r"[ \"']{1,2}(?:from|to|on|at|by)[ :]{1,2}))?"
    rf"(?<![\w.])(?P<ip>{_FOUR})(?![\w.]|-\d)(?P<after>:\d{{2,5}}\b| - -? ?[\[\"])?"
)
_ADDRESS_6 = re.compile(r"(?<![\w:.])[23][0-9a-fA-F]{3}:[0-9a-fA-F:]{2,40}(?![\w:])")
_FOLLOWING = re.compile(rf"masked-ip(?P<more>(?:,\s{{0,4}}{_FOUR}){{1,16}})(?![\w.])")
# this machine, a house, the inside of a provider or of Tailscale, and what is no address of a machine at all
_HOUSE = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 224.0.0.0/3"
_HOUSE_NETWORKS = [ip_network(net) for net in _HOUSE.split()]
_SECRET_FLAG = re.compile(
    r"(?i)--?(?:hft|hordekey|(?:[a-z]+-){0,3}(?:api-?key|token|secret|[a-z]*passw(?:or)?d|passphrase)|(?:ssl-|api-)key-?file)"
)
_PROMPT_FLAGS = ("-p", "--prompt", "--system-prompt", "-sys")
_SEVERAL = "--api-key"  # vLLM takes all words up to the next flag as keys
_SECRET_NAMES = re.compile(r"(?i)(key|token|secret|passw|passphrase|auth|cookie|credential)")
F = TypeVar("F", bound=Facts)


def mask_snapshot(snapshot: Snapshot) -> Snapshot:
    """The snapshot, safe to share."""
    return msgspec.convert(_mask_value(msgspec.to_builtins(snapshot), masked_text, _PROMPT_FLAGS), Snapshot)


def keyless(facts: F) -> F:
    """The facts without keys and passwords, for the eyes of whoever owns the machine; the same where there are none."""
    raw = msgspec.to_builtins(facts)
    clean = _mask_value(raw, keyless_text)
    return msgspec.convert(clean, type(facts)) if clean != raw else facts


def _mask_value(value: Any, shown: Callable[[str], str], more: tuple[str, ...] = (), name: str = "") -> Any:
    word_shown = masked_word if shown is masked_text else shown
    match value:
        case str():
            return shown(value)
        case list() | tuple():
            strings = all(isinstance(v, str) for v in value)
            if name == "command" and strings:
                return _shown_command(list(value), word_shown, more)
            return type(value)(_mask_value(v, shown, more, name) for v in value)
        case dict() if name == "environment" and "is" not in value:
            return masked_environment(value, word_shown)
        case dict():
            return {k: _mask_value(v, shown, more, name if k == "value" else k) for k, v in value.items()}
        case _:
            return value


def masked_text(text: str, rules: tuple[Rule, ...] = RULES) -> str:
    """The text without prompts, names of users, keys, tokens, serial numbers, UUIDs and addresses of the internet."""
    for pattern, instead in compile_rules(rules) if text else ():
        text = pattern.sub(instead, text)
    text = _ADDRESS_6.sub(lambda found: "masked-ip" if _is_public(found[0]) else found[0], text)
    return _FOLLOWING.sub(_further, _ADDRESS.sub(_address, text))


def masked_word(word: str) -> str:
    """A word of a command line, or the value of a variable: four numbers alone are an address there, not a version."""
    return "masked-ip" if re.fullmatch(_FOUR, word) and _is_public(word) else masked_text(word)


def keyless_text(text: str) -> str:
    """The text without keys, tokens and passwords; names and addresses stay."""
    for pattern, instead in compile_rules(_KEYS) if text else ():
        text = pattern.sub(instead, text)
    return text


@cache
def compile_rules(rules: tuple[Rule, ...]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """The rules, ready: most commands import this module and mask nothing, and these patterns take long to compile."""
    return tuple((re.compile(pattern), instead) for pattern, instead in rules)


def _address(found: re.Match[str]) -> str:
    before, after = found["before"] or "", found["after"] or ""
    return f"{before}masked-ip{after}" if (before or after) and _is_public(found["ip"]) else found[0]


def _further(found: re.Match[str]) -> str:
    return re.sub(_FOUR, lambda one: "masked-ip" if _is_public(one[0]) else one[0], found[0])


def _is_public(address: str) -> bool:
    """Whether it identifies somebody: private and loopback addresses do not."""
    try:
        there = ip_address(address)
    except ValueError:
        return False
    return isinstance(there, IPv6Address) or not any(there in net for net in _HOUSE_NETWORKS)


def masked_command(command: list[str]) -> list[str]:
    """The command line without the values of flags that carry secrets or prompts."""
    return _shown_command(command, masked_word, _PROMPT_FLAGS)


def keyless_command(command: list[str]) -> list[str]:
    """The command line without keys and passwords, for the eyes of whoever owns the machine."""
    return _shown_command(command, keyless_text)


def _shown_command(command: list[str], shown: Callable[[str], str], more: tuple[str, ...] = ()) -> list[str]:
    result, flag_before, flag_of_all = [], "", ""
    for word in command:
        flag, equals, _ = word.partition("=")
        plain = flag.replace("_", "-")  # llama.cpp takes either spelling
        secret = bool(_SECRET_FLAG.fullmatch(plain)) or plain in more
        flag_of_all = "" if word.startswith("-") else flag_of_all
        hide = bool(flag_before or flag_of_all)
        result.append("masked" if hide else f"{flag}=masked" if equals and secret else shown(word))
        flag_before = plain if secret and not equals else ""
        flag_of_all = plain if flag_before == _SEVERAL else flag_of_all
    return result


def masked_environment(environment: dict[str, str], shown: Callable[[str], str] = masked_word) -> dict[str, str]:
    """The environment with the values of secret-looking names hidden, and the others as they may be shown."""
    return {k: "masked" if _SECRET_NAMES.search(k) else shown(v) for k, v in environment.items()}


SHOWN_KEY = "KEY"
_SHORTEST = 8
_PLACEHOLDERS = frozenset({"lm-studio", "not-needed", "no-key-required", "sk-no-key-required", "sk-1234567890"})
"""What people write where a client insists on a key and the server wants none: as public as the word `ollama`."""


def key_headers(api_key: str | None) -> dict[str, str]:
    """The header that carries a key; none without one."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}


def is_secret(api_key: str | None) -> bool:
    """Whether a key is one; a short word or a placeholder would only spoil the text that it is taken out of."""
    return bool(api_key) and len(api_key or "") >= _SHORTEST and api_key not in _PLACEHOLDERS


def without_keys(text: str, *keys: str | None) -> str:
    """The text without the keys."""
    for key in keys:
        if key and is_secret(key):
            text = text.replace(key, SHOWN_KEY)
    return text


def data_without_keys(data: Any, *keys: str | None) -> Any:
    """Lists, objects and texts, without the keys."""
    match data:
        case str():
            return without_keys(data, *keys)
        case list() | tuple():
            return [data_without_keys(part, *keys) for part in data]
        case dict():
            return {without_keys(str(name), *keys): data_without_keys(part, *keys) for name, part in data.items()}
        case _:
            return data
