"""The state of a training run on disk, so that an interrupted one can go on."""

import os
import pickle
from pathlib import Path
from typing import Any

from crag_graph.errors import InputError

NAME = "checkpoint.pt"


def check(folder: Path) -> None:
    """Refuse a folder that holds anything but a checkpoint to go on from.

    Raises:
        InputError: what is there would be overwritten.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / NAME).is_file():
        raise InputError(f"{folder}: holds files already, and no checkpoint to go on from; name a new folder")


def resume(folder: Path, run: str, model: Any, optimizer: Any) -> int:
    """Load the checkpoint if there is one; return the steps it has done.

    Raises:
        InputError: it is damaged, or of another run.
    """
    import torch

    path = folder / NAME
    if not path.is_file():
        return 0
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise InputError(f"{path}: cannot be read; delete it to start over: {error}") from error
    if saved["run"] != run:
        raise InputError(
            f"{path}: belongs to a run with other pairs or options; repeat those, delete it, or name another folder"
        )
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    torch.set_rng_state(saved["random"])
    done: int = saved["step"]
    return done


def save(folder: Path, run: str, step: int, model: Any, optimizer: Any) -> None:
    """Write all that is needed to go on; a crash in between leaves the checkpoint before."""
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state()}
    new = folder / f"{NAME}.new"
    torch.save({"run": run, "step": step, **states}, new)
    os.replace(new, folder / NAME)
