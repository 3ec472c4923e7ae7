//! SIGHUP: logs are added and removed while the others continue.

use std::collections::BTreeMap;
use std::fs;

use futures_util::future::join_all;
use jiff::Timestamp;
use lucarne_mint::{Authority, CaOptions, KeyType};
use lucarne_testkit::{Server, temp_dir, write_secret};
use rustix::process::Signal;

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, pki, run};

/// A site with its configuration file, and the same file without the second log.
struct TwoLogs {
    site: Site,
    both: String,
    first: String,
}

impl TwoLogs {
    /// The first log exists. The second one is created when it is first configured.
    fn create(second: &str) -> Self {
        let today = Timestamp::now().strftime("inception: %F").to_string();
        let logs = [
            ("first", String::new()),
            ("second", format!("{today}\n{second}")),
        ];
        let site = Site::prepare(temp_dir(), logs);
        let both = fs::read_to_string(site.configuration()).unwrap();
        let begin = both.find("  - shortname: second").unwrap();
        let first = both[..begin].to_owned();
        fs::write(site.configuration(), &first).unwrap();
        TwoLogs {
            site: site.init(),
            both,
            first,
        }
    }

    /// Writes the configuration file, and has the server read it.
    fn reload(&self, server: &mut Server, text: &str) {
        fs::write(self.site.configuration(), text).unwrap();
        server.signal(Signal::HUP).unwrap();
    }

    /// The logs in `/health`, each with whether it is healthy.
    async fn logs(&self) -> BTreeMap<String, bool> {
        let health = self.site.client().get("health").await.unwrap();
        let logs = health.json().unwrap()["logs"].take();
        let each = logs.as_array().unwrap().iter().map(|log| {
            let name = log["name"].as_str().unwrap().to_owned();
            (name, log["healthy"] == true)
        });
        each.collect()
    }

    async fn has(&self, wanted: &[(&str, bool)]) {
        let wanted: BTreeMap<_, _> = wanted
            .iter()
            .map(|(name, healthy)| ((*name).to_owned(), *healthy))
            .collect();
        let what = format!("the logs are {wanted:?}");
        eventually(&what, async || self.logs().await == wanted).await;
    }

    /// Waits until metrics and `/health` report whether the whole file is applied.
    async fn is_applied(&self, is_applied: bool) {
        let value = u8::from(is_applied);
        let line = format!("\nlucarne_http_configuration_applied {value}\n");
        let metric = format!("the metrics have{line}");
        eventually(&metric, async || self.metrics().await.contains(&line)).await;
        let health = self.site.client().get("health").await.unwrap();
        let reported = health.text().contains("\"configuration\"");
        assert_eq!((health.status.as_u16(), reported), (200, !is_applied));
    }

    async fn metrics(&self) -> String {
        self.site.client().get("metrics").await.unwrap().text()
    }
}

const BOTH: [(&str, bool); 2] = [("first", true), ("second", true)];
const FIRST: [(&str, bool); 1] = [("first", true)];

#[test]
fn a_log_is_added_and_removed_while_another_is_under_load_and_loses_nothing() {
    // Submissions to the second log still wait for their round when the log is removed.
    let logs = TwoLogs::create("period: 5000");
    let mut server = logs.site.start();
    run(async {
        logs.site.ready("first").await;
        let load = logs.site.load("first");
        let changes = async {
            let client = logs.site.client_of("second");
            assert_eq!(client.get("checkpoint").await.unwrap().status, 404);
            let second = add_and_remove(&logs, &mut server).await;
            eventually("the paths of the log are removed", async || {
                client.get("checkpoint").await.unwrap().status == 404
            })
            .await;
            eventually("the metrics of the log are removed", async || {
                !logs.metrics().await.contains("\"second\"")
            })
            .await;
            // The directory and the index were released: the same process opens them again.
            logs.reload(&mut server, &logs.both);
            logs.has(&BOTH).await;
            let report = second.settle_accounts().await;
            assert_eq!(report.findings, [""; 0]);
            load.end();
        };
        tokio::join!(
            load.submit_on(),
            load.submit_on(),
            load.submit_on(),
            load.poll_on(),
            changes
        );
        let report = load.settle_accounts().await;
        assert_eq!(report.findings, [""; 0], "{}", server.output());
        assert!(report.size > 0);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Adds the second log, and removes it while submissions wait for its round. Returns the load with
/// the SCTs that were given.
async fn add_and_remove(logs: &TwoLogs, server: &mut Server) -> Load {
    logs.reload(server, &logs.both);
    logs.has(&BOTH).await;
    let index = logs.site.client().get("").await.unwrap().text();
    assert_has(&index, "/second/");
    let second = logs.site.load("second");
    assert_eq!(second.submit(&second.fresh()).await, Some(true));
    assert_has(&logs.metrics().await, "lucarne_log_up{log=\"second\"} 1");
    let waiting: Vec<_> = (0..8).map(|_| second.fresh()).collect();
    let submitted = join_all(waiting.iter().map(|submission| second.submit(submission)));
    let removal = async {
        let client = logs.site.client_of("second");
        // On a slow machine, the round of some or all submissions may be over.
        eventually("the submissions wait for a round", async || {
            let stats = client.get("stats.json").await.unwrap().json().unwrap();
            let (waiting, published) = (stats["pool_depth"].as_u64(), stats["size"].as_u64());
            waiting
                .zip(published)
                .is_some_and(|(waiting, published)| waiting + published >= 9)
        })
        .await;
        logs.reload(server, &logs.first);
        logs.has(&FIRST).await;
    };
    let (submitted, ()) = tokio::join!(submitted, removal);
    assert_eq!(submitted, [Some(true); 8], "{}", server.output());
    second
}

#[test]
fn an_invalid_file_changes_nothing_and_settings_that_need_a_start_are_named() {
    let logs = TwoLogs::create("");
    fs::write(logs.site.configuration(), &logs.both).unwrap();
    let mut server = logs.site.start();
    run(async {
        logs.has(&BOTH).await;
        // The second log is missing, too.
        logs.reload(&mut server, &format!("{}    perriod: 5\n", logs.first));
        server
            .wait_for_output("no setting was changed", EVENT_TIMEOUT)
            .unwrap();
        assert_has(&server.output(), "no such key; did you mean `period`?");
        logs.has(&BOTH).await;
        logs.is_applied(false).await;
        // The file is as before, without a reload.
        fs::write(logs.site.configuration(), &logs.both).unwrap();
        logs.is_applied(true).await;
        fs::write(
            logs.site.configuration(),
            format!("{}# edited\n", logs.both),
        )
        .unwrap();
        logs.is_applied(false).await;
        server.signal(Signal::HUP).unwrap();
        logs.is_applied(true).await;
        let slower = logs.both.replace("period: 20", "period: 30");
        let named = format!("verification: general\n{slower}");
        logs.reload(&mut server, &named);
        for words in ["keys=\"verification\"", "keys=\"period\""] {
            server.wait_for_output(words, EVENT_TIMEOUT).unwrap();
        }
        logs.has(&BOTH).await;
        logs.is_applied(false).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_log_that_needs_the_place_of_a_removed_log_opens_when_the_removed_log_is_closed() {
    let logs = TwoLogs::create("");
    fs::write(logs.site.configuration(), &logs.both).unwrap();
    write_secret(logs.site.path().join("third.seed"), [3; 32]);
    // The same file removes the second log, and has another log at its prefix.
    let third = logs.both.replace("second", "third");
    let third = third.replace("/third\n", "/second\n");
    let mut server = logs.site.start();
    run(async {
        logs.has(&BOTH).await;
        logs.reload(&mut server, &third);
        logs.has(&[("first", true), ("third", true)]).await;
        logs.is_applied(true).await;
    });
    assert_has(&server.output(), "which this process still has");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn other_sources_of_roots_are_read_and_then_the_first_ones_again() {
    let logs = TwoLogs::create("");
    let other = Authority::root(&CaOptions::named("Other", KeyType::EcdsaP256)).unwrap();
    let pem = pki().roots_pem() + &other.certificate_pem();
    fs::write(logs.site.path().join("more.pem"), pem).unwrap();
    let more = logs.first.replace("roots: roots.pem", "roots: more.pem");
    let mut server = logs.site.start();
    run(async {
        logs.site.ready("first").await;
        let client = logs.site.client_of("first");
        for (text, roots) in [(&more, 2), (&logs.first, 1)] {
            logs.reload(&mut server, text);
            eventually(&format!("the log has {roots} roots"), async || {
                let found = client.get("ct/v1/get-roots").await.unwrap();
                let found = found.json().unwrap();
                found["certificates"].as_array().unwrap().len() == roots
            })
            .await;
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_log_that_cannot_be_opened_leaves_the_others_alone() {
    let logs = TwoLogs::create("");
    let mut server = logs.site.start();
    run(async {
        logs.has(&FIRST).await;
        // A second log that does not exist, with an inception in the past.
        let late = logs.both.replace("inception: ", "inception: 2020-01-01 # ");
        logs.reload(&mut server, &late);
        logs.has(&[("first", true), ("second", false)]).await;
        let load = logs.site.load("first");
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
        logs.reload(&mut server, &logs.first);
        logs.has(&FIRST).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn the_next_process_takes_over_the_logs_that_are_left() {
    let logs = TwoLogs::create("");
    let hands_over = |text: &str| format!("handover: handover.sock\n{text}");
    fs::write(logs.site.configuration(), hands_over(&logs.both)).unwrap();
    let mut server = logs.site.start();
    run(logs.has(&BOTH));
    logs.reload(&mut server, &hands_over(&logs.first));
    server
        .wait_for_output("closed and removed", EVENT_TIMEOUT)
        .unwrap();
    let mut next = logs.site.launch().spawn().unwrap();
    let ended = server.wait(EVENT_TIMEOUT).unwrap();
    assert_eq!(
        ended.code(),
        Some(0),
        "{}\n{}",
        server.output(),
        next.output()
    );
    run(logs.has(&FIRST));
    assert!(
        next.stop(EVENT_TIMEOUT).unwrap().success(),
        "{}",
        next.output()
    );
}
