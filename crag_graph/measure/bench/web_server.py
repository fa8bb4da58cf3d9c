"""The web of a measurement: paragraphs found by BM25, served in the protocol of the Tavily search service."""

from collections.abc import Sequence

from crag_graph.components.term_index import TermIndex
from crag_graph.measure.bench.data import Paragraph
from crag_graph.measure.bench.loopback import Body, Exchange, JsonServer

_MAX_QUERY_CHARS = 400  # the service refuses longer queries


class WebServer(JsonServer):
    """Answers `POST /search` with the paragraphs that share most with the query, best first."""

    def __init__(self, paragraphs: Sequence[Paragraph]) -> None:
        super().__init__()
        self._by_id = {paragraph.id: paragraph for paragraph in paragraphs}
        texts = [f"{paragraph.article}\n{paragraph.text}" for paragraph in paragraphs]
        self._terms = TermIndex(list(self._by_id), texts)

    def answer(self, exchange: Exchange) -> None:
        """Answer one search, or refuse it as the service does."""
        query = exchange.body.get("query")
        if exchange.path != "/search":
            exchange.send(404, {"detail": {"error": "Not Found"}})
        elif not isinstance(query, str) or not query.strip() or len(query) > _MAX_QUERY_CHARS:
            refused = f"a query has between 1 and {_MAX_QUERY_CHARS} characters"
            exchange.send(400, {"detail": {"error": refused}})
        else:
            found = self._terms.top(query, int(exchange.body.get("max_results") or 5))
            hits = [self._hit(id_, score) for id_, score in found]
            exchange.send(200, {"query": query, "answer": None, "images": [], "results": hits, "response_time": 0.0})

    def _hit(self, id_: str, score: float) -> Body:
        page = self._by_id[id_]
        return {"url": f"https://web.example/{id_}", "title": page.article, "content": page.text, "score": score}
