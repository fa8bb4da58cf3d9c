"""`crag measure`, `calibrate`, `pairs`, `fit-evaluator` and `train-evaluator` as people and programs use them."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from crag_graph.cli import app
from crag_graph.measure.pairs import read_pairs
from tests.servers.openai_server import OpenAIServer, json_object, prompt, schema_name

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "examples" / "corpus"
BLACKED_OUT = "import sys; sys.modules['matplotlib'] = None; from crag_graph.cli import main; main()"
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "TAVILY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CRAG_CONFIG", "offline")
    monkeypatch.setenv("CRAG_INDEX__PATH", str(tmp_path / "index"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs from the example corpus, made once by the real command."""
    path = tmp_path_factory.mktemp("pairs") / "own.jsonl"
    made = CliRunner().invoke(app, ["pairs", str(CORPUS), "--out", str(path), "--limit", "16", "--config", "offline"])
    assert made.exit_code == 0, made.stderr
    return path


def crag(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_pairs(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def scored(count=30):
    """Pairs whose text says the score that the scripted model gives."""
    return [
        {"question": f"Question {n}?", "text": f"Scores {0.9 if label else 0.2}.", "label": label}
        for n in range(count)
        for label in (1, 0)
    ]


def as_it_stands(body):
    """Grade every numbered text by the score it holds."""
    texts = re.findall(r"^\[(\d+)\] ?(.*?)(?=^\[\d+\]|^</data|\Z)", prompt(body), re.MULTILINE | re.DOTALL)
    scores = {int(n): float(re.search(r"0\.\d", text)[0]) for n, text in texts if re.search(r"0\.\d", text)}
    assert schema_name(body) == "grades"
    return json_object({"grades": [{"id": n, "score": score, "reason": "as it stands"} for n, score in scores.items()]})


@pytest.fixture
def by_model(openai_server: OpenAIServer, monkeypatch):
    openai_server.replies = as_it_stands
    for name, value in {
        "OPENAI_API_KEY": "test",
        "CRAG_CONFIG": "openai",
        "CRAG_LLM__BASE_URL": openai_server.base_url,
        "CRAG_LLM__MAX_RETRIES": "0",
        "CRAG_LLM__STRUCTURED_OUTPUT": "json_schema",
    }.items():
        monkeypatch.setenv(name, value)
    return openai_server


def test_measure_prints_the_figures_of_every_file_and_nothing_else_on_stdout(pairs, tmp_path):
    other = write_pairs(tmp_path / "one-label.jsonl", [{"question": "Rain?", "text": "It rained.", "label": 1}])
    done = crag("measure", pairs, other, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    first, second = result["files"]
    assert {"pairs", "auc", "accuracy", "balanced_accuracy", "ece", "ms_per_pair", "ungraded"} <= set(first)
    assert (first["file"], first["pairs"]) == (str(pairs), len(read_pairs(pairs)))
    assert first["auc"] > 0.9
    assert (second["auc"], second["pairs"]) == (None, 1)
    assert (result["evaluator"], result["accuracy_at"]) == ("local", "upper")
    assert "own.jsonl" in done.stderr


def test_measure_reads_the_labelled_lines_of_the_paper(by_model, tmp_path, monkeypatch):
    rows = [("Scores 0.6.", "1"), ("Scores 0.4.", "-1"), ("Scores 0.2.", "0"), ("Scores 0.9.", "1")]
    path = tmp_path / "test_popqa.txt"
    path.write_text("".join(f"What is Lee's job? [SEP] {text}\t{label}\n" for text, label in rows))
    result = json.loads(crag("measure", path, "--config", "paper-popqa", "--json").stdout)
    assert result["upper"] == pytest.approx(0.795)  # 0.59 on the paper's scale
    assert result["files"][0]["accuracy"] == 0.75
    monkeypatch.setenv("CRAG_EVALUATOR__LLM__UPPER", "0")
    result = json.loads(crag("measure", path, "--config", "paper-popqa", "--json").stdout)
    assert (result["upper"], result["files"][0]["pairs"], result["files"][0]["relevant"]) == (0.5, 4, 2)
    assert result["files"][0]["accuracy"] == 1.0


def test_measure_reads_well_at_eighty_columns(pairs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("CRAG_EVALUATOR__LOCAL__UPPER", "0.66")
    done = crag("measure", pairs)
    assert done.exit_code == 0
    for heading in ("pairs", "auc", "accuracy", "balanced_accuracy", "ece", "ms_per_pair"):
        assert heading in done.stdout
    assert "…" not in done.stdout
    assert "upper (0.66)" in done.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"question": "Q?", "text": "T", "label": 2}', "label is 2"),
        ('{"question": "Q?", "label": 1}', "needs question and text"),
        ("{", "not JSON"),
    ],
)
def test_a_line_that_is_no_pair_is_named(line, said, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text(f'{{"question": "Q?", "text": "T", "label": 1}}\n{line}\n', encoding="utf-8")
    done = crag("measure", path, "--json")
    assert done.exit_code == 2
    message = json.loads(done.stdout)["error"]["message"]
    assert said in message
    assert "bad.jsonl:2" in message


def test_calibrate_reports_everything_and_its_yaml_can_be_used(pairs, tmp_path):
    out = tmp_path / "found.yaml"
    done = crag("calibrate", pairs, "--cost", 5, "--out", out, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    cut = result["thresholds"]
    assert set(cut) == set(result["intervals"]) == {"upper", "lower", "keep", "sufficient"}
    assert cut["lower"] <= cut["upper"]
    assert set(result["ece"]) == {"before", "after", "already_calibrated"}
    assert [row["cost"] for row in result["trade_off"]] == [1, 2, 3, 5, 10, 20]
    assert set(result["changing_verdict"]) == {"up", "down"}
    written = yaml.safe_load(out.read_text(encoding="utf-8"))
    assert written == yaml.safe_load(result["yaml"])
    assert written["evaluator"]["local"]["calibration"]["data"].startswith("own.jsonl ")
    measured = json.loads(crag("measure", pairs, "--config", out, "--json").stdout)
    assert (measured["upper"], measured["lower"]) == (cut["upper"], cut["lower"])


def test_calibrate_shows_tables_a_picture_and_the_yaml(pairs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    done = crag("calibrate", pairs)
    assert done.exit_code == 0, done.stderr
    for part in ("upper", "sufficient", "95%", "█", "▲", "needless search", "Calibration error", "If all scores moved"):
        assert part in done.stdout
    fragment = done.stdout.split("into your config:")[1]
    assert yaml.safe_load(fragment)["evaluator"]["use"] == "local"


@pytest.mark.skipif(not HAS_MATPLOTLIB, reason="matplotlib is not installed: pip install crag-graph[fit]")
def test_calibrate_draws_a_picture(pairs, tmp_path):
    picture = tmp_path / "picture.png"
    done = crag("calibrate", pairs, "--plot", picture, "--json")
    assert done.exit_code == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_a_plot_is_refused_before_anything_is_scored(pairs, tmp_path):
    command = [sys.executable, "-c", BLACKED_OUT, "calibrate", str(pairs), "--plot", "picture.png", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "crag-graph[fit]" in json.loads(done.stdout)["error"]["message"]
    assert "own.jsonl" not in done.stderr


@pytest.mark.parametrize(
    ("rows", "said"),
    [(scored(10), "too few pairs"), ([row | {"label": 1} for row in scored()], "labelled 1")],
)
def test_pairs_that_cannot_carry_cut_offs_exit_with_2_and_the_reason(rows, said, tmp_path):
    done = crag("calibrate", write_pairs(tmp_path / "few.jsonl", rows), "--json")
    assert done.exit_code == 2
    assert said in json.loads(done.stdout)["error"]["message"]


def test_a_folder_that_is_not_there_is_refused_before_anything_is_scored(pairs):
    done = crag("calibrate", pairs, "--out", "nowhere/found.yaml")
    assert done.exit_code == 2
    assert "nowhere" in done.stderr
    assert "━" not in done.stderr


def test_a_model_is_calibrated_with_its_name_and_prompt_on_record(by_model, tmp_path):
    path = write_pairs(tmp_path / "labelled.jsonl", scored())
    result = json.loads(crag("calibrate", path, "--json").stdout)
    assert result["thresholds"]["upper"] == pytest.approx(0.55)
    assert result["thresholds"]["keep"] == 0.25
    assert "refine.filter" in result["notes"][0]
    recorded = yaml.safe_load(result["yaml"])["evaluator"]["llm"]["calibration"]
    assert recorded["model"] == "gpt-4.1-mini"
    assert recorded["prompt"].startswith("grade-v")
    assert len(by_model.chats) == 30


def test_a_model_that_is_down_exits_with_1_and_the_reason(by_model, tmp_path):
    by_model.replies = []
    done = crag("measure", write_pairs(tmp_path / "labelled.jsonl", scored(2)), "--json")
    assert done.exit_code == 1
    error = json.loads(done.stdout)["error"]
    assert error["kind"] == "EvaluationError"
    assert "not one of 4 pairs was graded" in error["message"]


def test_a_run_on_thresholds_for_another_evaluator_is_warned(tmp_path, monkeypatch):
    (tmp_path / "pump.txt").write_text("The pump weighs 3 kg.", encoding="utf-8")
    assert crag("ingest", tmp_path / "pump.txt").exit_code == 0
    question = "How much does the pump weigh?"
    assert json.loads(crag("ask", question, "--json").stdout)["warnings"] == []
    monkeypatch.setenv("CRAG_EVALUATOR__LOCAL__CALIBRATION__MODEL", "coefficients of last year")
    [warning] = json.loads(crag("ask", question, "--json").stdout)["warnings"]
    assert "calibrated for model coefficients of last year" in warning


def test_pairs_are_made_from_the_index_as_from_the_files(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("handbook.md", "barometer.md", "visitors.html"):
        (folder / name).write_bytes((CORPUS / name).read_bytes())
    assert crag("ingest", folder).exit_code == 0
    for out, place in (("files.jsonl", [folder]), ("index.jsonl", [tmp_path / "index"]), ("configured.jsonl", [])):
        done = crag("pairs", *place, "--out", tmp_path / out, "--json")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["pairs"] == len(read_pairs(tmp_path / out))
    contents = {(tmp_path / out).read_bytes() for out in ("files.jsonl", "index.jsonl", "configured.jsonl")}
    assert len(contents) == 1


def test_pairs_of_nothing_say_what_to_do(tmp_path):
    done = crag("pairs", "--out", tmp_path / "out.jsonl")
    assert done.exit_code == 2
    assert "crag ingest" in done.stderr
    assert crag("pairs", tmp_path / "nowhere", "--out", tmp_path / "out.jsonl").exit_code == 2
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.slow
def test_fit_evaluator_writes_coefficients_that_can_be_used(pairs, tmp_path, monkeypatch):
    more = write_pairs(
        tmp_path / "more.jsonl",
        [json.loads(line) | {"group": f"g{n // 5}"} for n, line in enumerate(pairs.read_text().splitlines() * 2)],
    )
    done = crag("fit-evaluator", more, "--out", tmp_path / "own.json", "--seed", 1)
    assert done.exit_code == 0, done.stderr
    monkeypatch.setenv("CRAG_EVALUATOR__LOCAL__COEFFICIENTS", str(tmp_path / "own.json"))
    result = json.loads(crag("measure", pairs, "--json").stdout)
    assert result["model"].startswith("own.json ")
    assert result["files"][0]["auc"] > 0.8


def test_fit_evaluator_refuses_too_few_pairs(tmp_path):
    few = write_pairs(tmp_path / "few.jsonl", scored(4))
    done = crag("fit-evaluator", few, "--out", tmp_path / "own.json")
    assert done.exit_code == 2
    assert "at least" in done.stderr


def test_train_evaluator_explains_its_own_options():
    done = crag("train-evaluator", "--help")
    assert done.exit_code == 0
    assert "--out" in done.stdout
    assert crag("train-evaluator").exit_code == 2
