"""Every error this package raises, by whose fault it is.

Vendor exceptions are translated into these once, inside the component that talks to the vendor.
"""

from collections.abc import Mapping, Sequence


class CragError(Exception):
    """Root of all errors of this package."""


class ConfigurationError(CragError):
    """The settings cannot work: names the file or variable and what to write. Raised while building."""


class InputError(CragError):
    """The question or a given path cannot be worked on."""


class ComponentError(CragError):
    """A component failed. A later try may succeed if it is `transient`, one with less text if it was `too_much`."""

    def __init__(self, message: str, *, component: str, transient: bool = False, too_much: bool = False) -> None:
        super().__init__(f"{component}: {message}")
        self.component = component
        self.transient = transient
        self.too_much = too_much


class RetrievalError(ComponentError):
    """The internal index or its embedder failed."""


class NothingIngested(RetrievalError):  # noqa: N818 -- a state of the index more than a fault of it
    """The index holds no document yet, or does not exist: says which command fills it."""


class EvaluationError(ComponentError):
    """A grader or strip filter failed as a whole (one text that fails is *ungraded* instead)."""


class SearchError(ComponentError):
    """A web provider failed, refused or answered with something unreadable."""


class GenerationError(ComponentError):
    """A rewriter or generator failed; `evidence` is what an answer would have rested on."""

    evidence: Sequence[Mapping[str, object]] = ()
