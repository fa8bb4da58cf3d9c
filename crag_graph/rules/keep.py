"""Which strips make the context (Yan et al., 2024, section 4.4, filter).

Strips at or above `keep` are taken best first, then ungraded ones in their order (a filter that is down must not drop
evidence), up to `max_strips` and within `max_tokens`. A strip that does not fit is left out and the next one tried; the
very first is cut rather than lost. Where every strip of a document falls short although the document was graded good,
its best strip is kept and flagged: never an empty context for a good document.

>>> [kept for kept, _ in choose([0.9, 0.1, None], [10, 10, 10], [0, 0, 1], keep=0.25, max_strips=5, max_tokens=100)]
[True, False, True]
"""

import math
from collections.abc import Collection, Sequence

FLAG = "best of a good document"


def choose(
    scores: Sequence[float | None],
    tokens: Sequence[int],
    documents: Sequence[int],
    *,
    keep: float,
    max_strips: int,
    max_tokens: int,
    good: Collection[int] = (),
) -> list[tuple[bool, str]]:
    """Return for every strip whether it is kept and why; `documents[i]` is the document of strip i.

    `good` names the documents that were graded good and so never lose all their strips.
    """
    verdicts = [_judge(score, keep) for score in scores]
    for document in good:
        own = [i for i, of in enumerate(documents) if of == document]
        if own and not any(verdicts[i][0] for i in own):
            verdicts[max(own, key=lambda i: (_rank(scores[i]), -i))] = (True, FLAG)
    room, places = max_tokens, max_strips
    candidates = sorted((i for i, (kept, _) in enumerate(verdicts) if kept), key=lambda i: (-_rank(scores[i]), i))
    for i in candidates:
        first = places == max_strips
        if not places:
            verdicts[i] = (False, f"over the limit of {max_strips} strips")
        elif tokens[i] > room and not first:
            verdicts[i] = (False, f"does not fit in {max_tokens} tokens")
        else:
            room, places = room - tokens[i], places - 1
    return verdicts


def _judge(score: float | None, keep: float) -> tuple[bool, str]:
    if score is None:
        return True, "ungraded, so not dropped"
    if score >= keep:
        return True, f"{score:.2f} is at or above keep {keep:.2f}"
    return False, f"{score:.2f} is below keep {keep:.2f}"


def _rank(score: float | None) -> float:
    return -1.0 if score is None else score


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a model needs for a text, on the high side.

    Four ASCII characters make a token; other scripts take about one token a character.

    >>> estimate_tokens("It weighs 3 kg."), estimate_tokens("重さは3キロ")
    (4, 6)
    """
    ascii_chars = sum(map(str.isascii, text))
    return math.ceil(ascii_chars / 4 + (len(text) - ascii_chars))
