"""What the CRAG paper reports: Yan et al., 2024, "Corrective Retrieval Augmented Generation", arXiv 2401.15884v3."""

from typing import NamedTuple

from crag_graph.measure.bench.paper_tasks import Task

SOURCE = "Yan et al., 2024, arXiv 2401.15884v3, table 1"
LLAMA, SELF_RAG = "LLaMA2-hf-7b", "SelfRAG-LLaMA2-7b"


class Published(NamedTuple):
    """One row of the paper's table 1: accuracy in percent per data set."""

    system: str
    generator: str
    popqa: float
    pubhealth: float
    arc: float

    def accuracy(self, task: Task) -> float:
        """Return the row's accuracy in percent on one data set."""
        return {"popqa": self.popqa, "pubhealth": self.pubhealth, "arc": self.arc}[task]


TABLE = (
    Published("RAG", LLAMA, 50.5, 48.9, 43.4),
    Published("CRAG", LLAMA, 54.9, 59.5, 53.7),
    Published("Self-RAG", LLAMA, 29.0, 0.7, 23.9),
    Published("Self-CRAG", LLAMA, 49.0, 0.6, 27.9),
    Published("RAG", SELF_RAG, 52.8, 39.0, 53.2),
    Published("CRAG", SELF_RAG, 59.8, 75.6, 68.6),
    Published("Self-RAG", SELF_RAG, 54.9, 72.4, 67.3),
    Published("Self-CRAG", SELF_RAG, 61.8, 74.8, 67.2),
)
