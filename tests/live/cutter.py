#!/usr/bin/env python3
"""usage: cutter.py TARGET_PORT: passes TCP connections on to 127.0.0.1:TARGET_PORT, and cuts every one after some bytes or some
milliseconds, drawn anew for each. Prints the port it listens on; on SIGTERM how many it has cut."""
import random, select, signal, socket, sys, threading, time

target = int(sys.argv[1])
cut = 0


def end(*_):
    print('cut %d' % cut, flush=True)
    sys.exit(0)


def carry(client):
    global cut
    rng = random.Random()
    left, until = rng.randrange(20000), time.monotonic() + rng.random() * 0.1
    try:
        server = socket.create_connection(('127.0.0.1', target))
    except OSError:
        client.close()
        return
    pair = {client: server, server: client}
    try:
        while left > 0 and time.monotonic() < until:
            for s in select.select(list(pair), [], [], max(0, until - time.monotonic()))[0]:
                data = s.recv(min(65536, max(1, left)))
                if not data:
                    left = 0
                    break
                left -= len(data)
                pair[s].sendall(data)
    except OSError:
        pass
    cut += 1
    client.close()
    server.close()


signal.signal(signal.SIGTERM, end)
listener = socket.create_server(('127.0.0.1', 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=carry, args=(listener.accept()[0],), daemon=True).start()
