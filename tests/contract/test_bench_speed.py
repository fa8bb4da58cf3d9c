"""What a question costs in model calls, over a served model whose judgement is known."""

import json
import time

import pytest
from typer.testing import CliRunner

from crag_graph.cli import app
from crag_graph.components.llm import Model
from crag_graph.errors import GenerationError
from crag_graph.measure.bench.model_server import ModelServer, Speed
from crag_graph.measure.bench.prices import read_prices
from crag_graph.measure.bench.speed import Bench, compare_modes
from crag_graph.resources import resource
from crag_graph.settings import LlmSettings, Settings


def settings(server):
    return LlmSettings(base_url=server.base_url, api_key_env=None, model="served", max_retries=0)


@pytest.fixture(scope="module")
def costs():
    import asyncio

    async def measured():
        async with Bench(Settings(), Speed(call_s=0)) as served:
            return await compare_modes(served, questions=2, say=lambda _: None)

    return {(cost["mode"], cost["path"]): cost for cost in asyncio.run(measured())}


@pytest.mark.parametrize(
    ("mode", "path", "calls"),
    [
        ("generate", "index", 1),
        ("vanilla", "index", 1),
        ("crag one pass", "index", 2),
        ("crag llm", "index", 3),
        ("crag local", "index", 1),
        ("crag one pass", "web", 3),
        ("crag local", "web", 2),
    ],
)
def test_model_calls_per_question(costs, mode, path, calls):
    assert costs[mode, path]["model_calls"] == calls


def test_the_tutorials_way_takes_thirty_odd_calls(costs):
    assert 30 <= costs["tutorial", "index"]["model_calls"] < 40
    assert costs["tutorial", "web"]["model_calls"] > 40


def test_every_mode_takes_the_path_that_the_question_calls_for(costs):
    for (mode, path), cost in costs.items():
        assert ("correct" in cost["verdicts"]) == (path == "index"), mode
        assert len(cost["verdicts"]) == 1, mode


@pytest.mark.anyio
async def test_a_call_takes_the_stated_time_per_call_and_token():
    with ModelServer(Speed(call_s=0.2, token_s=0.005)) as server:
        model = Model(settings(server))
        started = time.perf_counter()
        text = "".join([piece async for piece in model.stream(["Why?"], GenerationError, "test")])
        taken = time.perf_counter() - started
    assert server.calls == 1
    assert text.count("[1]") == 8
    assert taken >= 0.2 + 56 * 0.005


def test_the_command_writes_costs_curves_and_prices(tmp_path, monkeypatch):
    monkeypatch.setattr("crag_graph.cli.show_speed.QUICK", _tiny())
    out = tmp_path / "speed.json"
    done = CliRunner().invoke(app, ["bench-speed", "-c", "offline", "--quick", "--call-ms", "1", "--json", str(out)])
    assert done.exit_code == 0, done.output
    results = json.loads(out.read_text())
    curves = {(point["curve"], point["x"]) for point in results["points"]}
    assert curves == {("documents", 5), ("sentences per document", 5), ("questions at one time", 2)}
    assert results["index_sizes"][0]["chunks"] == 200
    assert all(row["price"] > 0 for row in results["prices"]["per_thousand"])


def _tiny():
    from crag_graph.measure.bench.speed_run import Extent

    return Extent(questions=1, documents=(5,), sentences=(5,), concurrency=(2,), chunks=(200,))


def test_the_shipped_price_table_says_that_it_is_an_example():
    prices = read_prices(resource("configs", "prices/example.yaml"))
    assert [price.model for price in prices.models] == ["example (not a real price)"]
