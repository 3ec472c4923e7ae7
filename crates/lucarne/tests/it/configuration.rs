//! Valid configurations, and the messages about invalid ones.
//!
//! The submodules test places, limits and the metadata of logs. This file tests rules for all keys,
//! configurations of Sunlight, and invalid files. The snapshots in `snapshots/` are the messages as
//! operators see them.

use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use lucarne::config::{Config, Report, VerifyBy};
use lucarne_http::Rate;
use lucarne_log::{IntendedUse, LaneConfig, Metadata, Operator, PlannedChange, RateLimit, Status};
use lucarne_mint::{Authority, CaOptions, KeyType};
use lucarne_testkit::{TempDir, temp_dir};

mod limits;
mod metadata;
mod places;

/// Creates a directory with two seeds, a PEM key for TLS, and roots.
fn files() -> TempDir {
    let directory = temp_dir();
    let write = |name: &str, bytes: &[u8]| {
        let file = directory.path().join(name);
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let root = Authority::root(&CaOptions::named("Root", KeyType::EcdsaP256)).unwrap();
    write("a.bin", &[1; 32]);
    write("b.bin", &[2; 32]);
    write("short.bin", &[3; 31]);
    write("roots.pem", root.certificate_pem().as_bytes());
    write("ca.pem", root.to_pem().unwrap().as_bytes());
    directory
}

/// Parses `yaml` as `lucarne.yaml` in `directory`. Returns the problems, then the warnings.
fn read(yaml: &str, directory: &Path) -> (Option<Config>, String) {
    let mut report = Report::on(Some(Path::new("lucarne.yaml")));
    let config = Config::parse(yaml, directory, &mut report);
    let said = [
        report.problem_lines(),
        report
            .warning_lines()
            .iter()
            .map(|line| format!("warning: {line}"))
            .collect(),
    ];
    let said = said.concat().join("\n");
    (
        config,
        said.replace(&directory.display().to_string(), "DIR"),
    )
}

fn said(yaml: &str) -> String {
    let directory = files();
    read(yaml, directory.path()).1
}

/// Returns a valid configuration whose log has the settings `log`.
fn with(log: &str) -> String {
    format!(
        "listen: [\"127.0.0.1:0\"]\n\
         checkpoints: lock.db\n\
         logs:\n  \
         - shortname: a\n    \
         submissionprefix: https://ct.example/a/\n    \
         secret: a.bin\n    \
         localdirectory: data/a\n    \
         cache: cache/a\n    \
         roots: roots.pem\n{}",
        log.lines()
            .map(|line| format!("    {line}\n"))
            .collect::<String>()
    )
}

/// Returns the configuration of the same log in a bucket.
fn in_bucket(settings: &str) -> String {
    with(settings).replace("    localdirectory: data/a\n", "")
}

/// Returns the same configuration with another lock.
fn lock(place: &str) -> String {
    with("").replace("lock.db", place)
}

#[test]
fn a_file_of_sunlight_carries_over() {
    let directory = files();
    let (config, said) = read(
        "listen:\n\
         \x20 - \":8443\"\n\
         checkpoints: /var/lib/sunlight/checkpoints.db\n\
         logs:\n\
         \x20 - shortname: rome2026h1\n\
         \x20   inception: 2026-01-01\n\
         \x20   submissionprefix: https://rome.ct.example/2026h1/\n\
         \x20   monitoringprefix: https://mon.rome.ct.example/2026h1/\n\
         \x20   roots: roots.pem\n\
         \x20   secret: a.bin\n\
         \x20   cache: cache/rome2026h1.db\n\
         \x20   localdirectory: data/rome2026h1\n\
         \x20   period: 200\n\
         \x20   poolsize: 750\n\
         \x20   notafterstart: 2026-01-01T00:00:00Z\n\
         \x20   notafterlimit: 2026-07-01T00:00:00Z\n",
        directory.path(),
    );
    assert_eq!(said, "");
    let config = config.unwrap();
    let log = &config.logs[0];
    assert_eq!(log.origin, "rome.ct.example/2026h1");
    assert_eq!(
        log.monitoring.value.url,
        "https://mon.rome.ct.example/2026h1/"
    );
    assert_eq!(
        (
            log.rounds.sequencer.period.as_millis(),
            log.rounds.sequencer.pool_size
        ),
        (200, 750)
    );
    assert_eq!(log.policy.not_after_start, Some(1_767_225_600_000));
    assert_eq!(
        log.inception.as_ref().unwrap().value.to_string(),
        "2026-01-01"
    );
    assert!(log.roots.ccadb.is_none());
    assert_eq!(
        log.data.value.directory(),
        Some(&*directory.path().join("data/rome2026h1"))
    );
}

#[test]
fn everything_has_a_default_but_the_identity() {
    let directory = files();
    let (config, said) = read(&with(""), directory.path());
    assert_eq!(said, "");
    let log = &config.unwrap().logs[0];
    assert_eq!(log.monitoring, log.submission);
    assert_eq!(
        (
            log.rounds.sequencer.period.as_millis(),
            log.rounds.sequencer.pool_size
        ),
        (200, 4000)
    );
    assert_eq!(log.rounds.sequencer.max_checkpoint_age.as_secs(), 5);
    assert!(log.policy.accept_sha1 && !log.policy.reject_expired);
    assert_eq!(
        (log.policy.not_after_start, log.policy.not_after_limit),
        (None, None)
    );
}

#[test]
fn verification_is_fast_or_general_for_all_logs() {
    let directory = files();
    let with_key = |value: &str| format!("{value}{}", with(""));
    let of = |yaml: &str| read(yaml, directory.path()).0.unwrap().verification;
    assert_eq!(of(&with_key("")), VerifyBy::Fast);
    assert_eq!(of(&with_key("verification: fast\n")), VerifyBy::Fast);
    assert_eq!(of(&with_key("verification: general\n")), VerifyBy::General);
    let wrong = said(&with_key("verification: none\n"));
    assert!(wrong.contains("is neither `fast` nor `general`"), "{wrong}");
    let misplaced = said(&with("verification: general"));
    assert!(misplaced.contains("at the top of the file"), "{misplaced}");
}

#[test]
fn names_are_not_numbers() {
    let directory = files();
    let yaml = with("").replace("shortname: a", "shortname: 2026e1");
    let config = read(&yaml, directory.path()).0.unwrap();
    assert_eq!(config.logs[0].shortname.value, "2026e1");
}

#[test]
fn defaults_and_merge_keys_reach_every_log() {
    let directory = files();
    let yaml = "listen: [\":0\"]\n\
         checkpoints: lock.db\n\
         defaults: {period: 50, roots: roots.pem, require: any}\n\
         logs:\n\
         - &a {shortname: a, submissionprefix: \"https://ct.example/a\", secret: a.bin, localdirectory: a, cache: ca, poolsize: 7}\n\
         - {<<: *a, shortname: b, submissionprefix: \"https://ct.example/b\", secret: b.bin, localdirectory: b, cache: cb, period: 60}\n";
    let (config, said) = read(yaml, directory.path());
    assert_eq!(said, "");
    let config = config.unwrap();
    let of = |log: usize| {
        (
            config.logs[log].rounds.sequencer.period.as_millis(),
            config.logs[log].rounds.sequencer.pool_size,
        )
    };
    assert_eq!((of(0), of(1)), ((50, 7), (60, 7)));
    assert_eq!(config.logs[1].policy.require, lucarne_ct::Require::Any);
}

/// A key in a PEM file is accepted and gives another log than a seed.
#[test]
fn pem_keys_work_and_give_another_log() {
    let directory = files();
    let key = lucarne_mint::KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let pem = lucarne_mint::pem::encode("PRIVATE KEY", &key.to_pkcs8().unwrap());
    let file = directory.path().join("key.pem");
    lucarne_testkit::write_secret(&file, pem);
    let yaml = with("").replace("a.bin", "key.pem");
    let config = read(&yaml, directory.path()).0.unwrap();
    assert_eq!(config.logs[0].key.public_key_spki(), key.spki());
}

/// Snapshots the messages for every kind of invalid file.
#[test]
fn bad_files() {
    let second = "  - shortname: b\n    submissionprefix: https://ct.example/b/\n    \
                  secret: b.bin\n    localdirectory: data/b\n    cache: cache/b\n    \
                  roots: roots.pem\n";
    let two = |from: &str, to: &str| with("") + &second.replacen(from, to, 1);
    let cases = [
        ("empty", String::new()),
        ("not yaml", "listen: [\n".into()),
        ("a list at the top", "- listen\n".into()),
        (
            "logs is a map",
            with("").replace("  - shortname", "    shortname"),
        ),
        (
            "logs is empty",
            "listen: [\":0\"]\ncheckpoints: c\nlogs: []\n".into(),
        ),
        ("nothing but a log", "logs:\n- {}\n".into()),
        (
            "typing errors",
            with("perod: 200\nnotafterend: 2026-01-01\nPoolSize: 1\nreject-expired: true\nzzz: 1"),
        ),
        (
            "keys in the wrong place",
            with("listen: [\":1\"]").replace("checkpoints", "period: 1\ncheckpoints"),
        ),
        ("keys given twice", with("period: 1\nperiod: 2")),
        (
            "wrong values",
            with(
                "period: soon\npoolsize: -1\ncheckpointinterval: 5h\ninception: tomorrow\n\
             notafterstart: 2026\nrequire: clientAuth\naccept_sha1: yes\nreject_extensions: [1.2, x]\n\
             maxchain: 1\nreadcache: [1]\nccadbroots: all",
            ),
        ),
        (
            "window backwards",
            with("notafterstart: 2027-01-01\nnotafterlimit: 2026-01-01"),
        ),
        (
            "nothing would be accepted",
            with("reject_expired: true\nreject_unexpired: true"),
        ),
        (
            "wrong prefixes",
            with("monitoringprefix: https://CT.example/?x")
                .replace("https://ct.example/a/", "ct.example/a"),
        ),
        (
            "wrong addresses",
            with("").replace("\"127.0.0.1:0\"", "\"127.0.0.1\", \"localhost:99999\""),
        ),
        (
            "wrong short name",
            with("").replace("shortname: a", "shortname: a/b"),
        ),
        (
            "wrong sources of a key",
            with("").replace("a.bin", "env:NO SUCH") + &second.replace("b.bin", "vault://kv/b"),
        ),
        (
            "a key that is not set",
            with("").replace("a.bin", "env:LUCARNE_TEST_NO_SUCH_KEY"),
        ),
        (
            "a command without a key",
            with("").replace("a.bin", "\"exec: echo none\""),
        ),
        ("missing secret", with("").replace("a.bin", "none.bin")),
        ("short secret", with("").replace("a.bin", "short.bin")),
        (
            "a secret that is no key",
            with("").replace("a.bin", "roots.pem"),
        ),
        ("a key in two places", with("signer: s\npublickey: AQID")),
        (
            "a signer without a public key",
            with("").replace("secret: a.bin", "signer: s"),
        ),
        (
            "a public key that is none",
            with("publickey: roots.pem").replace("secret: a.bin", "signer: s"),
        ),
        (
            "missing roots",
            with("extraroots: no.pem").replace("roots.pem", "none.pem"),
        ),
        (
            "sunlight's other locks",
            with("")
                + "acme: {cache: x}\netags3: {region: x}\ndynamodb: {table: x}\nwitness: {name: x}\n",
        ),
        (
            "sunlight's old keys",
            with("seed: a.bin\nname: ct.example/b\nhttphost: ct.example\nhttpprefix: /a")
                .replace("secret: a.bin", "period: 100"),
        ),
        (
            "wrong http",
            with("") + "http: {maxbody: 1, bodytimeout: 0, headertimout: 5}\n",
        ),
        (
            "tls without files",
            with("") + "tls: {certificate: none.pem}\n",
        ),
        (
            "tls with missing files",
            with("") + "tls: {certificate: none.pem, key: none.pem}\n",
        ),
        (
            "tls with a key of another",
            with("") + "tls: {certificate: roots.pem, key: roots.pem}\n",
        ),
        (
            "identity in defaults",
            with("") + "defaults: {secret: a.bin, perod: 1}\n",
        ),
        ("one name", two("shortname: b", "shortname: a")),
        ("one key", two("b.bin", "a.bin")),
        (
            "one prefix",
            two("https://ct.example/b/", "http://ct.example/a"),
        ),
        (
            "one prefix for two purposes",
            two(
                "shortname: b",
                "shortname: b\n    monitoringprefix: https://ct.example/a/",
            ),
        ),
        (
            "two places of data",
            with("s3bucket: logs\ngcsbucket: logs"),
        ),
        (
            "no place of data",
            with("s3region: eu\nazureaccount: a").replace("localdirectory", "#"),
        ),
        (
            "a bucket without a cache",
            with("s3bucket: logs")
                .replace("localdirectory: data/a", "s3region: eu")
                .replace("cache: cache/a", "period: 200"),
        ),
        (
            "wrong buckets",
            in_bucket("s3bucket: a/b\ns3style: host")
                + &second.replace(
                    "localdirectory: data/b",
                    "s3bucket: bbb\n    s3endpoint: minio:9000",
                )
                + &second.replace("b\n", "c\n").replace(
                    "localdirectory: data/c",
                    "gcsbucket: c\n    gcskeyprefix: ../c\n    gcsendpont: http://h",
                ),
        ),
        (
            "keys of another store",
            in_bucket("s3bucket: logs\ngcsendpoint: http://h\nazurekeyprefix: x/"),
        ),
        (
            "a prefix without its slash",
            in_bucket("s3bucket: logs\ns3keyprefix: 2026h1"),
        ),
        (
            "one bucket and prefix",
            in_bucket("s3bucket: logs\ns3keyprefix: x/\ns3endpoint: http://h:1/")
                + &second.replace(
                    "localdirectory: data/b",
                    "s3bucket: logs\n    s3keyprefix: x/\n    s3endpoint: http://h:1",
                ),
        ),
        ("a lock that is a map", lock("{region: eu, table: x}")),
        ("a lock of another kind", lock("redis://u:secret@host/db")),
        ("a lock whose URL is wrong", lock("mysql://u:se/cret@host")),
        ("a lock without a prefix", lock("s3://locks")),
        (
            "a lock's parameter",
            lock("s3://locks/a?secretkey=secret&endpoint=http://h"),
        ),
        (
            "a lock in the data",
            in_bucket("s3bucket: logs\ns3keyprefix: a/\ns3endpoint: http://h")
                .replace("lock.db", "s3://logs/a/lock?endpoint=http://h/"),
        ),
        ("one directory", two("data/b", "./data/a")),
        ("one cache", two("cache/b", "cache/a")),
        ("a directory that is a cache", two("cache/b", "data/a")),
        (
            "a wrong value in defaults, for two logs",
            two("", "") + "defaults: {period: soon}\n",
        ),
        ("an alias without anchor", "logs: *nothing\n".into()),
    ];
    let mut page = String::new();
    for (name, yaml) in cases {
        page.push_str(&format!("## {name}\n{}\n\n", said(&yaml)));
    }
    insta::assert_snapshot!("bad_files", page);
}

#[test]
fn secrets_that_other_users_can_read_are_refused() {
    let directory = files();
    let yaml = with("") + "tls: {certificate: ca.pem, key: ca.pem}\n";
    let mut page = String::new();
    for name in ["a.bin", "ca.pem"] {
        let file = directory.path().join(name);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        page += &read(&yaml, directory.path()).1;
        page += "\n";
    }
    insta::assert_snapshot!("exposed_secrets", page);
}

#[test]
fn warnings() {
    let directory = files();
    let shared = directory.path().join("a.bin");
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(directory.path().join("cache.db"), "").unwrap();
    let yaml = with("").replace("cache/a", "cache.db");
    insta::assert_snapshot!("warnings", read(&yaml, directory.path()).1);
}

/// The parser accepts arbitrary bytes: it returns a configuration or problems, and never panics.
#[test]
fn no_file_makes_it_panic() {
    let good = with("period: 100\nreject_extensions: [1.2.3]");
    let directory = files();
    for cut in 0..good.len() {
        if good.is_char_boundary(cut) {
            let _ = read(&good[..cut], directory.path());
        }
    }
    for odd in [
        "a: &a [*a]",
        "? [x]\n: y",
        "<<: 1",
        "logs: [[[]]]",
        "\u{0}",
        "a: !!binary x",
        "--- \n---\n",
    ] {
        let _ = read(odd, directory.path());
    }
}

#[cfg(not(feature = "otlp"))]
#[test]
fn the_export_of_traces_needs_its_feature() {
    let yaml = with("") + "otlp: {endpoint: 'http://localhost:4318'}\n";
    let refusal = "otlp: is not supported by this build of lucarne, which has no feature `otlp`";
    let problems = said(&yaml);
    assert!(problems.contains(refusal), "{problems}");
}
