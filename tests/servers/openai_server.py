"""A server that speaks the OpenAI protocol and says what the test scripts.

    with OpenAIServer() as server:
        server.replies = [failure(429, retry_after=0), grades({1: 0.9, 2: 0.1}), text("Falcon weighs 3 kg [1].")]
        ... use base_url=server.base_url, any api_key ...
        assert "Falcon" in prompt(server.chats[0])

`replies` is either a list, used up in order, or a function from the request body to a `Reply`, called in the server's
thread. A list that has run out answers 500, which fails the test rather than inventing an answer.
"""

import base64
import hashlib
import json
import math
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.servers import Call, Delivery, LoopbackServer, now

Body = dict[str, Any]
_PLAIN = Delivery()


@dataclass(frozen=True)
class Reply:
    """One chat completion and how it is delivered. Use the builders below."""

    text: str = ""
    structured: Any = None  # arrives in the way the request asks for: as content, or as the forced tool's arguments
    tool: tuple[str, str] | None = None  # name and raw arguments
    refusal: str | None = None
    finish: str = "stop"
    delivery: Delivery = _PLAIN

    def slow(self, seconds: float) -> "Reply":
        """Return the same reply, sent only after `seconds`."""
        return replace(self, delivery=replace(self.delivery, delay_s=seconds))

    def held(self, until: threading.Event) -> "Reply":
        """Return the same reply, sent only once `until` is set."""
        return replace(self, delivery=replace(self.delivery, hold=until))

    def dropped(self, after: int = 0) -> "Reply":
        """Return the same reply, cut off after `after` streamed pieces (0: before anything is sent)."""
        return replace(self, delivery=replace(self.delivery, drop_after=after))


def text(content: str) -> Reply:
    """Answer with plain text."""
    return Reply(text=content)


def json_object(value: Any) -> Reply:
    """Answer with JSON: as content, or as the arguments of the tool the request forces."""
    return Reply(structured=value)


def grades(scores: Mapping[int, float | None], reason: str = "scripted") -> Reply:
    """Answer a grading call: score per number, in the order given."""
    return json_object({"grades": [{"id": n, "score": score, "reason": reason} for n, score in scores.items()]})


def helpful(*ids: int) -> Reply:
    """Answer a strip-filter call: the numbers of the strips that help."""
    return json_object({"helpful_ids": list(ids)})


def tool_call(name: str, arguments: str) -> Reply:
    """Answer with a call of tool `name`, its arguments a raw string."""
    return Reply(tool=(name, arguments), finish="tool_calls")


def refusal(message: str = "I cannot help with that.") -> Reply:
    """Answer with a safety refusal."""
    return Reply(refusal=message)


def cut(content: str) -> Reply:
    """Answer with text that ends because the token limit was reached."""
    return Reply(text=content, finish="length")


def filtered() -> Reply:
    """Answer with nothing, stopped by the content filter."""
    return Reply(finish="content_filter")


def failure(status: int, message: str = "scripted failure", *, retry_after: float | None = None) -> Reply:
    """Answer with an HTTP error in the protocol's own shape."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Reply(text=message, delivery=Delivery(status, headers))


def unsupported(parameter: str) -> Reply:
    """Answer as a server that does not know `parameter` ("response_format", "tools")."""
    return failure(400, f"Unsupported parameter: '{parameter}' is not supported with this model.")


def raw(body: bytes, status: int = 200, content_type: str = "application/json") -> Reply:
    """Answer with bytes that need not be the protocol at all."""
    return Reply(delivery=Delivery(status, {"Content-Type": content_type}, body))


def prompt(request: Body) -> str:
    """Return all that a chat request says to the model, one message per paragraph."""
    return "\n\n".join(_content(message) for message in request["messages"])


def schema_name(request: Body) -> str | None:
    """Return the name of the schema or forced tool a chat request asks for; None when it asks for plain text."""
    wanted = request.get("response_format", {}).get("json_schema") or _forced_tool(request)
    return wanted["name"] if wanted else None


class OpenAIServer(LoopbackServer):
    """Speaks `/v1/chat/completions` (whole and streamed), `/v1/embeddings` and `/v1/models`.

    `api_key`, when given, is the only one accepted. `embed` makes a vector from a text; `embedding_failures` are used
    up before it is asked.
    """

    def __init__(self, replies: Sequence[Reply] | Callable[[Body], Reply] = (), api_key: str | None = None) -> None:
        self.api_key = api_key
        self.embed: Callable[[str], list[float]] = word_vector
        self.embedding_failures: list[Reply] = []
        super().__init__(replies)

    @property
    def base_url(self) -> str:
        """What goes into `base_url` of a client."""
        return f"{self.origin}/v1"

    @property
    def chats(self) -> list[Body]:
        """The bodies of all chat requests so far."""
        return [request.body for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def embedded(self) -> list[str]:
        """All texts embedded so far."""
        return [t for request in self.requests if request.path.endswith("/embeddings") for t in _inputs(request.body)]

    def answer(self, call: Call) -> None:
        body, path = call.request.body, call.request.path
        if self.api_key and call.request.headers.get("Authorization") != f"Bearer {self.api_key}":
            call.send(401, _error(401, "Incorrect API key provided."))
        elif path == "/v1/chat/completions":
            self._chat(call, body)
        elif path == "/v1/embeddings":
            self._embeddings(call, body)
        elif path == "/v1/models":
            call.send(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        else:
            call.send(404, _error(404, f"no such path: {path}"))

    def _chat(self, call: Call, body: Body) -> None:
        reply = self.next_reply(body, failure(500, "the test scripted no further reply"))
        if self._undelivered(call, reply):
            return
        message, finish = _message(reply, body)
        if body.get("stream"):
            _stream(call, body, message, finish, reply.delivery.drop_after)
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
            call.send(200, _completion(body, "chat.completion", [choice], _usage(body, message)))

    def _embeddings(self, call: Call, body: Body) -> None:
        with self._changed:
            failed = self.embedding_failures.pop(0) if self.embedding_failures else None
        if failed and self._undelivered(call, failed):
            return
        texts = _inputs(body)
        if not texts or not all(isinstance(t, str) and t for t in texts):
            call.send(400, _error(400, "input must be a non-empty list of non-empty strings"))
            return
        vectors = [self.embed(t) for t in texts]
        coded = [_base64(v) for v in vectors] if body.get("encoding_format") == "base64" else vectors
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(coded)]
        used = sum(len(t.split()) for t in texts)
        usage = {"prompt_tokens": used, "total_tokens": used}
        call.send(200, {"object": "list", "model": body.get("model"), "data": data, "usage": usage})

    def _undelivered(self, call: Call, reply: Reply) -> bool:
        """Wait as told; then send what is no completion at all, or nothing. Return whether that is the end of it."""
        if call.deliver(reply.delivery):
            return True
        if reply.delivery.status == 200:
            return False
        call.send(reply.delivery.status, _error(reply.delivery.status, reply.text), reply.delivery.headers)
        return True


def word_vector(content: str, dimension: int = 32) -> list[float]:
    """Return a unit vector in which texts that share words lie close."""
    vector = [0.0] * dimension
    for word in re.findall(r"\w+", content.casefold()) or [content]:
        digest = hashlib.sha256(word.encode()).digest()
        vector[digest[0] % dimension] += 1 if digest[1] % 2 else -1
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector] if length else [1.0] + [0.0] * (dimension - 1)


def _message(reply: Reply, body: Body) -> tuple[Body, str]:
    message: Body = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal}
    tool, finish = reply.tool, reply.finish
    if reply.structured is not None:
        encoded = json.dumps(reply.structured, ensure_ascii=False)
        forced = _forced_tool(body)
        if forced:
            tool, finish = (forced["name"], encoded), "tool_calls"
        else:
            message["content"] = encoded
    if tool:
        call = {"id": "call_1", "type": "function", "function": {"name": tool[0], "arguments": tool[1]}}
        message |= {"content": None, "tool_calls": [call]}
    elif reply.refusal is None:
        message["content"] = message["content"] or ""
    return message, finish


def _stream(call: Call, body: Body, message: Body, finish: str, drop_after: int | None) -> None:
    call.start_events()
    for sent, delta in enumerate([{"role": "assistant", "content": ""}, *_deltas(message)]):
        if drop_after is not None and sent > drop_after:
            call.drop()
            return
        call.event(_completion(body, "chat.completion.chunk", [_choice(delta, None)], None))
    call.event(_completion(body, "chat.completion.chunk", [_choice({}, finish)], None))
    if body.get("stream_options", {}).get("include_usage"):
        call.event(_completion(body, "chat.completion.chunk", [], _usage(body, message)))
    call.event("[DONE]")
    call.end_events()


def _deltas(message: Body) -> list[Body]:
    if message.get("tool_calls"):
        return [{"tool_calls": [{"index": i, **call} for i, call in enumerate(message["tool_calls"])]}]
    key = "content" if message["refusal"] is None else "refusal"
    return [{key: piece} for piece in re.findall(r"\s*\S+|\s+$", message[key] or "")]


def _choice(delta: Body, finish: str | None) -> Body:
    return {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}


def _completion(body: Body, kind: str, choices: list[Body], usage: Body | None) -> Body:
    model = body.get("model", "scripted")
    return {"id": "chatcmpl-1", "object": kind, "created": now(), "model": model, "choices": choices, "usage": usage}


def _usage(body: Body, message: Body) -> Body:
    sent, made = len(prompt(body).split()), len(_deltas(message))
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}


def _error(status: int, message: str) -> Body:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _content(message: Body) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _forced_tool(body: Body) -> Body | None:
    tools = [tool["function"] for tool in body.get("tools", [])]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        return next((tool for tool in tools if tool["name"] == choice["function"]["name"]), None)
    return tools[0] if tools and choice == "required" else None


def _inputs(body: Body) -> list[Any]:
    given = body.get("input", [])
    return [given] if isinstance(given, str) else given


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
