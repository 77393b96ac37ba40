"""A server on loopback that speaks as much of the Hugging Face hub's HTTP API as clients need to download
models, and that misbehaves on demand: the attributes of `Hub.faults` say how."""

import collections
import dataclasses
import hashlib
import http.server
import json
import pathlib
import ssl
import threading
import time
import urllib.parse

LARGE = 1 << 20  # files from this size on are "LFS" files: redirected, named by their SHA-256


@dataclasses.dataclass
class Faults:
    """What goes wrong. Counters go down with each use; 0 means never (again)."""
    cut_after: int = 0           # bytes of a file's body, then the connection is closed
    num_cuts: int = 0
    wrong_bytes: int = 0         # so many answers with a large file have a wrong byte
    statuses: list = dataclasses.field(default_factory=list)  # of the next answers; None: as usual
    file_statuses: list = dataclasses.field(default_factory=list)  # the same for files only
    error_code: str = ""         # X-Error-Code beside a status
    error_message: str = ""
    retry_after: str = ""
    html: str = ""               # "api" or "file": a web page with status 200 instead
    api_bytes: bytes = b""       # instead of the API's answer
    ignore_ranges: bool = False
    no_blob_facts: bool = False  # the list of files has no sizes and digests, as a mirror's
    no_etag: bool = False
    token: str = ""              # refuse everything without it
    extra_names: list = dataclasses.field(default_factory=list)  # siblings that are not there
    claimed_sizes: dict = dataclasses.field(default_factory=dict)  # file -> size in the list
    bytes_per_second: int = 0    # of each connection; 0: no limit
    stalls: int = 0              # so many bodies stop in the middle, with the connection open


class Hub:
    """Serves `repos`: name -> {revision -> {file -> bytes}}. A context manager. The content host, to
    which large files are redirected, is another port."""

    def __init__(self):
        self.repos = {}
        self.renamed = {}
        self.faults = Faults()
        self.requests = []  # (host, method, path, headers) of all, in order
        self.lock = threading.Lock()
        self.body_bytes = collections.Counter()  # file -> bytes sent of it

    def add(self, name, files, revision="main"):
        """Puts files (a folder or a dict) into a repository; returns the commit."""
        if isinstance(files, (str, pathlib.Path)):
            files = {str(path.relative_to(files)): path.read_bytes()
                     for path in sorted(pathlib.Path(files).rglob("*")) if path.is_file()}
        digest = hashlib.sha1(name.encode())
        for file, content in sorted(files.items()):
            digest.update(file.encode() + hashlib.sha1(content).digest())
        commit = digest.hexdigest()
        revisions = self.repos.setdefault(name, {})
        revisions[revision] = revisions[commit] = (commit, files)
        return commit

    def __enter__(self):
        self.api = self._serve("api")
        self.content = self._serve("content")
        self.endpoint = f"http://127.0.0.1:{self.api.server_port}"
        return self

    def _serve(self, host):
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub, Handler.host = hub, host
        server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server

    def __exit__(self, *unused):
        for server in (self.api, self.content):
            server.shutdown()
            server.server_close()

    def encrypt(self, certificate, key):
        """From now on the API's host (not that of large files) speaks TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.api.socket = context.wrap_socket(self.api.socket, server_side=True)
        self.endpoint = self.endpoint.replace("http:", "https:")

    def take(self, counter):
        """Uses up one of a counter; whether there was one."""
        with self.lock:
            left = getattr(self.faults, counter)
            setattr(self.faults, counter, max(left - 1, 0))
            return left > 0

    def take_status(self, kind):
        with self.lock:
            statuses = getattr(self.faults, kind)
            return statuses.pop(0) if statuses else None

    def paths(self, host, part=""):
        return [path for where, _, path, _ in self.requests if where == host and part in path]


def etag_of(content):
    if len(content) >= LARGE:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *unused):
        pass  # clients that end in the middle are what these tests are about


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub = host = None

    def log_message(self, *unused):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        with self.hub.lock:
            self.hub.requests.append((self.host, self.command, self.path, dict(self.headers)))
        try:
            self.route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def route(self):
        faults = self.hub.faults
        path = urllib.parse.urlsplit(self.path).path
        if self.host == "content":
            _, name, commit, file = path.split(":")
            return self.send_file(file, self.hub.repos[urllib.parse.unquote(name)][commit][1][file])
        status = self.hub.take_status("statuses")
        if status:
            return self.refuse(status)
        if faults.token and self.headers.get("Authorization") != f"Bearer {faults.token}":
            return self.refuse(401, faults.error_code, faults.error_message)
        if path.startswith("/api/models/"):
            return self.send_info(path.removeprefix("/api/models/"))
        name, _, rest = path.lstrip("/").partition("/resolve/")
        revision, _, file = rest.partition("/")
        return self.resolve(name, urllib.parse.unquote(revision), urllib.parse.unquote(file))

    def find(self, name, revision):
        if name in self.hub.renamed:
            self.send(307, b"", [("Location", self.path.replace(name, self.hub.renamed[name], 1))])
        elif name not in self.hub.repos:
            self.refuse(404 if self.headers.get("Authorization") else 401, "RepoNotFound")
        elif revision not in self.hub.repos[name]:
            self.refuse(404, "RevisionNotFound")
        else:
            return self.hub.repos[name][revision]
        return None, None

    def send_info(self, rest):
        faults = self.hub.faults
        name, _, revision = rest.partition("/revision/")
        name, _, tree = name.partition("/tree/")
        commit, files = self.find(name, urllib.parse.unquote(revision or tree or "main"))
        if commit is None:
            return
        if faults.html == "api":
            return self.send(200, b"<!doctype html><title>Log in</title>", [("Content-Type", "text/html")])
        if faults.api_bytes:
            return self.send(200, faults.api_bytes)
        if tree:  # what huggingface_hub asks for
            return self.send_json([{"type": "file", "path": file, "size": len(content),
                                    "oid": "0" * 40} for file, content in files.items()])
        siblings = []
        for file, content in files.items():
            sibling = {"rfilename": file}
            if not faults.no_blob_facts:
                sibling["size"] = faults.claimed_sizes.get(file, len(content))
                sibling["blobId"] = etag_of(content) if len(content) < LARGE else "0" * 40
                if len(content) >= LARGE:
                    sibling["lfs"] = {"sha256": etag_of(content), "size": len(content),
                                      "pointerSize": 134}
            siblings.append(sibling)
        siblings += [{"rfilename": extra, "size": 5, "blobId": "1" * 40} for extra in faults.extra_names]
        self.send_json({"id": name, "sha": commit, "siblings": siblings})

    def resolve(self, name, revision, file):
        faults = self.hub.faults
        commit, files = self.find(name, revision)
        if commit is None:
            return
        status = self.hub.take_status("file_statuses")
        if status:
            return self.refuse(status, faults.error_code, faults.error_message)
        if file not in files:
            return self.refuse(404, "EntryNotFound")
        if faults.html == "file":
            return self.send(200, b"<html>Log in</html>", [("Content-Type", "text/html")])
        content = files[file]
        headers = [("X-Repo-Commit", commit)]
        if len(content) >= LARGE:
            if not faults.no_etag:
                headers += [("X-Linked-Etag", f'"{etag_of(content)}"'),
                            ("X-Linked-Size", str(len(content)))]
            location = (f"http://127.0.0.1:{self.hub.content.server_port}/x:"
                        f"{urllib.parse.quote(name, safe='')}:{commit}:{file}")
            return self.send(302, b"", [*headers, ("Location", location)])
        if not faults.no_etag:
            headers.append(("ETag", f'"{etag_of(content)}"'))
        return self.send_file(file, content, headers)

    def send_file(self, file, content, headers=()):
        faults = self.hub.faults
        begin, end, status = 0, len(content), 200
        wanted = self.headers.get("Range")
        if wanted and not faults.ignore_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin, end, status = int(first), min(int(last or len(content)) + 1, len(content)), 206
            headers = [*headers, ("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")]
        body = bytearray(content[begin:end])
        if len(content) >= LARGE and self.command == "GET" and self.hub.take("wrong_bytes"):
            body[len(body) // 2] ^= 1
        self.send(status, bytes(body), headers, file)

    def send_json(self, value):
        self.send(200, json.dumps(value).encode(), [("Content-Type", "application/json")])

    def refuse(self, status, code="", message=""):
        headers = [("X-Error-Code", code or self.hub.faults.error_code),
                   ("X-Error-Message", message or self.hub.faults.error_message),
                   ("Retry-After", self.hub.faults.retry_after)]
        self.send(status, b"{}", [(name, value) for name, value in headers if value])

    def send(self, status, body, headers=(), file=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        faults = self.hub.faults
        if file and len(body) > faults.cut_after > 0 and self.hub.take("num_cuts"):
            body, cut = body[:faults.cut_after], True
        elif file and len(body) >= LARGE and self.hub.take("stalls"):
            self.wfile.write(body[:len(body) // 2])
            self.wfile.flush()
            time.sleep(30)
            cut = True
        else:
            cut = False
        step = max(faults.bytes_per_second // 20, 1) if file and faults.bytes_per_second else 1 << 16
        for begin in range(0, len(body), step):
            self.wfile.write(body[begin:begin + step])
            if file:
                with self.hub.lock:
                    self.hub.body_bytes[file] += len(body[begin:begin + step])
                if faults.bytes_per_second:
                    time.sleep(0.05)
        if cut:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)
