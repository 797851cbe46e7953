"""The process of a tunnel: connects, listens on loopback, and ends with its input."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import asyncssh

from suite import config
from suite.hosts.errors import HostError
from suite.hosts.ssh_connect import connect


async def _serve(host: config.HostTable, address: str, port: int) -> None:
    try:
        connection = await connect(host)
        # sshd turns Nagle's algorithm off only once a session has been asked for: small pieces would wait for
        # acknowledgements, and tokens would come in heaps
        await connection.run("true")
        listener = await connection.forward_local_port("127.0.0.1", 0, address, port)
    except (HostError, OSError, asyncssh.Error) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": listener.get_port()}), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    over = asyncio.create_task(reader.read())
    broken = asyncio.create_task(connection.wait_closed())
    await asyncio.wait([over, broken], return_when=asyncio.FIRST_COMPLETED)
    connection.abort()


def main() -> None:
    """Read the order from the input, answer with the port, and tunnel until the input ends."""
    order = json.loads(os.read(0, 65536))
    asyncio.run(_serve(config.HostTable(**order["host"]), order["address"], order["port"]))


if __name__ == "__main__":
    main()
