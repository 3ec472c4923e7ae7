//! A clock far behind the last signed timestamp: the log reports it, waits until the time has
//! caught up, and never signs an earlier timestamp.

use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, pki, run, submission};
use bytes::Bytes;
use lucarne_ct::{Sct, verify_checkpoint};

/// A test cannot set the clock back, so this log has already signed a timestamp in the future.
const AHEAD_MS: i64 = 14_000;

/// Signs the tree head in the lock again, with a timestamp that is shifted by `shift_ms`. Returns
/// the checkpoint and its timestamp.
fn sign_shifted(site: &Site, log: &str, shift_ms: i64) -> (String, u64) {
    let key = site.key(log);
    let origin = format!("{}/{log}", site.address());
    let newest = site.signed(log).unwrap();
    let (head, signed_ms) = verify_checkpoint(&newest, &origin, key.public_key_spki()).unwrap();
    let shifted_ms = signed_ms.checked_add_signed(shift_ms).unwrap();
    let note = key.sign_checkpoint(&origin, head.size, &head.root, shifted_ms);
    let note = note.unwrap();
    site.sign(log, note.as_bytes());
    (note, shifted_ms)
}

#[test]
fn a_clock_far_behind_is_waited_for() {
    let site = Site::create([("late", String::new())]);
    let load = site.load("late");
    let mut server = site.start();
    run(async {
        site.ready("late").await;
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());

    let (_, future_ms) = sign_shifted(&site, "late", AHEAD_MS);

    let mut server = site.start();
    run(async {
        let reason = site.reaches("late", "stopped").await;
        assert_has(&reason, "ms behind the last signed timestamp: correct it");
        assert_has(&reason, "the log continues when it has caught up");
        assert_eq!(load.submit(&load.fresh()).await, Some(false));
        let health = site.health("late").await.to_string();
        assert_has(&health, "ms behind the newest checkpoint");
        let body = submission(&pki().p256);
        let client = site.client_of("late");
        let mut sct = Bytes::new();
        eventually("it goes on", async || {
            let answer = client.post("ct/v1/add-chain", body.clone()).await.unwrap();
            sct = answer.body;
            answer.status == 200
        })
        .await;
        let sct = Sct::parse(&sct).unwrap();
        assert!(sct.timestamp > future_ms, "{} {future_ms}", sct.timestamp);
        load.audit.run().await.unwrap().assert_clean();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn check_reports_a_clock_far_behind() {
    let site = Site::create([("late", String::new())]);
    let (note, _) = sign_shifted(&site, "late", 3600 * 1000);
    std::fs::write(site.data("late").join("checkpoint"), note).unwrap();
    let (code, said) = site.lucarne(&["check"]);
    assert_eq!(code, 3, "{said}");
    assert_has(&said, "ms behind the last signed timestamp: correct it");
}

/// A test cannot let the clock jump, so this log last signed three days ago.
#[test]
fn a_start_after_days_is_confirmed_with_the_day() {
    let site = Site::create([("idle", String::new())]);
    let (note, _) = sign_shifted(&site, "idle", -3 * 24 * 3600 * 1000);
    std::fs::write(site.data("idle").join("checkpoint"), &note).unwrap();
    let mut server = site.start();
    run(async {
        let reason = site.reaches("idle", "stopped").await;
        assert_has(&reason, "more than 3 days after the last signed checkpoint");
        assert_has(&reason, "lucarne serve --confirm-clock");
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let signed = site.signed("idle").unwrap();
    assert_eq!(signed, note.as_bytes(), "nothing was signed");

    // A confirmation is valid only for the given day.
    let (code, said) = site.lucarne(&["serve", "--confirm-clock", "2026-01-01"]);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "the date of this machine's clock is");
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let confirmed = site.launch().arg("--confirm-clock");
    let confirmed = confirmed.arg(today.date().to_string());
    let mut server = confirmed.start(site.address()).unwrap();
    run(site.ready("idle"));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    // The log has signed a current timestamp since.
    let mut server = site.start();
    run(site.ready("idle"));
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}
