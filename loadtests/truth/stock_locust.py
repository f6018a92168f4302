"""locust as it comes: FastHttpUser, paced by constant_throughput, reading whole bodies.

    python -m loadtests.truth.stock_locust '{"url": …, "rate_per_s": 10, "requests": 50, …}'

Prints its figures in our names as a JSON line.
"""

import locust  # isort: skip  # first: it patches sockets

import json
import sys

import gevent
from locust.env import Environment

USERS = 10


class Stock(locust.FastHttpUser):
    """A request as locust's documentation has it."""

    body: dict[str, object]

    @locust.task
    def chat(self) -> None:
        self.client.post("/v1/chat/completions", json=self.body)


def main() -> None:
    task = json.loads(sys.argv[1])
    Stock.host = task["url"]
    Stock.wait_time = locust.constant_throughput(task["rate_per_s"] / USERS)
    Stock.body = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "time year people"}]}
    environment = Environment(user_classes=[Stock])
    runner = environment.create_local_runner()
    runner.start(USERS, spawn_rate=USERS)
    gevent.sleep(task["requests"] / task["rate_per_s"])
    runner.quit()
    total = environment.stats.total
    print(
        json.dumps(
            {
                "e2e_ms p50": total.get_response_time_percentile(0.5),
                "e2e_ms p90": total.get_response_time_percentile(0.9),
                "ok": total.num_requests - total.num_failures,
                "failures": total.num_failures,
            }
        )
    )


if __name__ == "__main__":
    main()
