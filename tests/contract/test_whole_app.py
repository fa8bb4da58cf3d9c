"""The whole application as configured: real index, real embedder, and servers that speak the real protocols."""

import asyncio

import pytest

from crag_graph import build_graph
from crag_graph.errors import ConfigurationError
from crag_graph.factory import build_embedder, build_index
from crag_graph.ingest.run import ingest
from crag_graph.settings import Settings
from tests.servers.openai_server import OpenAIServer, failure, grades, helpful, prompt, schema_name, text
from tests.servers.tavily_server import TavilyServer, found, hit, refused

WARRANTY = (
    "# Warranty\n\nThe Falcon drone has a warranty of two years. It covers the battery. It does not cover water.\n"
)


@pytest.fixture
def settings(tmp_path, openai_server, tavily_server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    return Settings.model_validate(
        {
            "index": {"path": str(tmp_path / "index")},
            "llm": {"base_url": openai_server.base_url, "max_retries": 0},
            "web": {"tavily": {"base_url": tavily_server.origin, "max_retries": 0}},
        }
    )


@pytest.fixture
def ingested(tmp_path, settings):
    file = tmp_path / "warranty.md"
    file.write_text(WARRANTY, encoding="utf-8")
    summary = asyncio.run(ingest([file], build_index(settings, build_embedder(settings)), settings))
    assert summary["added"] == 1
    return settings


def answering(score: float):
    """Answer each kind of request as a good model would, grading every document with `score`."""

    def reply(body):
        match schema_name(body):
            case "grades":
                return grades({1: score})
            case "helpful":
                return helpful(1)
            case _:
                return text("falcon warranty length" if "search engine" in prompt(body) else "It is two years [1].")

    return reply


def ask(settings, question="How long is the Falcon warranty?"):
    return asyncio.run(build_graph(settings).ainvoke({"question": question}))


def test_the_correct_path_takes_three_model_calls_and_no_search(ingested, openai_server, tavily_server):
    openai_server.replies = answering(0.9)
    result = ask(ingested)
    assert result["verdict"] == "correct"
    assert result["answer"] == "It is two years [1]."
    assert result["sources"][0]["path"].endswith("warranty.md")
    assert "two years" in result["sources"][0]["passage"]
    assert result["usage"]["model_calls"] == len(openai_server.chats) == 3
    assert result["usage"]["tokens_in"] > 0
    assert tavily_server.requests == []
    assert result["warnings"] == []


def test_the_web_path_takes_four_and_answers_from_the_web(ingested, openai_server, tavily_server):
    openai_server.replies = answering(0.0)
    tavily_server.replies = [found(hit("https://a.example/falcon", "The Falcon warranty was extended to two years."))]
    result = ask(ingested)
    assert result["verdict"] == "incorrect"
    assert [source["origin"] for source in result["sources"]] == ["web"]
    assert result["usage"]["model_calls"] == len(openai_server.chats) == 4
    assert tavily_server.requests[0].body["query"] == "falcon warranty length"


def test_no_document_text_is_in_the_prompt_that_writes_the_search_query(ingested, openai_server, tavily_server):
    openai_server.replies = answering(0.0)
    tavily_server.replies = [found()] * 2
    ask(ingested)
    rewriting = [prompt(chat) for chat in openai_server.chats if "search engine" in prompt(chat)]
    assert rewriting
    assert all("battery" not in sent for sent in rewriting)


def test_a_dead_model_server_still_gives_quotes_and_says_so(ingested, openai_server, tavily_server):
    openai_server.replies = lambda _: failure(500)
    tavily_server.replies = lambda _: refused(500)
    result = ask(ingested)
    assert result["verdict"] == "ambiguous"
    assert "two years" in result["answer"]
    assert result["grounded"] is True
    said = " ".join(result["warnings"])
    assert all(part in said for part in ("grader", "rewriter", "tavily", "generator"))


def test_a_missing_search_key_turns_the_web_off_and_nothing_else(ingested, openai_server, tavily_server, monkeypatch):
    monkeypatch.delenv("TAVILY_API_KEY")
    openai_server.replies = answering(0.9)
    assert ask(ingested)["warnings"] == []
    openai_server.replies = answering(0.0)
    result = ask(ingested)
    assert result["grounded"] is False
    assert any("TAVILY_API_KEY" in warning for warning in result["warnings"])


def test_asking_before_ingesting_goes_to_the_web_and_creates_no_folder(
    settings, openai_server, tavily_server, tmp_path
):
    openai_server.replies = answering(0.0)
    tavily_server.replies = [found(hit("https://a.example/falcon", "The Falcon warranty is two years."))]
    result = ask(settings)
    assert result["sources"][0]["url"] == "https://a.example/falcon"
    assert any("crag ingest" in warning for warning in result["warnings"])
    assert not (tmp_path / "index").exists()


def test_one_graph_serves_many_event_loops(ingested, openai_server):
    openai_server.replies = answering(0.9)
    graph = build_graph(ingested)
    question = {"question": "How long is the Falcon warranty?"}
    answers = [asyncio.run(graph.ainvoke(question))["answer"] for _ in range(2)]
    answers.append(graph.invoke(question)["answer"])
    assert answers == ["It is two years [1]."] * 3


def test_the_answer_alone_is_streamed_not_the_grades(
    ingested, openai_server: OpenAIServer, tavily_server: TavilyServer
):
    openai_server.replies = answering(0.9)
    stream = build_graph(ingested).stream({"question": "How long is the warranty?"}, stream_mode="messages")
    assert "".join(message.text for message, _ in stream) == "It is two years [1]."


def test_without_evidence_the_model_answers_from_memory_only_where_that_is_asked_for(ingested, openai_server):
    def reply(body):
        said = prompt(body)
        from_memory = text("No source supports this: perhaps three [1] years, see https://made.up/x")
        return from_memory if "no source supports" in said.lower() else answering(0.0)(body)

    openai_server.replies = reply
    off = ingested.model_copy(update={"web": ingested.web.model_copy(update={"use": "off"})})
    assert ask(off)["answer"] == off.generator.no_evidence
    from_memory = off.corrections.model_copy(update={"on_insufficient": "unsupported"})
    result = ask(off.model_copy(update={"corrections": from_memory}))
    assert result["answer"] == "No source supports this: perhaps three years, see "
    assert result["grounded"] is False
    assert result["sources"] == []
    assert any("from the model's memory" in warning for warning in result["warnings"])


def test_answers_from_memory_need_a_model(settings):
    chosen = {"corrections": {"on_insufficient": "unsupported"}, "generator": {"use": "extractive"}}
    with pytest.raises(ConfigurationError, match=r"set generator.use to llm"):
        build_graph(Settings.model_validate(settings.model_dump() | chosen))
