"""How a dataset's knowledge is dealt out."""

import json

import pytest

from crag_graph.errors import InputError
from crag_graph.measure.bench.data import PLACES, deal, read_dataset, sample


def squad(articles=10, paragraphs=3):
    return {
        "data": [
            {
                "title": f"Article_{a}",
                "paragraphs": [
                    {
                        "context": f"Fact {a}-{p} is number {a * 100 + p}.",
                        "qas": [
                            {
                                "id": f"q{a}-{p}",
                                "question": f"Which number is fact {a}-{p}?",
                                "answers": [{"text": str(a * 100 + p), "answer_start": 0}],
                            },
                            {"id": f"none{a}-{p}", "question": "Unanswerable?", "answers": []},
                        ],
                    }
                    for p in range(paragraphs)
                ],
            }
            for a in range(articles)
        ]
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad()))
    return path


def test_half_of_the_articles_go_to_the_index_and_three_tenths_to_the_web(file):
    data = read_dataset(file, seed=7, split="article")
    assert [len(data.at(place)) for place in PLACES] == [15, 9, 6]


def test_an_article_stays_in_one_place_unless_paragraphs_are_split(file):
    def places(split):
        data = read_dataset(file, seed=7, split=split)
        return [
            {p.place for p in data.paragraphs if p.article == name} for name in {p.article for p in data.paragraphs}
        ]

    assert all(len(found) == 1 for found in places("article"))
    assert any(len(found) > 1 for found in places("paragraph"))


def test_a_question_is_where_its_paragraph_is_and_unanswerable_ones_are_left_out(file):
    data = read_dataset(file, seed=7, split="paragraph")
    place = {paragraph.id: paragraph.place for paragraph in data.paragraphs}
    assert len(data.cases) == 30
    assert all(case.place == place[case.paragraph] for case in data.cases)


def test_the_seed_alone_decides(file):
    first, again, other = (read_dataset(file, seed, "article") for seed in (1, 1, 2))
    assert first == again != other


def test_every_place_gets_something_however_small_the_data_is():
    for count in range(3, 40):
        assert set(deal([str(n) for n in range(count)], seed=1).values()) == set(PLACES)


def test_too_few_parts_are_refused():
    with pytest.raises(InputError, match="at least 3"):
        deal(["a", "b"], seed=1)


@pytest.mark.parametrize("content", ["", "[]", '{"data": [{}]}', '{"data": [{"paragraphs": [{"context": "x"}]}]}'])
def test_a_file_that_is_not_squad_is_refused_by_name(tmp_path, content):
    path = tmp_path / "wrong.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"wrong\.json"):
        read_dataset(path, seed=1, split="article")


def test_articles_whose_titles_no_latin_letter_tells_apart_keep_apart(tmp_path):
    content = squad(3)
    for article, title in zip(content["data"], ["北京", "上海", "广州"], strict=True):
        article["title"] = title
    path = tmp_path / "zh.json"
    path.write_text(json.dumps(content))
    data = read_dataset(path, seed=1, split="article")
    assert len({paragraph.id for paragraph in data.paragraphs}) == 9


def test_a_sample_keeps_the_order_and_is_drawn_by_the_seed(file):
    cases = read_dataset(file, seed=7, split="article").cases
    drawn = sample(cases, 10, seed=3)
    assert drawn == sample(cases, 10, seed=3) != sample(cases, 10, seed=4)
    assert drawn == [case for case in cases if case in drawn]
    assert sample(cases, None, seed=3) == list(cases)


def test_a_question_without_a_gold_answer_is_left_out_however_it_says_so(tmp_path):
    data = squad()
    data["data"][0]["paragraphs"][0]["qas"] += [
        {"id": "a", "question": "?", "is_impossible": True, "answers": [{"text": "", "answer_start": -1}]},
        {"id": "b", "question": "?", "answers": [{"text": " ", "answer_start": 0}]},
        {"id": "c", "question": "?", "is_impossible": True},
    ]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data))
    assert {case.id for case in read_dataset(path, 7, "article").cases}.isdisjoint({"a", "b", "c"})


def test_a_question_id_that_stands_there_twice_is_refused(tmp_path):
    data = squad()
    data["data"][1]["paragraphs"][0]["qas"][0]["id"] = "q0-0"
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="'q0-0' stands there more than once"):
        read_dataset(path, 7, "article")
