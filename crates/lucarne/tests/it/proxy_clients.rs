//! Real clients through `lucarne proxy`, each with the CA installed in its own way: curl, Python
//! requests, Go's net/http and Chromium.

use std::collections::HashSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use crate::common::{EVENT_TIMEOUT, LUCARNE, assert_has, pki};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lucarne_mint::LeafOptions;
use lucarne_testkit::{Launch, Server, TempDir, temp_dir, tls_server};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const HOSTS: [&str; 3] = ["page.test", "static.test", "cdn.test"];

/// A site of several hosts behind the proxy.
struct Scene {
    proxy: String,
    /// The certificate to trust.
    ca: PathBuf,
    site: SocketAddr,
    /// The requests to the site: host, path, protocol.
    asked: Arc<Mutex<Vec<String>>>,
    home: TempDir,
    _runtime: tokio::runtime::Runtime,
    server: Server,
}

impl Scene {
    /// Starts a site that supports the protocols `alpn`, and the proxy.
    fn new(alpn: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let site = runtime.block_on(site(alpn, asked.clone()));
        let home = temp_dir();
        let world = home.path().join("world.pem");
        std::fs::write(&world, pki().roots_pem()).unwrap();
        let mut server = Launch::new(LUCARNE)
            .args([
                "proxy",
                "--no-ui",
                "--listen",
                "127.0.0.1:0",
                "--allow-private",
            ])
            .args(["--resolve", "*.test=127.0.0.1", "--upstream-ca"])
            .arg(&world)
            .directory(home.path())
            .spawn()
            .unwrap();
        let said = server
            .wait_for_output("proxy on http://", EVENT_TIMEOUT)
            .unwrap();
        let proxy = said.split("proxy on ").nth(1).unwrap();
        Scene {
            proxy: proxy.split_whitespace().next().unwrap().to_owned(),
            ca: home.path().join("lucarne-ca/ca.pem"),
            site,
            asked,
            home,
            _runtime: runtime,
            server,
        }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("https://{host}:{}{path}", self.site.port())
    }

    /// Returns a client that gets the proxy and its CA from the environment.
    fn client(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env("HOME", self.home.path())
            .env("HTTPS_PROXY", &self.proxy)
            .env("https_proxy", &self.proxy)
            .env("NO_PROXY", "")
            .env("no_proxy", "")
            .env("REQUESTS_CA_BUNDLE", &self.ca)
            .env("SSL_CERT_FILE", &self.ca);
        command
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Serves pages over TLS: `/page` has sub-resources on the other hosts.
pub(crate) async fn site(alpn: &[&str], asked: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = acceptor(alpn);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, asked) = (acceptor.clone(), asked.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let service = service_fn(move |request| {
                    let answer = answer(&request, address.port(), &asked);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let io = TokioIo::new(stream);
                // Browsers may close connections at any time.
                let _ = if http2 {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    builder.serve_connection(io, service).await
                } else {
                    let builder = hyper::server::conn::http1::Builder::new();
                    builder.serve_connection(io, service).await
                };
            });
        }
    });
    address
}

fn acceptor(alpn: &[&str]) -> TlsAcceptor {
    let ca = &pki().p256;
    let options = LeafOptions::for_names(HOSTS).unwrap();
    let chain = ca.chain(ca.issue(&options).unwrap());
    let config = tls_server(chain.certificates(), &options.key, alpn);
    config.unwrap().into()
}

fn answer(
    request: &Request<Incoming>,
    port: u16,
    asked: &Mutex<Vec<String>>,
) -> Response<Full<Bytes>> {
    let authority = request
        .uri()
        .authority()
        .map(|authority| authority.to_string());
    let header = || {
        request
            .headers()
            .get("host")
            .map(|host| host.to_str().unwrap().to_owned())
    };
    let host = authority.or_else(header).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    let path = request.uri().path();
    let line = format!("{host}{path} {:?}", request.version());
    asked.lock().unwrap().push(line);
    let (kind, body) = match path {
        "/page" => ("text/html", page(port)),
        "/style.css" => ("text/css", "body { color: green }".to_owned()),
        "/script.js" => ("text/javascript", SCRIPT.to_owned()),
        path => ("text/plain", format!("{host} {path}")),
    };
    let body = Full::new(Bytes::from(body));
    let response = Response::builder().header("content-type", kind);
    response
        .header("access-control-allow-origin", "*")
        .body(body)
        .unwrap()
}

fn page(port: u16) -> String {
    format!(
        "<!doctype html><html><head>\
         <link rel=stylesheet href=https://static.test:{port}/style.css></head><body>\
         <p id=said>nothing</p>\
         <script src=https://cdn.test:{port}/script.js></script></body></html>"
    )
}

/// Runs after the page has loaded, and requests one more resource.
const SCRIPT: &str = "fetch('/more').then(answer => answer.text()).then(text => {\
     document.getElementById('said').textContent = 'fetched: ' + text; });";

/// Runs a command to its end, which must succeed, and returns its output.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; scripts/install-test-tools installs it")
    });
    let said = all(&output);
    assert!(output.status.success(), "{program} failed:\n{said}");
    said
}

fn all(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn curl() {
    let scene = Scene::new(&["h2", "http/1.1"]);
    for (version, seen) in [("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2.0")] {
        let mut curl = scene.client("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--fail",
            "--max-time",
            "30",
            version,
            "--cacert",
        ])
        .arg(&scene.ca)
        .args(HOSTS.map(|host| scene.url(host, "/x")));
        let said = succeed(&mut curl);
        for host in HOSTS {
            assert_has(&said, &format!("{host} /x"));
            assert_has(&scene.asked().join("\n"), &format!("{host}/x {seen}"));
        }
    }
    // Without the CA, curl rejects the certificate, and the proxy reports the reason.
    let mut curl = scene.client("curl");
    curl.env_remove("SSL_CERT_FILE")
        .args(["--silent", "--show-error", "--max-time", "30"]);
    let output = curl.arg(scene.url("page.test", "/x")).output().unwrap();
    assert_eq!(output.status.code(), Some(60), "{}", all(&output));
}

/// The statements of docs/how-to/proxy-clients.md about curl and its environment.
#[test]
fn curl_takes_the_ca_from_the_first_variable() {
    let scene = Scene::new(&["http/1.1"]);
    let other = scene.home.path().join("world.pem");
    for (bundle, file, believed) in [
        (None, &scene.ca, true),
        (Some(&scene.ca), &other, true),
        (Some(&other), &scene.ca, false),
    ] {
        let mut curl = scene.client("curl");
        curl.env_remove("CURL_CA_BUNDLE").env_remove("SSL_CERT_DIR");
        curl.env("SSL_CERT_FILE", file);
        if let Some(bundle) = bundle {
            curl.env("CURL_CA_BUNDLE", bundle);
        }
        curl.args(["--silent", "--show-error", "--max-time", "30"]);
        let output = curl.arg(scene.url("page.test", "/x")).output().unwrap();
        let expected = if believed { Some(0) } else { Some(60) };
        assert_eq!(output.status.code(), expected, "{}", all(&output));
    }
    // For http:// URLs, curl does not read the variable in upper case.
    let mut curl = scene.client("curl");
    curl.env_remove("http_proxy")
        .env_remove("all_proxy")
        .env_remove("ALL_PROXY");
    curl.env("HTTP_PROXY", &scene.proxy);
    curl.args(["--silent", "--show-error", "--max-time", "30"]);
    let output = curl.arg("http://page.test/x").output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", all(&output));
}

/// The statements of docs/how-to/proxy-clients.md about the CAs of Node.js, for any version.
#[test]
fn node_takes_the_ca_from_its_own_variable() {
    let scene = Scene::new(&["http/1.1"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/get.js");
    let (host, port) = scene.proxy.rsplit_once(':').unwrap();
    let host = host.trim_start_matches("http://");
    let ask = |variable: &str, flag: Option<&str>| {
        let mut node = scene.client("node");
        for set in [
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "NODE_OPTIONS",
        ] {
            node.env_remove(set);
        }
        node.env(variable, &scene.ca).args(flag);
        let site = scene.site.port().to_string();
        succeed(node.args([script, host, port, "page.test", &site]))
    };
    assert_has(&ask("NODE_EXTRA_CA_CERTS", None), "200 page.test /x");
    assert_has(
        &ask("SSL_CERT_FILE", Some("--use-openssl-ca")),
        "200 page.test /x",
    );
    assert_has(&ask("SSL_CERT_FILE", None), "failed: UNABLE_TO_VERIFY");
}

#[test]
fn python_requests() {
    let scene = Scene::new(&["h2", "http/1.1"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clients/get.py");
    // The Python in the path, or Debian's with the module that the script installs.
    let has = |python: &&&str| {
        let import = Command::new(python)
            .args(["-c", "import requests"])
            .output();
        import.is_ok_and(|output| output.status.success())
    };
    let python = ["python3", "/usr/bin/python3"];
    let python = python.iter().find(has).expect(
        "there is no Python with requests: scripts/install-test-tools installs python3-requests",
    );
    let mut client = scene.client(python);
    client
        .arg(script)
        .args(HOSTS.map(|host| scene.url(host, "/x")));
    let said = succeed(client.arg(scene.url("page.test", "/again")));
    for host in HOSTS {
        assert_has(&said, &format!("200 {host} /x"));
    }
    assert_has(&said, "200 page.test /again");
}

/// Returns the directory in which scripts/install-test-tools installs its builds.
fn tools() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(tools) = named("LUCARNE_TOOLS") {
        return tools.into();
    }
    let home = || PathBuf::from(named("HOME").unwrap()).join(".cache");
    let cache = named("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("lucarne/tools")
}

#[test]
fn go() {
    let scene = Scene::new(&["h2", "http/1.1"]);
    let program = tools().join("proxy-get");
    assert!(
        program.exists(),
        "there is no {}: scripts/install-test-tools builds it (with Go)",
        program.display()
    );
    let mut client = scene.client(&program);
    let urls = [HOSTS, HOSTS].concat();
    client.args(urls.iter().map(|host| scene.url(host, "/x")));
    let said = succeed(&mut client);
    let mut serials = HashSet::new();
    for line in said.lines() {
        assert!(line.starts_with("HTTP/2.0 200 serial="), "{said}");
        let serial = line
            .split("serial=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap();
        assert!(serial.len() >= 16, "{serial} is a short serial");
        serials.insert(serial.to_owned());
    }
    // One serial number for each host, each different.
    assert_eq!((said.lines().count(), serials.len()), (6, 3), "{said}");
}

#[test]
fn chromium() {
    for (alpn, seen) in [
        (&["h2", "http/1.1"][..], "HTTP/2.0"),
        (&["http/1.1"], "HTTP/1.1"),
    ] {
        let mut scene = Scene::new(alpn);
        let database = scene.home.path().join(".pki/nssdb");
        std::fs::create_dir_all(&database).unwrap();
        let database = format!("sql:{}", database.display());
        let mut certutil = scene.client("certutil");
        succeed(certutil.args(["-d", &database, "-N", "--empty-password"]));
        let mut certutil = scene.client("certutil");
        certutil.args(["-d", &database, "-A", "-t", "C,,", "-n", "lucarne", "-i"]);
        succeed(certutil.arg(&scene.ca));
        let mut browser = scene.client("chromium");
        browser.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ]);
        browser.arg(format!("--proxy-server={}", scene.proxy));
        browser.arg(format!(
            "--user-data-dir={}",
            scene.home.path().join("profile").display()
        ));
        let said = succeed(browser.arg(scene.url("page.test", "/page")));
        assert_has(&said, "fetched: page.test /more");
        let asked = scene.asked().join("\n");
        for expected in [
            "page.test/page",
            "static.test/style.css",
            "cdn.test/script.js",
            "page.test/more",
        ] {
            assert_has(&asked, &format!("{expected} {seen}"));
        }
        scene.server.stop(EVENT_TIMEOUT).unwrap();
        let log = scene.server.output();
        assert!(!log.contains("does not trust"), "{log}");
    }
}
