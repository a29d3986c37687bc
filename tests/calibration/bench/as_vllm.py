"""Stands for ``vllm serve``: takes its words, and accepts what its forced acceptance says."""

from __future__ import annotations

import argparse
import json
import os
from itertools import pairwise

from tests.calibration.bench.server import Law, Server


def main() -> None:
    if os.environ.get("NO_GPU"):
        raise SystemExit("RuntimeError: no GPU here")
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--tensor-parallel-size", type=int)
    parser.add_argument("--speculative-config", type=json.loads, default={})
    asked = parser.parse_args()
    k = asked.speculative_config.get("num_speculative_tokens", 0)
    survival = asked.speculative_config.get("synthetic_acceptance_rates", [0.7**place for place in range(1, k + 1)])
    assert len(survival) == k
    rates = tuple(after / before for before, after in pairwise([1.0, *survival]))
    server = Server("vllm", Law(rates, step_s=0.0065 + 0.0012 * k), name=asked.model)
    server.port = asked.port
    server.run()


if __name__ == "__main__":
    main()
