"""Runs a command of jaxner in several processes on this machine.

    python examples/launch/local.py 2 train grn -o runs/grn

The processes share the run: each takes its part of every batch. On one machine this
tries out what a cluster does; for several GPUs of one machine, one process is enough.
If one process fails, the others are stopped.
"""

import argparse
import signal
import socket
import subprocess
import sys
import time


def free_port() -> int:
    """Returns a port of the loopback interface that nothing listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def main(count: int, arguments: list[str]) -> int:
    """Starts the processes and waits for them; returns the first failure's status."""
    flags = [f"--coordinator=127.0.0.1:{free_port()}", f"--num_processes={count}"]
    command = [sys.executable, "-m", "jaxner", *arguments, *flags]
    running = [
        subprocess.Popen([*command, f"--process_id={number}"])
        for number in range(count)
    ]

    def pass_on(number, frame):
        del frame
        for process in running:
            process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends it to all
    status = 0
    while running and not status:
        time.sleep(0.1)
        codes = [process.poll() for process in running]
        status = next((code for code in codes if code), 0)
        pairs = zip(running, codes, strict=True)
        running = [process for process, code in pairs if code is None]
    deadline = time.monotonic() + 60  # all may be about to stop by themselves
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.terminate()
    return 128 - status if status < 0 else status  # a signal ended it: as shells do


def parsed() -> argparse.Namespace:
    """Returns the number of processes and the command line of jaxner."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", type=int, help="number of processes")
    parser.add_argument("command", help="command of jaxner, such as train")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="its options")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parsed()
    raise SystemExit(main(arguments.count, [arguments.command, *arguments.options]))
