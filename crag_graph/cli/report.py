"""A finished run as one plain object: what `crag ask --json` prints."""

from typing import Any

from langchain_core.documents import Document

from crag_graph.state import CragState, Part


def report(state: CragState, prompts: tuple[str, ...]) -> dict[str, Any]:
    """Return answer, verdict, sources, warnings, usage and the whole trace of a finished run, ready for JSON."""
    return {
        "question": state["question"],
        "answer": state["answer"],
        "grounded": state["grounded"],
        "verdict": state["verdict"],
        "reason": state["reason"],
        "sources": state["sources"],
        "warnings": state["warnings"],
        "usage": state["usage"],
        "trace": _trace(state, prompts),
    }


def _trace(state: CragState, prompts: tuple[str, ...]) -> dict[str, Any]:
    good = {document.id for document in state["good_docs"]}
    described = {document.id: document.metadata for document in state["documents"]}
    return {
        "standalone_question": state["standalone_question"],
        "documents": [
            {
                "id": grade["id"],
                "score": grade["score"],
                "reason": grade["reason"],
                "good": grade["id"] in good,
                **{key: described[grade["id"]].get(key) for key in ("title", "heading", "source", "page")},
            }
            for grade in state["grades"]
        ],
        "parts": [_part(part, state["strips"], number) for number, part in enumerate(state["parts"])],
        "web_queries": state["web_queries"],
        "web_docs": [_web(document) for document in state["web_docs"]],
        "strips": [_strip(strip) for strip in state["strips"]],
        "rounds": state["rounds"],
        "human": state["human"],
        "prompts": prompts,
    }


def _part(part: Part, strips: list[Document], number: int) -> dict[str, Any]:
    kept = [strip.id for strip in strips if strip.metadata["part"] == number and strip.metadata["kept"]]
    return {**part, "kept_strips": kept}


def _web(document: Document) -> dict[str, Any]:
    keys = ("title", "url", "date", "provider", "grade")
    return {"id": document.id, **{key: document.metadata.get(key) for key in keys}}


def _strip(strip: Document) -> dict[str, Any]:
    keys = ("document_id", "title", "origin", "start", "end", "part", "score", "kept", "why")
    return {"id": strip.id, "text": strip.page_content, **{key: strip.metadata[key] for key in keys}}
