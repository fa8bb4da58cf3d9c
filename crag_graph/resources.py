"""Where the prompts and configs that ship with the package lie.

They stand at the top of a checkout, where people look for them, and inside the package once it is installed.
"""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def resource(kind: str, name: str) -> Path:
    """Return the path of `name` in the shipped folder `kind` ("configs" or "prompts"); it may not exist."""
    installed = _PACKAGE / "_resources" / kind
    folder = installed if installed.is_dir() else _PACKAGE.parent / kind
    return folder / name
