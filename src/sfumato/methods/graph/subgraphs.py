"""The number of subgraphs of a size k under edge privacy: what stars and cliques have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.methods.graph.edge_mechanisms import SmoothCount
from sfumato.methods.graph.simple_graph import read_graph
from sfumato.methods.graph.triangles import MECHANISMS, one_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from sfumato.methods.graph.edge_mechanisms import LadderCount
    from sfumato.methods.graph.simple_graph import Graph
    from sfumato.methods.publish.form_kinds import FormRequest, FormRows
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class SubgraphCount(ABC):
    """One noisy number; its promise is that of `LadderCount` or `SmoothCount`."""

    request: FormRequest
    k: int
    mechanism: LadderCount | SmoothCount

    name: ClassVar[str]
    reads = ()

    @abstractmethod
    def counted(self, graph: Graph) -> tuple[int, Callable[[int], int]]:
        """The true number, and how far one edge moves it at each distance from the graph."""

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.mechanism.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The mechanism, and the size."""
        return {"mechanism": MECHANISMS[isinstance(self.mechanism, SmoothCount)], "k": self.k}

    @property
    def error(self) -> Mapping[str, Any]:
        """It depends on the graph, and is not known beforehand."""
        return {"note": "how far off it is depends on the graph, and is not known"}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """One figure."""
        return {self.name: one_count([])}

    def release(self, rows: FormRows, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy number."""
        graph = read_graph(rows.read([name for name, _ in self.request.form.roles.values()]))
        value, sensitivity = self.counted(graph)
        return {self.name: one_count([self.mechanism.sample(value, sensitivity, entropy)])}
