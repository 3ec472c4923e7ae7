//! Tests of `docs/how-to/nginx.conf` with Debian's nginx on loopback, which serves a directory that
//! this crate wrote.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use lucarne_storage::{Asset, AssetKind, Assets, Encoding, PosixAssets};
use lucarne_testkit::free_port;
use tempfile::TempDir;

const CONFIGURATION: &str = include_str!("../../../../docs/how-to/nginx.conf");
const PLAIN: &[u8] = b"a data tile";
/// `PLAIN` in its stored form.
const GZIPPED: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\x54\x48\x49\x2c\x49\x54\x28\xc9\xcc\x49\x05\x00\x92\xfa\xcb\xe5\x0b\x00\x00\x00";
const FOREVER: &str = "public, max-age=31536000, immutable";

/// A running nginx with a directory of one log, `2026h1`, and a stand-in for Lucarne that returns
/// the first line of every request.
struct Nginx {
    process: Child,
    port: u16,
    _directory: TempDir,
}

impl Nginx {
    async fn start() -> Self {
        Self::before(stand_in()).await
    }

    async fn before(lucarne: u16) -> Self {
        let directory = TempDir::new().unwrap();
        // The worker runs as another user, as in an installation.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let root = directory.path().join("logs");
        write_log(&root.join("2026h1")).await;
        let port = free_port();
        let configuration = configure(&root, port, lucarne, directory.path());
        let process = Command::new(program())
            .args(["-p", &directory.path().display().to_string()])
            .args(["-c", &configuration.display().to_string()])
            .args(["-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut nginx = Self {
            process,
            port,
            _directory: directory,
        };
        nginx.wait();
        nginx
    }

    fn wait(&mut self) {
        lucarne_testkit::block_until("nginx listens", || {
            if let Some(status) = self.process.try_wait().unwrap() {
                panic!("nginx ended with {status}; its reason is above");
            }
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    fn monitor(&self, path: &str, headers: &str) -> Response {
        self.request("GET", "mon.example.com", path, headers, b"")
    }

    fn request(
        &self,
        method: &str,
        host: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Response {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let limit = lucarne_testkit::EVENT_TIMEOUT;
        stream.set_read_timeout(Some(limit)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Response::parse(&bytes)
    }
}

impl Drop for Nginx {
    /// Sends TERM instead of KILL, so that the master ends its workers.
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.process.wait();
    }
}

struct Response {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl Response {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let mut headers = HashMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let twice = headers.insert(name.to_ascii_lowercase(), value.to_owned());
            assert_eq!(twice, None, "two headers {name}");
        }
        Self {
            status: status.parse().unwrap(),
            headers,
            body: bytes[end + 4..].to_vec(),
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the body, assembled from its chunks.
    fn plain(&self) -> Vec<u8> {
        if self.header("transfer-encoding") != Some("chunked") {
            return self.body.clone();
        }
        let (mut plain, mut rest) = (Vec::new(), &self.body[..]);
        loop {
            let end = rest.windows(2).position(|w| w == b"\r\n").unwrap();
            let length = std::str::from_utf8(&rest[..end]).unwrap();
            let length = usize::from_str_radix(length, 16).unwrap();
            if length == 0 {
                return plain;
            }
            plain.extend_from_slice(&rest[end + 2..][..length]);
            rest = &rest[end + 2 + length + 2..];
        }
    }

    /// Returns the request line that reached Lucarne.
    fn forwarded(&self) -> &str {
        assert_eq!(self.header("server-stand-in"), Some("yes"));
        std::str::from_utf8(&self.body).unwrap()
    }
}

async fn write_log(directory: &Path) {
    let data = |encoding| AssetKind::DataTile { encoding };
    let issuer = format!("issuer/{}", "0f".repeat(32));
    let assets = PosixAssets::create(directory).unwrap();
    let files = vec![
        Asset::new("tile/0/x001/000", "hashes", AssetKind::HashTile),
        Asset::new("tile/0/x001/001.p/7", "partial hashes", AssetKind::HashTile),
        Asset::new("tile/data/x001/000", GZIPPED, data(Encoding::Gzip)),
        Asset::new("tile/data/x001/001.p/7", GZIPPED, data(Encoding::Gzip)),
        Asset::new(issuer, "certificate", AssetKind::Issuer),
        Asset::new("log.v3.json", "{}", AssetKind::LogJson),
        Asset::new("checkpoint", "origin\n", AssetKind::Checkpoint),
    ];
    assets.publish(files).await.unwrap();
}

fn program() -> PathBuf {
    let places = ["/usr/sbin/nginx", "/usr/local/sbin/nginx", "/usr/bin/nginx"];
    let found = places.map(PathBuf::from).into_iter().find(|p| p.exists());
    found.expect("nginx is needed for this test: `apt-get install nginx-light`, or scripts/install-test-tools")
}

/// Writes `docs/how-to/nginx.conf` with other addresses and directory, surrounded by the
/// directives of Debian's `nginx.conf`.
fn configure(root: &Path, port: u16, lucarne: u16, prefix: &Path) -> PathBuf {
    let mut text = CONFIGURATION.to_owned();
    for (from, to, times) in [
        ("listen 80;", format!("listen 127.0.0.1:{port};"), 2),
        ("root /srv/lucarne;", format!("root {};", root.display()), 2),
        ("127.0.0.1:6963;", format!("127.0.0.1:{};", free_port()), 2),
        (
            "server 127.0.0.1:6962;",
            format!("server 127.0.0.1:{lucarne};"),
            1,
        ),
    ] {
        assert_eq!(
            text.matches(from).count(),
            times,
            "{from:?} in docs/how-to/nginx.conf"
        );
        text = text.replace(from, &to);
    }
    std::fs::write(prefix.join("lucarne.conf"), text).unwrap();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {}/{name};\n", prefix.display()))
        .concat();
    let prefix = prefix.display();
    let around = format!(
        "daemon off; worker_processes 1; pid {prefix}/nginx.pid;\n\
         events {{ }}\n\
         http {{ access_log off; {temporary} include {prefix}/lucarne.conf; }}\n"
    );
    let path = Path::new(&prefix.to_string()).join("nginx.conf");
    std::fs::write(&path, around).unwrap();
    path
}

/// Responds to each request with its first line and body. The headers are like Lucarne's.
fn stand_in() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 65536];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let line = request.lines().next().unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nServer-Stand-In: yes\r\n\
                 Cache-Control: lucarne\r\nAccess-Control-Allow-Origin: *\r\n\
                 Connection: close\r\n\r\n{line}",
                line.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn the_documented_configuration_serves_a_log() {
    let nginx = Nginx::start().await;
    files_have_their_headers(&nginx);
    data_tiles_are_negotiated(&nginx);
    partials_that_are_gone_are_asked_of_lucarne(&nginx);
    absent_files_are_not_cached_for_long(&nginx);
    nothing_else_is_served(&nginx);
    conditions_and_ranges_work(&nginx);
    submissions_reach_lucarne(&nginx);
}

fn files_have_their_headers(nginx: &Nginx) {
    let issuer = format!("issuer/{}", "0f".repeat(32));
    let octets = "application/octet-stream";
    for (path, body, kind, cache) in [
        (
            "checkpoint",
            "origin\n",
            "text/plain; charset=utf-8",
            "public, max-age=2",
        ),
        (
            "log.v3.json",
            "{}",
            "application/json",
            "public, max-age=300",
        ),
        (&issuer, "certificate", "application/pkix-cert", FOREVER),
        ("tile/0/x001/000", "hashes", octets, FOREVER),
        ("tile/0/x001/001.p/7", "partial hashes", octets, FOREVER),
    ] {
        let response = nginx.monitor(&format!("/2026h1/{path}"), "Accept-Encoding: gzip\r\n");
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.body, body.as_bytes(), "{path}");
        assert_eq!(response.header("content-type"), Some(kind), "{path}");
        assert_eq!(response.header("cache-control"), Some(cache), "{path}");
        assert_eq!(response.header("content-encoding"), None, "{path}");
        assert_eq!(
            response.header("access-control-allow-origin"),
            Some("*"),
            "{path}"
        );
    }
}

fn data_tiles_are_negotiated(nginx: &Nginx) {
    for path in [
        "/2026h1/tile/data/x001/000",
        "/2026h1/tile/data/x001/001.p/7",
    ] {
        data_tile_is_negotiated(nginx, path);
    }
}

fn data_tile_is_negotiated(nginx: &Nginx, path: &str) {
    for accepted in ["gzip", "br, gzip;q=0.5", "identity;q=0, GZIP"] {
        let response = nginx.monitor(path, &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!(response.status, 200);
        assert_eq!(response.body, GZIPPED);
        assert_eq!(response.header("content-encoding"), Some("gzip"));
        assert_eq!(response.header("vary"), Some("Accept-Encoding"));
        assert_eq!(response.header("cache-control"), Some(FOREVER));
    }
    for refused in [
        "",
        "Accept-Encoding: identity\r\n",
        "Accept-Encoding: br, gzip;q=0\r\n",
    ] {
        let response = nginx.monitor(path, refused);
        assert_eq!(response.status, 200, "{refused}");
        assert_eq!(response.plain(), PLAIN, "{refused}");
        assert_eq!(response.header("content-encoding"), None);
        assert_eq!(response.header("vary"), Some("Accept-Encoding"));
        assert_eq!(response.header("cache-control"), Some(FOREVER));
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
        let kind = "application/octet-stream";
        assert_eq!(response.header("content-type"), Some(kind));
    }
}

/// The log was removed from Lucarne's configuration, or Lucarne was stopped.
#[tokio::test]
async fn a_retired_log_needs_no_lucarne() {
    let nginx = Nginx::before(free_port()).await;
    files_have_their_headers(&nginx);
    data_tiles_are_negotiated(&nginx);
    absent_files_are_not_cached_for_long(&nginx);
    let absent = nginx.monitor("/2026h1/tile/data/x009/000", "");
    assert_eq!(absent.status, 404);
    assert_eq!(absent.header("cache-control"), Some("public, max-age=1"));
    for path in ["tile/data/x001/000", "tile/data/x001/001.p/7"] {
        for arguments in [&[][..], &["--compressed"], &["--http1.0"]] {
            let url = format!("http://127.0.0.1:{}/2026h1/{path}", nginx.port);
            let curl = Command::new("curl")
                .args(["-sSf", "-H", "Host: mon.example.com"])
                .args(arguments)
                .arg(url)
                .output()
                .unwrap();
            assert!(curl.status.success(), "{curl:?}");
            assert_eq!(curl.stdout, PLAIN, "{path} {arguments:?}");
        }
    }
}

fn partials_that_are_gone_are_asked_of_lucarne(nginx: &Nginx) {
    for path in [
        "/2026h1/tile/0/x001/001.p/5",
        "/2026h1/tile/data/x001/000.p/255",
    ] {
        for accepted in ["", "Accept-Encoding: gzip\r\n"] {
            let response = nginx.monitor(path, accepted);
            assert_eq!(response.forwarded(), format!("GET {path} HTTP/1.1"));
            // Lucarne itself declares the encoding.
            assert_eq!(response.header("content-encoding"), None, "{path}");
        }
    }
}

fn absent_files_are_not_cached_for_long(nginx: &Nginx) {
    for path in [
        "tile/0/x009/000",
        "tile/data/x009/000",
        "tile/data/x009/000.p/0000",
        "issuer/00",
        "elsewhere",
    ] {
        let path = format!("/2026h1/{path}");
        let response = nginx.monitor(&path, "Accept-Encoding: gzip\r\n");
        assert_eq!(response.status, 404, "{path}");
        assert_eq!(response.header("cache-control"), Some("public, max-age=1"));
        assert_eq!(response.header("content-encoding"), None);
        assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    }
}

fn nothing_else_is_served(nginx: &Nginx) {
    for path in [
        "/2026h1/.lucarne/lock",
        "/2026h1/.lucarne/journal/0000000000000001",
        "/2026h1/%2elucarne/lock",
        "/2026h1/tile/../.lucarne/lock",
        "/2026h1/tile/0/x001/",
        "/2026h1/tile/6/000",
        "/2026h1/",
        "/.lucarne/checkpoint",
        "/",
    ] {
        assert_eq!(nginx.monitor(path, "").status, 404, "{path}");
    }
    let outside = nginx.monitor("/../../etc/passwd", "");
    assert_eq!(outside.status, 400);
    let posted = nginx.request("POST", "mon.example.com", "/2026h1/checkpoint", "", b"x");
    assert_eq!(posted.status, 405);
}

fn conditions_and_ranges_work(nginx: &Nginx) {
    let path = "/2026h1/tile/0/x001/000";
    let response = nginx.monitor(path, "");
    let etag = response.header("etag").unwrap();
    let again = nginx.monitor(path, &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("cache-control"), Some(FOREVER));
    let part = nginx.monitor(path, "Range: bytes=1-2\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &b"as"[..]));
    let head = nginx.request("HEAD", "mon.example.com", path, "", b"");
    assert_eq!(
        (head.status, head.header("content-length")),
        (200, Some("6"))
    );
}

fn submissions_reach_lucarne(nginx: &Nginx) {
    let path = "/2026h1/ct/v1/add-chain";
    let body = vec![b'x'; 3000];
    let response = nginx.request("POST", "log.example.com", path, "", &body);
    assert_eq!(response.status, 200);
    assert_eq!(response.forwarded(), format!("POST {path} HTTP/1.1"));
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
}
