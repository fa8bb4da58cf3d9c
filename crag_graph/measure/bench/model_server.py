"""A chat model with a stated speed: it speaks the OpenAI protocol on loopback, so the real client is used.

It judges by a rule instead of by understanding: a text is relevant when it holds every word of the question that has a
digit in it (`station 17`, `K-204`); a document without them is near when it has a third of the question's other words,
as "about the same thing but does not state the answer" is in the grading prompt. So a made-up corpus has known right
answers, and what is measured is everything but the model's judgement.
"""

import json
import re
import threading
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from crag_graph.measure.bench.loopback import Body, Exchange, JsonServer
from crag_graph.rules.keep import estimate_tokens

_RELEVANT, _NEAR, _IRRELEVANT = 0.9, 0.4, 0.1
_ANSWER = "The evidence states it [1]. " * 8


@dataclass(frozen=True)
class Speed:
    """How long a call takes: so much per call, and so much per token that is written."""

    call_s: float = 0.4
    token_s: float = 0.0


class ModelServer(JsonServer):
    """Answers `POST /v1/chat/completions`, whole or streamed, after the time that the answer would take."""

    def __init__(self, speed: Speed) -> None:
        super().__init__()
        self._speed = speed
        self._lock = threading.Lock()
        self.calls = 0  # answered so far

    @property
    def base_url(self) -> str:
        """What goes into `llm.base_url`."""
        return f"{self.origin}/v1"

    def answer(self, exchange: Exchange) -> None:
        """Answer one chat request."""
        if exchange.path != "/v1/chat/completions":
            exchange.send(404, {"error": {"message": f"no such path: {exchange.path}", "type": "invalid_request"}})
            return
        with self._lock:
            self.calls += 1
        text = reply(exchange.body)
        time.sleep(self._speed.call_s)
        if exchange.body.get("stream"):
            self._stream(exchange, text)
        else:
            time.sleep(self._speed.token_s * estimate_tokens(text))
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            exchange.send(200, _completion(exchange.body, "chat.completion", [choice], text))

    def _stream(self, exchange: Exchange, text: str) -> None:
        exchange.start_events()
        for piece in re.findall(r"\S+\s*", text):
            time.sleep(self._speed.token_s * estimate_tokens(piece))
            choice = {"index": 0, "delta": {"role": "assistant", "content": piece}, "finish_reason": None}
            exchange.event(_completion(exchange.body, "chat.completion.chunk", [choice]))
        stop = {"index": 0, "delta": {}, "finish_reason": "stop"}
        exchange.event(_completion(exchange.body, "chat.completion.chunk", [stop]))
        exchange.event(_completion(exchange.body, "chat.completion.chunk", [], text))
        exchange.event("[DONE]")
        exchange.end_events()


def reply(body: Body) -> str:
    """Return what the model says to a request: JSON where a schema is asked for, else text."""
    asked = str(body["messages"][-1]["content"])
    schema = (body.get("response_format") or {}).get("json_schema") or {}
    question, texts = _parts(asked)
    wanted = set(_codes(question))
    score = partial(_score, wanted, set(_words(question)))
    match schema.get("name"):
        case "grades":
            return json.dumps({"grades": [_grade(n, score(text)) for n, text in _numbered(texts, "[]")]})
        case "helpful":
            return json.dumps({"helpful_ids": [n for n, text in _numbered(texts, "[]") if _fits(wanted, text)]})
        case "one_pass":
            documents = [_one_pass(n, wanted, score(text), text) for n, text in _numbered(texts, "[]")]
            return json.dumps({"documents": documents, "search_query": question})
        case "relevance":
            return json.dumps({"score": score(texts)})
        case "sentence":
            return json.dumps({"keep": _fits(wanted, texts)})
        case _:
            return question if "search engine" in json.dumps(body["messages"]) else _ANSWER


def _parts(asked: str) -> tuple[str, str]:
    """Return the question and what follows it; a request without a label is a question as a whole."""
    labelled = re.search(r"^Question: (.*)$", asked, re.MULTILINE)
    if labelled:
        return labelled[1], asked[labelled.end() :]
    lines = [line for line in asked.splitlines() if line.rstrip().endswith("?")]
    return (lines[0] if lines else asked[:200]), ""


def _codes(text: str) -> list[str]:
    """Return the words with a digit in them.

    >>> _codes("How often is K-204 read at station 17?")
    ['k-204', '17']
    """
    return [word for word in re.findall(r"[\w-]+", text.casefold()) if any(map(str.isdigit, word))]


def _fits(wanted: set[str], text: str) -> bool:
    return wanted <= set(_codes(text))


def _numbered(texts: str, brackets: str) -> list[tuple[int, str]]:
    """Return (number, text) of parts that each begin with their number in brackets, 1, 2, 3 ...

    >>> _numbered("[1] a b [7] [2]\\nc", "[]")
    [(1, 'a b [7]'), (2, 'c')]
    """
    found: list[tuple[int, str]] = []
    rest = texts.partition(f"{brackets[0]}1{brackets[1]}")[2]
    while rest:
        text, mark, rest = rest.partition(f"{brackets[0]}{len(found) + 2}{brackets[1]}")
        found.append((len(found) + 1, text.strip()))
        if not mark:
            break
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]{4,}", text.casefold())


def _score(wanted: set[str], words: set[str], text: str) -> float:
    if _fits(wanted, text):
        return _RELEVANT
    return _NEAR if 3 * len(words & set(_words(text))) >= len(words) else _IRRELEVANT


def _grade(number: int, score: float) -> dict[str, Any]:
    return {"id": number, "reason": "by rule", "score": score}


def _one_pass(number: int, wanted: set[str], score: float, text: str) -> dict[str, Any]:
    helpful = [n for n, strip in _numbered(text, "()") if _fits(wanted, strip)]
    return {**_grade(number, score), "helpful_strips": helpful}


def _completion(body: Body, kind: str, choices: list[Body], text: str | None = None) -> Body:
    done: Body = {"id": "chatcmpl-1", "object": kind, "created": 0, "model": body.get("model"), "choices": choices}
    if text is not None:
        sent = sum(estimate_tokens(str(message.get("content") or "")) for message in body["messages"])
        made = estimate_tokens(text)
        done["usage"] = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
    return done
