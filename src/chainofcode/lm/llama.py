"""The process that runs a local model: `python llama.py`, with a JSON line of settings on standard input.

Starts llama.cpp's own server on a loopback port, protected by a key, and prints its address on standard output. Exits
when standard input is closed, so it does not outlive its host. Imports nothing else from this package.
"""

import json
import os
import sys


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    os.environ["GOMP_SPINCOUNT"] = "10000"  # before the import: spinning threads slow down a busy machine
    os.environ["GGML_NO_BACKTRACE"] = "1"  # the backtrace of a crash would start a debugger
    try:
        import xllamacpp
    except ImportError as error:
        text = f"the package xllamacpp cannot be imported ({error}): pip install 'chainofcode[local]'"
        print(json.dumps({"error": text}))
        return
    output = os.dup(1)
    os.dup2(2, 1)  # standard output is for the host alone
    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_ctx = settings["context_tokens"]
    params.cpuparams.n_threads = settings["threads"]
    params.n_parallel = 1  # on a CPU, slots only evict each other's prompt prefix
    params.n_threads_http = 2
    params.n_batch = params.n_ubatch = 128  # a cancelled request stops after at most this many tokens
    params.slot_save_path = settings["states"]
    params.cache_ram_mib = settings["cache_mib"]
    params.warmup = False
    params.verbosity = -1
    try:
        server = xllamacpp.Server(params)
    except Exception as error:
        os.write(output, json.dumps({"error": f"llama.cpp cannot load the model: {error}"}).encode() + b"\n")
        return
    os.write(
        output, json.dumps({"address": server.listening_address, "version": xllamacpp.__version__}).encode() + b"\n"
    )
    sys.stdin.read()
    os._exit(0)  # the kernel frees memory faster than llama.cpp


if __name__ == "__main__":
    main()
