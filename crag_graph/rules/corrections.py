"""What a corrective round does, and what happens when no round is left.

The settings list the actions for an *ambiguous* and for an *incorrect* verdict; a *correct* one whose evidence fell
short all the same is treated as ambiguous. Of the listed actions a round takes

- *web* unless the web is off, or failed earlier in this run;
- *decompose* in the first round only: the parts of a question do not change. That round looks the parts up in the index
  and does nothing else; what is found there need not leave the house. A question of one part is not decomposed, and
  its round takes the other actions at once;
- *requery* until the question is decomposed: then every part was looked up on its own.

No action left, or `max_rounds` done: no further round. Then the evidence at hand is used as far as it goes, a person is
asked, or the model answers from memory, as the settings say. Every round counts, so the sequence always ends.

>>> round_actions("ambiguous", LISTED, rounds=0, max_rounds=2, web=True, parts=0)
('requery', 'web')
>>> round_actions("incorrect", LISTED, rounds=0, max_rounds=2, web=True, parts=0)
('decompose', 'web')
>>> after_split(("decompose", "web"), parts=2), after_split(("decompose", "web"), parts=1)
(('decompose',), ('web',))
>>> round_actions("incorrect", LISTED, rounds=1, max_rounds=2, web=True, parts=2)
('web',)
>>> round_actions("incorrect", LISTED, rounds=2, max_rounds=2, web=True, parts=2)
()
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from crag_graph.state import Action, Verdict

Listed = Mapping[Literal["ambiguous", "incorrect"], Sequence[Action]]

LISTED: Listed = {"ambiguous": ("requery", "web"), "incorrect": ("decompose", "web")}  # an example


def round_actions(
    verdict: Verdict, listed: Listed, *, rounds: int, max_rounds: int, web: bool, parts: int
) -> tuple[Action, ...]:
    """Return the actions of the next round after `rounds` of them; none when there is to be no further round."""
    if rounds >= max_rounds:
        return ()
    barred: set[Action] = set() if web else {"web"}
    barred |= {"decompose"} if rounds else set()
    barred |= {"requery"} if parts > 1 else set()
    chosen = listed["incorrect" if verdict == "incorrect" else "ambiguous"]
    return tuple(action for action in dict.fromkeys(chosen) if action not in barred)


def after_split(actions: Sequence[Action], *, parts: int) -> tuple[Action, ...]:
    """Return what is left of a round's actions once it is known how many parts the question has."""
    if "decompose" in actions and parts > 1:
        return ("decompose",)
    return tuple(action for action in actions if action != "decompose")
