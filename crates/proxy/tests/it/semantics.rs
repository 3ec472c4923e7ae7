//! Rules of RFC 9110 for intermediaries: the HTTP version of the server, interim responses,
//! trailers, hops, and many fields.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::client::{self, Answer};
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig, Setup};

#[tokio::test]
async fn http2_does_not_travel_over_http1_where_the_server_speaks_it() {
    let rig = Rig::new().await;
    let both = &["h2", "http/1.1"];
    let acceptor = origin::acceptor(&rig.world, &["localhost"], both, |_| ());
    // The server ends each HTTP/2 connection after one request.
    let origin = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(stream).await {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                origin::serve_one(stream, http2).await;
            }
        }
    })
    .await;
    let authority = format!("localhost:{}", origin.address.port());
    // An idle HTTP/1.1 connection is in the pool.
    let old = client::get(&rig, &authority, "localhost", &["http/1.1"], "/seen").await;
    assert!(old.body.contains("HTTP/1.1"), "{old:?}");
    let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
    let mut sender = client::http2_over(stream.unwrap()).await;
    for round in 0..50 {
        let request = Request::get("https://localhost/seen");
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
        assert!(answer.body.contains("HTTP/2.0"), "{round}: {}", answer.body);
    }
}

/// A request with a body and a trailer.
fn with_trailer(url: &str) -> Request<BoxBody<Bytes, std::convert::Infallible>> {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sent", HeaderValue::from_static("last"));
    let body = StreamBody::new(futures_util::stream::iter([
        Ok(Frame::data(Bytes::from_static(b"body"))),
        Ok(Frame::trailers(trailers)),
    ]));
    let request = Request::post(url).header("te", "trailers");
    let request = request.header("trailer", "x-sent");
    request.body(BodyExt::boxed(body)).unwrap()
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let rig = Rig::new().await;
    for (client, server) in [
        ("h2", "h2"),
        ("h2", "http/1.1"),
        ("http/1.1", "http/1.1"),
        ("plain", "http/1.1"),
    ] {
        let origin = match client {
            "plain" => Origin::plain().await,
            _ => Origin::https(&rig.world, &["localhost"], &[server]).await,
        };
        let authority = format!("localhost:{}", origin.address.port());
        let tls = async || {
            let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &[client]).await;
            stream.unwrap()
        };
        for _ in 0..2 {
            let response = match client {
                "h2" => {
                    let request = with_trailer("https://localhost/trailers");
                    let mut sender = client::http2_over(tls().await).await;
                    sender.send_request(request).await
                }
                "http/1.1" => {
                    let mut request = with_trailer("/trailers");
                    let host = HeaderValue::from_static("localhost");
                    request.headers_mut().insert("host", host);
                    client::http1_over(tls().await)
                        .await
                        .send_request(request)
                        .await
                }
                _ => {
                    let request = with_trailer(&format!("http://{authority}/trailers"));
                    let stream = TcpStream::connect(rig.address).await.unwrap();
                    client::http1_over(stream).await.send_request(request).await
                }
            };
            let body = response.unwrap().into_body().collect().await.unwrap();
            let trailers = body.trailers().cloned().unwrap_or_default();
            assert_eq!(body.to_bytes(), "last", "{client} to {server}");
            let trailer = |name| trailers.get(name).map(HeaderValue::as_bytes);
            assert_eq!(
                trailer("grpc-status"),
                Some(&b"0"[..]),
                "{client} to {server}"
            );
            assert_eq!(
                trailer("x-te"),
                Some(&b"trailers"[..]),
                "{client} to {server}"
            );
        }
        assert_eq!(origin.taken(), 1, "{client} to {server}");
    }
}

const EXPECTING: &str = "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n";

/// A proxy that waits for a server's interim response longer than a test takes.
async fn patient() -> Rig {
    let mut setup = Setup::new();
    setup.limits.expectation = EVENT_TIMEOUT;
    setup.start().await
}

/// Responds to the head of each request with these bytes.
async fn says(answer: &'static [u8]) -> Origin {
    Origin::of(move |mut stream| async move {
        while !client::head(&mut stream).await.is_empty() {
            stream.write_all(answer).await.unwrap();
        }
    })
    .await
}

/// Opens a connection to the proxy, or through it to the server. Returns the prefix of request
/// targets on this connection.
async fn ways_to(rig: &Rig, origin: &Origin, way: &str) -> (Box<dyn Stream>, String) {
    let authority = format!("localhost:{}", origin.address.port());
    match way {
        "plain" => {
            let stream = TcpStream::connect(rig.address).await.unwrap();
            (Box::new(stream), format!("http://{authority}"))
        }
        _ => {
            let stream = client::tls(rig, &rig.ca, &authority, "localhost", &["http/1.1"]).await;
            (Box::new(stream.unwrap()), String::new())
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Opens a connection and sends a request with an expectation for five bytes.
async fn expecting(rig: &Rig, origin: &Origin) -> TcpStream {
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let head = format!("POST http://{}/ HTTP/1.1\r\nHost: x", origin.address);
    let request = format!("{head}\r\n{EXPECTING}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_body_that_is_refused_is_not_asked_for() {
    let rig = patient().await;
    for answer in [
        &b"HTTP/1.1 417 No\r\nContent-Length: 3\r\n\r\nno\n"[..],
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 417 No\r\nContent-Length: 3\r\n\r\nno\n",
    ] {
        let origin = says(answer).await;
        for round in 0..50 {
            let mut stream = expecting(&rig, &origin).await;
            let mut said = client::head(&mut stream).await;
            if answer[9..].starts_with(b"103") {
                assert!(said.starts_with("HTTP/1.1 103"), "{round}: {said}");
                said = client::head(&mut stream).await;
            }
            assert!(said.starts_with("HTTP/1.1 417"), "{round}: {said}");
            let mut body = [0; 3];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"no\n");
        }
    }
}

#[tokio::test]
async fn a_refused_body_leaves_nothing_open() {
    let rig = patient().await;
    let (closed, mut ended) = tokio::sync::mpsc::channel(1);
    let origin = Origin::of(move |mut stream| {
        let closed = closed.clone();
        async move {
            client::head(&mut stream).await;
            let answer = b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            let mut more = Vec::new();
            let _ = stream.read_to_end(&mut more).await;
            closed.send(more).await.unwrap();
        }
    })
    .await;
    let mut stream = expecting(&rig, &origin).await;
    let said = client::head(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 417"), "{said}");
    let more = timeout(EVENT_TIMEOUT, ended.recv())
        .await
        .expect("left open");
    assert_eq!(more.as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn a_server_that_knows_no_expectations_gets_the_body() {
    let rig = Rig::new().await;
    let origin = Origin::of(|mut stream| async move {
        client::head(&mut stream).await;
        let mut body = [0; 5];
        stream.read_exact(&mut body).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).await.unwrap();
    })
    .await;
    let mut stream = expecting(&rig, &origin).await;
    let said = client::head(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 100"), "{said}");
    stream.write_all(b"hello").await.unwrap();
    let said = client::head(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn expectations_of_http2_reach_the_server() {
    let rig = patient().await;
    for alpn in ["h2", "http/1.1"] {
        let origin = Origin::https(&rig.world, &["localhost"], &[alpn]).await;
        let authority = format!("localhost:{}", origin.address.port());
        for (path, status) in [("/header/expect", 200), ("/refuse", 417)] {
            let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
            let mut sender = client::http2_over(stream.unwrap()).await;
            let request = Request::post(format!("https://localhost{path}"));
            let request = request.header("expect", "100-continue");
            let request = request
                .body(Full::new(Bytes::from(vec![b'x'; 1 << 20])))
                .unwrap();
            let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
            assert_eq!(answer.status, status, "{alpn}: {answer:?}");
            assert!(
                status != 200 || answer.body == "100-continue",
                "{alpn}: {answer:?}"
            );
        }
    }
}

const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\
    Connection: x-once\r\nX-Once: 1\r\nContent-Length: 7\r\nTrailer: X-Sent\r\n\r\n\
    HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn early_hints_pass() {
    let rig = Rig::new().await;
    let plain = says(HINTS).await;
    let acceptor = origin::acceptor(&rig.world, &["localhost"], &["http/1.1"], |_| ());
    let secure = Origin::of(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            while !client::head(&mut stream).await.is_empty() {
                stream.write_all(HINTS).await.unwrap();
            }
        }
    })
    .await;
    for (way, origin) in [("plain", &plain), ("intercepted", &secure)] {
        let (mut stream, start) = ways_to(&rig, origin, way).await;
        // The second and third request are sent before the first response.
        let request = format!("GET {start}/ HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(3);
        stream.write_all(request.as_bytes()).await.unwrap();
        for round in 0..3 {
            let hints = client::head(&mut stream).await.to_lowercase();
            assert!(
                hints.starts_with("http/1.1 103 early hints\r\n"),
                "{way} {round}: {hints}"
            );
            assert!(
                hints.contains("link: </style.css>; rel=preload\r\n"),
                "{hints}"
            );
            // Fields about the connection, or about a body that the response does not have.
            for field in ["x-once", "content-length", "trailer"] {
                assert!(!hints.contains(field), "{hints}");
            }
            let said = client::head(&mut stream).await;
            assert!(said.starts_with("HTTP/1.1 102"), "{way} {round}: {said}");
            let said = client::head(&mut stream).await;
            assert!(said.starts_with("HTTP/1.1 200"), "{way} {round}: {said}");
            let mut body = [0; 2];
            stream.read_exact(&mut body).await.unwrap();
            assert_eq!(&body, b"ok");
        }
    }
    // HTTP/1.0 has no interim responses (RFC 9110, section 15.2).
    let old = format!("GET http://{}/ HTTP/1.0\r\n\r\n", plain.address);
    let said = client::raw(rig.address, old.as_bytes()).await;
    assert!(
        said.contains(" 200 OK") && !said.contains(" 103 "),
        "{said}"
    );
    // HTTP/2 clients receive only the final response.
    let authority = format!("localhost:{}", secure.address.port());
    let answer = client::get(&rig, &authority, "localhost", &["h2"], "/").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
}

#[tokio::test]
async fn interim_answers_without_end_end_with_their_request() {
    let mut setup = Setup::new();
    setup.limits.response = std::time::Duration::from_millis(500);
    let rig = setup.start().await;
    let origin = Origin::of(|mut stream| async move {
        let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(100);
        while stream.write_all(&hint).await.is_ok() {}
    })
    .await;
    let mut stream = TcpStream::connect(rig.address).await.unwrap();
    let request = format!(
        "GET http://{}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        origin.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    timeout(EVENT_TIMEOUT, stream.read_to_string(&mut said))
        .await
        .unwrap()
        .unwrap();
    let (before, answer) = said.split_once("HTTP/1.1 504 ").expect("no answer");
    assert!(
        before.ends_with("\r\n\r\n") && !answer.contains(" 103 "),
        "{answer}"
    );
}

#[tokio::test]
async fn options_of_a_whole_server_stay_that() {
    let rig = Rig::new().await;
    let secure = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    let (mut stream, _) = ways_to(&rig, &secure, "intercepted").await;
    for (target, expected) in [("*", "*"), ("/", "/"), ("/a?b", "/a")] {
        let request = format!("OPTIONS {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let said = client::head(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
        let mut body = vec![0; expected.len()];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(body, expected.as_bytes());
    }
    // HTTP/2 sends `:path: *`.
    for server in ["h2", "http/1.1"] {
        let origin = Origin::https(&rig.world, &["localhost"], &[server]).await;
        let authority = format!("localhost:{}", origin.address.port());
        let stream = client::tls(&rig, &rig.ca, &authority, "localhost", &["h2"]).await;
        let mut sender = client::http2_over(stream.unwrap()).await;
        let uri = http::Uri::builder().scheme("https").authority("localhost");
        let request = Request::options(uri.path_and_query("*").build().unwrap());
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, "*"),
            "{server}"
        );
    }
    // A request for the proxy itself.
    let own = b"OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let said = client::raw(rig.address, own).await;
    assert!(
        said.starts_with("HTTP/1.1 200") && said.contains("Allow: "),
        "{said}"
    );
}

#[tokio::test]
async fn a_request_goes_as_far_as_it_says() {
    let rig = Rig::new().await;
    let plain = Origin::plain().await;
    let secure = Origin::https(&rig.world, &["localhost"], &["http/1.1"]).await;
    for (way, origin) in [("plain", &plain), ("intercepted", &secure)] {
        let ask = async |method: &str, hops: &str| {
            let (mut stream, start) = ways_to(&rig, origin, way).await;
            let request = format!(
                "{method} {start}/header/max-forwards HTTP/1.1\r\nHost: localhost\r\n\
                 X-Kept: 1\r\nCookie: secret\r\nAuthorization: secret\r\n\
                 Max-Forwards: {hops}\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut said = String::new();
            let reading = stream.read_to_string(&mut said);
            // Some servers close TLS without an alert.
            let _ = timeout(EVENT_TIMEOUT, reading).await.unwrap();
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200"), "{said}");
            (head.to_owned(), body.to_owned())
        };
        let (head, body) = ask("OPTIONS", "0").await;
        assert!(head.contains("Allow: ") && body.is_empty(), "{head}");
        let (head, body) = ask("TRACE", "0").await;
        assert!(head.contains("Content-Type: message/http"), "{head}");
        assert!(
            body.starts_with("TRACE ") && body.contains("x-kept: 1\r\n"),
            "{body}"
        );
        assert!(!body.contains("secret"), "{body}");
        assert_eq!(origin.taken(), 0, "{way}");
        for method in ["OPTIONS", "TRACE"] {
            assert_eq!(ask(method, "5").await.1, "4", "{way} {method}");
            assert_eq!(ask(method, "many").await.1, "many", "{way} {method}");
        }
        assert_eq!(ask("GET", "0").await.1, "0", "{way}");
    }
}

#[tokio::test]
async fn many_fields_pass_and_too_many_are_refused() {
    let rig = Rig::new().await;
    let origin = Origin::of(|mut stream| async move {
        loop {
            let head = client::head(&mut stream).await;
            let fields = head
                .lines()
                .filter(|line| line.to_lowercase().starts_with("x-"));
            let fields: Vec<&str> = fields.collect();
            if head.is_empty() {
                return;
            }
            let mut answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Count: {}\r\n",
                fields.len()
            );
            for field in fields {
                answer.push_str(field);
                answer.push_str("\r\n");
            }
            answer.push_str("\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let ask = async |many: usize| {
        let mut stream = TcpStream::connect(rig.address).await.unwrap();
        let fields: String = (0..many).map(|n| format!("X-{n}: {n}\r\n")).collect();
        let request = format!(
            "GET http://{}/ HTTP/1.1\r\nHost: x\r\n{fields}\r\n",
            origin.address
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        client::head(&mut stream).await
    };
    for many in [101, 900] {
        let said = ask(many).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{many}: {said}");
        assert!(
            said.contains(&format!("X-Count: {many}\r\n")),
            "{many}: {said}"
        );
        assert!(
            said.contains(&format!("X-{0}: {0}\r\n", many - 1)),
            "{many}: {said}"
        );
    }
    let said = ask(1100).await;
    assert!(said.starts_with("HTTP/1.1 431"), "{said}");
}
