"""The command line as people and programs use it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crag_graph.cli import app
from tests.servers.openai_server import grades, helpful, schema_name, text

ROOT = Path(__file__).parents[2]
QUESTION = "How often are the bearings of the cup anemometer replaced?"
NOWHERE = "Who won the chess championship of 1886?"


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An offline application with an index of its own, run from an empty folder."""
    for name in ("OPENAI_API_KEY", "TAVILY_API_KEY", "CRAG_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CRAG_INDEX__PATH", str(tmp_path / "index"))
    monkeypatch.setenv("CRAG_WEB__FOLDER__PATH", str(ROOT / "examples" / "web"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """An index of the example corpus, made once by the real command."""
    folder = tmp_path_factory.mktemp("corpus")
    environment = os.environ | {"CRAG_CONFIG": "offline", "CRAG_INDEX__PATH": str(folder / "index")}
    command = [sys.executable, "-m", "crag_graph.cli", "ingest", str(ROOT / "examples" / "corpus"), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return folder / "index", json.loads(done.stdout), done.stderr


@pytest.fixture
def over_corpus(environment, corpus, monkeypatch):
    monkeypatch.setenv("CRAG_INDEX__PATH", str(corpus[0]))


def crag(*arguments: str):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_ingest_prints_a_clean_summary_and_its_progress_apart(corpus):
    _, summary, stderr = corpus
    assert set(summary) >= {"added", "updated", "unchanged", "removed", "chunks", "failed"}
    assert summary["added"] > 10
    assert summary["failed"] == []
    assert "/" in stderr


def test_a_grounded_answer_exits_with_0_and_prints_one_object(over_corpus):
    done = crag("ask", QUESTION, "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["question"] == QUESTION
    assert result["grounded"] is True
    assert result["verdict"] == "correct"
    source = result["sources"][0]
    assert set(source) == {"number", "origin", "title", "url", "path", "page", "date", "passage", "score"}
    assert set(result["usage"]) == {"model_calls", "tokens_in", "tokens_out", "seconds", "by_node"}
    trace = result["trace"]
    assert {"id", "score", "reason", "good"} <= set(trace["documents"][0])
    assert {"id", "text", "score", "kept", "why"} <= set(trace["strips"][0])
    assert (trace["rounds"], trace["web_queries"], trace["web_docs"]) == (0, [], [])
    assert "offline (offline.yaml)" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [("CRAG_CORRECTIONS__ON_INSUFFICIENT", "ask", "no evidence"), ("CRAG_WEB__APPROVE", "true", "no evidence")],
)
def test_where_nobody_is_at_the_terminal_a_question_to_a_person_is_answered_with_no(
    over_corpus, monkeypatch, variable, value, said
):
    monkeypatch.setenv(variable, value)
    done = crag("ask", NOWHERE)
    assert done.exit_code == 3, done.stderr
    assert "nobody is at the terminal" in done.stderr
    assert said in done.stdout


def test_the_parts_of_a_question_are_shown(over_corpus, monkeypatch):
    monkeypatch.setenv("CRAG_CORRECTIONS__AMBIGUOUS", "[decompose, web]")
    monkeypatch.setenv("CRAG_CORRECTIONS__INCORRECT", "[decompose, web]")
    question = f"{QUESTION.rstrip('?')} and who won the chess championship of 1886?"
    trace = json.loads(crag("ask", question, "--json").stdout)["trace"]
    assert [part["question"] for part in trace["parts"]] == [
        "How often are the bearings of the cup anemometer replaced",
        "who won the chess championship of 1886",
    ]
    assert trace["parts"][0]["where"] == "internal"
    shown = crag("ask", question, "--explain")
    assert "found in the index" in " ".join(shown.stdout.split())
    assert "part 2:" in shown.stdout


def test_no_evidence_exits_with_3_and_the_settable_sentence_without_a_model_call(over_corpus, monkeypatch):
    monkeypatch.setenv("CRAG_GENERATOR__NO_EVIDENCE", "Dazu habe ich nichts gefunden.")
    done = crag("ask", NOWHERE, "--json")
    result = json.loads(done.stdout)
    assert done.exit_code == 3
    assert result["answer"] == "Dazu habe ich nichts gefunden."
    assert result["usage"]["model_calls"] == 0
    assert result["sources"] == []


def test_explain_shows_documents_and_strips_kept_and_dropped(over_corpus):
    done = crag("ask", QUESTION, "--explain")
    assert done.exit_code == 0
    for heading in ("Documents graded", "Strips judged", "kept", "dropped"):
        assert heading in done.stdout
    assert "CORRECT" in done.stderr


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b"])
def test_a_blank_question_exits_with_2_before_anything_else(environment, blank):
    done = crag("ask", blank)
    assert done.exit_code == 2
    assert "blank" in done.stderr
    assert not (environment / "index").exists()


def test_an_unknown_setting_exits_with_2_and_the_nearest_name(environment, monkeypatch):
    monkeypatch.setenv("CRAG_RETRIEVE__TOPK", "3")
    done = crag("ask", QUESTION, "--json")
    assert done.exit_code == 2
    assert "retrieve.top_k" in json.loads(done.stdout)["error"]["message"]


def test_a_profile_that_needs_a_key_says_which(environment):
    done = crag("ask", QUESTION, "--config", "openai")
    assert done.exit_code == 2
    assert "OPENAI_API_KEY" in done.stderr


def test_asking_before_ingesting_says_how_and_creates_nothing(environment, monkeypatch):
    monkeypatch.setenv("CRAG_WEB__USE", "off")
    done = crag("ask", QUESTION)
    assert done.exit_code == 2
    assert "crag ingest" in done.stderr
    assert not (environment / "index").exists()


def test_a_failed_file_exits_with_1_and_the_others_are_stored(environment):
    (environment / "docs").mkdir()
    (environment / "docs" / "good.txt").write_text("The pump weighs 3 kg.", encoding="utf-8")
    (environment / "docs" / "bad.txt").write_bytes(bytes(range(256)) * 4)
    done = crag("ingest", environment / "docs", "--json")
    summary = json.loads(done.stdout)
    assert done.exit_code == 1
    assert summary["added"] == 1
    assert [Path(item["path"]).name for item in summary["failed"]] == ["bad.txt"]


def test_a_second_run_adds_nothing_and_sync_removes_what_is_gone(environment):
    docs = environment / "docs"
    docs.mkdir()
    (docs / "one.txt").write_text("The pump weighs 3 kg.", encoding="utf-8")
    (docs / "two.txt").write_text("The hose is 4 m long.", encoding="utf-8")
    crag("ingest", docs)
    again = json.loads(crag("ingest", docs, "--json").stdout)
    assert (again["added"], again["unchanged"]) == (0, 2)
    (docs / "two.txt").unlink()
    synced = json.loads(crag("ingest", docs, "--sync", "--json").stdout)
    assert (synced["removed"], synced["unchanged"]) == (1, 1)


def test_a_followup_is_completed_from_the_history_file(over_corpus, environment):
    history = environment / "history.json"
    turns = [{"role": "user", "content": "How tall is the mast?"}, {"role": "assistant", "content": "Ten metres."}]
    history.write_text(json.dumps(turns), encoding="utf-8")
    done = crag("ask", "And who may climb it?", "--history", history, "--json")
    result = json.loads(done.stdout)
    assert "searched as: And who may climb it?" in " ".join(done.stderr.split())
    assert "mast" in result["trace"]["standalone_question"]
    assert result["question"] == "And who may climb it?"


@pytest.mark.parametrize("content", ["{", '{"role": "user"}', '[{"role": "king", "content": "x"}]'])
def test_a_history_that_is_none_exits_with_2(over_corpus, environment, content):
    history = environment / "history.json"
    history.write_text(content, encoding="utf-8")
    done = crag("ask", QUESTION, "--history", history)
    assert done.exit_code == 2
    assert "--history" in done.stderr


def test_doctor_names_what_is_missing_and_how_to_mend_it_but_no_key(environment, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    done = crag("doctor", "--json")
    findings = {finding["part"]: finding for finding in json.loads(done.stdout)}
    assert done.exit_code == 0
    assert findings["profile"]["detail"].startswith("openai")
    assert findings["key OPENAI_API_KEY"]["detail"] == "present"
    assert findings["key TAVILY_API_KEY"]["mend"] == "set TAVILY_API_KEY"
    assert findings["web"]["state"] == "off"
    assert findings["index"]["mend"] == "crag ingest PATH"
    assert "sqlite" in findings
    assert "very-secret" not in done.stdout + done.stderr
    assert not (environment / "index").exists()


def test_an_index_that_another_embedder_made_is_refused_with_both_names(over_corpus, monkeypatch, openai_server):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("CRAG_EMBEDDINGS__USE", "openai")
    monkeypatch.setenv("CRAG_EMBEDDINGS__OPENAI__BASE_URL", openai_server.base_url)
    monkeypatch.setenv("CRAG_EMBEDDINGS__OPENAI__DIMENSIONS", "384")
    done = crag("ask", QUESTION, "--config", "openai", "--json")
    said = json.loads(done.stdout)["error"]["message"]
    assert done.exit_code == 2
    assert "\n" not in said
    assert "all-MiniLM-L6-v2-int8" in said
    assert "text-embedding-3-small" in said
    assert "crag ingest --rebuild" in said
    [index] = [finding for finding in json.loads(crag("doctor", "--json").stdout) if finding["part"] == "index"]
    assert index["state"] == "broken"
    assert "--rebuild" in index["mend"]


def test_config_says_where_every_value_comes_from(environment, monkeypatch):
    monkeypatch.setenv("CRAG_RETRIEVE__TOP_K", "7")
    rows = {row["setting"]: row for row in json.loads(crag("config", "--json").stdout)}
    assert rows["retrieve.top_k"] == {"setting": "retrieve.top_k", "value": 7, "origin": "CRAG_RETRIEVE__TOP_K"}
    assert rows["evaluator.use"]["origin"].endswith("offline.yaml")
    assert rows["refine.window"]["origin"] == "default"


def test_graph_prints_the_six_nodes(over_corpus):
    drawn = crag("graph").stdout
    for node in ("retrieve", "evaluate_retrieval", "rewrite_query", "web_search", "refine", "generate"):
        assert f"{node}({node})" in drawn


def test_a_component_that_fails_exits_with_1_and_keeps_the_evidence(over_corpus, monkeypatch, openai_server):
    def reply(body):
        return {"grades": grades(dict.fromkeys(range(1, 6), 0.9)), "helpful": helpful(1)}.get(
            schema_name(body)
        ) or text("")

    openai_server.replies = reply
    for name, value in {
        "OPENAI_API_KEY": "test",
        "CRAG_LLM__BASE_URL": openai_server.base_url,
        "CRAG_LLM__MAX_RETRIES": "0",
        "CRAG_GENERATOR__ON_FAILURE": "error",
    }.items():
        monkeypatch.setenv(name, value)
    done = crag("ask", QUESTION, "--json")
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert answer["error"]["kind"] == "GenerationError"
    assert answer["sources"][0]["passage"]


def test_the_command_without_colour_or_width_still_reads_well(over_corpus, corpus):
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "60"}
    command = [sys.executable, "-m", "crag_graph.cli", "ask", QUESTION]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "[1]" in done.stdout


def test_files_that_no_reader_knows_are_counted_not_dropped_in_silence(environment):
    docs = environment / "docs"
    docs.mkdir()
    for name in ("good.txt", "old.doc", "one.png", "two.PNG", "LICENSE", ".hidden.txt"):
        (docs / name).write_text("The pump weighs 3 kg.", encoding="utf-8")
    summary = json.loads(crag("ingest", docs, "--json").stdout)
    assert summary["added"] == 1
    [said] = summary["warnings"]
    assert said["reason"] == "passed over, no reader knows them: 1 .doc, 2 .png, 1 LICENSE"
