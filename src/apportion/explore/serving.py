"""The explorer on this machine: a server of a fixed set of files, for this machine alone."""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from apportion.errors import ParameterError
from apportion.explore.page import FOLDER_POLICY, Explorer, folder_files

HOST = "127.0.0.1"
_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
}
_HEADERS = {
    "Content-Security-Policy": f"{FOLDER_POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def make_server(explorer: Explorer, port: int = 0) -> ThreadingHTTPServer:
    """A server of the page on the loopback address; port 0 takes any that is free."""
    files = {f"/{name}": content for name, content in folder_files(explorer).items()}
    files["/"] = files["/index.html"]
    try:
        return ThreadingHTTPServer((HOST, port), _handler(files))
    except OSError as error:
        raise ParameterError(f"port {port} cannot be used: {error.strerror}") from None


def serve(explorer: Explorer, port: int, on_start: Callable[[str], object]) -> None:
    """Serve the page until interrupted; ``on_start`` is told its address."""
    server = make_server(explorer, port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        on_start(address_of(server))
        thread.join()
    finally:
        server.shutdown()
        server.server_close()


def address_of(server: ThreadingHTTPServer) -> str:
    """Where the page of a server is."""
    return f"http://{HOST}:{server.server_address[1]}/"


def _handler(files: Mapping[str, bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers with one of the files, only to requests that were meant for this machine."""

        server_version, sys_version = "apportion", ""

        def do_GET(self) -> None:
            self._answer(with_content=True)

        def do_HEAD(self) -> None:
            self._answer(with_content=False)

        def _answer(self, *, with_content: bool) -> None:
            # Another site's name that leads here (DNS rebinding) is not answered.
            name = (self.headers.get("Host") or "").rpartition(":")[0]
            content = files.get(self.path.partition("?")[0])
            if name not in (HOST, "localhost") or content is None:
                self.send_error(404)
                return
            self.send_response(200)
            path = "index.html" if self.path == "/" else self.path
            kind = _KINDS.get(path.rpartition(".")[2], "application/octet-stream")
            for header, value in {"Content-Type": kind, **_HEADERS}.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if with_content:
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is written down of who asked for what."""

    return Handler
