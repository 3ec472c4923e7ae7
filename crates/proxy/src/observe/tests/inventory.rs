use super::*;
use crate::observe::inventory::Inventory;
use crate::observe::{InventoryError, InventoryOptions, LogListSource, ObserveError};
use lucarne_mint::Time;
use parking_lot::Mutex;
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// Returns options with an inventory in `folder`, and a log list of two logs.
pub(super) fn options(folder: &Path) -> ObserveOptions {
    let file = folder.join("log_list.json");
    if !file.exists() {
        let list = list_json(&[(1, "A", "usable"), (2, "B", "usable")]);
        std::fs::write(&file, list.to_string()).unwrap();
    }
    let mut inventory = InventoryOptions::new(folder.join("inventory.sqlite"));
    inventory.pace.request = Duration::ZERO;
    inventory.pace.look = Duration::from_millis(20);
    inventory.pace.confirm = Duration::ZERO;
    inventory.webhook_pause = Duration::from_millis(1);
    ObserveOptions {
        log_list: Some(LogListSource::File(file)),
        inventory: Some(inventory),
        ..ObserveOptions::new(tls())
    }
}

/// Starts an observer, after the observer before it has closed the database.
pub(super) async fn started(options: &ObserveOptions) -> Arc<Observer> {
    let mut observer = None;
    let open = async || match Observer::start(options.clone()).await {
        Ok(started) => Some(started),
        Err(ObserveError::Inventory {
            why: InventoryError::InUse,
            ..
        }) => None,
        Err(error) => panic!("{error}"),
    };
    lucarne_testkit::eventually("the database is free", async || {
        observer = open().await;
        observer.is_some()
    })
    .await;
    observer.unwrap()
}

pub(super) fn inventory(observer: &Observer, query: &str) -> Value {
    get_json(observer, "inventory.json", query)
}

fn inventory_of(observer: &Observer) -> &Arc<Inventory> {
    observer.shared().inventory.as_ref().unwrap()
}

/// Returns the kinds of the events, oldest first.
pub(super) fn kinds(observer: &Observer) -> Vec<String> {
    let events = inventory(observer, "")["events"].clone();
    let kinds = events.as_array().unwrap().iter().rev();
    kinds
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect()
}

fn dropped(observer: &Observer, what: &'static str) -> u64 {
    let labels = crate::observe::metrics::KindLabels { what };
    let dropped = observer.shared().metrics.dropped.get(&labels);
    dropped.map_or(0, |counter| counter.get())
}

async fn until_matching(observer: &Observer, count: u64) {
    until("the rows are written", || {
        inventory(observer, "")["matching"] == count
    })
    .await;
}

#[tokio::test]
async fn hosts_survive_a_restart_with_their_first_appearance() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let good = chain(certificate("good.example", &[1, 2]));
    let bare = chain(certificate("bare.example", &[]));
    let observer = started(&options).await;
    observer.seen("good.example", &good, b"", b"");
    observer.seen("bare.example", &bare, b"", b"");
    until_matching(&observer, 2).await;
    let before = inventory(&observer, "q=GOOD")["rows"][0].clone();
    assert_eq!(before["standing"], "good");
    assert_eq!(before["issuer"], "CN=Lucarne Test E1, O=Lucarne Test, C=XX");
    drop(observer);

    let observer = started(&options).await;
    assert_eq!(inventory(&observer, "q=good")["rows"][0], before);
    observer.seen("good.example", &good, b"", b"");
    until("the handshake is counted", || {
        inventory(&observer, "q=good")["rows"][0]["handshakes"] == 2
    })
    .await;
    let after = inventory(&observer, "q=good")["rows"][0].clone();
    assert_eq!(after["firstSeen"], before["firstSeen"]);
    for (query, count) in [
        ("show=not-logged", 1),
        ("show=invalid", 0),
        ("show=missing", 0),
    ] {
        assert_eq!(inventory(&observer, query)["matching"], count, "{query}");
    }
    let rest = inventory(&observer, "from=1");
    assert_eq!(
        (&rest["matching"], rest["rows"].as_array().unwrap().len()),
        (&json!(2), 1)
    );
    let (status, page) = get(&observer, "inventory", "show=not-logged");
    assert!(status == 200 && page.contains("bare.example"), "{page}");
    // The certificate without SCTs is reported once, although a server presented it before.
    assert_eq!(kinds(&observer), ["not-logged"]);
    let mode = std::fs::metadata(folder.path().join("inventory.sqlite")).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
}

#[tokio::test]
async fn the_least_recently_seen_certificate_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.inventory.as_mut().unwrap().max_certificates = 3;
    let observer = started(&options).await;
    for name in [
        "a.example",
        "b.example",
        "c.example",
        "d.example",
        "e.example",
    ] {
        observer.seen(name, &chain(certificate(name, &[1])), b"", b"");
        until(name, || {
            inventory(&observer, &format!("q={name}"))["matching"] == 1
        })
        .await;
    }
    let found = inventory(&observer, "");
    let rows = found["rows"].as_array().unwrap().iter();
    let mut hosts: Vec<_> = rows.map(|row| row["host"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["c.example", "d.example", "e.example"]);
    let lost = dropped(&observer, "inventory-hosts") + dropped(&observer, "inventory-certificates");
    assert!(lost >= 2, "{lost}");
    let held = |db: &Connection| {
        db.query_row("SELECT count(*) FROM certificates", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    assert_eq!(
        inventory_of(&observer).run(move |_, db| held(db)).await,
        Some(3)
    );
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_refused_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let file = folder.path().join("inventory.sqlite");
    let refused = async |options: &ObserveOptions, why: &str| {
        let error = Observer::start(options.clone())
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("`observe.database`: /"), "{error}");
        assert!(error.contains(why), "{error}");
    };
    let observer = started(&options).await;
    refused(&options, "another process uses the database").await;
    observer.seen(
        "a.example",
        &chain(certificate("a.example", &[1])),
        b"",
        b"",
    );
    until_matching(&observer, 1).await;
    drop(observer);
    drop(started(&options).await);

    let mut database = None;
    until("the database is closed", || {
        let open = Connection::open(&file).unwrap();
        let free = open.pragma_update(None, "user_version", 2).is_ok();
        database = Some(open);
        free
    })
    .await;
    drop(database);
    refused(
        &options,
        "has version 2, and this program reads version 1: use a newer",
    )
    .await;

    std::fs::write(
        &file,
        "not a database, but longer than the header of one ".repeat(99),
    )
    .unwrap();
    refused(&options, "the database is damaged").await;
    std::fs::remove_file(&file).unwrap();
    drop(started(&options).await);
    let damaged = || {
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[4096..8192].fill(0x5a);
        std::fs::write(&file, bytes).unwrap();
    };
    until("the write-ahead log is merged", || {
        !folder.path().join("inventory.sqlite-wal").exists()
    })
    .await;
    damaged();
    refused(&options, "the database is damaged").await;

    std::fs::remove_file(&file).unwrap();
    Connection::open(&file)
        .unwrap()
        .execute_batch("CREATE TABLE songs (name)")
        .unwrap();
    refused(&options, "a database of another program").await;
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    refused(&options, "not a regular file").await;
}

#[tokio::test]
async fn a_full_disk_is_counted_and_shown_and_delays_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let observer = started(&options).await;
    observer.seen(
        "a.example",
        &chain(certificate("a.example", &[1])),
        b"",
        b"",
    );
    until_matching(&observer, 1).await;
    let pages = |count: &'static str| {
        move |_: &Inventory, db: &Connection| {
            db.query_row(&format!("PRAGMA max_page_count = {count}"), [], |_| Ok(()))
        }
    };
    // SQLite rounds up to the present size.
    inventory_of(&observer).run(pages("1")).await.unwrap();
    let mut number = 0;
    until("the disk is full", || {
        let name = format!("n{number}.example");
        observer.seen(&name, &chain(certificate(&name, &[1, 2])), b"", b"");
        number += 1;
        dropped(&observer, "inventory-notes") > 0
    })
    .await;
    let troubles = observer.troubles();
    assert!(
        troubles[0].contains("inventory.sqlite: database or disk is full"),
        "{troubles:?}"
    );
    until("every handshake is checked", || {
        observer.shared().metrics.handshakes.get() == number + 1
    })
    .await;

    inventory_of(&observer).run(pages("1000000")).await.unwrap();
    observer.seen(
        "b.example",
        &chain(certificate("b.example", &[1])),
        b"",
        b"",
    );
    until("the inventory is written again", || {
        inventory(&observer, "q=b.example")["matching"] == 1
    })
    .await;
    assert!(
        observer
            .troubles()
            .iter()
            .all(|trouble| !trouble.contains("full"))
    );
}

/// Returns a certificate of `issuer` for `name` that expires after these days.
fn by(issuer: &Authority, name: &str, days: i64) -> Vec<rustls_pki_types::CertificateDer<'static>> {
    let mut options = Pki::shared().leaf(name);
    options.not_after = Time::now().plus_days(days);
    let leaf = issuer
        .sign(&issuer.leaf_template(&options).unwrap())
        .unwrap();
    vec![leaf.into(), issuer.cert_der().to_vec().into()]
}

/// A webhook that records the IDs of the events, and responds with this status; 0: never.
async fn webhook(status: u16) -> (url::Url, Arc<Mutex<Vec<String>>>) {
    let received = Arc::new(Mutex::new(Vec::new()));
    let to = received.clone();
    let url = serve(move |request| {
        let to = to.clone();
        async move {
            let body = http_body_util::BodyExt::collect(request.into_body())
                .await
                .unwrap();
            let event: Value = serde_json::from_slice(&body.to_bytes()).unwrap();
            to.lock().push(event["id"].as_str().unwrap().to_owned());
            if status == 0 {
                std::future::pending::<()>().await;
            }
            let mut response = Response::new(Full::default());
            *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
            response
        }
    });
    (url.await.parse().unwrap(), received)
}

#[tokio::test]
async fn each_event_is_sent_once_also_over_restarts_and_a_silent_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    let pki = Pki::shared();
    let (silent, first) = webhook(0).await;
    options.inventory.as_mut().unwrap().webhook = Some(silent);
    let observer = started(&options).await;
    observer.seen("old.example", &by(&pki.p256, "old.example", 80), b"", b"");
    until("the webhook is called", || !first.lock().is_empty()).await;
    // The silent webhook delays neither handshakes nor the inventory.
    observer.seen("old.example", &by(&pki.p384, "old.example", 80), b"", b"");
    observer.seen("soon.example", &by(&pki.p256, "soon.example", 3), b"", b"");
    until_matching(&observer, 3).await;
    until("all events are stored", || kinds(&observer).len() == 5).await;
    drop(observer);

    let (url, received) = webhook(204).await;
    options.inventory.as_mut().unwrap().webhook = Some(url);
    let observer = started(&options).await;
    let sent = |observer: &Observer| {
        let events = inventory(observer, "")["events"].clone();
        events
            .as_array()
            .unwrap()
            .iter()
            .all(|event| event["outcome"] == "sent")
    };
    until("all events are sent", || sent(&observer)).await;
    drop(observer);
    let observer = started(&options).await;
    observer.seen("soon.example", &by(&pki.p256, "soon.example", 3), b"", b"");
    until_matching(&observer, 4).await;
    until("all events are sent", || {
        sent(&observer) && kinds(&observer).len() == 7
    })
    .await;
    let mut kinds: Vec<_> = received.lock().iter().cloned().collect();
    let total = kinds.len();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!((kinds.len(), total), (7, 7), "{kinds:?}");
    let count = |kind: &str| kinds.iter().filter(|id| id.starts_with(kind)).count();
    // Two certificates of soon.example are new when they are seen.
    assert_eq!(
        (
            count("not-logged:"),
            count("new-issuer:"),
            count("expiring:")
        ),
        (4, 1, 2)
    );
}

#[tokio::test]
async fn a_webhook_that_fails_is_given_up_after_eight_attempts() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    let (url, received) = webhook(500).await;
    options.inventory.as_mut().unwrap().webhook = Some(url);
    options.inventory.as_mut().unwrap().webhook_pause = Duration::from_nanos(1);
    let observer = started(&options).await;
    observer.seen("a.example", &chain(certificate("a.example", &[])), b"", b"");
    let outcome = || inventory(&observer, "")["events"][0]["outcome"].clone();
    until("the event is given up", || {
        outcome()
            .as_str()
            .is_some_and(|outcome| outcome.starts_with("given up: 500"))
    })
    .await;
    assert_eq!(received.lock().len(), 8);
}

#[tokio::test]
async fn an_event_is_sent_once_although_its_outcome_cannot_be_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    let (url, received) = webhook(204).await;
    options.inventory.as_mut().unwrap().webhook = Some(url);
    let observer = started(&options).await;
    let run = async |sql: &'static str| {
        let run = inventory_of(&observer).run(move |_, db| db.execute_batch(sql));
        run.await.unwrap();
    };
    run("CREATE TEMP TRIGGER full BEFORE UPDATE ON events \
         BEGIN SELECT RAISE(ABORT, 'no room'); END")
    .await;
    observer.seen("a.example", &chain(certificate("a.example", &[])), b"", b"");
    until("the outcome is refused", || {
        observer.troubles().iter().any(|it| it.contains("no room"))
    })
    .await;
    observer.seen("b.example", &chain(certificate("b.example", &[])), b"", b"");
    until("both events are stored", || kinds(&observer).len() == 2).await;
    run("DROP TRIGGER full").await;
    until("both events are sent", || {
        let events = inventory(&observer, "")["events"].clone();
        let mut events = events.as_array().unwrap().iter();
        events.all(|event| event["outcome"] == "sent")
    })
    .await;
    let received = received.lock().clone();
    assert_eq!(received.len(), 2, "{received:?}");
}
