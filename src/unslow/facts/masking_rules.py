"""What in a text could name a person or open a door, and what is written in its place.

Every pattern is bounded, so that a megabyte of one letter is read once and not again from each of its places.
"""

import re
from ipaddress import ip_address
from typing import NamedTuple

_MASKED = r"\g<keep>masked"
# A value as people write one: in quotes up to the next quote, else up to a blank or a mark of punctuation.
# Keys are listed with commas and no blank between them.
_BARE = r"(?:[^\s\"',;&\]})<>|]|,(?=[^\s\"',])){1,4096}"
_VALUE = rf"(?:(?<=\")[^\"\n]{{1,4096}}|(?<=')[^'\n]{{1,4096}}|{_BARE})"
_WORD = r"[^\s\"',]+"
_IS = r"\\{0,3}[\"']?[ \t]{0,40}[=:][ \t]{0,4}\[?\\{0,3}[\"']?"
_NAME = r"[^\\/\s\"':]{1,64}"
_KEY_NAME = r"api[-_ ]?keys?|(?<![a-z])(?:hf|auth|access|secret|hub)[-_]token|passw(?:ord|d)|secret"
_KEY_FLAG = r"--?(?:hft|hordekey|(?:[a-z]{1,20}[-_]){0,3}(?:api[-_]?key|token|secret|(?:[a-z]{1,20})?passw(?:or)?d))"
_KEY_VARIABLE = r"[A-Z][A-Z0-9_]{0,60}(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)"
# Of a word that may be one of English, only a digit or a capital letter inside says that it is a key; `350ms` is none.
_LIKE_KEY = r"(?=\S{0,200}\d|\S{0,200}(?-i:[a-z][A-Z]))(?=\S{0,200}[A-Za-z])(?!\d[\d.,]{0,12}[A-Za-z/%]{0,12}(?![\w-]))"
_KEY_LIKE = _LIKE_KEY + r"[\w+/=.~!$%^*-]{8,4096}"
_ONE_OF_KEYS = r"(?:\"[^\"\n]{1,512}\"|'[^'\n]{1,512}'|[^\s\"'/-][^\s\"'/]{0,512})"
_SPOKEN = r"(?:passw(?:ord|d|ort)|passphrase|kennwort|mot de passe|contrase(?:ñ|n)a|senha|api[- ]?key|secret[- ]key)"
_IS_SAID = r"(?:\s{0,4}(?:=>?|->|:)|\s{1,4}(?:is|was|ist|est|es|será|to)(?=[\s:=])[:=]?)\s{0,4}[\"'`]?"
_ISSUERS = r"sk|ghp|gho|ghs|ghu|github_pat|glpat|xox[bap]|gsk|r8|nvapi|xai|pplx|dckr_pat"


class Rule(NamedTuple):
    """A pattern, and what stands there afterwards; `keep` is the part before the secret."""

    pattern: re.Pattern[str]
    instead: str


def _rule(pattern: str, instead: str = _MASKED) -> Rule:
    return Rule(re.compile(pattern), instead)


_PEOPLE = (
    _rule(r"(?i)(?P<keep>(?:/home|/Users)/)[^/\s\"':]+", r"\g<keep>user"),
    # a user's name on Windows may hold blanks, which only the next backslash tells from the end of the path
    _rule(
        rf"(?i)(?P<keep>[a-z]:[\\/]{{1,4}}users[\\/]{{1,4}})(?:{_NAME}(?: {_NAME}){{1,2}}(?=[\\/])|{_NAME})",
        r"\g<keep>user",
    ),
    _rule(r"(?<![\w.@-])[A-Za-z_][\w.-]{0,31}@[\w-]{1,63}(?=:[~/])", "user@host"),  # a shell's prompt
    _rule(
        r"(?<![A-Za-z0-9._%+-])(?<!://)[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}\.[A-Za-z0-9.-]{1,255}", "masked@mail"
    ),
)

_DEVICES = (
    _rule(r"\bGPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "GPU-masked"),
    _rule(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "masked-uuid"),
    _rule(rf"(?i)(?P<keep>\b(?:board id|pdi|udid){_IS}){_WORD}"),
    _rule(rf"(?i)(?P<keep>serial(?:[ _]?number)?(?: \(system\))?{_IS})(?=[^\s\"',]{{0,60}}\d){_WORD}"),
    _rule(r"(?i)(?P<keep>\bunique[ _]?id[\"']?[ \t]{0,40}[:=]?[ \t]{0,4}[\"']?)(?:0x)?[0-9a-f]{6,}\b"),
    _rule(r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:])", "masked-mac"),
)

_KEYS = (
    # what stands before the @ of a URL, its scheme left out or not, and what is left of it where the rest was cut off
    _rule(r"(?P<keep>://)[^/\s\"'<>]{1,512}@", r"\g<keep>masked@"),
    _rule(r"(?P<keep>://)[^/\s:@\"'<>\[\]]{1,256}:(?![\d$\[{<%]|\w{0,5}PORT)[^/\s\"'<>,]{1,256}"),
    _rule(
        r"(?<![\w.@/:-])[\w.%+-]{1,64}:[^\s@/:\"']{1,128}@(?=[\w-]{1,63}(?:\.[\w.-]{1,255})?:\d{2,5}\b|\d{1,3}\.)",
        "masked@",
    ),
    _rule(rf"\b(?:{_ISSUERS})[_-][A-Za-z0-9_-]{{8,}}", "masked-token"),
    # `hf_transfer` and `hf_hub_download` are names of programs: a token is long, or mixes its letters with digits
    _rule(r"\bhf_(?:[A-Za-z0-9]{16,}|(?=[a-z]{0,40}[0-9A-Z])[A-Za-z0-9]{8,})\b", "masked-token"),
    _rule(r"\b(?:AKIA[0-9A-Z]{16}|AIza[A-Za-z0-9_-]{30,}|eyJ[\w-]{8,}\.[\w-]{2,}\.[\w-]*)", "masked-token"),
    _rule(r"(?i)\b(?P<keep>bearer\s{1,4})[A-Za-z0-9._~+/=-]+"),
    # a scheme and what proves it, or either alone
    _rule(
        rf"(?i)(?P<keep>\b(?:proxy-)?authorization{_IS})"
        rf"(?:(?<=[\"'])[^\"'\n]{{1,4096}}|{_VALUE}(?: {{1,4}}(?!-){_VALUE})?)"
    ),
    _rule(r"(?i)(?P<keep>\b(?:set-)?cookie:[ \t]{1,4})[^\"'\n]{1,4096}"),
    # `docker run --user 1000:1000` opens nothing
    _rule(
        r"(?P<keep>(?<![\w-])(?:-u[ =]?|--(?:proxy-)?user[ =])[\"']?)(?!\d+:\d+\b)[^\s:\"'@/]{1,128}:[^\s\"']{1,4096}"
    ),
    _rule(r"(?i)(?P<keep>[?&](?:key|token|sig|signature|auth|secret)=)[^\s\"'&#]+"),
    _rule(
        rf"(?P<keep>(?<![A-Za-z0-9_]){_KEY_VARIABLE}(?:=|[\"']?[ \t]{{0,4}}=[ \t]{{0,4}}|:[ \t]{{0,4}})[\"']?){_VALUE}"
    ),
    _rule(
        rf"(?i)(?P<keep>\b(?:setx?|setenv|export)\s{{1,4}}[\"']?(?-i:{_KEY_VARIABLE})[\"']?\s{{1,4}}[\"']?)(?!=){_VALUE}"
    ),
    _rule(rf"(?P<keep>(?<![A-Za-z0-9_]){_KEY_VARIABLE} [\"']?){_KEY_LIKE}"),
    # flags that carry a secret, as a shell, a JSON list or Python prints them; vLLM takes several keys, up to the next
    _rule(
        rf"(?i)(?P<keep>(?<![\w-])--api[-_]key[ \t=]{{1,3}}){_ONE_OF_KEYS}"
        rf"(?:[ \t]{{1,4}}{_ONE_OF_KEYS}){{1,16}}(?=[ \t]{{1,4}}-)"
    ),
    _rule(rf"(?i)(?P<keep>(?<![\w-]){_KEY_FLAG}[\"']?[ \t=,]{{1,3}}[\"']?)(?!-){_VALUE}"),
    _rule(rf"(?i)(?P<keep>(?<![\w-])--api[-_]key[ =]masked[ \t]{{1,4}}){_KEY_LIKE}(?:[ \t]{{1,4}}{_KEY_LIKE}){{0,16}}"),
    _rule(rf"(?i)(?P<keep>(?:{_KEY_NAME})\\{{0,3}}[\"']?[ \t]{{0,4}}[=:][ \t]{{0,4}}\[)[^\]\n]{{1,4096}}"),
    _rule(rf"(?i)(?P<keep>(?:{_KEY_NAME}){_IS})(?!true\b|false\b|null\b|none\b){_VALUE}"),
    # as people say it: "my password for the box is ..."
    _rule(rf"(?i)(?P<keep>\b{_SPOKEN}(?: (?:for|of|to|on)(?: [^\s:=]{{1,40}}){{1,4}}?)?{_IS_SAID}){_VALUE}"),
    _rule(rf"(?i)(?P<keep>(?<![a-z_-])(?:{_SPOKEN}|secret|token|key){_IS_SAID}){_KEY_LIKE}"),
    _rule(
        rf"(?i)(?P<keep>(?<![a-z_-])(?:{_SPOKEN}|secret|token|key) {{1,4}}[\"'`]?)"
        rf"{_LIKE_KEY}[\w+=~!$%^*]{{8,4096}}(?![\w.-])"
    ),
    # `"eos_token": 2` is no secret, nor is a word after "the first token:"
    _rule(rf"(?i)(?P<keep>(?<![a-z_])token{_IS})(?=[^\s\"',;&]{{0,200}}\d)(?!\d+\b)[^\s\"',;&\]}}]{{8,}}"),
)

RULES: tuple[Rule, ...] = (*_KEYS, *_PEOPLE, *_DEVICES)  # a password before an @ is no address of a mail

# Versions of drivers have four numbers too, so an address counts where a URL, a port or a log of requests says so.
_ADDRESS = re.compile(
    r"(?P<before>://\[?|\b(?:host|client|peer|addr\w*|ip)[\"']?[ =:]{1,3}[\"']?|\|\s{0,16})?"
    r"(?<![\w.])(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|(?<=\[)[0-9a-fA-F:]{6,45}(?=\]))(?![\w.]|-\d)(?P<port>\]?:\d{2,5}\b)?"
)


def masked_text(text: str) -> str:
    """The text without names of users, keys, tokens, serial numbers, UUIDs and addresses of the open internet."""
    for pattern, instead in RULES if text else ():
        text = pattern.sub(instead, text)
    return _ADDRESS.sub(_address, text)


def keyless_text(text: str) -> str:
    """The text without keys, tokens and passwords; names and addresses stay."""
    for pattern, instead in _KEYS if text else ():
        text = pattern.sub(instead, text)
    return text


def _address(found: re.Match[str]) -> str:
    before, port = found["before"] or "", found["port"] or ""
    return f"{before}masked-ip{port}" if (before or port) and _is_public(found["ip"]) else found[0]


def _is_public(address: str) -> bool:
    """Whether it is a stranger's; a machine's own address or one of its house names nobody."""
    try:
        return ip_address(address).is_global
    except ValueError:
        return False
