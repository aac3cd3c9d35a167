"""pure-ldp and multi-freq-ldpy: a report for each value of a file, and the estimate of all values.

Both randomize one value at a time. Seconds are those of the processor, for the people of the file.
RAPPOR of pure-ldp 1.2 never clears a bit, so that it is no peer.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from bench.peers.report import NAME
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client  # type: ignore[import-not-found]
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client  # type: ignore[import-not-found]
from pure_ldp.frequency_oracles import (  # type: ignore[import-not-found]
    CMSClient,
    CMSServer,
    DEClient,
    DEServer,
    HadamardResponseClient,
    HadamardResponseServer,
    LHClient,
    LHServer,
    UEClient,
    UEServer,
)

if TYPE_CHECKING:
    from collections.abc import Callable

EPSILON, SIZE = 1.0, 1024
VALUES = np.load(NAME).tolist()


def main() -> None:
    """Print the seconds of client and server for each mechanism of each library."""
    for name, (client, server) in PURE.items():
        told("pure-ldp", name, *_pure(client(), server()))
    for name, (randomize, estimate) in MULTI.items():
        randomize(0)  # what is compiled is compiled before
        told("multi-freq-ldpy", name, *_timed(randomize, estimate))


def told(library: str, mechanism: str, client: float, server: float) -> None:
    """One line each."""
    for side, seconds in (("client", client), ("server", server)):
        print(
            json.dumps({"question": f"{library} {mechanism} {side}", "found": seconds}), flush=True
        )


def _pure(client: Any, server: Any) -> tuple[float, float]:
    def estimated(reports: list[Any]) -> None:
        server.aggregate_all(reports)
        server.estimate_all(range(1, SIZE + 1), suppress_warnings=True)

    # Its values begin at 1.
    return _timed(lambda value: client.privatise(value + 1), estimated)


def _timed(
    client: Callable[[int], Any], server: Callable[[list[Any]], object]
) -> tuple[float, float]:
    began = time.process_time()
    reports = [client(value) for value in VALUES]
    randomized = time.process_time()
    server(reports)
    return randomized - began, time.process_time() - randomized


SKETCH = CMSServer(EPSILON, 128, SIZE)
PURE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "k-ary": (lambda: DEClient(EPSILON, SIZE), lambda: DEServer(EPSILON, SIZE)),
    "hadamard": (
        lambda: HadamardResponseClient(EPSILON, SIZE, None),
        lambda: HadamardResponseServer(EPSILON, SIZE),
    ),
    "oue": (
        lambda: UEClient(EPSILON, SIZE, use_oue=True),
        lambda: UEServer(EPSILON, SIZE, use_oue=True),
    ),
    "apple-cms": (lambda: CMSClient(EPSILON, SKETCH.get_hash_funcs(), SIZE), lambda: SKETCH),
    "olh": (
        lambda: LHClient(EPSILON, SIZE, use_olh=True),
        lambda: LHServer(EPSILON, SIZE, use_olh=True),
    ),
}
MULTI: dict[str, tuple[Callable[[int], Any], Callable[[list[Any]], object]]] = {
    "k-ary": (
        lambda value: GRR_Client(value, SIZE, EPSILON),
        lambda reports: GRR_Aggregator_MI(reports, SIZE, EPSILON),
    ),
    "oue": (
        lambda value: UE_Client(value, SIZE, EPSILON, optimal=True),
        lambda reports: UE_Aggregator_MI(reports, EPSILON, optimal=True),
    ),
    "subset": (
        lambda value: SS_Client(value, SIZE, EPSILON),
        lambda reports: SS_Aggregator_MI(reports, SIZE, EPSILON),
    ),
    "olh": (
        lambda value: LH_Client(value, SIZE, EPSILON, optimal=True),
        lambda reports: LH_Aggregator_MI(reports, SIZE, EPSILON, optimal=True),
    ),
}

if __name__ == "__main__":
    main()
