"""Prompts: the protocol's own two, or text of any length that no cache has seen and no draft can guess.

Every prompt differs from the others from its first word on. Long ones are sentences of words drawn at random, so that
nothing in them repeats what came before, and end in a question. They are exact to a token or two where the runtime
has a tokenizer to ask, which is asked once for all words and once for what stands around them.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from threading import Lock
from typing import NamedTuple

from unslow.look.requests import Target, read_tokens
from unslow.look.system import System

_TEXT = """
able above accept account across action active actor actual address adult advice affair afraid after again agency
agent almost alone along already although amount ancient anger angle animal annual answer anybody apart appeal apple
area argue around arrive article artist aside asleep aspect attempt author autumn average avoid award aware
baby balance ball band bank barely base basic basket battle beach bear beat beauty become before begin behave behind
belief belong below beside better beyond bill bird birth bitter black blanket blind block blood board body bone book
border borrow bottle bottom bowl branch brave bread break breath brick bridge brief bright bring broad brother brown
brush build burden burn business busy butter button cabin cable calm camera candle capital captain capture carbon
career careful carpet carry castle casual catch cause ceiling center century certain chain chair chance change
chapter charge charm cheap check cheese chest chief child choice choose church circle citizen city claim class clean
clear clever climb clock close cloth cloud coach coast coffee cold collar collect color column comfort common
company compare concern concert connect consider contain content control corner correct cotton couch council count
country couple courage course cover cream create credit crew crisis crop cross crowd culture curious current
curtain custom damage dance danger dark daughter deal debate decade decide deep defend degree delay deliver demand
deny depend depth describe desert design desire detail develop differ dinner direct discover discuss disease
distance divide doctor dollar double doubt draft dragon drama dream dress drink drive during dust duty eager early
earn earth east easy economy edge editor educate effect effort either elder electric elegant element empty enable
ending energy engine enjoy enough enter entire equal escape estate even evening event every evidence exact
example excite excuse exercise exist expand expect expert explain express extend extra fabric face factor faculty
fail faint fair faith family famous farm fashion father fault favor fear feature feed feel fellow fence festival
fiction field figure film final finger finish fire firm fish flame flat flavor flight float floor flower fold follow
food foot force foreign forest forget form forward found frame free fresh friend front fruit fuel full future gain
garden gather gentle ghost giant gift glad glass global golden govern grace grade grain grand grass great green
ground group grow guard guess guest guide habit hair half hall hand happen happy harbor hard harvest hear heart heat
heavy height hello help hero hidden high hill history hold hole holiday home honest honor hope horse hospital host
hotel hour house human humor hunger hunt hurry ideal idle image impact inch income indeed industry inform initial
injury inner insect inside invite iron island issue item jacket join joint journal journey judge juice jump junior
jury keen keep kind king kitchen knee knife knock know label labor ladder lake land language large last late laugh
layer lead leaf learn leather leave legal lemon lend length lesson letter level liberty library lift light limit
line list little live local lonely long lose loud love lower lucky lunch machine magic main major manage manner
market marry master match matter meal measure meat medical meet melt member memory mention message metal method
middle mild milk mind minor minute mirror mission mix model modern modest moment money month moral morning mother
motion motor mountain mouth move much muscle museum music narrow nation native nature near neat neck needle
nerve never next night noble noise normal north notice novel number nurse object observe obtain ocean offer office
often open operate opinion orange order origin other outline outside oven owner oxygen package page paint pair
palace paper parent park partner party pass past path patient pattern pause peace pencil people pepper perfect
period permit person phone photo phrase piano picture piece pilot pink pipe pitch place plain planet plant plastic
plate play please plenty pocket poem point police policy polite pool poor popular portrait position potato pound
powder power praise predict prefer prepare present press pretty price pride prince print private prize
problem produce profit program promise proof proper protect proud prove public pull pupil pure purpose push
quality quarter queen question quick quiet quite rabbit race radio rail rain raise range rapid rare rather reach
react read ready real reason recall receive record recover reduce refer reflect refuse region regular reject relate
relax remain remember remote remove repair repeat reply report request rescue research resist respect rest result
retire return reveal review reward rhythm rich ride right ring river road rock role roof room root rough round route
royal rule rural safe sail salad salt same sample sand save scale scene school science score screen search season
seat second secret section seed seek select senior sense separate series serious serve settle seven shadow shake
shape share sharp sheep shelf shell shelter shine ship shirt shock shoe shop shore short shoulder show shower shut
side sign signal silence silver similar simple sing single sister skill skin sleep slice slide slight slow small
smart smile smoke smooth snow social soft soil soldier solid solve song sorry sort soul sound soup source south
space spare speak special speech speed spell spend spirit split sport spread spring square stable staff stage stair
stamp stand star start state station stay steady steam steel step stick still stock stomach stone store storm story
straight strange stream street stress strike string strong student study style subject succeed sudden sugar suggest
suit summer sun supply support sure surface surprise survey sweet swim switch symbol system table tail talent talk
target task taste teach team tear tell temple tennis tension term test text thank theory thick thin third thought
thread throat throw ticket tight timber time tiny title today together tomorrow tongue tool tooth topic total touch
tour toward tower town track trade train travel treat tree trial trick trip trouble truck trust truth tunnel twelve
twice twin type typical under uniform union unique unit unusual upper urban useful usual valley value variety vast
vehicle version view village violin visit visual voice volume vote wage wagon wait wake walk wall wander warm
wash waste watch water wave weak wealth wear weather weekend weight welcome well west wheel while whisper
white whole wide wife wild window wine winter wire wise wish witness wolf woman wonder wood wool word work world
worry worth wound write wrong yard year yellow young youth zero zone
"""
WORDS = tuple(_TEXT.split())

_BETWEEN = "the"
_GUESSED_TOKENS_PER_WORD = 1.3
_FEWEST_TOKENS_PER_WORD = 0.25  # no tokenizer joins that many words; a count can be wrong
_FAR_APART = 2.0  # prompts of much the same length tell a ratio, and nothing of what a template adds

PROMPTS = (
    "Explain the transformer architecture in detail.",
    "Explain what limits heat pumps below freezing, including refrigerants and compressors. Be thorough.",
)
QUESTION = "So much for the words. Now explain the transformer architecture in detail, and be thorough."
WITH_QUESTION_FROM = 64  # A shorter prompt has no room for one
_SENTENCE_WORDS = (7, 15)
_MOST_LEARNED = 64
_AVERAGED_WORDS = 400
_FORMS = (*WORDS, *(word.capitalize() for word in WORDS), *(f"{word}." for word in WORDS))


class Ruler(NamedTuple):
    """How long a text is in tokens: tokens by word, those of any other word, and what is there without any word.

    A tokenizer reads words apart from each other. So one question is enough: all words in a row, with the same short
    word between them, whose token then shows where one ends and the next begins. Without a tokenizer, earlier prompts
    and the tokens that the server counted in them have to do.
    """

    sizes: dict[str, int]
    other: float = _GUESSED_TOKENS_PER_WORD
    around: float = 0.0

    def size(self, word: str) -> float:
        return self.sizes.get(word, self.other)

    def length(self, text: str) -> float:
        return self.around + sum(self.size(word) for word in text.split())

    @property
    def smallest(self) -> float:
        """The tokens of the shortest word; half of one where an average is all there is."""
        return min(self.sizes.values(), default=self.other / 2)

    @property
    def is_exact(self) -> bool:
        return bool(self.sizes)


def row_of(words: Iterable[str]) -> str:
    """The question to the tokenizer; it begins with the word between twice, as a text may begin otherwise."""
    return f" {_BETWEEN} ".join([_BETWEEN, *words, ""]).strip()


def parse_row(tokens: Sequence[int], words: Sequence[str]) -> Ruler | None:
    """The words' sizes from the tokens of their row; None where the tokenizer mixes them up."""
    [(between, _)] = Counter(tokens).most_common(1) or [(0, 0)]
    groups: list[int] = [0]
    for token in tokens:
        if token == between:
            groups.append(0)
        else:
            groups[-1] += 1
    sizes = groups[-len(words) - 1 : -1]
    if len(sizes) != len(words) or not all(sizes) or len(groups) > len(words) + 3:
        return None
    return Ruler(dict(zip(words, sizes, strict=True)))


def learned_ruler(seen: Sequence[tuple[int, int]]) -> Ruler:
    """From pairs of words and tokens: a straight line where they are far apart, else a mere ratio."""
    if not seen:
        return Ruler({})
    (fewest, fewer), (most, more) = min(seen), max(seen)
    if most >= _FAR_APART * fewest and more > fewer:
        slope = (more - fewer) / (most - fewest)
        return Ruler({}, max(_FEWEST_TOKENS_PER_WORD, slope), max(0.0, fewer - slope * fewest))
    ratio = sum(tokens for _, tokens in seen) / sum(words for words, _ in seen)
    return Ruler({}, max(_FEWEST_TOKENS_PER_WORD, ratio))


class Prompts:
    """Makes prompts for one server; any thread may ask for them."""

    def __init__(self, system: System, target: Target) -> None:
        self._system, self._target = system, target
        self._lock, self._numbers, self._turns = Lock(), count(), count()
        self._seed = ""
        self._exact: Ruler | None = None
        self._asked = False
        self._framed: dict[str, Ruler] = {}
        self._seen: list[tuple[int, int]] = []

    def prompt(self, tokens: int = 0) -> str:
        """A prompt of about this many tokens; 0 asks for the protocol's own, in turn."""
        question = QUESTION if tokens >= WITH_QUESTION_FROM else ""
        with self._lock:
            self._seed = self._seed or f"{self._system.now()} {self._system.clock()}"
            number, ruler = next(self._numbers), self._ruler(question) if tokens > 0 else Ruler({})
            turn = next(self._turns) if tokens <= 0 else 0
        words = _sentences(self._seed, number)
        if tokens <= 0:
            name = " ".join(next(words) for _ in range(4))
            return f"{name} is what this request is called. {PROMPTS[turn % len(PROMPTS)]}"
        asked, chosen = question.split(), [next(words)]
        room = tokens - ruler.around - ruler.size(chosen[0]) - (0 if ruler.is_exact else len(asked) * ruler.other)
        smallest = ruler.smallest
        while room >= smallest:
            word = next(w for w in words if ruler.size(w) <= room) if ruler.is_exact else next(words)
            chosen.append(word)
            room -= ruler.size(word)
        return " ".join([*chosen, *asked])

    def learn(self, words: int, tokens: int) -> None:
        """Take note of how many tokens a prompt of `words` words was, for servers without a tokenizer."""
        if words > 0 and tokens > 0:
            with self._lock:
                self._seen = [*self._seen[1 - _MOST_LEARNED :], (words, tokens)]

    def _ruler(self, question: str) -> Ruler:
        if not self._asked:
            tokens = read_tokens(self._system, self._target, row_of(_FORMS))
            self._exact, self._asked = parse_row(tokens, _FORMS) if tokens else None, True
            if tokens and self._exact is None:  # one that does not keep words apart, as one of letters
                words = list(islice(_sentences("average", 0), _AVERAGED_WORDS))
                tokens = read_tokens(self._system, self._target, " ".join(words))
                self._seen += [(len(words), len(tokens))] if tokens else []
        if self._exact is None:
            return learned_ruler(self._seen)
        if question not in self._framed:
            # What stands around the words: special tokens, a template, the question
            text = " ".join(islice(_sentences("frame", 0), 16))
            tokens = read_tokens(self._system, self._target, f"{text} {question}".strip())
            around = len(tokens) - self._exact.length(text) if tokens else self._exact.around
            self._framed[question] = self._exact._replace(around=around)
        return self._framed[question]


def _sentences(seed: str, number: int) -> Iterator[str]:
    """Words without end; the first is another one for each number, until all have had their turn."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311 (nothing depends on it being secret)
    start = random.Random(seed).randrange(len(WORDS))  # noqa: S311
    word = WORDS[(start + number) % len(WORDS)]
    while True:
        length = chance.randint(*_SENTENCE_WORDS)
        yield word.capitalize()
        yield from (chance.choice(WORDS) for _ in range(length - 2))
        yield f"{chance.choice(WORDS)}."
        word = chance.choice(WORDS)
