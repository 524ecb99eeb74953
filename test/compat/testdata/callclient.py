"""Runs Debian's client of the Bare Metal API without starting Python anew.

Each line of input is a JSON list of arguments. It is answered with a line: a JSON
object of the exit code and of what the client wrote.
"""

import contextlib
import io
import json
import logging
import sys

from ironicclient import shell

sys.argv[0] = "baremetal"
for line in sys.stdin:
    sys.argv[1:] = json.loads(line)  # which the client reads to find its way of authentication
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = shell.main(sys.argv[1:])
        except SystemExit as end:
            code = end.code
    logging.getLogger().handlers.clear()  # each run adds its own
    print(json.dumps({"Code": int(code or 0), "Stdout": out.getvalue(), "Stderr": err.getvalue()}), flush=True)
