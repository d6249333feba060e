"""Forwarders that hold each piece of a connection for a delay in each direction. No privilege is needed."""

import asyncio
import socket
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def write_later(queue, writer):
    while True:
        due, piece = await queue.get()
        await asyncio.sleep(max(0, due - time.monotonic()))
        if piece is None:
            writer.close()
            return
        writer.write(piece)


def quick(_host):
    return 0.0


async def forward(reader, writer, delay, byte_seconds=0.0):
    """`byte_seconds`: the least time between two bytes, as if the receiver took so long for them."""
    free = 0.0
    queue = asyncio.Queue()
    writing = asyncio.create_task(write_later(queue, writer))
    piece = b"-"
    while piece:
        try:
            piece = await reader.read(1 << 18)
        except OSError:
            piece = b""
        free = max(free, time.monotonic() + delay) + len(piece) * byte_seconds
        queue.put_nowait((free, piece or None))
    await writing


async def listen(front, back, delay, slowness=quick):
    """Forwards connections to the address `front`, (host, port), to 127.0.0.1 and port `back`. `slowness`: of the host that receives,
    the least time between two bytes."""

    async def accept(reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection("127.0.0.1", back)
        except OSError:
            writer.close()
            return
        opener = writer.get_extra_info("peername")[0]
        for end in writer, to_writer:
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.gather(forward(reader, to_writer, delay, slowness(front[0])), forward(to_reader, writer, delay, slowness(opener)))

    await asyncio.start_server(accept, *front)


def start_forwarders(pairs, delay, namespace=None, slowness=quick):
    """Forwards each (front, back) from a thread of its own; a front is a port of 127.0.0.1, or (host, port). `namespace` is
    called first in that thread."""
    ready = threading.Event()

    async def run():
        for front, back in pairs:
            await listen(front if isinstance(front, tuple) else ("127.0.0.1", front), back, delay, slowness)
        ready.set()
        await asyncio.Event().wait()

    def begin():
        if namespace:
            namespace()
        asyncio.run(run())

    threading.Thread(target=begin, daemon=True).start()
    ready.wait()
