"""Prompts as files: checked when loaded, filled in one pass, identified by version and content.

`$name` marks a variable and `$$` a dollar sign. Values are never looked at again once filled in, so braces,
JSON, LaTeX and dollar signs in documents arrive as they are. A paragraph of the user part whose variables are all empty
is left out: a small model takes "found nowhere: none" for a reason to give up.

What changes from call to call stands in the user part, so that servers can keep what they made of the system part.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import yaml
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from crag_graph.errors import ConfigurationError
from crag_graph.resources import resource

ABSTAIN = "NO_EVIDENCE"  # what a generator says when the evidence does not answer


def abstains(answer: str) -> bool:
    """Return whether an answer begins with `ABSTAIN`, however the model dresses it up.

    >>> abstains("**NO_EVIDENCE**"), abstains("no_evidence."), abstains("No evidence of that was found [1].")
    (True, True, False)
    """
    return _bare(answer).startswith(ABSTAIN)


def may_abstain(opening: str) -> bool:
    """Return whether what has come of an answer may still grow into an abstention."""
    return ABSTAIN.startswith(_bare(opening))


def _bare(text: str) -> str:
    return re.sub(r"[^\w]", "", text).upper()


@dataclass(frozen=True)
class Prompt:
    """One prompt file: a system and a user part."""

    name: str
    id: str  # version and content hash, as recorded in traces
    system: Template
    user: tuple[Template, ...]  # its paragraphs

    def messages(self, **values: str) -> list[BaseMessage]:
        """Return the two messages with every `$name` replaced by its value, byte for byte."""
        told = [part.substitute(values) for part in self.user if _has_something(part, values)]
        return [SystemMessage(self.system.substitute(values)), HumanMessage("\n\n".join(told))]


def _has_something(paragraph: Template, values: Mapping[str, str]) -> bool:
    names = paragraph.get_identifiers()
    return not names or any(values[name].strip() for name in names)


def load_prompt(name: str, variables: set[str], folder: Path | None = None) -> Prompt:
    """Load `<name>.yaml` and check that it uses exactly `variables`.

    Raises:
        ConfigurationError: the file is missing, is not a prompt, or has other variables.
    """
    path = folder / f"{name}.yaml" if folder else resource("prompts", f"{name}.yaml")
    try:
        raw = path.read_bytes()
        data = yaml.safe_load(raw)
        version, system, user = data["version"], Template(data["system"]), Template(data["user"].rstrip())
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise ConfigurationError(f"{path}: not a prompt file (needs version, system, user): {error}") from error
    if not (system.is_valid() and user.is_valid()):
        raise ConfigurationError(f"{path}: a lone $ must be written as $$")
    found = {*system.get_identifiers(), *user.get_identifiers()}
    if found != variables:
        missing, unknown = sorted(variables - found), sorted(found - variables)
        raise ConfigurationError(f"{path}: missing variables {missing}, unknown variables {unknown}")
    paragraphs = tuple(map(Template, re.split(r"\n\s*\n", user.template)))
    return Prompt(name, f"{name}-v{version}-{hashlib.sha256(raw).hexdigest()[:8]}", system, paragraphs)


def fence(text: str) -> tuple[str, str]:
    """Return a marker and `text` between two lines of it: data, not instructions.

    The marker is a hash of the whole text, so no text can contain its own: a page that forges a delimiter would have to
    foresee everything it will be shown with, itself included. Unlike a random marker it keeps equal requests equal, for
    caches here and at the provider.
    """
    marker = f"data-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return marker, f"<{marker}>\n{text}\n</{marker}>"
