//! Servers and proxies that are broken or hostile. Each fault fails the run under its own name.

use std::net::SocketAddr;
use std::sync::Arc;

use lucarne_load::excuse::Excuse;
use lucarne_load::plan::Plan;
use lucarne_load::{Outcome, Verdict};
use lucarne_mint::{Authority, CaOptions, KeyType, LeafOptions, Time};
use lucarne_settings::Report;
use lucarne_testkit::{
    END_HEADERS, END_STREAM, FrameType, STATUS_200, frame, serve_http2, tls_server,
};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A server that treats all connections in the same way.
pub(crate) struct Hostile {
    pub(crate) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Hostile {
    pub(crate) fn start<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Option<()>> + Send + 'static,
    {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
        Self {
            address,
            _runtime: runtime,
        }
    }

    /// Responds to one request of each connection with these bytes, and closes the connection.
    fn responds(bytes: &'static [u8]) -> Self {
        Self::start(move |mut stream| async move {
            head(&mut stream).await?;
            stream.write_all(bytes).await.ok()
        })
    }

    /// Responds to each request over HTTP/2 with these frames.
    fn http2(respond: fn(u32) -> Vec<u8>) -> Self {
        Self::start(move |stream| async move { serve_http2(stream, respond).await.ok() })
    }

    /// Presents these certificates, and does not respond to requests.
    fn shows(chain: Vec<Vec<u8>>, leaf: &LeafOptions) -> Self {
        Self::accepts(tls_server(&chain, &leaf.key, &[]).unwrap())
    }

    /// Accepts TLS connections with these settings, and does not respond to requests.
    pub(crate) fn accepts(tls: Arc<ServerConfig>) -> Self {
        let acceptor = TlsAcceptor::from(tls);
        Self::start(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                let mut stream = acceptor.accept(stream).await.ok()?;
                let _ = stream.read(&mut [0]).await;
                Some(())
            }
        })
    }
}

/// Reads the head of a request.
pub(crate) async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// Runs three iterations with the scenario's default thresholds.
pub(crate) fn run(scenario: &str, options: Value) -> Outcome {
    run_allowing(&[], scenario, options)
}

/// Runs three iterations, in which these checks may fail.
pub(crate) fn run_allowing(allow: &[&str], scenario: &str, options: Value) -> Outcome {
    let plan = json!({ "scenarios": { "s": {
        "scenario": scenario,
        "executor": "constant-vus",
        "vus": 1,
        "duration": "60s",
        "iterations": 3,
        "options": options,
    } } });
    let yaml = serde_json::to_string_pretty(&plan).unwrap();
    let mut report = Report::on(None);
    let nothing = |_: &str| None;
    let plan = Plan::parse(
        &yaml,
        &lucarne_scenarios::scenarios(),
        &nothing,
        &mut report,
    );
    let plan = plan.unwrap_or_else(|| panic!("{:#?}", report.problem_lines()));
    let mut run = plan.into_run(7).unwrap();
    run.allow
        .extend(allow.iter().map(|name| (*name).to_owned()));
    run.check_allowed().unwrap();
    crate::finished(run)
}

fn rest(server: &Hostile, http: u8) -> Outcome {
    let url = format!("http://{}/", server.address);
    run("rest", json!({ "url": url, "http": http }))
}

/// Checks that the run has failed with errors of only this kind, with these words in the details.
#[track_caller]
fn is_red(fault: &str, outcome: &Outcome, kind: &str, words: &str) {
    has_failed(fault, outcome, (Verdict::Crossed, kind, words));
}

/// Checks that the run has this verdict, and errors of only this kind, with these words in the
/// details.
#[track_caller]
fn has_failed(fault: &str, outcome: &Outcome, (verdict, kind, words): (Verdict, &str, &str)) {
    let summary = &outcome.summary;
    let told = format!("{fault}: {:?} {:#?}", outcome.error, summary.errors);
    assert_eq!(outcome.verdict, verdict, "{told}");
    let kinds: Vec<_> = summary.errors.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(kinds, [kind], "{told}");
    assert!(summary.errors[0].details[0].contains(words), "{told}");
}

/// Returns the names of the checks that have failed.
pub(crate) fn failed(outcome: &Outcome) -> Vec<&str> {
    let checks = outcome.summary.checks.iter().filter(|it| it.fails > 0);
    checks.map(|it| it.name.as_str()).collect()
}

#[test]
fn responses_that_are_not_what_they_announce() {
    for (fault, bytes, kind, words) in [
        (
            "Content-Length too long",
            &b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nshort"[..],
            "body",
            "45 bytes before the end",
        ),
        (
            "Content-Length too short",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok, and more",
            "protocol",
            "10 bytes arrived after the end of the response",
        ),
        (
            "204 with a body",
            b"HTTP/1.1 204 No Content\r\ncontent-length: 4\r\n\r\nbody",
            "protocol",
            "4 bytes arrived after the end of the response",
        ),
        (
            "a redirect to itself",
            b"HTTP/1.1 302 Found\r\nlocation: /\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            "status",
            "expected status 2xx, found 302",
        ),
        (
            "two lengths",
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "protocol",
            "both content-length and transfer-encoding",
        ),
    ] {
        is_red(fault, &rest(&Hostile::responds(bytes), 1), kind, words);
    }
}

/// The target was reached, so the limit is reported instead.
#[test]
fn responses_with_too_many_or_too_long_headers() {
    let fields = "x: y\r\n".repeat(300);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{fields}\r\n");
    let server = Hostile::responds(head.leak().as_bytes());
    let words = "more than 256 header fields";
    is_red("300 fields", &rest(&server, 1), "protocol", words);
    // One field with a value of 4,000 bytes, which the others repeat by their index (RFC 7541).
    let server = Hostile::http2(|stream| {
        let field = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
        let headers = [STATUS_200, field.as_slice(), &[0xbe; 20]].concat();
        frame(FrameType::Headers, END_HEADERS, stream, &headers)
    });
    let words = "the response is longer than 64 KiB";
    is_red("a head of 84 kB", &rest(&server, 2), "protocol", words);
}

/// Returns the first frames of a response.
fn begun(stream: u32, headers: &[u8]) -> Vec<u8> {
    let headers = frame(FrameType::Headers, END_HEADERS, stream, headers);
    [headers, frame(FrameType::Data, 0, stream, b"half of ")].concat()
}

/// Returns the frames of a response whose stream is reset with this code.
fn reset(stream: u32, code: u32) -> Vec<u8> {
    let reset = frame(FrameType::Reset, 0, stream, &code.to_be_bytes());
    [begun(stream, STATUS_200), reset].concat()
}

#[test]
fn responses_over_http2_that_end_within_their_body() {
    type Frames = fn(u32) -> Vec<u8>;
    let faults: [(&str, Frames, &str); 4] = [
        (
            "RST_STREAM with NO_ERROR",
            |stream| reset(stream, 0),
            "reset the stream before the end",
        ),
        (
            "RST_STREAM with INTERNAL_ERROR",
            |stream| reset(stream, 2),
            "internal error",
        ),
        (
            "END_STREAM before the length that was announced",
            |stream| {
                // content-length: 10, by the index of its name.
                let headers = [STATUS_200, &[0x0f, 0x0d, 2], b"10"].concat();
                let end = frame(FrameType::Data, END_STREAM, stream, b"");
                [begun(stream, &headers), end].concat()
            },
            "",
        ),
        (
            "GOAWAY with an error",
            |stream| {
                // The last processed stream is 0: the server processes no stream.
                let last = [[0; 4], 2_u32.to_be_bytes()].concat();
                [
                    begun(stream, STATUS_200),
                    frame(FrameType::GoAway, 0, 0, &last),
                ]
                .concat()
            },
            "",
        ),
    ];
    for (fault, frames, words) in faults {
        is_red(fault, &rest(&Hostile::http2(frames), 2), "body", words);
    }
}

/// A response is complete even if it ends before the client has sent the whole request (RFC 9113,
/// section 8.1).
#[test]
fn a_whole_response_over_http2_may_be_followed_by_a_reset() {
    let server = Hostile::http2(|stream| {
        let end = frame(FrameType::Data, END_STREAM, stream, b"the body");
        let reset = frame(FrameType::Reset, 0, stream, &[0; 4]);
        [begun(stream, STATUS_200), end, reset].concat()
    });
    let outcome = rest(&server, 2);
    assert_eq!(
        outcome.verdict,
        Verdict::Passed,
        "{:#?}",
        outcome.summary.errors
    );
}

#[test]
fn certificates_above_the_one_of_the_server() {
    let authority = |name: &str| CaOptions::named(name, KeyType::EcdsaP256);
    let expired = CaOptions {
        not_before: Time::now().plus_days(-30),
        not_after: Time::now().plus_days(-1),
        ..authority("Expired")
    };
    let root = Authority::root(&authority("Root")).unwrap();
    let files = tempfile::tempdir().unwrap();
    let named = |name: &str, root: &Authority| {
        let file = files.path().join(name);
        std::fs::write(&file, root.certificate_pem()).unwrap();
        file
    };
    let other = Authority::root(&authority("Other")).unwrap();
    let ca = [named("other.pem", &other), named("ca.pem", &root)];
    let look = |issuer: &Authority, order: fn(&mut [Vec<u8>]), version: &str| {
        let leaf = LeafOptions::for_names(["localhost"]).unwrap();
        let mut chain = issuer
            .chain(issuer.issue(&leaf).unwrap())
            .into_certificates();
        order(&mut chain);
        let server = Hostile::shows(chain, &leaf);
        let url = format!("https://localhost:{}", server.address.port());
        let options = json!({ "url": url, "ca": ca, "tlsVersions": [version] });
        run("tls", options)
    };

    let outcome = look(&root.intermediate(&expired).unwrap(), |_| (), "1.3");
    let words = "certificate_chain: a certificate above the leaf has expired";
    is_red("an expired intermediate", &outcome, "certificate", words);
    assert_eq!(failed(&outcome), ["certificate_chain"]);

    let upper = root.intermediate(&authority("Upper")).unwrap();
    let lower = upper.intermediate(&authority("Lower")).unwrap();
    for version in ["1.2", "1.3"] {
        let outcome = look(&lower, |_| (), version);
        let checks = &outcome.summary.checks;
        assert_eq!(outcome.verdict, Verdict::Passed, "{version}: {checks:#?}");
        assert_eq!(failed(&outcome), [""; 0]);
    }
    // TLS 1.2 requires the order (RFC 5246, section 7.4.2).
    let outcome = look(&lower, |chain| chain[1..].reverse(), "1.2");
    let words =
        "certificate_order_tls12: certificate 1 is not followed by the certificate of its issuer";
    is_red("a chain in another order", &outcome, "certificate", words);
    assert_eq!(failed(&outcome), ["certificate_order_tls12"]);
    // TLS 1.3 recommends the order (RFC 8446, section 4.4.2).
    let outcome = look(&lower, |chain| chain[1..].reverse(), "1.3");
    let checks = &outcome.summary.checks;
    assert_eq!(outcome.verdict, Verdict::Passed, "{checks:#?}");
    assert_eq!(failed(&outcome), ["certificate_order"]);
    let order = checks.iter().find(|it| it.name == "certificate_order");
    assert_eq!(order.unwrap().excused, Some(Excuse::Warning));
}

#[test]
fn proxies_that_accept_a_tunnel_and_speak_plain_http() {
    let through = |proxy: &Hostile| {
        let url = format!("http://{}", proxy.address);
        run(
            "proxy",
            json!({ "proxy": url, "insecure": true, "hosts": 1 }),
        )
    };
    let once_asked = Hostile::start(|mut stream| async move {
        head(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
        stream.read_u8().await.ok()?;
        let page = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(page).await.ok()?;
        // Read until the client disconnects, because a reset would overtake the page.
        tokio::io::copy(&mut stream, &mut tokio::io::sink())
            .await
            .ok()?;
        Some(())
    });
    let expected = (Verdict::Unreachable, "tls", "does not speak TLS");
    has_failed("plain HTTP in a tunnel", &through(&once_asked), expected);

    let at_once = b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 400 Bad Request\r\n\r\n";
    let outcome = through(&Hostile::responds(at_once));
    let words = "more bytes before the TLS handshake";
    let expected = (Verdict::Unreachable, "proxy", words);
    has_failed("plain HTTP after CONNECT", &outcome, expected);
}

/// A server that issues a nonce twice does not protect requests against replay.
#[test]
fn an_acme_server_that_gives_one_nonce_to_all() {
    let server = Hostile::start(|mut stream| async move {
        let address = stream.local_addr().ok()?;
        loop {
            let head = head(&mut stream).await?;
            let url = |path: &str| format!("http://{address}/{path}");
            let directory = json!({
                "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
                "revokeCert": url("revoke"), "keyChange": url("key"),
            });
            let (fields, body) = if head.starts_with("HEAD /nonce ") {
                ("replay-nonce: bm9uY2U\r\n", String::new())
            } else {
                ("content-type: application/json\r\n", directory.to_string())
            };
            let length = body.len();
            let response =
                format!("HTTP/1.1 200 OK\r\n{fields}content-length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).await.ok()?;
        }
    });
    let directory = format!("http://{}/directory", server.address);
    let outcome = run("acme", json!({ "directory": directory, "flow": "burst" }));
    let words = "has already issued the nonce bm9uY2U";
    is_red("one nonce for all", &outcome, "content", words);
    assert!(failed(&outcome).contains(&"replay_nonce"));
}
