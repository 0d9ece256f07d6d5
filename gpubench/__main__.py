"""Run the command line: `gpubench`, or `python -m gpubench`."""

import signal


def main() -> None:
    """Run the command line; Ctrl-C is held back until `start` can handle it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from gpubench.cli.start import start

    start()


if __name__ == "__main__":
    main()
