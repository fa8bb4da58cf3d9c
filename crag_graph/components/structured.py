"""Asking a model for data: the way it can is found by trying, and remembered.

JSON schema → function calling → JSON in prose, read leniently. The schema that is sent is flat, requires every field
and holds no bounds: several endpoints refuse those. Bounds are checked after parsing, by the caller, item by item.
"""

import json
import logging
import re
from collections.abc import Sequence
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from crag_graph.components.llm import Model, sound
from crag_graph.errors import ComponentError

log = logging.getLogger(__name__)
Method = Literal["json_schema", "function_calling", "json_text"]
JsonSchema = dict[str, Any]
NO_JSON = "answered with no JSON"


class StructuredModel:
    """Asks a model for one JSON object of a given schema."""

    def __init__(self, model: Model, name: str, schema: JsonSchema, method: Literal["auto"] | Method = "auto") -> None:
        self._model = model
        self._name = name
        self._schema = schema
        self._methods: tuple[Method, ...] = get_args(Method) if method == "auto" else (method,)

    async def ask(self, messages: Sequence[BaseMessage], error: type[ComponentError], component: str) -> dict[str, Any]:
        """Return the object the model answered with; its fields are not checked.

        Raises:
            error: the call failed, the answer was refused or cut off, or no method brought a JSON object.
        """
        for method in self._methods:
            prompt, options = self._request(method, messages)
            try:
                message = await self._model.ask(prompt, error, component, **options)
            except ComponentError as failure:
                if method == self._methods[-1] or not _is_unsupported(failure):
                    raise
                continue
            found = self._object(read_json(_payload(message)))
            if found is not None:
                self._remember(method)
                return found
        raise error(f"{self._model.name} {NO_JSON} by {', '.join(self._methods)}", component=component)

    def _object(self, found: Any) -> dict[str, Any] | None:
        """Return what was read as an object: a bare list is taken for the schema's only field."""
        fields = list(self._schema["properties"])
        if isinstance(found, list) and len(fields) == 1:
            return {fields[0]: found}
        return found if isinstance(found, dict) else None

    def _request(self, method: Method, messages: Sequence[BaseMessage]) -> tuple[Sequence[BaseMessage], JsonSchema]:
        described = {"name": self._name, "schema": self._schema, "strict": True}
        match method:
            case "json_schema":
                return messages, {"response_format": {"type": "json_schema", "json_schema": described}}
            case "function_calling":
                function = {"name": self._name, "description": self._name, "parameters": self._schema, "strict": True}
                choice = {"type": "function", "function": {"name": self._name}}
                return messages, {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
            case "json_text":
                ask = f"Answer with one JSON object and nothing else. Its JSON schema: {json.dumps(self._schema)}"
                return [*messages, HumanMessage(ask)], {}

    def _remember(self, method: Method) -> None:
        if self._methods != (method,):
            log.info("%s fills the %s schema by %s", self._model.name, self._name, method)
            self._methods = (method,)


def _is_unsupported(failure: ComponentError) -> bool:
    """Return whether the server rejected the shape of the request, so that another method may work."""
    return getattr(failure.__cause__, "status_code", None) in (400, 404, 415, 422, 501)


def _payload(message: AIMessage) -> str:
    if message.tool_calls:
        return json.dumps(message.tool_calls[0]["args"])
    return message.text


def read_json(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the first JSON object or list in a model's answer, past thinking and code fences; None without one.

    >>> read_json('<think>{"a": 0}</think> Sure: ```json {"a": 1} ```'), read_json('[{"id": 1}]')
    ({'a': 1}, [{'id': 1}])
    """
    text = re.sub(r"<think>.*?(?:</think>|\Z)", "", sound(text), flags=re.DOTALL)
    decoder = json.JSONDecoder()
    for start in re.finditer(r"\{|\[\s*\{", text):
        try:
            found, _ = decoder.raw_decode(text, start.start())
        except json.JSONDecodeError:
            continue
        except RecursionError:  # nested beyond reason: no answer to anything asked here
            return None
        if isinstance(found, dict | list):
            return found
    return None
