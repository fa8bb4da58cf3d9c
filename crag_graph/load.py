"""Reading settings from files and the environment, remembering where each value came from."""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from crag_graph.errors import ConfigurationError
from crag_graph.resources import resource
from crag_graph.settings import Settings

PREFIX = "CRAG_"
CONFIG = "CRAG_CONFIG"


@dataclass(frozen=True)
class Loaded:
    """The settings in force, the profile and file they came from, and the origin of every value that was set."""

    settings: Settings
    profile: str
    path: Path
    origins: dict[str, str]  # "evaluator.use" -> "configs/offline.yaml" or "CRAG_EVALUATOR__USE"


def load_settings(config: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings in force; see `load`."""
    return load(config, environ).settings


def load(config: str | Path | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """Read the settings from a YAML file and the environment over the defaults.

    `config` is a path, or the bare name of a shipped profile ("offline"). Without one, `CRAG_CONFIG` names it; without
    that, `openai` is used when its key is set, else `offline`.

    Raises:
        ConfigurationError: a file is missing or not YAML, a key is unknown, or a value is out of bounds.
    """
    environ = os.environ if environ is None else environ
    named = config or environ.get(CONFIG)
    path = _find(named) if named else resource("configs", f"{_default_profile(environ)}.yaml")
    from_file, from_env = _read_yaml(path), _read_environment(environ)
    origins = {key: str(path) for key, _ in _leaves(from_file)}
    origins |= {key: _variable(key) for key, _ in _leaves(from_env)}
    try:
        settings = Settings.model_validate(_merge(from_file, from_env))
    except ValidationError as error:
        raise ConfigurationError(_explain(error, origins, str(path))) from None
    return Loaded(settings, path.stem, path, origins)


def _default_profile(environ: Mapping[str, str]) -> str:
    return "openai" if environ.get("OPENAI_API_KEY", "").strip() else "offline"


def _find(named: str | Path) -> Path:
    path = Path(named)
    shipped = resource("configs", f"{named}.yaml")
    for candidate in (path, shipped):
        if candidate.is_file():
            return candidate
    profiles = sorted(p.stem for p in resource("configs", "").glob("*.yaml"))
    raise ConfigurationError(f"config {str(named)!r} is neither a file nor a shipped profile ({', '.join(profiles)})")


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: must hold sections such as `evaluator:`, not a {type(data).__name__}")
    return data


def _read_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read every `CRAG_<SECTION>__<KEY>`; values are YAML scalars, so `true`, `3` and `[a, b]` mean what they say."""
    data: dict[str, Any] = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(PREFIX) or name == CONFIG:
            continue
        *sections, key = name[len(PREFIX) :].lower().split("__")
        if not sections:
            raise ConfigurationError(f"{name}: unknown variable; {_meant(name)}")
        node = data
        for section in sections:
            node = node.setdefault(section, {})
            if not isinstance(node, dict):
                raise ConfigurationError(f"{name}: {section} is set as a whole by another variable")
        try:
            node[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            node[key] = value
    return data


def _meant(name: str) -> str:
    """Say what a variable with one underscore too few was probably meant to be."""
    known = [CONFIG, *map(_variable, known_keys())]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"write {PREFIX}<SECTION>__<KEY>"


def _variable(dotted: str) -> str:
    return PREFIX + dotted.upper().replace(".", "__")


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def known_keys(model: type[BaseModel] = Settings, prefix: str = "") -> list[str]:
    """Return the dotted name of every setting."""
    keys = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += known_keys(inner, f"{prefix}{name}.")
        else:
            keys.append(f"{prefix}{name}")
    return keys


def _explain(error: ValidationError, origins: Mapping[str, str], fallback: str) -> str:
    lines = []
    for item in error.errors():
        dotted = ".".join(str(part) for part in item["loc"] if part not in ("str", "literal"))
        dotted = dotted.split(".literal[")[0].split(".constrained-str")[0]
        dotted = re.sub(r"\.\d+$", "", dotted)  # an item of a list: the list is what can be set
        within = [origin for key, origin in origins.items() if f"{key}.".startswith(f"{dotted}.")]
        # Of several origins the environment is named: it had the last word.
        origin = max(within, key=lambda o: o.startswith(PREFIX), default=fallback)
        if item["type"] == "extra_forbidden":
            lines.append(f"{origin}: unknown setting {dotted}{_nearest(dotted)}")
        else:
            place = f"{origin}: {dotted}" if dotted else origin  # a rule between sections belongs to none of them
            lines.append(f"{place}: {item['msg'].removeprefix('Value error, ')}")
    return "\n".join(dict.fromkeys(lines))


def _nearest(dotted: str) -> str:
    keys = known_keys()
    names = dict.fromkeys([*keys, *(k.rsplit(".", 1)[0] for k in keys if "." in k)])
    close = difflib.get_close_matches(dotted, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]}?" if close else ""
