"""What all settings are made of."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
Retries = Annotated[int, Field(ge=0, le=10)]
IMPORT_PATH = r"^[\w.]+:[\w.]+$"
ImportPath = Annotated[str, Field(pattern=IMPORT_PATH)]


class Section(BaseModel):
    """A block of settings: frozen, and unknown keys are errors."""

    # A model or host may be named by a number, which YAML reads as one.
    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def read_off(data: Any) -> Any:
    """Read `use: off`: YAML makes a bare `off` false, and `null` is a natural way to say none."""
    if isinstance(data, dict) and "use" in data and data["use"] in (False, None):
        return {**data, "use": "off"}
    return data
