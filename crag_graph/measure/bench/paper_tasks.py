"""The tasks of the CRAG paper: how a question is put to the generator, and when its answer counts as right.

PopQA asks a question and counts a match, PubHealth gives a claim that is true or false, ARC-Challenge wants the letter
of a choice (Yan et al., 2024, appendix B.1).
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Literal

from crag_graph.measure.bench.metrics import answer_match
from crag_graph.measure.bench.paper import Item, letter
from crag_graph.protocols import Generator
from crag_graph.state import Evidence

Task = Literal["popqa", "pubhealth", "arc"]
_TRUE, _FALSE = {"true", "supports"}, {"false", "refutes"}
_LISTED = re.compile(r"(?:^|\s)\(?([A-E1-5])[).:]\s*\S")  # a choice in a running text: "A: ice", "(B) steam", "3. fog"
_CITED = re.compile(r"\s*\[\d+\]")


class Instructed:
    """A generator that is given the question as its task puts it; whoever judges or searches sees the bare question."""

    def __init__(self, generator: Generator, task: Task, item: Item) -> None:
        self._generator = generator
        self._question = instruct(task, item)

    def generate(
        self,
        question: str,  # noqa: ARG002 - the item's, without what the task adds
        evidence: Sequence[Evidence],
        missing: Sequence[str] = (),
    ) -> AsyncIterator[str]:
        """Yield what the generator answers to the question with its instruction."""
        return self._generator.generate(self._question, evidence, missing)


def instruct(task: Task, item: Item) -> str:
    """Return the question as the generator is asked it.

    >>> print(instruct("arc", Item("What is frozen water?", (), ("B",), (("A", "steam"), ("B", "ice")))))
    What is frozen water?
    (A) steam
    (B) ice
    Choose one of these answers. Begin your reply with its letter in parentheses.
    """
    match task:
        case "popqa":
            return item.question
        case "pubhealth":
            return f"Is this claim true or false? Begin your reply with the word true or false.\nClaim: {item.question}"
        case "arc":
            listed = [f"({name}) {text}" for name, text in item.choices]
            told = "Choose one of these answers. Begin your reply with its letter in parentheses."
            return "\n".join([item.question, *listed, told])


def misfit(task: Task, item: Item) -> str:
    """Return why an item cannot be counted in this task, and so would count as wrong for every system; else nothing.

    >>> misfit("pubhealth", Item("Tea cures colds.", (), ("politician",)))
    "no gold answer is true or false: 'politician'"
    """
    golds = ", ".join(map(repr, item.answers))
    match task:
        case "popqa":
            return ""
        case "pubhealth":
            said = any(_truth(gold) is not None for gold in item.answers)
            return "" if said else f"no gold answer is true or false: {golds}"
        case "arc":
            offered: set[str | None] = {name for name, _ in item.choices}
            offered = offered or {letter(label) for label in _LISTED.findall(item.question)}
            if len(offered) < 2:
                return "has no choices, neither as `choices` nor with letters in the question"
            known = {_letter(gold) for gold in item.answers} & offered
            return "" if known else f"no gold answer is a choice: {golds}"


def correct(task: Task, answer: str, golds: Sequence[str]) -> bool:
    """Return whether an answer counts as right in this data set.

    >>> correct("popqa", "He was a politician.", ["politician", "statesman"])
    True
    >>> correct("pubhealth", "The claim is True.", ["true"]), correct("pubhealth", "untrue", ["true"])
    (True, False)
    >>> correct("arc", "(B) because ice melts", ["B"]), correct("arc", "A bear", ["B"])
    (True, False)
    """
    rules: dict[Task, Callable[[], bool]] = {
        "popqa": lambda: answer_match(answer, golds),
        "pubhealth": lambda: _truth(answer) is not None and _truth(answer) in [_truth(gold) for gold in golds],
        "arc": lambda: _letter(answer) is not None and _letter(answer) in [_letter(gold) for gold in golds],
    }
    return rules[task]()


def _truth(text: str) -> bool | None:
    """Return the first truth value that is said; yes and no are one only where the text begins with them.

    >>> [_truth(text) for text in ("True [1].", "It is not true.", "untrue", "REFUTES", "No.", "I found no evidence.")]
    [True, False, None, False, False, None]
    """
    plain = re.sub(r"n['’]t\b|\bcannot\b", " not", text.casefold())
    opening = re.match(r"\W*(yes|no)\b", plain)
    if opening:
        return opening[1] == "yes"
    said = re.search(rf"\b(not\s+(?:[a-z]+\s+)?)?({'|'.join(_TRUE | _FALSE)})\b", plain)
    return (said[2] in _TRUE) != bool(said[1]) if said else None


def _letter(text: str) -> str | None:
    """Return the letter of the choice; the article in "A bear" is none. A citation ends a statement as a stop does.

    >>> [_letter(text) for text in ("C", "(c)", "B: ice", "The answer is D.", "A bear", "1", "B [2] since ice floats")]
    ['C', 'C', 'B', 'D', None, 'A', 'B']
    """
    said = _CITED.sub(".", text).replace("*", "")
    stated = re.match(r"\s*\(?([A-Ea-e1-5])(?:[).:,]|\s*$)", said, re.MULTILINE)
    named = r"(?i:answer(?: is)?:?)\s*\(?([B-E]\b|[A1-5](?=[).:,]|\s*$))"
    found = stated or re.search(named, said, re.MULTILINE) or re.search(r"\(([A-E1-5])\)", said)
    return letter(found[1]) if found else None
