"""A query rewriter without a model: the names, numbers and content words of the question, as the user wrote them."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from datetime import date

from crag_graph.errors import GenerationError, RetrievalError
from crag_graph.rules.compound import split_question
from crag_graph.rules.recency import is_recent, names_year
from crag_graph.state import Turn

_TOKEN = re.compile(r"[\"“„«「][^\"“”„«»「」]+[\"”“»」]|[^\s\"“”„«»「」]+")
_EDGES = " \t\n\r.,;:!?…()[]{}<>¿¡。、，？！؟।"
_QUOTES = tuple('"“„«「')
_STOP = {
    "en": (
        "a an and are as at be been but by can could did do does for from had has have he her his how i if in "
        "into is it its me my of on or our s she should so t than that the their them then there these they "
        "this those to was we were what when where which who whom whose why will with would you your about "
        "after again all also am any because before between both during each few further get give having here "
        "him himself how's itself just let like many more most much no nor not off only other out over own "
        "please same shall some such tell through too under until up very want what's who's while us"
    ),
    "de": (
        "der die das den dem des ein eine einen einem einer und oder ist sind war waren wird werden wurde "
        "wurden hat haben wie was wer wo wann warum welche welcher welches welchen in im an am auf aus bei "
        "mit nach von vom zu zum zur für über unter es er sie ich man nicht auch als dass kann mir uns"
    ),
    "fr": (
        "le la les un une des du de et ou est sont était ont au aux dans en par pour sur que qui quoi quel "
        "quelle quels quelles quand où comment combien pourquoi ce cette ces il elle ils elles se ne pas a y"
    ),
    "es": (
        "el la los las un una unos unas y o es son fue del al con en de a para por que qué cuál cuáles quién "
        "quiénes cuándo cuánto dónde cómo se su sus lo no"
    ),
    "it": (
        "il lo la gli le i un uno una del della dello dei nel nella di a da in con su per che chi cosa quale "
        "quando dove come è sono ha e non si"
    ),
    "pt": (
        "o a os as um uma do da dos das de no na em com para por que quem qual quanto quando onde como é são "
        "foi e não se"
    ),
    "nl": "de het een van en is zijn was wat hoe waar wanneer welke wie in op voor met niet dat te",
    "hi": "का की के को में से पर है हैं था थी थे और या ने क्या कौन कब कहाँ कैसे किस किसने कितने कितना यह वह",
    "ru": "и в на с по что кто где когда как какой какая какие почему это от для из не",
}
_FUNCTION_WORDS = [frozenset(words.split()) for words in _STOP.values()]  # English first: it wins ties
_LINKS = frozenset("of the and for de la del der van von y & da do dos di du des".split())


class KeywordsRewriter:
    """Makes search queries by leaving words out; adds nothing but the year, and that only to questions about now.

    Scripts without spaces are kept as they are: where their words end is not known here.
    """

    def __init__(
        self,
        max_terms: int,
        max_chars: int,
        today: Callable[[], date] = date.today,
        word_counts: Callable[[Sequence[str]], Awaitable[Mapping[str, int]]] | None = None,
    ) -> None:
        """Take a bound of terms and characters; `word_counts` says in how many chunks of the index a word occurs."""
        self._word_counts = word_counts
        self._max_terms = max_terms
        self._max_chars = max_chars
        self._today = today

    async def rewrite(self, question: str, tried: Sequence[str], why: str) -> str:  # noqa: ARG002 - no model reads it
        """Return the fullest query not yet tried: fewer and fewer words, then the question itself.

        Raises:
            GenerationError: every query that can be made was tried.
        """
        known = {_normal(query) for query in tried}
        counts = await self._counts(question)
        for query in self._queries(question, counts):
            line = _cut(query, self._max_chars)
            if line and _normal(line) not in known:
                return line
        raise GenerationError("no further query: every shortening of the question was tried", component="keywords")

    async def standalone(self, question: str, history: Sequence[Turn]) -> str:
        """Return the question followed by what the latest user turns name and it does not."""
        earlier = [turn["content"] for turn in reversed(history) if turn["role"] == "user"]
        for find in (_names, _content):
            for content in earlier:
                present = _normal(question)
                missing = [term for term in find(content) if _normal(term) not in present]
                if missing:
                    return f"{question.strip()} {' '.join(missing[: self._max_terms])}"
        return question

    async def decompose(self, question: str) -> list[str]:
        """Return the parts of a compound question, split by rule; the question itself, if it has but one."""
        return split_question(question)

    async def _counts(self, question: str) -> Mapping[str, int]:
        """Return how common the question's words are in the index; nothing where that cannot be told."""
        if self._word_counts is None:
            return {}
        try:
            return await self._word_counts(_content(question))
        except RetrievalError:  # retrieval has said so already, and a query can be made without
            return {}

    def _queries(self, question: str, counts: Mapping[str, int]) -> Iterator[str]:
        line = " ".join(question.split())
        terms = _content(line)
        needs_year = is_recent(line) and not names_year(line)
        tail = [str(self._today().year)] if needs_year else []
        for count in range(min(len(terms), self._max_terms), 0, -1):
            kept = sorted(sorted(range(len(terms)), key=lambda i: _weight(terms[i], counts), reverse=True)[:count])
            if any(not terms[i].isdigit() for i in kept):
                yield " ".join([*(terms[i] for i in kept), *tail])
        yield " ".join([line, *tail])


def _content(text: str) -> list[str]:
    """Return names (kept together), quoted strings, numbers and content words, in order, each once."""
    words_here = {_base(_strip(token)) for token in _TOKEN.findall(text)}
    function_words = max(_FUNCTION_WORDS, key=lambda known: len(known & words_here))
    found = []
    for words in _runs(text, function_words):
        term = " ".join(words)
        if len(words) > 1 or term[:1] in _QUOTES or _base(term) not in function_words:
            found.append(term)
    return list({_normal(term): term for term in reversed(found)}.values())[::-1]


def _names(text: str) -> list[str]:
    """Return the names and quoted strings of a text."""
    return [term for term in _content(text) if term[:1] in _QUOTES or any(c.isupper() for c in term)]


def _runs(text: str, function_words: Set[str]) -> Iterator[list[str]]:
    """Yield runs of words: capitalised neighbours together, with the small words that link them; others alone."""

    def is_name(word: str) -> bool:
        return any(c.isupper() for c in word) and _base(word) not in function_words

    tokens = [token for token in _TOKEN.findall(text) if _strip(token)]
    run: list[str] = []
    for i, token in enumerate(tokens):
        word = _strip(token)
        closes = token[-1] in ".,;:!?" and len(word) > 1
        ahead = next((other for other in tokens[i + 1 :] if other.lower() not in _LINKS), "")
        links = word.lower() in _LINKS and not closes and is_name(_strip(ahead))
        belongs = is_name(word) or (bool(run) and (links or word[0].isdigit()))
        if run and not belongs:
            yield run
            run = []
        run.append(word)
        if closes or not belongs:
            yield run
            run = []
    if run:
        yield run


def _strip(token: str) -> str:
    """Return a token without punctuation around it; quoted strings keep their quotes."""
    return token if token[:1] in _QUOTES and len(token) > 2 else token.strip(_EDGES)


def _base(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("’s")


def _weight(term: str, counts: Mapping[str, int]) -> tuple[int, int, int]:
    """Rank what a query must not lose: names, quotes and numbers, then words rare in the index, then long ones."""
    is_fixed = term[:1] in _QUOTES or any(c.isupper() or c.isdigit() for c in term)
    return int(is_fixed), -counts.get(term, 0), len(term)


def _normal(query: str) -> str:
    return " ".join(word for token in query.casefold().split() if (word := token.strip(_EDGES + '"“”„«»「」')))


def _cut(query: str, limit: int) -> str:
    """Cut at the last space within the limit, or hard where one word is longer."""
    if len(query) <= limit:
        return query
    head = query[: limit + 1]
    at = head.rfind(" ")
    return query[:at] if at > 0 else query[:limit]
