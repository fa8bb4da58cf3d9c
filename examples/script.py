"""Ask one question from a script: stream the answer, then look at what it rests on.

crag ingest examples/corpus
python examples/script.py "How often are the bearings of the cup anemometer replaced?"
"""

import asyncio
import sys

from crag_graph import CragInput, build_graph, load_settings


async def main(question: str) -> None:
    graph = build_graph(load_settings())
    asked: CragInput = {"question": question}
    result = {}
    async for mode, part in graph.astream(asked, stream_mode=["messages", "values"]):
        if mode == "messages":
            print(part[0].text, end="", flush=True)
        else:
            result = part
    print(f"\n\nverdict: {result['verdict']}, because {result['reason']}")
    for source in result["sources"]:
        print(f"[{source['number']}] {source['title']}: {source['url'] or source['path']}")
    for warning in result["warnings"]:
        print(f"! {warning}")


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "How often are the bearings of the cup anemometer replaced?"))
