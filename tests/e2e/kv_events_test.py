"""KV events: SubscribeKvEvents as routers call it, and ZeroMQ as vLLM's subscribers read it (pyzmq, msgpack)."""

import struct
import time
import unittest

import grpc
from harness import Server, ServerTestCase, free_port, ids_request, main, packages, pb

import vllm_contract

with packages():
    import msgpack
    import zmq
    vpb, vpb_grpc, common = vllm_contract.load()

CODE = grpc.StatusCode
BLOCK = 16
END = b"\xff" * 8
WAIT_MS = 20_000


def prompt(seed, num_blocks=3):
    return [300 + seed, *range(400, 400 + BLOCK * num_blocks)]  # one token more than full blocks


class GrpcTest(ServerTestCase):
    def setUp(self):
        self.stub = vpb_grpc.VllmEngineStub(self.server.channel)
        self.server.admin.FlushPrefixCache(pb.FlushPrefixCacheRequest())

    def subscribe(self, start=0):
        return self.stub.SubscribeKvEvents(common.SubscribeKvEventsRequest(start_sequence_number=start))

    def ask(self, seed):
        self.generate(ids_request(prompt(seed), 1))
        self.server.wait_until_idle()

    def test_the_state_then_what_follows(self):
        self.ask(1)
        stream = self.subscribe()
        state = next(stream)
        self.assertEqual((state.snapshot.index, state.snapshot.count, state.snapshot.blocks), (0, 1, 3))
        self.assertEqual(state.events[0].WhichOneof("data"), "cleared")
        blocks = state.events[1].stored.blocks
        self.assertEqual([token for block in blocks for token in block.token_ids], prompt(1)[:3 * BLOCK])
        self.assertFalse(state.events[1].stored.HasField("parent_block_hash"))
        self.ask(2)
        batch = next(stream)
        self.assertEqual(batch.sequence_number, state.sequence_number + 1)
        stored = batch.events[0].stored
        self.assertEqual([len(block.token_ids) for block in stored.blocks], [BLOCK] * 3)
        self.assertEqual({block.block_size for block in stored.blocks}, {BLOCK})
        self.server.admin.FlushPrefixCache(pb.FlushPrefixCacheRequest())
        self.assertEqual(next(stream).events[0].WhichOneof("data"), "cleared")
        stream.cancel()

    def test_headers_come_before_the_first_event(self):
        stream = self.subscribe()
        self.assertTrue(stream.initial_metadata() is not None)
        stream.cancel()

    def test_goes_on_where_it_was(self):
        first = self.subscribe()
        state = next(first)
        self.ask(4)
        batch = next(first)
        again = self.subscribe(batch.sequence_number)
        self.assertEqual(next(again), batch)
        self.assert_status(CODE.OUT_OF_RANGE, "subscribe from 0",
                           lambda: next(self.subscribe(state.sequence_number + 100)))
        first.cancel()
        again.cancel()


class NoPrefixCacheTest(ServerTestCase):
    def test_a_server_without_a_prefix_cache_says_so(self):
        with Server("--no-enable-prefix-caching") as server:
            stub = vpb_grpc.VllmEngineStub(server.channel)
            self.assert_status(CODE.UNIMPLEMENTED, "no prefix cache", lambda: next(
                stub.SubscribeKvEvents(common.SubscribeKvEventsRequest())))


class ZmqTest(unittest.TestCase):
    def setUp(self):
        self.port, self.replay_port = free_port(), free_port()
        config = (f'{{"enable_kv_cache_events": true, "endpoint": "tcp://*:{self.port}", "topic": "kv@here",'
                  f' "replay_endpoint": "tcp://127.0.0.1:{self.replay_port}", "buffer_steps": 4}}')
        self.server = self.enterContext(Server("--kv-events-config", config))
        self.context = self.enterContext(zmq.Context())

    def socket(self, kind, port):
        socket = self.context.socket(kind)
        self.addCleanup(socket.close)
        socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://127.0.0.1:{port}")
        return socket

    def ask(self, seed):
        list(self.server.inference.Generate(ids_request(prompt(seed), 1)))
        self.server.wait_until_idle()

    def subscriber(self):
        """A subscriber that has heard something, so that it hears everything from there on."""
        socket = self.socket(zmq.SUB, self.port)
        socket.subscribe(b"kv@")
        socket.setsockopt(zmq.RCVTIMEO, 200)
        last = None
        for seed in range(100):
            self.ask(seed)
            try:
                while True:
                    last = self.receive(socket)[0]
            except zmq.Again:
                if last is not None:
                    break
        socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        return socket, last

    def receive(self, socket):
        topic, number, payload = socket.recv_multipart()
        self.assertEqual(topic, b"kv@here")
        timestamp, events, rank = msgpack.unpackb(payload)
        self.assertLess(abs(timestamp - time.time()), 3600)
        self.assertEqual(rank, 0)
        return struct.unpack(">Q", number)[0], events

    def replay(self, start):
        socket = self.socket(zmq.DEALER, self.replay_port)
        socket.send_multipart([b"", struct.pack(">Q", start)])
        numbers = []
        while True:
            empty, number, payload = socket.recv_multipart()
            self.assertEqual(empty, b"")
            if number == END:
                self.assertEqual(payload, b"")
                return numbers
            self.assertEqual(len(msgpack.unpackb(payload)), 3)
            numbers.append(struct.unpack(">Q", number)[0])

    def test_events_as_vllm_writes_them(self):
        socket, last = self.subscriber()
        self.ask(150)
        number, events = self.receive(socket)
        self.assertEqual(number, last + 1)
        tag, hashes, parent, tokens, block_size, lora, medium, lora_name = events[0]
        self.assertEqual((tag, parent, block_size, lora, medium, lora_name),
                         ("BlockStored", None, BLOCK, None, "GPU", None))
        self.assertEqual(len(hashes), 3)
        self.assertEqual(tokens, prompt(150)[:3 * BLOCK])
        self.server.admin.FlushPrefixCache(pb.FlushPrefixCacheRequest())
        number, events = self.receive(socket)
        self.assertEqual(events[0], ["AllBlocksCleared"])

    def test_replay_of_what_is_kept(self):
        for seed in range(7):
            self.ask(seed)
        kept = self.replay(0)
        self.assertEqual(len(kept), 4)
        self.assertEqual(kept, list(range(kept[0], kept[0] + 4)))
        self.assertEqual(self.replay(kept[2]), kept[2:])
        self.assertEqual(self.replay(kept[-1] + 1), [])

    def test_nonsense_to_the_replay_socket_changes_nothing(self):
        socket = self.socket(zmq.DEALER, self.replay_port)
        for parts in ([b"x"], [b"", b"short"], [b"", b"12345678", b"more"]):
            socket.send_multipart(parts)
        self.ask(1)
        self.assertTrue(self.replay(0))

    def test_a_subscriber_that_does_not_read_delays_nobody(self):
        socket = self.socket(zmq.SUB, self.port)
        socket.setsockopt(zmq.RCVHWM, 1)
        socket.subscribe(b"")
        for seed in range(50):
            self.ask(seed)
        self.assertEqual(self.server.stop(), 0)


class BadConfigTest(unittest.TestCase):
    def test_what_is_wrong_is_named(self):
        server = Server("--kv-events-config", '{"ports": 1}', wait=False)
        self.assertEqual(server.process.wait(60), 64)
        self.assertIn("ports is not known", server.output())
        server.__exit__()


if __name__ == "__main__":
    main()
