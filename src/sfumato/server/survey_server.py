"""A server of one round: the page where people answer, and the live result."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sfumato.server.serve import GateServer
from sfumato.server.settings import Limits
from sfumato.server.survey_app import survey_site

if TYPE_CHECKING:
    from sfumato.methods.local.collection import Collection
    from sfumato.server.serve import Listening


class RoundServer(GateServer):
    """A server before the store of a round."""

    def __init__(
        self,
        collection: Collection,
        listening: Listening,
        reports_per_hour: int = Limits.reports_per_hour,
    ) -> None:
        collection.mechanisms  # noqa: B018  a round that nobody could answer is not served
        asked = collection.round.id
        known = {asked: collection}
        super().__init__(
            partial(survey_site, known.get, home=asked),
            listening,
            limits=Limits(reports_per_hour=reports_per_hour),
        )
        self.page = f"{self.url}/survey/{asked}"
