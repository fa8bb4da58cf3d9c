"""Evaluators that run a model: real loading code on tiny models that are made, and trained, here.

Everything that needs torch is skipped where the extra `models` is not installed.
"""

import asyncio
import doctest
import importlib.util
import json
import os
import random
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from crag_graph.components.evaluators import cross_encoder as cross_encoder_module
from crag_graph.components.evaluators import windows as windows_module
from crag_graph.components.evaluators.cross_encoder import CrossEncoderEvaluator, unit_score
from crag_graph.components.evaluators.nli import NliEvaluator
from crag_graph.components.evaluators.similarity import SimilarityEvaluator
from crag_graph.components.evaluators.windows import windows
from crag_graph.errors import ConfigurationError, EvaluationError, InputError
from crag_graph.factory import build_components
from crag_graph.measure import train as training
from crag_graph.measure.pairs import Pair
from crag_graph.measure.train import Recipe, label_by_title, split
from crag_graph.settings import CrossEncoderThresholds, NliThresholds, Settings
from tests.embedders import WordEmbedder

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "sentence_transformers", "sentencepiece"))
needs_models = pytest.mark.skipif(not HAS_TORCH, reason='no models extra: pip install "crag-graph[models]"')

WORDS = (
    "[PAD] [UNK] [CLS] [SEP] how much does the pump cost ? it costs thirty euro . we saw green hills near lake".split()
)
QUESTION = "how much does the pump cost ?"
GOOD = "it costs thirty euro ."
BAD = "we saw green hills near the lake ."
LONG = f"{BAD} " * 290 + GOOD


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    """Tiny models lose more by waiting for other cores than they win."""
    if HAS_TORCH:
        import torch

        torch.set_num_threads(1)


def tiny(folder, labels=("LABEL_0",), bias=None, weight=None, words=WORDS, kind="BertForSequenceClassification"):
    """Save a BERT of a few thousand numbers; `bias` and `weight` fix its outputs."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label=dict(enumerate(labels)),
        label2id={label: i for i, label in enumerate(labels)},
        initializer_range=0.3,
    )
    model = getattr(transformers, kind)(config)
    if weight is not None:
        model.classifier.weight.data.fill_(weight)
    if bias is not None:
        model.classifier.bias.data = torch.tensor(bias)
    model.save_pretrained(folder)
    transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    return str(folder)


def direct(folder, first, second):
    """Return the logits as transformers computes them, one pair at a time."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        return [
            model(**tokenizer(a, b, return_tensors="pt")).logits[0].tolist() for a, b in zip(first, second, strict=True)
        ]


def cross_encoder(folder, **changes):
    return CrossEncoderEvaluator(CrossEncoderThresholds(model=str(folder), **changes))


def score(evaluator, texts, question=QUESTION):
    return asyncio.run(evaluator.score(question, texts))


def scores(evaluator, texts, question=QUESTION):
    return [grade["score"] for grade in score(evaluator, texts, question)]


def made_pairs(count):
    """Pairs whose label is whether the text says what the pump costs."""
    draw = random.Random(0)
    noise = [word for word in WORDS[4:] if word not in ("thirty", "euro")]

    def text(good):
        said = draw.choices(noise, k=draw.randint(8, 40))
        place = draw.randrange(len(said))
        return " ".join([*said[:place], *(GOOD.split() if good else []), *said[place:]])

    return [Pair(QUESTION, text(i % 2), i % 2, group=str(i // 4)) for i in range(count)]


def write_pairs(path, pairs):
    rows = [{"question": p.question, "text": p.text, "label": p.label, "group": p.group} for p in pairs]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model that was trained to find the price, and knows nothing else."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = Recipe(tiny(folder / "base"), steps=200, rate=0.01, batch_size=16)
    training.train(recipe, made_pairs(400), folder / "model", 1000, lambda step, loss: None)
    return partial(cross_encoder, folder / "model", activation="none", output_scale="signed")


@pytest.mark.parametrize("module", [cross_encoder_module, windows_module, training])
def test_the_examples_in_the_docstrings_hold(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


# Windows


@given(st.text(alphabet="ab .\n价", min_size=1, max_size=600), st.integers(50, 200))
def test_windows_lose_nothing_but_blank_space_and_fit(text, limit):
    cut = windows(text, lambda piece: len(piece) <= limit)
    assert all(len(piece) <= limit for piece in cut)
    assert set("".join(cut)) >= set(text) - set(" \n")
    if "\n" not in text:
        assert "".join("".join(cut).split()) == "".join(text.split())


def test_every_window_carries_the_heading():
    cut = windows(f"Falcon › Specs\n{LONG}", lambda piece: len(piece) < 500)
    assert len(cut) > 10
    assert all(piece.startswith("Falcon › Specs\n") and len(piece) < 500 for piece in cut)


def test_a_text_that_fits_is_one_window_as_it_is():
    assert windows(f"Falcon\n{GOOD}", lambda piece: True) == [f"Falcon\n{GOOD}"]
    assert windows(" \n ", lambda piece: True) == []


# Similarity


def test_similarity_puts_the_text_that_shares_the_question_first_and_stays_in_order():
    near, far, empty = scores(SimilarityEvaluator(WordEmbedder()), ["the pump does cost much", "green hills", " \n"])
    assert 1 >= near > 0.7 > far >= 0.4
    assert empty == 0


def test_similarity_of_nothing_is_no_grade():
    assert score(SimilarityEvaluator(WordEmbedder()), []) == []


def test_similarity_finds_the_last_sentence_of_a_long_text():
    evaluator = SimilarityEvaluator(WordEmbedder(dimension=256))
    with_answer, without = scores(evaluator, [f"{BAD} " * 290 + "The pump does cost much.", f"{BAD} " * 290])
    assert with_answer > without + 0.01


def test_similarity_asks_for_the_very_text_that_the_index_holds():
    embedder = WordEmbedder()
    chunk = "Pump › Prices\n" + "x" * 900
    score(SimilarityEvaluator(embedder), [chunk])
    assert embedder.embedded == [QUESTION, chunk]


def test_similarity_without_its_embedder_is_an_evaluation_error():
    with pytest.raises(EvaluationError, match="out of service") as caught:
        score(SimilarityEvaluator(WordEmbedder(fails_after=0)), [GOOD])
    assert caught.value.transient


# Cross-encoder


@needs_models
@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_scores_are_those_of_the_model_in_order_whatever_the_batch(tmp_path, batch_size):
    texts = [BAD, GOOD, f"{BAD} {GOOD}", "hills", BAD]
    wanted = [unit_score(row, "sigmoid", "unit") for row in direct(tiny(tmp_path), [QUESTION] * 5, texts)]
    found = scores(cross_encoder(tmp_path, batch_size=batch_size), texts)
    assert found == pytest.approx(wanted, abs=1e-5)
    assert len({round(value, 4) for value in found}) == 4


@needs_models
def test_a_regression_to_plus_and_minus_one_is_mapped_to_0_and_1_and_clamped(tmp_path):
    for output, wanted in ((-1.0, 0.0), (0.5, 0.75), (1.0, 1.0), (1.3, 1.0), (-2.0, 0.0)):
        folder = tiny(tmp_path / str(output), bias=[output], weight=0.0)
        assert scores(cross_encoder(folder, activation="none", output_scale="signed"), [GOOD]) == [wanted]


@needs_models
def test_a_classifier_gives_the_probability_of_the_label_that_means_relevant(tmp_path):
    folder = tiny(tmp_path, labels=["off", "on"], bias=[0.0, 1.0], weight=0.0)
    [last] = scores(cross_encoder(folder, activation="softmax"), [GOOD])
    [named] = scores(cross_encoder(folder, activation="softmax", label="off"), [GOOD])
    assert last == pytest.approx(0.731, abs=1e-3)
    assert named == pytest.approx(1 - last)


@needs_models
@pytest.mark.parametrize(
    ("labels", "changes", "message"),
    [
        (["a", "b"], {}, r"has 2 outputs \(a, b\): write softmax"),
        (["a"], {"activation": "softmax"}, "has one output: write sigmoid, or none"),
        (["a", "b"], {"activation": "softmax", "label": "c"}, "has no c, but a, b"),
    ],
)
def test_an_activation_that_does_not_fit_the_model_is_refused_while_building(tmp_path, labels, changes, message):
    with pytest.raises(ConfigurationError, match=message):
        cross_encoder(tiny(tmp_path, labels=labels), **changes)


@needs_models
def test_no_text_gives_no_grade_and_a_blank_one_scores_0(tmp_path):
    evaluator = cross_encoder(tiny(tmp_path))
    assert score(evaluator, []) == []
    assert len(score(evaluator, [GOOD])) == 1
    blank, good, blank_too = score(evaluator, ["", GOOD, " \n\t"])
    assert blank == blank_too == {"score": 0.0, "reason": "The text is empty."}
    assert good["score"] > 0


@needs_models
def test_a_long_text_is_judged_by_its_best_window(trained):
    evaluator = trained()
    assert len(LONG) > 10_000
    found = score(evaluator, [BAD, GOOD, LONG, LONG.removesuffix(GOOD), f"Pump › Prices\n{LONG}"])
    bad, good, last, without, headed = [grade["score"] for grade in found]
    assert min(good, last, headed) > 0.8
    assert max(bad, without) < 0.2
    assert "in the best of" in found[2]["reason"]


@needs_models
def test_a_question_longer_than_the_model_reads_leaves_room_for_the_text(trained):
    good, bad = scores(trained(), [GOOD, BAD], question=f"{QUESTION} " * 30)
    assert good > bad


@needs_models
def test_text_of_other_scripts_and_broken_characters_is_graded(tmp_path):
    found = scores(
        cross_encoder(tiny(tmp_path)), ["价格是三十欧元。" * 400, "pump \ud835 cost", "a\x00b"], "费用\udc00？"
    )
    assert len(found) == 3
    assert all(0 <= value <= 1 for value in found)


@needs_models
def test_many_at_once_get_the_grades_they_get_alone(trained):
    evaluator = trained()
    texts = [f"{BAD} " * n + (GOOD if n % 2 else "") for n in range(1, 9)]
    alone = [scores(evaluator, [text])[0] for text in texts]

    async def together():
        return await asyncio.gather(*(evaluator.score(QUESTION, [text]) for text in texts))

    assert [grades[0]["score"] for grades in asyncio.run(together())] == pytest.approx(alone, abs=1e-5)
    found = {}
    threads = [threading.Thread(target=lambda t=t: found.update({t: scores(evaluator, [t])[0]})) for t in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[text] for text in texts] == pytest.approx(alone, abs=1e-5)


@needs_models
def test_the_event_loop_goes_on_while_the_model_runs(trained):
    evaluator = trained()
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    async def run():
        ticking = asyncio.create_task(tick())
        await evaluator.score(QUESTION, [LONG])
        ticking.cancel()

    asyncio.run(run())
    assert ticks > 20


@needs_models
def test_an_output_that_is_no_number_is_ungraded_and_not_irrelevant(tmp_path):
    [grade] = score(cross_encoder(tiny(tmp_path, bias=[float("nan")])), [GOOD])
    assert grade == {"score": None, "reason": "the model's output is not a number"}


@needs_models
def test_a_model_that_breaks_down_is_an_evaluation_error_that_names_it(tmp_path):
    folder = tiny(tmp_path, words=[*WORDS, "beyond"])
    evaluator = cross_encoder(folder)
    assert len(scores(evaluator, [GOOD])) == 1
    with pytest.raises(EvaluationError, match=f"{folder} failed: "):
        score(evaluator, ["beyond"])


@needs_models
@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # of sentencepiece, from Python 3.12 on
def test_the_papers_t5_reads_question_and_text_as_one_sequence(tmp_path):
    import sentencepiece
    import torch
    from transformers import AutoTokenizer, T5Config, T5ForSequenceClassification

    corpus = [f"{QUESTION} {GOOD} {BAD}"] * 20
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_prefix=str(tmp_path / "spiece"), vocab_size=40, minloglevel=2,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False,
    )  # fmt: skip
    names = {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(names), encoding="utf-8")
    torch.manual_seed(0)
    config = T5Config(vocab_size=200, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, num_labels=1)
    config.decoder_start_token_id = 0
    model = T5ForSequenceClassification(config).eval()
    model.classification_head.out_proj.weight.data.mul_(0.1)  # outputs within -1..1
    model.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    with torch.inference_mode():
        ids = tokenizer([f"{QUESTION} [SEP] {text}" for text in (GOOD, BAD)], return_tensors="pt", padding=True)
        wanted = [(value + 1) / 2 for value in model(**ids).logits[:, 0].tolist()]
    joined = cross_encoder(tmp_path, layout="joined", activation="none", output_scale="signed")
    assert scores(joined, [GOOD, BAD]) == pytest.approx(wanted, abs=1e-5)
    pair = cross_encoder(tmp_path, activation="none", output_scale="signed")
    assert scores(pair, [GOOD, BAD]) != pytest.approx(wanted, abs=1e-5)
    assert "windows" in score(joined, [LONG])[0]["reason"]


# Loading


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for build in (lambda: cross_encoder("a/b"), lambda: NliEvaluator(NliThresholds(model="a/b"))):
        with pytest.raises(ConfigurationError, match=r'pip install "crag-graph\[models\]"'):
            build()


@needs_models
@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "nowhere"])
def test_a_model_that_is_neither_folder_nor_hub_name_is_refused(name):
    with pytest.raises(
        ConfigurationError, match=f"model: there is no folder {name}, and a hub model is named owner/name"
    ):
        cross_encoder(name)


@needs_models
@pytest.mark.parametrize("damage", ["empty", "no weights", "weights", "config"])
def test_a_folder_that_holds_no_usable_model_is_refused(tmp_path, damage):
    if damage != "empty":
        tiny(tmp_path)
    match damage:
        case "no weights":
            (tmp_path / "model.safetensors").unlink()
        case "weights":
            (tmp_path / "model.safetensors").write_text("no weights")
        case "config":
            (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"evaluator.cross_encoder.model: .* cannot be loaded"):
        cross_encoder(tmp_path)


@needs_models
def test_a_model_without_a_classifier_is_refused_because_it_would_score_at_random(tmp_path):
    with pytest.raises(ConfigurationError, match=r"is BertForMaskedLM: .* random; train one"):
        cross_encoder(tiny(tmp_path, kind="BertForMaskedLM"))


@needs_models
def test_settings_build_the_evaluator_they_name(tmp_path):
    folder = tiny(tmp_path / "model", labels=["contradiction", "entailment"], bias=[0.0, 2.0], weight=0.0)
    for use, changes in (("cross_encoder", {"activation": "softmax"}), ("nli", {})):
        evaluator = {"use": use, use: {"model": folder, **changes}}
        settings = {"evaluator": evaluator, "refine": {"filter": "evaluator"}, "web": {"use": "off"}}
        offline = {"rewriter": {"use": "keywords"}, "generator": {"use": "extractive"}}
        kit = build_components(Settings.model_validate({**settings, **offline}))
        assert scores(kit.evaluator, [GOOD]) == pytest.approx([0.881], abs=1e-3)
        assert kit.strip_filter is kit.evaluator


class Hub(SimpleHTTPRequestHandler):
    """Serves the folder of one model as the hub does under the name owner/tiny."""

    def __init__(self, *args, asked, **kwargs):
        self.asked = asked
        super().__init__(*args, **kwargs)

    def do_GET(self):
        self.asked.append(self.path)
        place, _, name = self.path.rpartition("/")
        if self.path == "/api/models/owner/tiny":
            self.reply(200, json.dumps({"id": "owner/tiny", "sha": "0" * 40}).encode())
        elif place.startswith("/owner/tiny/resolve/") and Path(self.directory, name).is_file():
            self.reply(200, Path(self.directory, name).read_bytes())
        else:
            code = "EntryNotFound" if "owner/tiny" in self.path else "RepoNotFound"
            self.reply(404, b"", {"X-Error-Code": code})

    def do_HEAD(self):
        self.do_GET()

    def reply(self, status, body, headers=None):
        self.send_response(status)
        for key, value in {"ETag": f'"{len(body)}"', "X-Repo-Commit": "0" * 40, **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


FROM_HUB = """
import asyncio, sys
from crag_graph.components.evaluators import cross_encoder as cross_encoder_module
from crag_graph.components.evaluators import windows as windows_module
from crag_graph.components.evaluators.cross_encoder import CrossEncoderEvaluator
from crag_graph.errors import ConfigurationError
from crag_graph.settings import CrossEncoderThresholds
for name in sys.argv[1:]:
    try:
        evaluator = CrossEncoderEvaluator(CrossEncoderThresholds(model=name))
        print(asyncio.run(evaluator.score("how much ?", ["euro"]))[0]["score"])
    except ConfigurationError as error:
        print("refused:", error)
"""


@needs_models
@pytest.mark.slow
def test_a_hub_model_is_fetched_once_and_then_loaded_without_the_network(tmp_path):
    tiny(tmp_path / "hub")
    asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, directory=str(tmp_path / "hub"), asked=asked))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = os.environ | {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-c", FROM_HUB, "owner/tiny", "owner/tiny", "owner/other"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    first, second, *other = done.stdout.splitlines()
    assert 0 < float(first) < 1
    assert second == first
    assert [path.rpartition("/")[2] for path in asked].count("model.safetensors") == 2  # whether it is there, and it
    assert other[0].startswith("refused: evaluator.cross_encoder.model: owner/other cannot be loaded")


# Natural language inference

NLI = ["CONTRADICTION", "Neutral", "ENTAILMENT"]


@needs_models
def test_nli_scores_the_entailment_of_the_question_by_the_text(tmp_path):
    folder = tiny(tmp_path, labels=NLI)
    evaluator = NliEvaluator(NliThresholds(model=folder))
    rows = direct(folder, [GOOD, BAD], [QUESTION, QUESTION])
    wanted = [unit_score(row, "softmax", "unit", 2) for row in rows]
    assert scores(evaluator, [GOOD, "", BAD]) == pytest.approx([wanted[0], 0.0, wanted[1]], abs=1e-5)
    assert score(evaluator, []) == []


@needs_models
def test_nli_says_when_a_text_contradicts(tmp_path):
    folder = tiny(tmp_path, labels=NLI, bias=[3.0, 0.0, 0.0], weight=0.0)
    [grade] = score(NliEvaluator(NliThresholds(model=folder)), [GOOD])
    assert grade["score"] < 0.05
    assert grade["reason"] == "contradicts 0.91: sources disagree"


@needs_models
def test_nli_takes_two_labels_in_any_order_but_needs_one_for_entailment(tmp_path):
    folder = tiny(tmp_path / "two", labels=["not_entailment", "entailment"], bias=[0.0, 1.0], weight=0.0)
    [grade] = score(NliEvaluator(NliThresholds(model=folder)), [GOOD])
    assert grade["score"] == pytest.approx(0.731, abs=1e-3)
    assert grade["reason"] == "entails 0.73"
    for number, labels in enumerate((["LABEL_0", "LABEL_1"], ["not_entailment", "other"], ["entailment"])):
        with pytest.raises(ConfigurationError, match=f"no label for entailment beside another, but {labels[0]}"):
            NliEvaluator(NliThresholds(model=tiny(tmp_path / str(number), labels=labels)))


# Training


def test_the_label_is_whether_the_page_is_about_the_entity():
    assert label_by_title("Alen Omić", "Alen  omic\u0301") == 1
    assert label_by_title("Mercury", "Mercury (planet)") == 0


def test_no_group_is_in_training_and_held_out():
    sources = {"a": made_pairs(200), "b": made_pairs(200)}
    to_train, unseen = split(sources, seed=1)
    held_out = {pair.group for pairs in unseen.values() for pair in pairs}
    assert held_out.isdisjoint(pair.group for pair in to_train)
    assert len(held_out) == 10
    assert len(to_train) + sum(map(len, unseen.values())) == 400
    assert split(sources, seed=2)[1] != unseen


@pytest.mark.parametrize(
    "pairs",
    [
        made_pairs(100),
        [Pair("q", "t", 1, group=str(i)) for i in range(200)],
        [Pair("q", "t", i % 2) for i in range(200)],
    ],
)
def test_too_few_pairs_or_groups_or_one_label_only_are_refused(pairs):
    with pytest.raises(InputError, match="needs at least 5 groups, and 100 pairs of both labels"):
        split({"pairs": pairs}, seed=0)


@needs_models
def test_two_steps_on_a_few_hundred_pairs_give_a_model_and_a_report(tmp_path, capsys):
    base, out = tiny(tmp_path / "base", labels=["a", "b", "c"]), tmp_path / "out"
    path = write_pairs(tmp_path / "pump.jsonl", made_pairs(300))
    training.main([path, "--base", base, "--out", str(out), "--steps", "2", "--seed", "3", "--max-tokens", "48"])
    said = capsys.readouterr()
    assert "step 2 of 2, loss " in said.err
    assert "pump: 60 held-out pairs, auc 0." in said.err
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert (record["seed"], record["pairs"], record["held_out"]["pump"]["pairs"]) == (3, 240, 60)
    assert not list(out.glob("checkpoint*"))
    settings = Settings.model_validate(yaml.safe_load(said.out)).evaluator
    assert settings.use == "cross_encoder"
    assert 0 <= scores(CrossEncoderEvaluator(settings.cross_encoder), [GOOD])[0] <= 1
    with pytest.raises(InputError, match="holds files already"):
        training.main([path, "--base", base, "--out", str(out), "--steps", "2"])


def interrupt_after(steps):
    def report(step, loss):
        if step == steps:
            raise KeyboardInterrupt

    return report


def weights(folder):
    from safetensors.torch import load_file

    return load_file(Path(folder) / "model.safetensors")


@needs_models
@pytest.mark.parametrize("layout", ["pair", "joined"])
def test_an_interrupted_run_goes_on_and_ends_as_if_it_had_not_been(tmp_path, layout):
    recipe = Recipe(tiny(tmp_path / "base"), steps=6, rate=0.01, layout=layout)
    pairs = made_pairs(200)
    steps = []
    training.train(recipe, pairs, tmp_path / "whole", 2, lambda step, loss: steps.append(step))
    assert steps == [1, 2, 3, 4, 5, 6]
    with pytest.raises(KeyboardInterrupt):
        training.train(recipe, pairs, tmp_path / "halves", 2, interrupt_after(5))
    steps.clear()
    training.train(recipe, pairs, tmp_path / "halves", 2, lambda step, loss: steps.append(step))
    assert steps == [5, 6]
    whole, halves = weights(tmp_path / "whole"), weights(tmp_path / "halves")
    assert all(whole[name].equal(halves[name]) for name in whole)


@needs_models
def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(tmp_path):
    base, pairs = tiny(tmp_path / "base"), made_pairs(200)
    with pytest.raises(KeyboardInterrupt):
        training.train(Recipe(base, steps=4), pairs, tmp_path / "out", 1, interrupt_after(2))
    with pytest.raises(InputError, match="belongs to a run with other pairs or options"):
        training.train(Recipe(base, steps=4, seed=1), pairs, tmp_path / "out", 1, lambda step, loss: None)
    checkpoint = tmp_path / "out" / "checkpoint.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(InputError, match="cannot be read; delete it to start over"):
        training.train(Recipe(base, steps=4), pairs, tmp_path / "out", 1, lambda step, loss: None)


@needs_models
def test_training_from_a_model_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigurationError, match="--base: there is no folder"):
        training.train(Recipe("./nowhere", steps=2), made_pairs(200), tmp_path / "out", 1, lambda step, loss: None)
    assert not (tmp_path / "out").exists()


@needs_models
@pytest.mark.parametrize(
    ("option", "value"), [("--steps", "0"), ("--batch-size", "many"), ("--max-tokens", "8"), ("--layout", "triple")]
)
def test_a_wrong_option_is_refused_by_name(tmp_path, capsys, option, value):
    with pytest.raises(SystemExit):
        training.main(["p.jsonl", "--base", "b", "--out", "o", "--steps", "1", option, value])
    assert option in capsys.readouterr().err
