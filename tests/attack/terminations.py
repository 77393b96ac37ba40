"""Servers are ended by SIGTERM at random moments under load: no request that one accepted is lost, every call that
one refuses hears why, and the exit code is 0."""

import collections
import pathlib
import random
import signal
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import harness  # noqa: E402
import sanitizer  # noqa: E402
from harness import grpc, pb, pb_grpc  # noqa: E402

NUM_CLIENTS = 8
DEADLINE = 60  # seconds


class Client(threading.Thread):
    """Calls until the server refuses; odd ones on a new connection each time. A history of how calls ended."""

    def __init__(self, target, number, seed):
        super().__init__(daemon=True)
        self.target, self.number, self.random = target, number, random.Random(seed)
        self.finished, self.lost, self.refused = 0, [], []
        self.start()

    def open(self):
        return grpc.insecure_channel(self.target, options=[
            ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)])

    def run(self):
        channel = self.open()
        give_up = time.monotonic() + DEADLINE
        while not self.refused and not self.lost and time.monotonic() < give_up:
            if self.number % 2:
                channel.close()
                channel = self.open()
            self.call(pb_grpc.InferenceStub(channel))
        channel.close()

    def call(self, inference):
        request = harness.ids_request([1, 2, 3, self.number], max_tokens=self.random.randint(1, 60))
        kind = self.random.choice(["stream", "once", "model"])
        accepted = False  # of a unary call only its end says so
        tokens = 0
        try:
            if kind == "model":
                inference.GetModel(pb.GetModelRequest(), timeout=DEADLINE)
            elif kind == "once":
                answer = inference.GenerateOnce(request, timeout=DEADLINE)
                tokens = len(answer.choices[0].token_ids)
            else:
                for event in inference.Generate(request, timeout=DEADLINE):
                    accepted = True
                    tokens += len(event.delta.token_ids)
        except grpc.RpcError as error:
            outcome = f"{error.code().name}: {error.details()}"
            if accepted or error.code() != grpc.StatusCode.UNAVAILABLE:
                self.lost.append(f"{kind} after {tokens} tokens: {outcome}")
            else:
                self.refused.append(f"{kind}: {outcome}")
            return
        if kind != "model" and tokens != request.stop.max_tokens:
            self.lost.append(f"{kind}: {tokens} of {request.stop.max_tokens} tokens, and OK")
        self.finished += 1


def is_bare(refusal):
    """Whether the server took a call and refused it without a sentence. A call that found no connection was never
    sent: whether its last SYN met an open or a closed port is the system's affair."""
    if "failed to connect to all addresses" in refusal:
        return False
    return refusal.rstrip().endswith("Debug Text:") or any(
        word in refusal for word in ("Socket closed", "Connection reset", "recvmsg", "sendmsg", "Broken pipe"))


def cycle(seed):
    """One server's life. Returns its clients and its exit code."""
    chance = random.Random(seed)
    with harness.Server("--no-access-log") as server:
        clients = [Client(server.target, number, seed * 100 + number) for number in range(NUM_CLIENTS)]
        time.sleep(chance.uniform(0.0, 1.0))
        for _ in range(chance.randrange(3)):
            server.signal(signal.SIGHUP)  # which ends nothing
        begin = time.monotonic()
        code = server.stop()
        took = time.monotonic() - begin
        for client in clients:
            client.join()
        return clients, code, took, server.output()


def run(count, seed):
    """Ends so many servers; returns the figures, with the faults as sentences."""
    faults, refusals = [], collections.Counter()
    finished = refused = never_sent = 0
    slowest = 0.0
    for number in range(count):
        clients, code, took, output = cycle(seed + number)
        slowest = max(slowest, took)
        report = sanitizer.find_report(output)
        if code != 0 or report:
            faults.append(f"seed {seed + number}: exit code {code}: {report or output[-1000:]}")
        for client in clients:
            finished += client.finished
            refused += len(client.refused)
            never_sent += sum("failed to connect" in refusal for refusal in client.refused)
            faults += [f"seed {seed + number}: lost: {lost}" for lost in client.lost]
            for refusal in client.refused:
                # The address has another port each time.
                refusals[refusal.replace(client.target, "PORT").split(":", 1)[1].strip()[:160]] += 1
                if is_bare(refusal):
                    faults.append(f"seed {seed + number}: refused without a reason: {refusal}")
    return {"attack": "terminations", "terminations": count, "finished": finished, "refused": refused,
            "never_sent": never_sent,
            "slowest_end_s": slowest, "refusals": dict(refusals.most_common()), "faults": faults}
