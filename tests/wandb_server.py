"""A W&B server on this machine, for the real client: it keeps each run's history, or is broken in a given
way.

    good            answers as W&B does
    wrong key       401 to everything
    silent          accepts connections and never answers
    slow            answers after `delay` seconds
    errors from 50  500 to every part of a history that starts after the first 50 steps

What the protocol is, the client's own requests show: GraphQL to open a run and to ask for its last row, a
stream of history lines with their offsets, and an upload address for each file.
"""

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SERVERS = ("good", "wrong key", "silent", "slow", "errors from 50")
FAILING_STEP = 50
RUN_INFORMATION = {"description": "", "sweepName": None, "project": {"id": "p", "name": "p"}}


class WandbServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kind: str = "good", *, port: int = 0, delay: float = 3.0):
        super().__init__(("127.0.0.1", port), _Handler)
        self.kind, self.delay, self.closing = kind, delay, threading.Event()
        self.runs: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def steps(self, run_id: str) -> list[int]:
        """The steps of the run's history in the order of its lines."""
        history = self.runs[run_id]["history"] if run_id in self.runs else {}
        return [json.loads(history[offset])["_step"] for offset in sorted(history)]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that is killed breaks its connection


@contextlib.contextmanager
def serving(kind: str = "good", *, port: int = 0, delay: float = 3.0) -> Iterator[WandbServer]:
    server = WandbServer(kind, port=port, delay=delay)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WandbServer

    def log_message(self, *arguments: Any) -> None:
        pass

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.server.kind == "silent":
            self.server.closing.wait()
            self.close_connection = True
            return
        if self.server.kind == "slow":
            time.sleep(self.server.delay)
        if self.server.kind == "wrong key":
            return self._answer(401, {"errors": [{"message": "invalid API key"}]})
        with self.server.lock:
            status, content = self._respond(body)
        self._answer(status, content)

    do_POST = do_GET = do_PUT = handle_request

    def _answer(self, status: int, content: Any) -> None:
        payload = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _respond(self, body: bytes) -> tuple[int, Any]:
        if self.path == "/graphql":
            request = json.loads(body)
            return 200, {"data": self._graphql(request["query"], request.get("variables") or {})}
        if self.path.endswith("/file_stream"):
            return self._stream(self.path.split("/")[-2], json.loads(body))
        self.server.files[self.path.removeprefix("/storage/")] = body
        return 200, {}

    def _graphql(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            return {"upsertBucket": self._upsert(variables)}
        if "createRunFiles" in query:
            files = [
                {"name": n, "uploadUrl": f"{self.server.url}/storage/{variables['run']}/{n}"}
                for n in variables["files"]
            ]
            return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}
        if "RunResumeStatus" in query:
            return {"model": self._resumed(variables["name"])}
        if "viewer" in query:
            return {"viewer": {"id": "u", "entity": "me", "username": "me", "teams": {"edges": []}}}
        if "query ArtifactType" in query:
            return {"project": None}
        if (
            "createArtifact" in query
        ):  # as if it had the table already: the run's own file of it is what counts
            known = {"id": "a", "state": "COMMITTED", "artifactSequence": {"latestArtifact": {"id": "a"}}}
            return {"createArtifact": {"artifact": known}}
        return {"serverInfo": {"features": []}}

    def _upsert(self, variables: dict[str, Any]) -> dict[str, Any]:
        run_id, new = variables["name"], variables["name"] not in self.server.runs
        run = self.server.runs.setdefault(run_id, {"history": {}, "summary": {}, "exit": None, "config": {}})
        run["config"] |= json.loads(variables.get("config") or "{}")
        run |= {k: variables[k] for k in ("groupName", "jobType", "tags") if variables.get(k) is not None}
        project = RUN_INFORMATION["project"] | {"entity": {"id": "e", "name": "me"}}
        bucket = {
            **RUN_INFORMATION,
            "project": project,
            "id": run_id,
            "name": run_id,
            "displayName": run_id,
            "config": json.dumps(run["config"]),
            "historyLineCount": len(run["history"]),
        }
        return {"bucket": bucket, "inserted": new}

    def _resumed(self, run_id: str) -> dict[str, Any] | None:
        if run_id not in self.server.runs:
            return None
        run = self.server.runs[run_id]
        history = run["history"]
        tail = [history[max(history)]] if history else []
        bucket = {
            "id": run_id,
            "name": run_id,
            "displayName": run_id,
            "summaryMetrics": json.dumps(run["summary"]),
            "logLineCount": 0,
            "eventsLineCount": 0,
            "historyLineCount": len(history),
            "historyTail": json.dumps(tail),
            "eventsTail": "[]",
            "config": json.dumps(run["config"]),
            "tags": run.get("tags", []),
            "notes": None,
            "wandbConfig": json.dumps({"t": 1}),
        }
        return {"id": "p", "name": "p", "entity": {"id": "e", "name": "me"}, "bucket": bucket}

    def _stream(self, run_id: str, request: dict[str, Any]) -> tuple[int, Any]:
        run = self.server.runs[run_id]
        part = (request.get("files") or {}).get("wandb-history.jsonl")
        if (
            part
            and self.server.kind == "errors from 50"
            and part["offset"] + len(part["content"]) > FAILING_STEP
        ):
            return 500, {"error": "internal"}
        if part:
            run["history"] |= {part["offset"] + i: line for i, line in enumerate(part["content"])}
        for line in (request.get("files") or {}).get("wandb-summary.json", {}).get("content", []):
            run["summary"] = json.loads(line)
        if request.get("complete"):
            run["exit"] = request["exitcode"]
        return 200, {}
