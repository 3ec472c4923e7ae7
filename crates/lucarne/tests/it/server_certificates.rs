//! Unusual server certificates with every TLS client of the product: a trusted self-signed
//! certificate of `openssl req -x509`, and certificates of old appliances, accepted on demand.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use lucarne_testkit::{Launch, Server, TempDir, free_port, temp_dir};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::common::{EVENT_TIMEOUT, LUCARNE, all, assert_has, pki};

/// Writes `cert.pem` and `key.pem` to a directory.
type Make<'a> = &'a dyn Fn(&Path);

/// Runs `openssl` in `directory`.
fn openssl(directory: &Path, args: &[&str]) {
    let output = Command::new("openssl")
        .args(args)
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", all(&output));
}

/// Creates a self-signed certificate for localhost in the usual way, with `CA:TRUE`.
fn self_signed(directory: &Path, key: &[&str]) {
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
    let req = [
        "req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
    ];
    let more = ["-subj", "/CN=localhost", "-addext", names];
    openssl(directory, &[&req, key, &more].concat());
}

const P256: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// A server with that certificate, which responds with `{}` to every request until the process
/// ends.
struct Site {
    home: TempDir,
    port: u16,
    /// The first line of each request.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new() -> Self {
        let home = temp_dir();
        self_signed(home.path(), &P256);
        let file = |name: &str| home.path().join(name);
        let certificate = CertificateDer::from_pem_file(file("cert.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let noted = seen.clone();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, noted) = (config.clone(), noted.clone());
                std::thread::spawn(move || {
                    let session = rustls::ServerConnection::new(config).unwrap();
                    let mut stream = rustls::StreamOwned::new(session, socket);
                    let mut request = [0; 4096];
                    while let Ok(read @ 1..) = stream.read(&mut request) {
                        let text = String::from_utf8_lossy(&request[..read]);
                        let line = text.lines().next().unwrap_or_default();
                        noted.lock().unwrap().push(line.to_owned());
                        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
                        if stream.write_all(response).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Site { home, port, seen }
    }

    fn certificate(&self) -> PathBuf {
        self.home.path().join("cert.pem")
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Returns a command of `lucarne` in the site's directory.
    fn lucarne(&self, args: &[&str]) -> Launch {
        Launch::new(LUCARNE).args(args).directory(self.home.path())
    }

    /// Returns a command that trusts this certificate instead of the system's.
    fn trusting(&self, args: &[&str]) -> Launch {
        self.lucarne(args).env("SSL_CERT_FILE", self.certificate())
    }

    /// Asserts that a request with this beginning has arrived, and forgets all requests.
    #[track_caller]
    fn assert_seen(&self, beginning: &str, client: &str) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap());
        assert!(
            seen.iter().any(|line| line.starts_with(beginning)),
            "{client} did not come through TLS: {seen:?}"
        );
    }
}

const LOAD: [&str; 6] = ["load", "rest", "--no-ui", "--rate", "5", "--duration"];
const PROXY: [&str; 5] = [
    "proxy",
    "--no-ui",
    "--allow-private",
    "--listen",
    "127.0.0.1:0",
];

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

/// Starts a proxy, and returns its address.
fn proxy(launch: Launch) -> (Server, String) {
    let mut server = launch.spawn().unwrap();
    let said = server
        .wait_for_output("proxy on http://", EVENT_TIMEOUT)
        .unwrap();
    let address = said.split("proxy on ").nth(1).unwrap();
    let address = address.split_whitespace().next().unwrap().to_owned();
    (server, address)
}

/// Returns curl's output for `url` through the proxy, whose CA is in `home`.
fn curl(proxy: &str, home: &Path, url: &str) -> String {
    let output = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "60",
            "--proxy",
            proxy,
        ])
        .arg("--cacert")
        .arg(home.join("lucarne-ca/ca.pem"))
        .arg(url)
        .env("NO_PROXY", "")
        .env("no_proxy", "")
        .output()
        .unwrap();
    all(&output)
}

#[test]
fn one_self_signed_certificate_before_every_client() {
    let site = Site::new();
    let (url, home) = (site.url(), site.home.path());
    let file = site.certificate().display().to_string();

    let load = ["1s", "--url", url.as_str()];
    let load = [&LOAD[..], &load].concat();
    for (launch, client) in [
        (site.lucarne(&with(&load, &["--ca", &file])), "load --ca"),
        (site.trusting(&load), "load with SSL_CERT_FILE"),
    ] {
        let output = launch.run().unwrap();
        assert!(output.status.success(), "{client}: {}", all(&output));
        site.assert_seen("GET / ", client);
    }

    for (launch, asked, client) in [
        (
            site.lucarne(&with(&PROXY, &["--upstream-ca", &file])),
            &url,
            "proxy --upstream-ca",
        ),
        (site.trusting(&PROXY), &url, "proxy with SSL_CERT_FILE"),
        (
            site.trusting(&with(&PROXY, &["--upstream-proxy", &url])),
            &"http://any.test/".to_owned(),
            "an upstream proxy",
        ),
    ] {
        let (_server, address) = proxy(launch);
        let said = curl(&address, home, asked);
        assert_eq!(said, "{}", "{client}");
        site.assert_seen("GET ", client);
    }

    let list = format!("{url}/list.json");
    let output = site
        .trusting(&with(&PROXY, &["--log-list", &list]))
        .run()
        .unwrap();
    assert!(!output.status.success(), "a list that is none");
    site.assert_seen("GET /list.json ", "the product's own requests");

    let init = site.trusting(&["init", "--config", &bucket(&site)]);
    let keys = init
        .env("AWS_ACCESS_KEY_ID", "a")
        .env("AWS_SECRET_ACCESS_KEY", "b");
    let output = keys.run().unwrap();
    assert!(!output.status.success(), "a store that is none");
    site.assert_seen("", &format!("an object store: {}", all(&output)));
}

/// Writes a configuration whose data and lock are in a bucket of the site.
fn bucket(site: &Site) -> String {
    let (url, home) = (site.url(), site.home.path());
    fs::write(home.join("roots.pem"), pki().roots_pem()).unwrap();
    let port = free_port();
    let text = format!(
        "listen: 127.0.0.1:{port}\n\
         checkpoints: s3://logs/lock/?region=us-east-1&endpoint={url}\n\
         logs:\n  - shortname: log\n    submissionprefix: http://127.0.0.1:{port}/log\n    \
         roots: roots.pem\n    secret: log.seed\n    cache: log-cache\n    s3bucket: logs\n    \
         s3endpoint: {url}\n    s3style: path\n    s3keyprefix: log/\n"
    );
    fs::write(home.join("lucarne.yaml"), text).unwrap();
    let output = site
        .lucarne(&["keygen", "--file", "log.seed"])
        .run()
        .unwrap();
    assert!(output.status.success(), "{}", all(&output));
    home.join("lucarne.yaml").display().to_string()
}

/// An `openssl s_server` with the certificate in `home`, which serves a page.
struct Appliance {
    process: Child,
    /// Kept open, because the process writes to it.
    _output: BufReader<ChildStdout>,
    url: String,
}

impl Drop for Appliance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Appliance {
    fn start(home: &Path, more: &[&str]) -> Self {
        let port = free_port().to_string();
        let mut process = Command::new("openssl")
            .args(["s_server", "-www", "-cert", "cert.pem", "-key", "key.pem"])
            .args(["-cipher", "DEFAULT:@SECLEVEL=0", "-accept", &port])
            .args(more)
            .current_dir(home)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("ACCEPT") {
            line.clear();
            let read = output.read_line(&mut line).unwrap();
            assert!(read > 0, "s_server does not start");
        }
        Appliance {
            process,
            _output: output,
            url: format!("https://localhost:{port}/"),
        }
    }
}

/// Creates a certificate of X.509 version 1, without extensions and so without names.
fn version_1(directory: &Path) {
    let req = ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem"];
    openssl(
        directory,
        &[&req[..], &["-subj", "/CN=bmc", "-out", "csr.pem"]].concat(),
    );
    let sign = ["x509", "-req", "-in", "csr.pem", "-signkey", "key.pem"];
    openssl(directory, &[&sign[..], &["-out", "cert.pem"]].concat());
}

fn fingerprint(directory: &Path) -> String {
    let der = CertificateDer::from_pem_file(directory.join("cert.pem")).unwrap();
    lucarne_ct::Fingerprint::of(&der).to_string()
}

#[test]
fn certificates_of_old_appliances_are_accepted_on_demand() {
    let rsa_1024 = |home: &Path| self_signed(home, &["-newkey", "rsa:1024"]);
    let kinds: [(Make<'_>, &[&str], &str); 4] = [
        (&rsa_1024, &["-tls1_2"], "is that of a CA (CA:TRUE)"),
        (&rsa_1024, &[], "is that of a CA (CA:TRUE)"),
        (&version_1, &["-tls1_2"], "X.509 version 1"),
        (&version_1, &[], "X.509 version 1"),
    ];
    for (make, tls, refusal) in kinds {
        let home = temp_dir();
        make(home.path());
        let server = Appliance::start(home.path(), tls);
        let url = server.url.as_str();
        let pin = |fingerprint: &str| format!("localhost={fingerprint}");
        let (right, wrong) = (pin(&fingerprint(home.path())), pin(&"00".repeat(32)));
        for (more, expected) in [
            (&["--insecure"][..], "s_server"),
            (&["--insecure-host", "localhost"], "s_server"),
            (&["--upstream-fingerprint", &right], "s_server"),
            (
                &["--upstream-fingerprint", &wrong],
                "fingerprint is not configured",
            ),
            (
                &["--insecure", "--upstream-fingerprint", &wrong],
                "fingerprint is not configured",
            ),
            (&["--insecure-host", "*.test"], refusal),
        ] {
            let args = [&PROXY[..], more].concat();
            let launch = Launch::new(LUCARNE).args(args).directory(home.path());
            let (_proxy, address) = proxy(launch);
            let said = curl(&address, home.path(), url);
            assert_has(&said.replace('\n', " "), expected);
        }
        let load = [&LOAD[..], &["1s", "--insecure", "--url", url]].concat();
        let output = Launch::new(LUCARNE)
            .args(load)
            .directory(home.path())
            .run()
            .unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }
}

/// Creates a certificate larger than 64 KiB, by its number of names.
fn huge(directory: &Path) {
    let names = (0..4000).map(|n| format!("DNS:host-{n:05}.example.test"));
    let names = names.collect::<Vec<_>>().join(",");
    let config = format!(
        "[req]\ndistinguished_name = name\nx509_extensions = all\nprompt = no\n[name]\nCN = huge\n\
         [all]\nsubjectAltName = {names}\n"
    );
    fs::write(directory.join("req.cnf"), config).unwrap();
    let req = [
        "req", "-x509", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
    ];
    openssl(
        directory,
        &[&req[..], &P256, &["-config", "req.cnf"]].concat(),
    );
}

#[test]
fn what_tls_cannot_be_spoken_with_is_said_in_words() {
    let kinds: [(Make<'_>, &[&str], &str); 2] = [
        (&huge, &[], "more than 64 KiB"),
        (
            &|home| self_signed(home, &P256),
            &["-tls1_1"],
            "neither TLS 1.2 nor TLS 1.3",
        ),
    ];
    for (make, tls, expected) in kinds {
        let home = temp_dir();
        make(home.path());
        let server = Appliance::start(home.path(), tls);
        let launch = Launch::new(LUCARNE)
            .args(with(&PROXY, &["--insecure"]))
            .directory(home.path());
        let (_proxy, address) = proxy(launch);
        let said = curl(&address, home.path(), &server.url);
        assert_has(&said.replace('\n', " "), expected);
        let load = with(&LOAD, &["1s", "--insecure", "--url", &server.url]);
        let launch = Launch::new(LUCARNE).args(load).directory(home.path());
        let output = launch.run().unwrap();
        assert!(!output.status.success());
        assert_has(&all(&output).replace('\n', " "), expected);
    }
}

#[test]
fn a_client_of_tls_1_1_is_named_in_the_log() {
    let home = temp_dir();
    let launch = Launch::new(LUCARNE).args(PROXY).directory(home.path());
    let (mut server, address) = proxy(launch);
    let address = address.trim_start_matches("http://");
    let output = Command::new("openssl")
        .args(["s_client", "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"])
        .args(["-proxy", address, "-connect", "localhost:443"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success(), "{}", all(&output));
    let expected = "the client speaks neither TLS 1.2 nor TLS 1.3";
    server.wait_for_output(expected, EVENT_TIMEOUT).unwrap();
}
