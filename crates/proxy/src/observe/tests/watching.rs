use super::*;
use crate::observe::LogListSource;
use prometheus_client::registry::Registry;
use std::time::Duration;

fn options_with(list: &std::path::Path) -> ObserveOptions {
    ObserveOptions {
        log_list: Some(LogListSource::File(list.to_owned())),
        refresh: Duration::from_millis(50),
        ..ObserveOptions::new(tls())
    }
}

fn handshakes(observer: &Observer) -> u64 {
    observer.shared().metrics.handshakes.get()
}

#[tokio::test]
async fn from_the_handshake_to_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    std::fs::write(
        &file,
        list_json(&[(1, "A", "usable"), (2, "B", "usable")]).to_string(),
    )
    .unwrap();
    let observer = Observer::start(options_with(&file)).await.unwrap();
    let good = chain(certificate("good.example", &[1, 2]));
    for _ in 0..3 {
        observer.seen("good.example", &good, b"", b"");
    }
    observer.seen(
        "bare.example",
        &chain(certificate("bare.example", &[])),
        b"",
        b"",
    );
    observer.seen(
        "weak.example",
        &chain(certificate("weak.example", &[1])),
        b"",
        b"",
    );
    // The page shows any name as text.
    let odd = "<script>'\"&.example";
    observer.seen(odd, &chain(certificate("odd.example", &[9])), b"", b"");
    observer.seen("nothing.example", &[], b"", b"");
    until("all are looked at", || handshakes(&observer) == 6).await;

    let all = get_json(&observer, "observed.json", "");
    assert_eq!(all["matching"], 4);
    let summary = &all["summary"];
    assert_eq!(
        (&summary["hosts"], &summary["certificates"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(summary["notLogged"], 2, "{summary}");
    assert_eq!(summary["policyFailed"], 3);
    assert_eq!(summary["logList"]["logs"], 2);
    for (show, hosts) in [
        ("not-logged", &[odd, "bare.example"][..]),
        ("policy-failed", &[odd, "weak.example", "bare.example"]),
        ("unverified", &[odd]),
        ("invalid", &[]),
    ] {
        let found = get_json(&observer, "observed.json", &format!("show={show}"));
        let rows = found["hosts"].as_array().unwrap();
        let names: Vec<_> = rows
            .iter()
            .map(|row| row["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, hosts, "{show}");
    }
    let found = get_json(&observer, "observed.json", "q=GOOD");
    assert_eq!(found["hosts"][0]["handshakes"], 3);
    assert_eq!(found["hosts"][0]["validScts"], 2);

    let host = get_json(&observer, "host.json", "name=good.example");
    let certificate = &host["certificates"][0];
    assert_eq!(certificate["standing"], "good");
    assert_eq!(
        certificate["names"],
        json!(["good.example", "www.good.example"])
    );
    assert_eq!(certificate["scts"][0]["log"], "log 1");
    assert_eq!(certificate["scts"][0]["leafIndex"], 7);
    assert_eq!(certificate["chain"].as_array().unwrap().len(), 1);
    assert_eq!(certificate["handshakes"], 3);

    let (_, page) = get(&observer, "", "");
    assert!(
        page.contains("good.example") && page.contains("no SCT"),
        "{page}"
    );
    assert!(!page.contains("<script>"), "{page}");
    let (_, page) = get(&observer, "host", "name=bare.example");
    assert!(page.contains("nothing shows that it is in a log"), "{page}");
    let (_, page) = get(&observer, "host", "name=%3Cscript%3E%27%22%26.example");
    assert!(
        page.contains("not verified: the log is not in the log list"),
        "{page}"
    );
    assert!(!page.contains("<script>"), "{page}");

    let fingerprint = certificate["fingerprint"].as_str().unwrap();
    let (status, pem) = get(
        &observer,
        "chain.pem",
        &format!("certificate={fingerprint}"),
    );
    assert_eq!(status, 200);
    let ders: Vec<_> = lucarne_mint::pem::decode(&pem)
        .unwrap()
        .into_iter()
        .map(|(_, der)| der)
        .collect();
    assert_eq!(
        ders,
        good.iter().map(|der| der.to_vec()).collect::<Vec<_>>()
    );

    for (path, query) in [
        ("host", "name=never.example"),
        ("host", ""),
        ("host.json", "name="),
        ("chain.pem", "certificate=00"),
        ("chain.pem", "certificate=xyz"),
    ] {
        assert_eq!(get(&observer, path, query).0, 404, "{path}?{query}");
    }
    assert!(routes(&observer, "elsewhere", "").is_none());

    let mut registry = Registry::default();
    observer.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "lucarne_proxy_observed_handshakes_total 6",
        "lucarne_proxy_observed_certificates_total{standing=\"no-sct\"} 1",
        "lucarne_proxy_observed_certificates_total{standing=\"good\"} 1",
        "lucarne_proxy_observed_scts_total{delivery=\"embedded\",finding=\"valid\"} 3",
        "lucarne_proxy_observed_hosts_held 4",
        "lucarne_proxy_observed_log_list_logs 2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn another_log_list_judges_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    std::fs::write(&file, list_json(&[(1, "A", "usable")]).to_string()).unwrap();
    let observer = Observer::start(options_with(&file)).await.unwrap();
    let leaf = certificate("later.example", &[1, 2]);
    observer.seen("later.example", &chain(leaf), b"", b"");
    let standing = || {
        let (status, body) = get(&observer, "host.json", "name=later.example");
        let host: Value = serde_json::from_str(&body).unwrap_or_default();
        (status == 200).then(|| {
            host["certificates"][0]["standing"]
                .as_str()
                .unwrap()
                .to_owned()
        })
    };
    until("seen", || standing().as_deref() == Some("policy-failed")).await;

    // If reading fails, the last list stays in use, and the page reports the failure.
    std::fs::write(&file, "{").unwrap();
    let trouble =
        || get_json(&observer, "observed.json", "")["summary"]["logList"]["trouble"].clone();
    until("told", || {
        trouble().as_str().unwrap().contains("not a log list")
    })
    .await;
    assert_eq!(standing().as_deref(), Some("policy-failed"));

    let better = list_json(&[(1, "A", "usable"), (2, "B", "usable")]);
    std::fs::write(&file, better.to_string()).unwrap();
    until("judged again", || standing().as_deref() == Some("good")).await;
    assert_eq!(trouble(), "");
}

#[tokio::test]
async fn a_list_that_cannot_be_read_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    let error = Observer::start(options_with(&file))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("log_list.json") && error.contains("No such file"),
        "{error}"
    );
    std::fs::write(&file, "<html>").unwrap();
    let error = Observer::start(options_with(&file))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a log list"), "{error}");
}

/// The queue is bounded in number and in bytes. Handshakes that do not fit are counted, and the
/// caller never waits.
#[tokio::test]
async fn more_than_can_be_looked_at() {
    let observer = Observer::start(ObserveOptions::new(tls())).await.unwrap();
    let sent = 20_000;
    {
        // The worker is blocked, the proxy is not.
        let held = observer.shared().memory.lock();
        let large = vec![vec![0; 60_000].into()];
        for n in 0..sent {
            let small = chain(vec![0; 10]);
            let chain = if n % 2 == 0 { &large } else { &small };
            observer.seen("flood.example", chain, b"", b"");
        }
        drop(held);
    }
    let dropped = observer.shared().metrics.dropped_handshakes();
    assert!(dropped > sent - 1100, "{dropped} dropped");
    until("the rest is looked at", || {
        handshakes(&observer) == sent - dropped
    })
    .await;
    observer.seen(
        "after.example",
        &chain(certificate("after.example", &[])),
        b"",
        b"",
    );
    until("there is room again", || {
        get(&observer, "host", "name=after.example").0 == 200
    })
    .await;
    let all = get_json(&observer, "observed.json", "");
    let lost = all["summary"]["lost"].as_str().unwrap();
    assert_eq!(lost, format!("{dropped} handshakes not checked"));
}

#[tokio::test]
async fn secrets_of_urls_are_not_shown() {
    let log_list = LogListSource::Url("https://hush@list.example/?token=hush".parse().unwrap());
    assert_eq!(log_list.to_string(), "https://***@list.example/?token=***");
    let options = ObserveOptions {
        submit_to: vec![SubmitTo {
            log: "http://me:hush@127.0.0.1:9/".parse().unwrap(),
            key: None,
        }],
        ..ObserveOptions::new(tls())
    };
    let observer = Observer::start(options).await.unwrap();
    let summary = get_json(&observer, "observed.json", "")["summary"].clone();
    assert_eq!(summary["submitTo"], json!(["http://me:***@127.0.0.1:9/"]));
}

/// The thread and the tasks end with the observer.
#[tokio::test]
async fn dropped_and_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    std::fs::write(&file, list_json(&[(1, "A", "usable")]).to_string()).unwrap();
    let options = ObserveOptions {
        submit_to: vec![SubmitTo {
            log: "http://127.0.0.1:9/".parse().unwrap(),
            key: None,
        }],
        ..options_with(&file)
    };
    let observer = Observer::start(options).await.unwrap();
    observer.seen(
        "gone.example",
        &chain(certificate("gone.example", &[1])),
        b"",
        b"",
    );
    let shared = Arc::downgrade(&observer.shared);
    drop(observer);
    until("everything is gone", || shared.strong_count() == 0).await;
}

/// A server sends its leaf alone. The observer uses the issuer that another server sent, in either
/// order of arrival.
#[tokio::test]
async fn a_leaf_alone_is_completed_from_what_others_sent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    let logs = list_json(&[(1, "A", "usable"), (2, "B", "usable")]);
    std::fs::write(&file, logs.to_string()).unwrap();
    let observer = Observer::start(options_with(&file)).await.unwrap();
    let alone = |name: &str| vec![certificate(name, &[1, 2]).into()];
    observer.seen("before.example", &alone("before.example"), b"", b"");
    until("it is looked at", || handshakes(&observer) == 1).await;
    let certificate_of = |name: &str| {
        get_json(&observer, "host.json", &format!("name={name}"))["certificates"][0].clone()
    };
    assert_eq!(certificate_of("before.example")["standing"], "unverified");
    let whole = chain(certificate("whole.example", &[1, 2]));
    observer.seen("whole.example", &whole, b"", b"");
    observer.seen("after.example", &alone("after.example"), b"", b"");
    until("all are looked at", || handshakes(&observer) == 3).await;
    for name in ["before.example", "after.example"] {
        let seen = certificate_of(name);
        assert_eq!(seen["standing"], "good", "{seen:#}");
        // The list has only the certificates that the server sent.
        assert_eq!(seen["chain"], json!([]), "{seen:#}");
        let issuer = seen["completedBy"].as_array().unwrap();
        assert_eq!(issuer.len(), 1, "{seen:#}");
    }
}

/// rustls does not request SCTs in the TLS extension. The page states this if such SCTs could
/// matter.
#[tokio::test]
async fn what_cannot_be_seen_is_said_where_it_matters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log_list.json");
    let logs = list_json(&[(1, "A", "usable"), (2, "B", "usable")]);
    std::fs::write(&file, logs.to_string()).unwrap();
    let observer = Observer::start(options_with(&file)).await.unwrap();
    for (name, logs) in [
        ("none.example", &[][..]),
        ("few.example", &[1]),
        ("enough.example", &[1, 2]),
    ] {
        observer.seen(name, &chain(certificate(name, logs)), b"", b"");
    }
    until("all are looked at", || handshakes(&observer) == 3).await;
    for (name, matters) in [
        ("none.example", true),
        ("few.example", true),
        ("enough.example", false),
    ] {
        let query = format!("name={name}");
        let (_, page) = get(&observer, "host", &query);
        assert_eq!(page.contains("not visible to the proxy"), matters, "{page}");
        let json = get_json(&observer, "host.json", &query);
        let unseen = &json["certificates"][0]["unseen"];
        assert_eq!(unseen.is_string(), matters, "{json:#}");
    }
}

/// If rustls ever requests SCTs (extension 18), they must be passed to the observer, and the note
/// about them must be removed.
#[test]
fn the_tls_library_does_not_ask_for_scts() {
    let name = "asked.example".try_into().unwrap();
    let mut client = rustls::ClientConnection::new(tls(), name).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    // Skips the record and handshake headers, the version and the random, then the fields with a
    // length.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    at += 1 + usize::from(hello[at]);
    let mut extensions = &hello[at + 2..];
    let mut types = Vec::new();
    while let [a, b, c, d, rest @ ..] = extensions {
        types.push(u16::from_be_bytes([*a, *b]));
        extensions = &rest[usize::from(u16::from_be_bytes([*c, *d]))..];
    }
    assert!(types.contains(&0), "the name is there: {types:?}");
    assert!(!types.contains(&18), "{types:?}");
}

/// A log list that hangs does not delay the start: it is read in the background, and all
/// certificates are judged again.
#[tokio::test]
async fn a_log_list_that_hangs_is_read_later() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let json = list_json(&[(1, "A", "usable")]).to_string();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        // The first request receives no response for as long as its client waits.
        let (_hangs, _) = listener.accept().await.unwrap();
        let (mut socket, _) = listener.accept().await.unwrap();
        gone.await.unwrap();
        let mut head = [0; 1024];
        let _ = socket.read(&mut head).await.unwrap();
        let response = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{json}",
            json.len()
        );
        socket.write_all(response.as_bytes()).await.unwrap();
        std::future::pending::<()>().await
    });
    let observer = Observer::start(ObserveOptions {
        log_list: Some(LogListSource::Url(url.parse().unwrap())),
        ..ObserveOptions::new(tls())
    })
    .await
    .unwrap();
    assert!(observer.shared().list.load().list.is_none());
    go.send(()).unwrap();
    let is_read = || observer.shared().list.load().list.is_some();
    until("the list is read", is_read).await;
}
