"""`crag bench-paper` as a person runs it: small files of the paper's kind, real servers on loopback."""

import hashlib
import json
import re

import pytest
from typer.testing import CliRunner

from crag_graph.cli import app
from crag_graph.prompts import ABSTAIN
from tests.servers.openai_server import failure, grades, prompt, schema_name, text
from tests.servers.tavily_server import found, hit

NOTHING = "The moon is far away."
CLAIMS = [  # claim, passage, gold
    ("Tea cures colds.", "A study helps here: tea does not cure colds.", "false"),
    ("Salt raises blood pressure.", "A trial helps here: salt raises blood pressure.", "true"),
    ("Oranges prevent scurvy.", NOTHING, "true"),
    ("Garlic repels mosquitoes.", NOTHING, "false"),
]
REPLIES = {  # what the generator says of a claim, once its evidence has something that helps
    "Tea": "False [1].",
    "Salt": "False [1]: it is said otherwise.",  # and so is wrong
    "Oranges": "True [1].",
    "Garlic": "False [1].",
}


def selfrag(question, *passages, **fields):
    return {"question": question, "ctxs": [{"title": "", "text": passage} for passage in passages], **fields}


@pytest.fixture
def lines(tmp_path):
    def written(*rows):
        path = tmp_path / "data.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return written


@pytest.fixture
def claims(lines):
    return lines(*(selfrag(claim, passage, answers=[gold]) for claim, passage, gold in CLAIMS))


@pytest.fixture
def servers(openai_server, tavily_server, monkeypatch, tmp_path):
    """A model that finds helpful what says so, a web that knows of oranges alone, and the settings that name both."""
    openai_server.replies = as_a_model
    tavily_server.replies = lambda body: found(
        *([hit("https://a.example/scurvy", "A trial helps here: oranges do it.")] if "scurvy" in body["query"] else [])
    )
    for name, value in {
        "OPENAI_API_KEY": "test",
        "CRAG_LLM__BASE_URL": openai_server.base_url,
        "CRAG_LLM__MODEL": "scripted",
        "CRAG_LLM__MAX_RETRIES": "0",
        "CRAG_LLM__STRUCTURED_OUTPUT": "json_schema",
        "CRAG_REWRITER__USE": "keywords",
        "CRAG_WEB__USE": "tavily",
        "CRAG_WEB__TAVILY__BASE_URL": tavily_server.origin,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return openai_server, tavily_server


def as_a_model(body):
    sent = prompt(body)
    if schema_name(body) == "grades":
        texts = re.findall(r"^\[(\d+)\] ?(.*?)(?=^\[\d+\]|^</data|\Z)", sent, re.MULTILINE | re.DOTALL)
        return grades({int(number): 0.9 if "helps" in passage else 0.0 for number, passage in texts})
    return text(next((said for key, said in REPLIES.items() if key in sent and "helps" in sent), ABSTAIN))


def run(path, task, *options):
    out = path.with_name("out.json")
    done = CliRunner().invoke(app, ["bench-paper", str(path), "--task", task, "--json", str(out), *options])
    assert done.exit_code == 0, done.stderr
    return json.loads(out.read_text()), done


def accuracies(results):
    return {system: measured["figures"]["accuracy"]["value"] for system, measured in results["measured"].items()}


def test_claims_are_counted_as_by_hand(servers, claims):
    results, _ = run(claims, "pubhealth", "--config", "paper-pubhealth")
    crag, vanilla = results["measured"]["crag"], results["measured"]["vanilla"]
    # crag: tea right, salt wrong, oranges right by the web, garlic abstained. vanilla: tea right alone.
    assert accuracies(results) == {"crag": 0.5, "vanilla": 0.25}
    assert [case["runs"]["crag"]["correct"] for case in results["cases"]] == [True, False, True, False]
    assert (crag["verdicts"], vanilla["verdicts"]) == ({"correct": 2, "incorrect": 2}, {})
    shares = [
        (found["figures"]["grounded"]["value"], found["figures"]["abstained"]["value"]) for found in (crag, vanilla)
    ]
    assert shares == [(0.75, 0.25), (0.5, 0.5)]
    assert vanilla["figures"]["model_calls"]["value"] == 1
    assert all(f["low"] <= f["value"] <= f["high"] and f["n"] == 4 for f in crag["figures"].values())
    assert crag["figures"]["tokens_in"]["value"] > vanilla["figures"]["tokens_in"]["value"] > 0


def test_the_instruction_reaches_the_generator_and_nobody_else(servers, claims):
    model, web = servers
    results, _ = run(claims, "pubhealth", "--config", "paper-pubhealth", "--systems", "crag")
    asked = results["cases"][2]["asked"]
    grading = [prompt(chat) for chat in model.chats if schema_name(chat) == "grades"]
    writing = [prompt(chat) for chat in model.chats if schema_name(chat) is None]
    assert "Question: Oranges prevent scurvy.\n" in "".join(grading)
    assert not any("true or false" in sent for sent in grading)
    assert [asked in sent for sent in writing] == [False, False, True]
    assert all("Begin your reply with the word true or false." in sent for sent in writing)
    queries = [search["query"] for search in web.searches]
    assert any("scurvy" in query for query in queries)
    assert not any(word in query.lower() for query in queries for word in ("true", "reply", "claim"))


def test_choices_are_shown_to_the_generator_alone_and_counted_by_letter(servers, lines):
    model, _ = servers
    replies = {"frozen": "(B) [1]", "heavier": "(A) [1], since it sinks", "floats": "The answer is B [1]."}

    def reply(body):
        said = next((said for key, said in replies.items() if key in prompt(body)), "")
        return as_a_model(body) if schema_name(body) else text(said)

    model.replies = reply
    choices = {"text": ["steam", "ice"], "label": ["1", "2"]}
    path = lines(
        selfrag("What is frozen water?", "Ice helps.", choices=choices, answerKey="2"),
        selfrag("Which is heavier? (A) cork (B) lead", "Lead helps.", answerKey="B"),
        selfrag("What floats?", "Cork helps.", "Lead.", choices=choices, answerKey="B"),
    )
    results, _ = run(path, "arc", "--config", "paper-arc")
    assert [case["runs"]["vanilla"]["correct"] for case in results["cases"]] == [True, False, True]
    assert accuracies(results) == {"crag": pytest.approx(2 / 3), "vanilla": pytest.approx(2 / 3)}
    assert "(A) steam\n(B) ice\nChoose" in results["cases"][0]["asked"]
    grading = [prompt(chat) for chat in model.chats if schema_name(chat)]
    assert not any("steam" in sent or "parentheses" in sent for sent in grading)


def test_the_same_question_twice_gets_each_time_its_own_passages_up_to_top_k(servers, lines, monkeypatch):
    model, _ = servers
    monkeypatch.setenv("CRAG_RETRIEVE__TOP_K", "2")

    def reply(body):
        job = re.search(r"A note helps: Lee is a (\w+)", prompt(body))
        return as_a_model(body) if schema_name(body) else text(f"Lee is a {job[1]} [1]." if job else ABSTAIN)

    model.replies = reply
    note = "A note helps: Lee is a {}."
    path = lines(
        selfrag("What is Lee's occupation?", note.format("baker"), NOTHING, answers=["baker"]),
        selfrag("What is Lee's occupation?", note.format("painter"), NOTHING, answers=["painter", "artist"]),
        selfrag("What is Lee's occupation?", NOTHING, "The sea is deep.", note.format("nurse"), answers=["nurse"]),
    )
    results, _ = run(path, "popqa", "--config", "paper-popqa")
    assert [case["runs"]["crag"]["correct"] for case in results["cases"]] == [True, True, False]
    assert [case["runs"]["vanilla"]["correct"] for case in results["cases"]] == [True, True, False]
    assert [len(case["runs"]["crag"]["scores"]) for case in results["cases"]] == [2, 2, 2]
    assert all(case["asked"] == case["question"] for case in results["cases"])


def test_what_is_written_says_how_it_was_made_and_what_is_printed_says_what_differs(servers, claims):
    results, done = run(claims, "pubhealth", "--config", "paper-pubhealth", "--limit", "2", "--seed", "3")
    assert results["dataset"]["sha256"] == hashlib.sha256(claims.read_bytes()).hexdigest()
    assert (results["dataset"]["questions"], results["dataset"]["asked"], len(results["cases"])) == (4, 2, 2)
    assert results["plan"] == {"task": "pubhealth", "retrieved": None, "seed": 3, "limit": 2}
    assert results["profile"] == "paper-pubhealth"
    assert {"python", "langgraph"} <= set(results["versions"])
    assert results["settings"]["evaluator"]["use"] == "llm"
    assert "2 of 4 questions" in done.stdout
    row = next(line for line in done.stdout.splitlines() if line.startswith("CRAG ") and "SelfRAG" in line)
    assert row.split()[:3] == ["CRAG", "SelfRAG-LLaMA2-7b", "75.6"]
    assert "arXiv 2401.15884" in done.stdout
    assert "- generator: llm, scripted at temperature 0; the paper: LLaMA2-hf-7b" in done.stdout
    assert "- evaluator: llm, scripted, upper 0.75, lower 0.045" in done.stdout
    assert "- web: tavily, 5 hits; the paper" in done.stdout
    assert "vanilla: 2 of 2" in done.stderr


def test_a_web_that_is_off_is_said_and_its_warnings_are_counted(servers, claims, monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY")
    results, done = run(claims, "pubhealth", "--config", "paper-pubhealth", "--systems", "crag")
    assert results["measured"]["crag"]["warnings"] == {"the web was not searched": 2}
    assert "crag: 2 × the web was not searched" in done.stdout
    assert "- web: off (" in done.stdout


def test_no_model_and_no_key_are_needed_offline(lines, monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    path = lines(selfrag("Who founded the Lee society?", "Ann founded the Lee society.", NOTHING, answers=["Ann"]))
    results, done = run(path, "popqa", "--config", "offline")
    assert accuracies(results) == {"crag": 1.0, "vanilla": 1.0}
    assert results["cases"][0]["runs"]["crag"]["verdict"] == "correct"
    assert "extractive" in done.stdout
    assert not (tmp_path / ".crag").exists()


def test_the_papers_own_passages_stand_in_for_those_of_the_file(lines, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    path = lines(selfrag("Who founded the Lee society?", NOTHING, answers=["Ann"]))
    (tmp_path / "retrieved_psgs").write_text(f"Lee society // Ann founded the Lee society. [sep] Moon // {NOTHING}\n")
    results, _ = run(path, "popqa", "--config", "offline", "--retrieved", "retrieved_psgs")
    assert accuracies(results) == {"crag": 1.0, "vanilla": 1.0}
    assert results["plan"]["retrieved"] == "retrieved_psgs"
    assert "Lee society" in results["cases"][0]["runs"]["crag"]["context"]


@pytest.mark.parametrize("system", ["crag", "vanilla"])
def test_an_error_that_a_system_raises_ends_the_run_as_in_bench(servers, claims, system):
    model, _ = servers
    model.replies = lambda body: as_a_model(body) if "Oranges" not in prompt(body) else failure(500)
    options = ["--task", "pubhealth", "--config", "paper-pubhealth", "--systems", system]
    done = CliRunner().invoke(app, ["bench-paper", str(claims), *options])
    assert done.exit_code == 1
    assert "generator" in done.stderr
    assert done.stdout == ""


def test_an_abstention_is_no_right_answer_however_it_is_worded(servers, claims, monkeypatch):
    monkeypatch.setenv("CRAG_GENERATOR__NO_EVIDENCE", "It would be false to say that I know.")
    results, _ = run(claims, "pubhealth", "--config", "paper-pubhealth", "--systems", "crag")
    garlic = results["cases"][3]["runs"]["crag"]
    assert (garlic["abstained"], garlic["correct"]) == (True, False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--task", "bio"), "popqa, pubhealth or arc"),
        (("--task", "pubhealth", "--systems", "tutorial"), "crag, vanilla"),
        (("--task", "pubhealth", "--retrieved", "gone"), "gone: cannot be read"),
        (("--task", "arc"), "data.jsonl:1"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_write(claims, options, said, monkeypatch):
    monkeypatch.chdir(claims.parent)
    done = CliRunner().invoke(app, ["bench-paper", "data.jsonl", "--config", "offline", *options])
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
