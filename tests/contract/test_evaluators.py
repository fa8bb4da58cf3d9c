"""What every evaluator keeps to, whoever made it."""

import asyncio
import re
import threading

import pytest

from crag_graph.factory import build_components
from crag_graph.settings import Settings
from tests.servers.openai_server import grades, helpful, json_object, prompt, schema_name

QUESTION = "How much does the Falcon drone weigh?"
GOOD = "The Falcon drone weighs 3 kg without its battery."
BAD = "Bread is baked from flour, water, salt and yeast."
LONG = "Nothing of interest happened in the valley that day. " * 200 + GOOD
SCRIPTS = {
    "zh": ("猎鹰无人机有多重？", "猎鹰无人机重三公斤。", "面包是用面粉和水做的。"),
    "hi": ("फाल्कन ड्रोन का वजन कितना है?", "फाल्कन ड्रोन का वजन 3 किलो है।", "रोटी आटे और पानी से बनती है।"),
    "de": (
        "Wie schwer ist die Drohne Falcon?",
        "Die Drohne Falcon wiegt 3 kg.",
        "Brot wird aus Mehl und Wasser gebacken.",
    ),
    "ar": ("كم يزن فالكون؟", "يزن فالكون ثلاثة كيلوغرامات.", "يصنع الخبز من الدقيق والماء."),
}
USES = ["llm", "one_pass", "strips", "local", "similarity", "prefilter"]
SIGNS = ("weighs", "重三", "वजन 3", "wiegt", "يزن فالكون ثلاثة")


def reply(body):
    """Grade as a model would that knows what it is asked: by the words of the answer."""
    passages = re.split(r"\n\[(\d+)\]", prompt(body))
    found = {
        int(passages[i]): 0.9 if any(s in passages[i + 1] for s in SIGNS) else 0.05 for i in range(1, len(passages), 2)
    }
    match schema_name(body):
        case "grades":
            return grades(found)
        case "helpful":
            return helpful(*(number for number, score in found.items() if score > 0.5))
        case _:
            items = [{"id": n, "score": score, "reason": "r", "helpful_strips": []} for n, score in found.items()]
            return json_object({"documents": items, "search_query": "q"})


@pytest.fixture(params=USES)
def evaluator(request, openai_server, monkeypatch, tmp_path):
    """The evaluator that settings of this kind build."""
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    openai_server.replies = reply
    chosen = {
        "llm": {"use": "llm"},
        "strips": {"use": "llm"},
        "one_pass": {"use": "llm", "llm": {"one_pass": True}},
        "prefilter": {"use": "llm", "prefilter": {"use": "local"}},
    }.get(request.param, {"use": request.param})
    settings = {
        "evaluator": chosen,
        "llm": {"base_url": openai_server.base_url},
        "index": {"path": str(tmp_path)},
        "web": {"use": "off"},
    }
    kit = build_components(Settings.model_validate(settings))
    return kit.strip_filter if request.param == "strips" else kit.evaluator


def score(evaluator, question, texts):
    return asyncio.run(evaluator.score(question, texts))


def test_there_is_one_grade_per_text_in_order_within_bounds(evaluator):
    result = score(evaluator, QUESTION, [BAD, GOOD, BAD, GOOD])
    scores = [grade["score"] for grade in result]
    assert all(0 <= value <= 1 for value in scores)
    assert min(scores[1], scores[3]) > max(scores[0], scores[2])
    assert all(grade["reason"] for grade in result)


def test_no_text_gives_no_grade_and_one_text_gives_one(evaluator):
    assert score(evaluator, QUESTION, []) == []
    assert len(score(evaluator, QUESTION, [GOOD])) == 1


@pytest.mark.parametrize("blank", ["", "  \n", "\u200b"])
def test_a_blank_text_is_graded_low_or_not_at_all_but_disturbs_no_other(evaluator, blank):
    alone = score(evaluator, QUESTION, [GOOD])[0]["score"]
    first, second = score(evaluator, QUESTION, [blank, GOOD])
    assert first["score"] is None or first["score"] < 0.6
    assert second["score"] == pytest.approx(alone)


def test_an_answer_in_the_last_sentence_of_a_long_text_is_found(evaluator):
    good, bad = score(evaluator, QUESTION, [LONG, LONG.replace(GOOD, BAD)])
    assert good["score"] > bad["score"]


@pytest.mark.parametrize("language", SCRIPTS)
def test_every_script_is_graded_and_the_answer_comes_first(evaluator, language):
    question, good, bad = SCRIPTS[language]
    result = score(evaluator, question, [bad, good])
    assert result[1]["score"] > result[0]["score"]


def test_tasks_and_threads_do_not_mix_their_texts(evaluator):
    expected = {text: score(evaluator, QUESTION, [text])[0]["score"] for text in (GOOD, BAD)}
    seen = []

    async def many():
        texts = [GOOD, BAD] * 4
        return zip(texts, await asyncio.gather(*(evaluator.score(QUESTION, [text]) for text in texts)), strict=True)

    threads = [threading.Thread(target=lambda: seen.extend(asyncio.run(many()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 24
    assert all(result[0]["score"] == pytest.approx(expected[text]) for text, result in seen)
