//! Records of finished exchanges.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use lucarne_proxy::{Details, Record, RecordAction, RecordOptions, Recorder, Users, har_entry};
use lucarne_testkit::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::common::client;
use crate::common::origin::{self, Origin};
use crate::common::{EVENT_TIMEOUT, Rig, Setup, authority};
use crate::intercept::socket;

/// A proxy whose records arrive in a channel, with their entries of HAR.
struct Recorded {
    rig: Rig,
    records: mpsc::UnboundedReceiver<(Record, Option<String>)>,
}

impl Recorded {
    async fn new(options: RecordOptions, setup: Setup) -> Self {
        let (send, records) = mpsc::unbounded_channel();
        let sink = move |record: &Record, details: Option<&Details>| {
            let entry = details.and_then(|details| har_entry(record, details));
            send.send((record.clone(), entry)).unwrap();
        };
        let recorder = Recorder::new(options, vec![Box::new(sink)]);
        let setup = Setup {
            recorder: Some(Arc::new(recorder)),
            ..setup
        };
        Recorded {
            rig: setup.start().await,
            records,
        }
    }

    async fn totals() -> Self {
        Self::new(RecordOptions::default(), Setup::new()).await
    }

    async fn next(&mut self) -> Record {
        self.next_with_entry().await.0
    }

    async fn next_with_entry(&mut self) -> (Record, Option<String>) {
        let next = tokio::time::timeout(EVENT_TIMEOUT, self.records.recv());
        next.await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn requests_with_and_without_tls_have_one_record_each() {
    let mut proxy = Recorded::totals().await;
    let plain = Origin::plain().await;
    let url = format!("http://{}/echo?q=1&token=hush", plain.address);
    let request = Request::post(&url).header("user-agent", "test/1");
    let request = request.body(Full::new(Bytes::from("12345"))).unwrap();
    client::ask(&proxy.rig, request).await;
    let record = proxy.next().await;
    assert_eq!(record.action, RecordAction::Forward);
    assert_eq!(record.url, url.replace("hush", "***"));
    assert_eq!((record.method.as_str(), record.status), ("POST", Some(200)));
    assert_eq!((record.request_bytes, record.response_bytes), (5, 5));
    assert_eq!(record.user_agent.as_deref(), Some("test/1"));
    assert!(record.wait_ms.unwrap() <= record.duration_ms);
    assert_eq!((record.tls, record.error), (None, None));
    for alpn in ["h2", "http/1.1"] {
        let origin = Origin::https(&proxy.rig.world, &["localhost"], &[alpn]).await;
        let authority = format!("localhost:{}", origin.address.port());
        let answer = client::get(&proxy.rig, &authority, "localhost", &[alpn], "/some").await;
        let record = proxy.next().await;
        assert_eq!(record.action, RecordAction::Intercept);
        assert_eq!(record.url, format!("https://{authority}/some"));
        assert_eq!(record.response_bytes, answer.body.len() as u64);
        assert_eq!(record.protocol == "HTTP/2.0", alpn == "h2");
        assert_eq!(record.tls.unwrap().version, "TLSv1.3");
    }
    let recent = proxy
        .rig
        .proxy
        .recorder()
        .unwrap()
        .recent(&Default::default());
    assert_eq!(
        recent.len(),
        3,
        "CONNECT of intercepted requests has no record"
    );
}

#[tokio::test]
async fn tunnels_and_upgrades_are_recorded_at_their_end() {
    let mut proxy = Recorded::totals().await;
    let banner = Origin::of(origin::banner).await;
    let authority = banner.address.to_string();
    let (mut stream, _) = client::connect(proxy.rig.address, &authority).await;
    stream.write_all(b"EHLO there\r\n").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let record = proxy.next().await;
    assert_eq!(record.action, RecordAction::Tunnel);
    assert_eq!((record.method.as_str(), record.url), ("CONNECT", authority));
    assert_eq!(
        (record.request_bytes, record.response_bytes),
        (12, all.len() as u64)
    );
    assert_eq!(all.len(), 11 + 12);
    let plain = Origin::plain().await;
    let stream = TcpStream::connect(proxy.rig.address).await.unwrap();
    let url = format!("http://{}/socket", plain.address);
    socket(client::http1_over(stream).await, &url).await;
    let record = proxy.next().await;
    assert_eq!((record.status, &record.url), (Some(101), &url));
    assert!(
        record.request_bytes > 0 && record.response_bytes > 0,
        "{record:?}"
    );
}

#[tokio::test]
async fn failures_have_their_kind_and_reason() {
    let mut setup = Setup::new();
    setup.rules.deny = vec!["denied.test".parse().unwrap()];
    let mut proxy = Recorded::new(RecordOptions::default(), setup).await;
    let stranger = authority("A Stranger");
    let handshake = client::tls(&proxy.rig, &stranger, "localhost:443", "localhost", &[]).await;
    assert!(handshake.is_err());
    let record = proxy.next().await;
    assert_eq!(record.error, Some("tls_alert_received"));
    assert_eq!(record.action, RecordAction::Intercept);
    assert!(record.reason.unwrap().contains("alert"));
    let (_, head) = client::connect(proxy.rig.address, "denied.test:443").await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let record = proxy.next().await;
    assert_eq!(
        (record.status, record.action),
        (Some(403), RecordAction::Refuse)
    );
    assert_eq!(record.error, Some("http_request_denied"));
    assert!(record.response_bytes > 0 && record.reason.is_some());
    let url = format!("http://127.0.0.1:{}/", free_port());
    let answer = client::plain(&proxy.rig, &url).await;
    let record = proxy.next().await;
    assert_eq!((answer.status, record.status), (502, Some(502)));
    assert_eq!(record.error, Some("connection_refused"));
    client::raw(proxy.rig.address, b"GET /\x01 HTTP/1.1\r\n\r\n").await;
    let record = proxy.next().await;
    assert_eq!((record.status, record.method.as_str()), (Some(400), "-"));
}

#[tokio::test]
async fn a_client_that_leaves_is_recorded() {
    let mut proxy = Recorded::totals().await;
    // Sends a part of the body, and waits for the end of the connection.
    let origin = Origin::of(|mut stream| async move {
        let _ = client::head(&mut stream).await;
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\npart";
        let _ = stream.write_all(head).await;
        let _ = stream.read(&mut [0; 1]).await;
    })
    .await;
    let mut stream = TcpStream::connect(proxy.rig.address).await.unwrap();
    let request = format!(
        "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\n\r\n",
        origin.address
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    client::head(&mut stream).await;
    stream.read_exact(&mut [0; 4]).await.unwrap();
    drop(stream);
    let record = proxy.next().await;
    assert_eq!(
        (record.status, record.error),
        (Some(200), Some("client_aborted"))
    );
    assert_eq!(record.response_bytes, 4);
}

#[tokio::test]
async fn records_name_the_user() {
    let setup = Setup {
        users: Some(Users::parse("anna:hush").unwrap()),
        ..Setup::new()
    };
    let mut proxy = Recorded::new(RecordOptions::default(), setup).await;
    let origin = Origin::plain().await;
    let url = format!("http://{}/", origin.address);
    client::plain(&proxy.rig, &url).await;
    let record = proxy.next().await;
    assert_eq!(
        (record.status, record.action),
        (Some(407), RecordAction::Refuse)
    );
    assert_eq!(record.user, None);
    let credentials = "Basic YW5uYTpodXNo";
    let request = Request::get(&url).header("proxy-authorization", credentials);
    client::ask(&proxy.rig, request.body(Full::default()).unwrap()).await;
    assert_eq!(proxy.next().await.user.as_deref(), Some("anna"));
    let mut stream = TcpStream::connect(proxy.rig.address).await.unwrap();
    let authority = origin.address.to_string();
    let connect = format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\
         Proxy-Authorization: {credentials}\r\n\r\n"
    );
    stream.write_all(connect.as_bytes()).await.unwrap();
    client::head(&mut stream).await;
    let request = Request::get("/inside").header("host", &authority);
    let mut sender = client::http1_over(stream).await;
    let response = sender.send_request(request.body(Full::<Bytes>::default()).unwrap());
    client::Answer::of(response.await.unwrap()).await;
    let record = proxy.next().await;
    assert_eq!(record.user.as_deref(), Some("anna"));
    assert_eq!(record.url, format!("http://{authority}/inside"));
}

#[tokio::test]
async fn details_have_bodies_and_no_secrets() {
    for (secrets, shown) in [(false, "***"), (true, "hush")] {
        let options = RecordOptions {
            secrets,
            detailed: vec!["127.0.0.1".parse().unwrap()],
            bodies: true,
        };
        let mut proxy = Recorded::new(options, Setup::new()).await;
        let origin = Origin::plain().await;
        let request = Request::post(format!("http://{}/echo?key=hush", origin.address))
            .header("authorization", "hush")
            .header("cookie", "hush")
            .header("referer", "http://a.test/?token=hush")
            .header("content-location", "/x?token=hush")
            .header("x-plain", "seen");
        let request = request.body(Full::new(Bytes::from("the body"))).unwrap();
        client::ask(&proxy.rig, request).await;
        let (record, entry) = proxy.next_with_entry().await;
        let entry: serde_json::Value = serde_json::from_str(&entry.unwrap()).unwrap();
        let header = |name: &str| {
            let headers = entry["request"]["headers"].as_array().unwrap();
            let found = headers.iter().find(|header| header["name"] == name);
            found.unwrap()["value"].as_str().unwrap().to_owned()
        };
        assert_eq!(header("authorization"), shown);
        assert_eq!(header("cookie"), shown);
        assert_eq!(header("referer"), format!("http://a.test/?token={shown}"));
        assert_eq!(header("content-location"), format!("/x?token={shown}"));
        assert_eq!(header("x-plain"), "seen");
        assert!(
            record.url.ends_with(&format!("key={shown}")),
            "{}",
            record.url
        );
        assert_eq!(entry["request"]["postData"]["text"], "the body");
        assert_eq!(entry["response"]["content"]["text"], "the body");
        client::plain(&proxy.rig, "http://localhost:1/").await;
        let (_, entry) = proxy.next_with_entry().await;
        assert_eq!(entry, None, "another host");
    }
}
