"""The last resort for models that cannot fill any schema: one plain yes or no per text."""

import asyncio
import logging
import re
from collections.abc import Sequence

from crag_graph.components.llm import Model, sound
from crag_graph.components.structured import NO_JSON
from crag_graph.errors import EvaluationError
from crag_graph.prompts import Prompt, fence
from crag_graph.protocols import Evaluator
from crag_graph.state import Grade

log = logging.getLogger(__name__)
_ANSWER = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)


class OrYesNo:
    """Grades by `structured` until that model proves unable to answer in data; from then on by yes or no."""

    def __init__(self, structured: Evaluator, model: Model, prompt: Prompt) -> None:
        self._structured = structured
        self._model = model
        self._prompt = prompt
        self._plain = False

    async def score(self, question: str, texts: Sequence[str]) -> list[Grade]:
        """Return one grade per text, in order; a plain yes is 1 and a plain no is 0."""
        if not self._plain:
            try:
                return await self._structured.score(question, texts)
            except EvaluationError as error:
                if NO_JSON not in str(error):
                    raise
            log.info("%s is asked for a plain yes or no from now on", self._model.name)
            self._plain = True
        return list(await asyncio.gather(*(self._ask(question, text) for text in texts)))

    async def _ask(self, question: str, text: str) -> Grade:
        marker, fenced = fence(text)
        messages = self._prompt.messages(question=question, text=fenced, marker=marker)
        try:
            answer = await self._model.ask(messages, EvaluationError, "grader")
        except EvaluationError as error:
            return Grade(score=None, reason=str(error))
        thought = re.sub(r"<think>.*?(?:</think>|\Z)", "", sound(answer.text), flags=re.DOTALL)
        said = _ANSWER.match(thought)
        if said is None:
            return Grade(score=None, reason="the model said neither yes nor no")
        word = said[1].lower()
        return Grade(score=1.0 if word == "yes" else 0.0, reason=f"the model said {word}")
