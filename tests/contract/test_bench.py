"""`crag bench` as a person runs it, over real servers on loopback."""

import copy
import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from crag_graph.cli import app
from crag_graph.components.search.tavily import TavilySearch
from crag_graph.measure.bench.data import Paragraph
from crag_graph.measure.bench.report import report
from crag_graph.measure.bench.web_server import WebServer
from crag_graph.settings import WebSettings
from tests.unit.test_bench_data import squad


def crag(*arguments, folder):
    command = [sys.executable, "-m", "crag_graph.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "squad.json").write_text(json.dumps(squad(6, 2)))
    options = ("--config", "offline", "--json", "out.json", "--html", "out.html", "--seed", "3")
    done = crag("bench", "squad.json", *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder, done, json.loads((folder / "out.json").read_text())


@pytest.fixture
def web_settings(monkeypatch):
    monkeypatch.setenv("TAVILY_API_KEY", "any")

    def settings(server):
        return WebSettings.model_validate({"max_results": 2, "tavily": {"base_url": server.origin}})

    return settings


@pytest.mark.anyio
async def test_the_real_client_finds_paragraphs_on_the_served_web(web_settings):
    pages = [Paragraph(f"p-{n}", "Gauges", f"Gauge {n} reads rain in {name}.", "web") for n, name in enumerate("abc")]
    with WebServer(pages) as server:
        found = await TavilySearch(web_settings(server)).ainvoke("gauge 1 b")
    assert found[0].page_content == "Gauge 1 reads rain in b."
    assert (found[0].metadata["url"], found[0].metadata["title"]) == ("https://web.example/p-1", "Gauges")
    assert len(found) == 2


@pytest.mark.anyio
async def test_a_query_that_shares_no_word_finds_nothing(web_settings):
    with WebServer([Paragraph("p-1", "Gauges", "Gauge 1 reads rain.", "web")]) as server:
        assert await TavilySearch(web_settings(server)).ainvoke("zebra") == []


def test_every_system_gets_every_question_and_a_reason_when_it_cannot(measured):
    _, _, results = measured
    assert set(results["systems"]) == {"crag", "vanilla"}
    assert "chat model" in results["skipped"]["tutorial"]
    assert len(results["cases"]) == 12
    assert all(set(case["runs"]) == {"crag", "vanilla"} for case in results["cases"])


def test_plain_rag_answers_everything_and_so_is_wrong_about_what_nobody_knows(measured):
    _, _, results = measured
    vanilla = results["systems"]["vanilla"]
    assert vanilla["nowhere"]["false_answer"]["value"] == 1
    assert vanilla["overall"]["context_ratio"]["value"] == 1
    assert vanilla["index"]["evidence_recall"]["value"] == 1


def test_a_figure_without_questions_behind_it_is_left_out(measured):
    _, _, results = measured
    assert "evidence_recall" not in results["systems"]["crag"]["nowhere"]
    assert "needless_search" not in results["systems"]["crag"]["web"]


def test_every_figure_lies_in_its_interval(measured):
    _, _, results = measured
    figures = [f for groups in results["systems"].values() for group in groups.values() for f in group.values()]
    assert len(figures) > 50
    assert all(figure["low"] <= figure["value"] <= figure["high"] for figure in figures)


def test_the_table_names_every_class(measured):
    _, done, _ = measured
    assert all(f"{name} (n=" in done.stdout for name in ("overall", "answerable", "index", "web", "nowhere"))


def test_the_report_needs_nothing_but_itself_and_says_how_it_was_made(measured):
    page = (measured[0] / "out.html").read_text()
    assert not re.search(r"""(src|href)=|url\(|<script|@import""", page)
    assert page.count("<svg") >= 8
    assert all(said in page for said in ("bench squad.json --config offline", "langgraph", "upper 0.", "keep 0."))


def test_the_report_shows_what_went_wrong_and_escapes_what_it_shows(measured):
    _, _, results = measured
    broken = copy.deepcopy(results)
    case = next(case for case in broken["cases"] if case["place"] == "nowhere")
    case["question"] = "Is <b> & co. bold?"
    case["runs"]["crag"] |= {"grounded": True, "abstained": False}
    page = report(broken)
    assert "Is &lt;b&gt; &amp; co. bold? <small>a grounded answer to what nobody knows" in page


def test_a_run_passes_the_gate_against_itself_and_a_worse_one_fails_it(measured):
    folder, _, results = measured
    gate = ("--fail-on", "route_accuracy", "--fail-on", "web.evidence_recall:0.05")
    assert crag("bench", "--compare", "out.json", "out.json", *gate, folder=folder).returncode == 0
    results["systems"]["crag"]["overall"]["route_accuracy"]["value"] -= 0.01
    (folder / "worse.json").write_text(json.dumps(results))
    done = crag("bench", "--compare", "out.json", "worse.json", *gate, folder=folder)
    assert done.returncode == 1
    assert "FAIL crag.overall.route_accuracy" in done.stdout
    assert "ok   crag.web.evidence_recall" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a file"),
        (("gone.json",), "gone.json"),
        (("squad.json", "--systems", "magic"), "magic"),
        (("squad.json", "--split", "half"), "half"),
        (("--compare", "out.json", "out.json"), "--fail-on"),
        (("--compare", "out.json", "squad.json", "--fail-on", "route_accuracy"), "squad.json"),
        (("squad.json", "--fail-on", "route_accuracy"), "add --compare"),
        (("squad.json", "--compare", "out.json", "out.json", "--fail-on", "route_accuracy"), "leave the dataset out"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_what_to_write(measured, monkeypatch, arguments, said):
    monkeypatch.chdir(measured[0])
    done = CliRunner().invoke(app, ["bench", *arguments, "--config", "offline"])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
