"""What kind of question this is, before anything is searched.

*Blank*: nothing visible in it, zero-width characters included; refused before any call.

*Follow-up*: it leans on the turns before it. Cheap on purpose: a question is taken as a follow-up when it opens like
one ("What about ...", "And ...") or when it refers with a pronoun and names nothing itself. All others are searched as
typed.

>>> is_blank(" \\u200b\\n"), is_blank("???")
(True, False)
>>> is_followup("What about its battery?"), is_followup("Who repairs the Falcon when it breaks?")
(True, False)
"""

import re
import unicodedata

_OPENING = re.compile(
    r"^\W*(?:what about|how about|and|but|also|or|why(?:\s*\?|$)"
    r"|und|aber|auch|warum\s*\?|et|mais|qu'en est|y|e|pero|а|и|那|那么|それ|では)"
    r"(?:\W|$|(?<=[^\x00-\x7f]))",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers|this|these|those|former|latter"
    r"|er|sie|ihn|ihr|ihre|ihren|dessen|deren|dies|diese|dieser|dieses|dort"
    r"|elle|ils|elles|leur|leurs|cela|ça|ello|su|sus|eso|esto|loro|его|её|их|это)\b"
    r"|它|他|她|它们|这个|那个|これ|それ|あれ|इसका|इसकी|इसके|उसका|उसकी|वह|यह",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][\w-]+|[\"“„«「].+?[\"”“»」]|\d")


def is_blank(question: str) -> bool:
    """Return whether a question holds no visible character."""
    return all(c.isspace() or unicodedata.category(c) in ("Cf", "Cc", "Zs", "Zl", "Zp") for c in question)


def is_followup(question: str) -> bool:
    """Return whether a question should be completed from the history before it is searched."""
    question = question.strip()
    if _OPENING.match(question):
        return True
    return bool(_PRONOUN.search(question)) and not _NAME.search(question)
