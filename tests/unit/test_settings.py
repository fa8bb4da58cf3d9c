"""Settings: where they come from, and how mistakes are answered."""

from pathlib import Path

import pytest
import yaml

from crag_graph.errors import ConfigurationError, InputError
from crag_graph.load import known_keys, load, load_settings
from crag_graph.policy import policy
from crag_graph.resources import resource
from crag_graph.settings import RunContext, Settings

PAPER = {"popqa": (0.795, 0.005), "pubhealth": (0.75, 0.045), "arc": (0.75, 0.045), "biography": (0.975, 0.045)}
PROFILES = ["default", "offline", "ollama", "openai", "production", *(f"paper-{name}" for name in PAPER)]


def flat(data, prefix=""):
    for key, value in data.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def value_of(settings, dotted):
    for part in dotted.split("."):
        settings = getattr(settings, part)
    return list(settings) if isinstance(settings, tuple) else settings


def test_the_documented_defaults_are_the_defaults_and_all_of_them():
    documented = dict(flat(yaml.safe_load(resource("configs", "default.yaml").read_text(encoding="utf-8"))))
    documented = {key: "off" if key.endswith(".use") and value is False else value for key, value in documented.items()}
    assert documented == {key: value_of(Settings(), key) for key in known_keys()}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_shipped_profile_loads(profile):
    assert load(profile, {}).profile == profile


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_cut_offs_are_converted_from_its_scale(name):
    settings = load_settings(f"paper-{name}", {})
    upper, lower = PAPER[name]
    for cut in (settings.evaluator.llm, settings.evaluator.cross_encoder):
        assert (cut.upper, cut.lower, cut.keep) == pytest.approx((upper, lower, 0.25))
    assert policy(settings).keep == pytest.approx(0.25)
    assert policy(settings).max_strips == 5
    assert settings.evaluator.cross_encoder.output_scale == "signed"


def test_without_a_config_the_key_decides_the_profile():
    assert load(environ={}).profile == "offline"
    assert load(environ={"OPENAI_API_KEY": "  "}).profile == "offline"
    assert load(environ={"OPENAI_API_KEY": "x"}).profile == "openai"
    assert load(environ={"CRAG_CONFIG": "ollama", "OPENAI_API_KEY": "x"}).profile == "ollama"


OTHER = {bool: "true", int: "3", float: "0.5", str: "other", list: "[a.example]", type(None): "other"}
EVALUATORS = ("llm", "local", "cross_encoder", "nli", "similarity", "custom")
SPECIAL = (
    {
        "embeddings.use": "openai",
        "embeddings.openai.dimensions": "7",
        "retrieve.fetch_k": "30",
        "generator.extractive.max_passages": "2",
        "retrieve.use": "bm25",
        "evaluator.use": "my.module:thing",
        "evaluator.aggregate": "mean",
        "evaluator.prefilter.use": "local",
        "rewriter.use": "keywords",
        "rewriter.max_chars": "300",
        "web.use": "off",
        "corrections.ambiguous": "[requery, web]",
        "corrections.incorrect": "[decompose]",
        "corrections.on_insufficient": "ask",
        "web.tavily.search_depth": "advanced",
        "web.wikipedia.full_pages": "2",
        "web.wikipedia.max_chars": "500",
        "web.pages.max_chars": "500",
        "web.pages.ports": "[8080]",
        "refine.filter": "evaluator",
        "retrieve.hybrid.min_known": "0.4",
        "refine.mode": "sentence",
        "refine.window": "4",
        "refine.overlap": "2",
        "refine.words": "20",
        "refine.max_context_tokens": "500",
        "generator.use": "extractive",
        "generator.on_failure": "error",
        "ingest.chunk_chars": "500",
        "llm.structured_output": "json_text",
    }
    | {f"evaluator.{name}.{cut}": "0.35" for name in EVALUATORS for cut in ("upper", "sufficient")}
    | {f"evaluator.{name}.{cut}": "0.02" for name in EVALUATORS for cut in ("lower", "keep")}
    | {f"evaluator.{name}.max_tokens": "64" for name in ("cross_encoder", "nli")}
    | {"evaluator.similarity.upper": "0.7"}
    | {"evaluator.cross_encoder.activation": "none", "evaluator.cross_encoder.output_scale": "signed"}
    | {"evaluator.cross_encoder.layout": "joined"}
)


@pytest.mark.parametrize("key", known_keys())
def test_every_setting_can_be_changed_by_environment_and_file(key, tmp_path):
    before = value_of(Settings(), key)
    new = SPECIAL.get(key) or OTHER[type(before)]
    variable = "CRAG_" + key.upper().replace(".", "__")
    by_environment = load(environ={"CRAG_CONFIG": "default", variable: new})
    assert by_environment.origins[key] == variable
    nested: object = yaml.safe_load(new)
    for part in reversed(key.split(".")):
        nested = {part: nested}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(nested), encoding="utf-8")
    by_file = load(path, {})
    assert by_file.origins[key] == str(path)
    assert value_of(by_environment.settings, key) == value_of(by_file.settings, key) != before


def test_the_environment_beats_the_file_and_the_run_context_beats_both(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("retrieve: {top_k: 3}\nevaluator: {llm: {upper: 0.6}}", encoding="utf-8")
    settings = load_settings(path, {"CRAG_RETRIEVE__TOP_K": "4"})
    assert policy(settings).top_k == 4
    assert policy(settings).upper == 0.6
    assert policy(settings, RunContext(top_k=2, upper=0.9)).top_k == 2
    assert policy(settings, RunContext(top_k=2, upper=0.9)).upper == 0.9


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CRAG_EVALUATOR__USEE", "llm", "unknown setting evaluator.usee; did you mean evaluator.use?"),
        ("CRAG_EVALUATER__USE", "llm", "unknown setting evaluater; did you mean evaluator?"),
        ("CRAG_RETRIEVE__TOPK", "3", "did you mean retrieve.top_k?"),
        ("CRAG_EVALUATOR__LLM__LOWER", "0.8", "lower (0.8) is above upper (0.7)"),
        ("CRAG_EVALUATOR__LLM__LOWER", ".nan", "finite"),
        ("CRAG_EVALUATOR__LLM__UPPER", "70", "less than or equal to 1"),
        ("CRAG_RETRIEVE__TOP_K", "many", "valid integer"),
        ("CRAG_RETRIEVE__TOP_K", "30", "top_k (30) must not be above fetch_k (20)"),
        ("CRAG_INGEST__CHUNK_OVERLAP", "900", "must be below chunk_chars"),
        ("CRAG_WEB__USE", "bing", "web.use"),
        ("CRAG_RETRIEVE_TOP_K", "3", "did you mean CRAG_RETRIEVE__TOP_K?"),
        ("CRAG_RETRIEVE__TOP_K__X", "3", "retrieve.top_k"),
        ("CRAG_CORRECTIONS__AMBIGUOUS", "[wep]", "'web', 'requery' or 'decompose'"),
        ("CRAG_EVALUATOR__LLM__SCALE", "percent", "write unit (0..1) or signed (-1..1)"),
    ],
)
def test_a_mistake_is_refused_at_load_and_says_what_to_write(variable, value, message):
    with pytest.raises(ConfigurationError) as caught:
        load("default", {variable: value})
    assert message in str(caught.value)
    assert "CRAG_" in str(caught.value)


def test_a_mistake_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("retreive: {top_k: 3}", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"mine.yaml: unknown setting retreive; did you mean retrieve\?"):
        load(path, {})


@pytest.mark.parametrize("content", ["- a list", "just text", "a: [unclosed"])
def test_a_file_that_holds_no_settings_is_refused(content, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"mine.yaml"):
        load(path, {})


def test_a_config_that_does_not_exist_lists_the_shipped_profiles():
    with pytest.raises(ConfigurationError, match=r"offline, ollama, openai"):
        load("offlien", {})


def test_thresholds_on_the_papers_scale_are_converted_once():
    settings = Settings.model_validate(
        {"evaluator": {"llm": {"scale": "signed", "upper": 0.6, "lower": -0.98, "keep": -0.5}}}
    )
    assert settings.evaluator.llm.upper == pytest.approx(0.8)
    assert settings.evaluator.llm.lower == pytest.approx(0.01)
    assert settings.evaluator.llm.keep == pytest.approx(0.25)
    assert Settings.model_validate(settings.model_dump()) == settings


def test_settings_cannot_be_changed_after_they_are_loaded():
    with pytest.raises(ValueError, match="frozen"):
        Settings().retrieve.top_k = 3


def test_a_foreign_context_means_as_configured():
    assert policy(Settings(), {"upper": "theirs"}) == policy(Settings())


def test_a_context_that_leaves_lower_above_upper_is_refused():
    with pytest.raises(InputError, match="lower"):
        policy(Settings(), RunContext(lower=0.9))


def test_the_example_environment_file_names_only_known_things():
    lines = Path(__file__).parents[2].joinpath(".env.example").read_text(encoding="utf-8").splitlines()
    names = [line.lstrip("# ").split("=")[0] for line in lines if "=" in line and line.lstrip("# ")[:5].isupper()]
    settings = {name for name in names if name.startswith("CRAG_") and "__" in name}
    assert settings <= {"CRAG_" + key.upper().replace(".", "__") for key in known_keys()}
    assert set(names) - settings == {"OPENAI_API_KEY", "TAVILY_API_KEY", "CRAG_CONFIG"}
