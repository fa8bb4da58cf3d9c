"""The report to look at: one HTML file that needs nothing else, made from the JSON that `crag bench` writes."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from crag_graph.measure.bench.data import PLACES
from crag_graph.measure.bench.metrics import holds
from crag_graph.measure.bench.summary import better, scores
from crag_graph.measure.bench.svg import Axis, Dot, bars, histogram, lines, scatter
from crag_graph.measure.bench.worst import Fault, worst

Results = Mapping[str, Any]
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#8882}
body{font:15px/1.5 system-ui,sans-serif;max-width:1060px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2.2em;border-bottom:1px solid var(--line)}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(400px,1fr));gap:1.5em}
figure{margin:0;max-width:520px}figcaption{font-weight:600;margin-bottom:.3em}
svg{width:100%;font:12px system-ui,sans-serif}svg text{fill:currentColor}svg .grid{stroke:var(--line)}
svg .on{fill:#fff;text-anchor:middle}
.legend{margin:.2em 0;font-size:13px}.legend span{margin-right:1.2em}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.35em;border-radius:2px}
table{border-collapse:collapse;font-size:13.5px;margin:.5em 0}td,th{padding:.2em .8em .2em 0;text-align:left}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}tr{border-bottom:1px solid var(--soft)}
small{opacity:.65}code,pre{font:13px ui-monospace,monospace}
pre{white-space:pre-wrap;background:var(--soft);padding:.6em}
details{border-bottom:1px solid var(--line);padding:.35em 0}summary{cursor:pointer}
mark{background:#ffd54f66;color:inherit}
"""


def report(results: Results, speed: Results | None = None) -> str:
    """Return the page; with the figures of `crag bench-speed`, its curves are drawn too."""
    parts = [
        _head(results),
        _section("Figures", *[_table(name, groups) for name, groups in results["systems"].items()], _skipped(results)),
        _section("Quality against cost", _plots(_quality(results))),
        _section("Verdicts and scores", _plots(_verdicts(results) | _scores(results))),
        _section("Where the time goes", _plots(_latency(results))),
    ]
    if speed:
        parts.append(_section("Speed with a served model", _speed_note(speed), _plots(_speed(speed))))
    parts.append(_section("The worst 20 questions", *map(_fault, worst(results, 20))))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>crag bench: {escape(results["dataset"]["name"])}'
        f'</title><meta name="viewport" content="width=device-width"><style>{_STYLE}</style>{"".join(parts)}</html>\n'
    )


def _head(results: Results) -> str:
    data, plan = results["dataset"], results["plan"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"<h1>Corrective RAG on {escape(data['name'])}</h1><p>{data['asked']} of {data['questions']} questions over "
        f"{data['paragraphs']} paragraphs; knowledge split by {plan['split']}, seed {plan['seed']}; profile "
        f"{escape(results['profile'])}; {escape(results['date'])}.</p><pre>{escape(results['command'])}</pre>"
        f"<p><small>{escape(versions)}<br>sha256 of the data {data['sha256']}</small></p>"
    )


def _section(title: str, *parts: str) -> str:
    return f"<h2>{escape(title)}</h2>{''.join(parts)}"


def _plots(figures: Mapping[str, str]) -> str:
    drawn = (f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in figures.items())
    return f'<div class="plots">{"".join(drawn)}</div>'


def _table(system: str, groups: Mapping[str, Any]) -> str:
    metrics = dict.fromkeys(name for figures in groups.values() for name in figures)
    head = "".join(f"<th>{escape(name)} <small>{f['seconds_p50']['n']}</small></th>" for name, f in groups.items())
    rows = (
        f"<tr><td>{escape(metric)} <small>{'↑' if better(metric) == 'higher' else '↓'}</small></td>"
        + "".join(_cell(figures.get(metric)) for figures in groups.values())
        + "</tr>"
        for metric in metrics
    )
    return f"<table><tr><th>{escape(system)}</th>{head}</tr>{''.join(rows)}</table>"


def _cell(figure: Any) -> str:
    if figure is None:
        return "<td></td>"
    interval = f"{figure['low']:.3g}–{figure['high']:.3g}"
    return f'<td class="n">{figure["value"]:.3g} <small>{interval}</small></td>'


def _skipped(results: Results) -> str:
    said = (f"<p>{escape(name)} skipped: {escape(why)}</p>" for name, why in results["skipped"].items())
    return "".join(said)


def _quality(results: Results) -> dict[str, str]:
    pairs = {
        "Answers found per token of context": ("answerable", "context_tokens", "answer_match"),
        "Right action per second": ("overall", "seconds_p50", "route_accuracy"),
        "Right action per model call": ("overall", "model_calls", "route_accuracy"),
    }
    return {
        title: scatter(
            [
                Dot(system, _interval(groups[group][cost]), _interval(groups[group][quality]))
                for system, groups in results["systems"].items()
                if group in groups
            ],
            cost.replace("_", " "),
            Axis(quality.replace("_", " "), 0, 1),
        )
        for title, (group, cost, quality) in pairs.items()
    }


def _interval(figure: Mapping[str, float]) -> tuple[float, float, float]:
    return figure["value"], figure["low"], figure["high"]


def _verdicts(results: Results) -> dict[str, str]:
    figures = {}
    for system in results["systems"]:
        rows = {}
        for place in PLACES:
            runs = [case["runs"][system] for case in results["cases"] if case["place"] == place]
            said = [f"{run['verdict']}{', abstained' if run['abstained'] else ''}" for run in runs]
            rows[f"gold in {place}" if place != "nowhere" else "gold nowhere"] = {
                name: float(said.count(name)) for name in sorted(set(said), key=_verdict_order)
            }
        figures[f"Verdicts by class: {system}"] = bars(rows, "questions", whole=True)
    return figures


def _verdict_order(said: str) -> tuple[int, str]:
    return ("correct", "ambiguous", "incorrect").index(said.split(",", maxsplit=1)[0]), said


def _scores(results: Results) -> dict[str, str]:
    if "crag" not in results["systems"]:
        return {}
    outcomes = {case["id"]: case["runs"]["crag"] for case in results["cases"]}
    cut = results["thresholds"]
    documents, strips = ({n: cut[n] for n in names} for names in (("upper", "lower"), ("keep", "sufficient")))
    labels = {"relevant": "holds the answer", "other": "does not"}

    def named(found: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
        return {labels[name]: values for name, values in found.items()}

    return {
        "Scores of documents": histogram(named(scores(outcomes, "documents")), documents, "score"),
        "Scores of strips": histogram(named(scores(outcomes, "strips")), strips, "score"),
    }


def _latency(results: Results) -> dict[str, str]:
    rows: dict[str, dict[str, float]] = {}
    for system in results["systems"]:
        for place in PLACES:
            runs = [case["runs"][system]["usage"]["by_node"] for case in results["cases"] if case["place"] == place]
            nodes = dict.fromkeys(node for run in runs for node in run)
            rows[f"{system}, {place}"] = {
                node: 1000 * sum(run[node]["seconds"] for run in runs if node in run) / max(len(runs), 1)
                for node in nodes
            }
    return {"Mean time per question and node": bars(rows, "milliseconds")}


def _speed_note(speed: Results) -> str:
    said = speed["speed"]
    return (
        f"<p>A model call takes {1000 * said['call_s']:g} ms and {1000 * said['token_s']:g} ms per written token.</p>"
        f"<pre>{escape(speed['command'])}</pre>"
    )


def _speed(speed: Results) -> dict[str, str]:
    times = {f"{row['mode']}, {row['path']}": {"seconds": row["seconds_p50"]} for row in speed["costs"]}
    calls = {f"{row['mode']}, {row['path']}": {"model calls": row["model_calls"]} for row in speed["costs"]}
    figures = {"Median time per question": bars(times, "seconds"), "Model calls": bars(calls, "calls per question")}
    for curve in dict.fromkeys(point["curve"] for point in speed["points"]):
        series: dict[str, list[tuple[float, float]]] = {}
        for point in speed["points"]:
            if point["curve"] == curve:
                series.setdefault(point["mode"], []).append((point["x"], point["seconds_p50"]))
        figures[f"Time by {curve}"] = lines(series, curve, "seconds, median", log_x=True)
    sizes = speed["index_sizes"]
    query = [(row["chunks"], row["query_p50_ms"]) for row in sizes]
    memory = [(row["chunks"], row["memory_mb"]) for row in sizes]
    figures["Query time by index size"] = lines({"median": query}, "chunks", "milliseconds", log_x=True)
    figures["Memory by index size"] = lines({"resident": memory}, "chunks", "MB", log_x=True)
    return figures


def _fault(fault: Fault) -> str:
    case, run = fault.case, fault.run
    rows = {
        "gold": ", ".join(case["golds"]) + f" (in {case['paragraph']}, {case['place']})",
        "verdict": f"{run['verdict']}: {run['reason']}",
        "documents": _listed(run["documents"]),
        "web queries": " · ".join(run["web_queries"]) or "none",
        "strips": _listed(run["strips"]),
        "answer": run["answer"],
        "warnings": " · ".join(run["warnings"]) or "none",
    }
    trace = "".join(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in rows.items())
    context = escape(run["context"]) or "(empty)"
    if holds(run["context"], case["golds"]):
        for gold in sorted(case["golds"], key=len, reverse=True)[:1]:
            context = context.replace(escape(gold), f"<mark>{escape(gold)}</mark>")
    return (
        f"<details><summary>{escape(case['question'])} <small>{escape(fault.said)}</small></summary>"
        f"<table>{trace}</table><pre>{context}</pre></details>"
    )


def _listed(found: Sequence[Mapping[str, Any]]) -> str:
    scored = sorted((item for item in found if item["score"] is not None), key=lambda item: -item["score"])
    said = [f"{item['score']:.2f}{' (gold)' if item['relevant'] else ''}" for item in scored[:8]]
    return ", ".join(said) + (f" and {len(found) - 8} more" if len(found) > 8 else "") or "none"
