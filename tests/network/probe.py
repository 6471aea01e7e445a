"""A patient client in a process of its own: `probe.py HOST PORT PID AUTHORITY REQUEST...`.

Until its standard input closes, it connects, sends each request (hexadecimal) and waits for its answer,
again and again. AUTHORITY is the file with the authority of the broker's certificate, or empty: no TLS. Then
it prints the 90th percentile of the times in seconds, their number, the most memory that process PID had in
bytes, and the 90th percentile of how many times longer than its processor time a little work took: what
other processes on the machine do to one that computes. There may be no more than a dozen times: a higher
percentile would be one hiccup of the machine. It imports nothing of kafkapy, so that it shares no lock with
the test.
"""

import contextlib
import select
import socket
import ssl
import sys
import time

import psutil

WORK = 0.005


def slowdown() -> float:
    started, used = time.monotonic(), time.process_time()
    while time.process_time() - used < WORK:
        pass
    return max(1.0, (time.monotonic() - started) / WORK)


def ninth(numbers: list[float]) -> float:
    return sorted(numbers)[int(len(numbers) * 0.9)]


def main() -> None:
    host, port, pid, authority, *requests = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority) if authority else None
    process = psutil.Process(int(pid))
    times, slowdowns = [], []
    most = 0
    while True:
        slowdowns.append(slowdown())
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            if context is not None:
                client = stack.enter_context(context.wrap_socket(client, server_hostname=host))
            for request in requests:
                client.sendall(bytes.fromhex(request))
                assert client.recv(65536)
        times.append(time.monotonic() - started)
        most = max(most, process.memory_info().rss)
        if select.select([sys.stdin], [], [], 0.005)[0]:
            break
    print(ninth(times), len(times), most, ninth(slowdowns))


main()
