"""How long a corrective round takes."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "bench_rounds.py"


def test_a_round_takes_the_slower_of_web_and_index_not_their_sum():
    command = [sys.executable, str(SCRIPT), "--web", "0.6", "--index", "0.6", "--runs", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = json.loads(done.stdout)
    assert min(took["web_search"], took["requery"]) >= 0.6
    assert took["step"] / (took["web_search"] + took["requery"]) < 0.75
