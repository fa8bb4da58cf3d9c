"""Components by import path."""

import importlib
import inspect
from typing import Any

from crag_graph.errors import ConfigurationError


def imported(path: str, setting: str) -> Any:
    """Return the object that "package.module:name" names; a class or function is called without arguments.

    Raises:
        ConfigurationError: the module or the name does not exist.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{setting}: {path} cannot be imported: {error}") from error
    return found() if inspect.isclass(found) or inspect.isroutine(found) else found
