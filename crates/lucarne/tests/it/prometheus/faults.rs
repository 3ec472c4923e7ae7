//! Real faults of logs, scraped by a real Prometheus: each fault fires its alerts, and no other.
//!
//! The rules are a copy of `deploy` in which each `for:` is shortened, so that the test does not
//! wait for minutes. The expressions are unchanged. Two alerts are not tested here:
//!
//! - `LucarneDiskFillsInAWeek` extrapolates the space of six hours. From the first seconds of a
//!   log, the alert extrapolates the creation of its files.
//! - `LucarneIndexRebuilding` needs a log of more than 262,144 entries, which takes minutes to
//!   fill: a smaller index is rebuilt before the log opens. `LucarneIndexIncomplete` is its
//!   counterpart for tiles that cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lucarne_testkit::{BadDisk, LogUnderTest, Server, SmallDisk, temp_dir};

use super::{Monitor, query};
use crate::alerts::{ALERTS, read};
use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, LUCARNE, SMALL, all, edit, eventually, log, pki, ready, run};
use crate::tls_certificate::certificate;

/// Entries of a log with a full data tile.
const ENTRIES: usize = 300;
/// Workers that submit to a log whose pool has room for two entries.
const WORKERS: usize = 4;

/// The alerts of each fault: instance, log and alert. An alert about a whole process has no log.
const EXPECTED: [(&str, &str, &str); 15] = [
    ("ahead", "test", "LucarneClockAhead"),
    ("certificate", "", "LucarneCertificateExpiring"),
    ("late", "test", "LucarneCheckpointOld"),
    ("lock", "", "LucarneHealthFailing"),
    ("lock", "", "LucarneLockUnavailable"),
    ("lock", "test", "LucarneLogStopped"),
    ("site", "", "LucarneHealthFailing"),
    ("site", "busy", "LucarneBacklog"),
    ("site", "full", "LucarneDiskFull"),
    ("site", "full", "LucarneLogStopped"),
    ("site", "rotten", "LucarneFilesDamaged"),
    ("site", "rotten", "LucarneScrubFindings"),
    ("site", "unindexed", "LucarneFilesDamaged"),
    ("site", "unindexed", "LucarneIndexIncomplete"),
    ("site", "unindexed", "LucarneScrubFindings"),
];

/// Creates the logs of one process. The data of `full` are on the small disk.
fn site_on(disk: &SmallDisk) -> Site {
    let settings = [
        ("healthy", ""),
        ("full", ""),
        ("rotten", ""),
        ("unindexed", ""),
        ("busy", "period: 1000\npoolsize: 2"),
    ];
    let settings = settings.map(|(log, settings)| (log, settings.to_owned()));
    let site = Site::prepare(temp_dir(), settings);
    let place = format!("localdirectory: {}/data", disk.path().display());
    edit(&site.configuration(), "localdirectory: full", &place);
    site.init()
}

async fn fill(load: Load) {
    let each = async |load: Arc<Load>| {
        while load.count() < ENTRIES {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    };
    let load = Arc::new(load);
    let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(each(load.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn flip_a_bit(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(file, bytes).unwrap();
}

/// Fills two logs of the site, damages a tile of both, and removes the index of one.
fn damage(site: &Site) {
    let damaged = ["rotten", "unindexed"];
    let mut server = site.start();
    run(async {
        for log in damaged {
            site.ready(log).await;
            fill(site.load(log)).await;
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    for log in damaged {
        flip_a_bit(&site.data(log).join("tile/data/000"));
    }
    fs::remove_dir_all(site.path().join("unindexed-cache")).unwrap();
}

/// Creates and starts a log in a process whose clock is ahead of the real one (or behind it, if
/// negative) from the beginning. A running log would notice the step and stop.
fn log_with_clock(ahead_ms: i64) -> (LogUnderTest, BadDisk, Server) {
    let clock = BadDisk::new();
    clock.step_clock(ahead_ms);
    let log = LogUnderTest::prepare(LUCARNE, &pki().root.certificate_pem(), "").unwrap();
    let output = clock.under(log.launch("init")).run().unwrap();
    assert!(output.status.success(), "{}", all(&output));
    let server = clock.under(log.launch("serve")).start(log.address());
    run(ready(&log));
    (log, clock, server.unwrap())
}

/// Creates a log whose TLS certificate is valid for three more days.
fn log_with_certificate() -> LogUnderTest {
    let log = log("");
    let tls = "tls: {certificate: tls.pem, key: tls.pem}\nlogs:";
    edit(&log.configuration(), "logs:", tls);
    certificate(log.path(), -80, 3);
    log
}

/// Returns the rules with a short `for:`. Without `for:`, a moment between two states would fire
/// alerts.
fn short_rules() -> String {
    let mut shortened = 0;
    let rules = read(ALERTS);
    let lines = rules.lines().map(|line| {
        if line.starts_with("        for: ") {
            shortened += 1;
            "        for: 2s\n".to_owned()
        } else {
            format!("{line}\n")
        }
    });
    let rules = lines.collect();
    assert!(shortened > 25, "{shortened} rules have a `for:`");
    rules
}

/// Returns the entries of `scrape_configs`: a job for each process, because two processes of one
/// job with logs of one name are two leaders.
fn scrape_configs(names: &BTreeMap<String, &str>) -> String {
    let entry = |(address, name): (&String, &&str)| {
        let tls = match *name {
            "certificate" => ", scheme: https, tls_config: {insecure_skip_verify: true}",
            _ => "",
        };
        format!(
            "- {{job_name: lucarne-{name}, static_configs: [{{targets: [{address:?}]}}]{tls}}}\n"
        )
    };
    names.iter().map(entry).collect()
}

/// The firing alerts: instance, log and alert.
async fn firing(
    monitor: &Monitor,
    names: &BTreeMap<String, &'static str>,
) -> BTreeSet<(String, String, String)> {
    let alerts = r#"ALERTS{alertstate="firing",alertname!="LucarneDiskFillsInAWeek"}"#;
    let alerts = query(&monitor.client, alerts).await;
    let label = |alert: &serde_json::Value, name: &str| {
        let label = alert["metric"][name].as_str();
        label.unwrap_or_default().to_owned()
    };
    alerts
        .iter()
        .map(|alert| {
            let instance = label(alert, "instance");
            let name = names.get(&instance).map(|&name| name.to_owned());
            let name = name.unwrap_or(instance);
            (name, label(alert, "log"), label(alert, "alertname"))
        })
        .collect()
}

/// Waits until exactly the alerts of the faults fire. Monitoring requests `/health` in a loop, and
/// clients submit to the log with the full disk.
async fn expected_alerts_fire(
    monitor: &Monitor,
    names: &BTreeMap<String, &'static str>,
    site: &Site,
    lock: &LogUnderTest,
) {
    let lock = lucarne_testkit::Client::new(format!("http://{}", lock.address()));
    let (site, load, mut before) = (site.client(), site.load("full"), BTreeSet::new());
    let expected = EXPECTED.map(|(name, log, alert)| (name.into(), log.into(), alert.into()));
    let expected = BTreeSet::from(expected);
    eventually("exactly the expected alerts fire", async || {
        let submission = load.fresh();
        let health = (site.get("health"), lock.get("health"));
        let _ = tokio::join!(health.0, health.1, load.submit(&submission));
        let alerts = firing(monitor, names).await;
        if alerts != before {
            let missing: Vec<_> = expected.difference(&alerts).collect();
            let unexpected: Vec<_> = alerts.difference(&expected).collect();
            println!("missing: {missing:?}, unexpected: {unexpected:?}");
        }
        before = alerts;
        before == expected
    })
    .await;
}

#[test]
fn each_fault_fires_its_alerts_alone() {
    let Some(disk) = SmallDisk::inside("each_fault_fires_its_alerts_alone", SMALL) else {
        return;
    };
    let site = site_on(&disk);
    damage(&site);
    let _site = site.start();
    let (late, _late_clock, _late) = log_with_clock(-60_000);
    let (ahead, _ahead_clock, _ahead) = log_with_clock(20_000);
    let (lock, lock_disk) = (log(""), BadDisk::new());
    let _lock = lock_disk
        .under(lock.launch("serve"))
        .start(lock.address())
        .unwrap();
    let certificate = log_with_certificate();
    let _certificate = certificate.start().unwrap();
    run(async {
        ready(&lock).await;
        for log in ["full", "rotten", "unindexed", "busy", "healthy"] {
            site.reaches(log, "running").await;
        }
    });
    let names = [
        (site.address(), "site"),
        (late.address(), "late"),
        (ahead.address(), "ahead"),
        (lock.address(), "lock"),
        (certificate.address(), "certificate"),
    ];
    let names = names.map(|(address, name)| (address.to_string(), name));
    let names = BTreeMap::from(names);
    let monitor = Monitor::start(&short_rules(), &scrape_configs(&names));
    let busy = Arc::new(site.load("busy"));
    run(async {
        monitor.ready().await;
        eventually("each process is scraped", async || {
            query(&monitor.client, "up == 1").await.len() == names.len()
        })
        .await;
        disk.fill();
        lock_disk.fail("lock.sqlite");
        for _ in 0..WORKERS {
            let busy = busy.clone();
            tokio::spawn(async move { busy.submit_on().await });
        }
        expected_alerts_fire(&monitor, &names, &site, &lock).await;
        busy.end();
    });
}
