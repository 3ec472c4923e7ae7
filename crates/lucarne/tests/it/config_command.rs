//! `lucarne config`: shown settings, and the schema for editors.

use std::fs;

use lucarne_testkit::temp_dir;
use serde_json::Value;

use crate::common::site::Site;
use crate::common::{assert_has, lucarne};

#[test]
fn every_key_is_shown_with_its_place() {
    let site = Site::create([
        ("a", "readcache: 64MiB".to_owned()),
        ("b", "checkpointinterval: 2000".to_owned()),
    ]);
    let file = site.configuration();
    let yaml = fs::read_to_string(&file).unwrap();
    // The directory of each log replaces the bucket and its region.
    let bucket = "defaults: {s3bucket: elsewhere, s3region: eu-west-1, ";
    let yaml = yaml.replace("defaults: {", bucket);
    fs::write(&file, format!("{yaml}http: {{headertimeout: 5s}}\n")).unwrap();
    let (code, printed) = site.lucarne(&["config", "show"]);
    assert_eq!(code, 0, "{printed}");
    for line in [
        "http.bodytimeout: 30s  # default",
        "http.trusted_proxies: not set  # default",
        "read_limits.client_rate: 500  # default",
        "verification: fast  # default",
        "logs[a].diskcache: 1GiB  # default",
        "logs[a].s3bucket: none  # default",
        "logs[a].backlog: none  # default",
        "logs[a].intended_use: test  # default",
        "logs[b].readcache: 16MiB  # default",
    ] {
        assert!(
            printed.lines().any(|found| found == line),
            "{line}: {printed}"
        );
    }
    for (start, end) in [
        ("http.headertimeout: 5s  # lucarne.yaml:", ""),
        ("logs[a].readcache: 64MiB  # lucarne.yaml:", ""),
        ("logs[a].period: 20ms  # lucarne.yaml:", ", in `defaults`"),
        ("logs[b].checkpointinterval: 2s  # lucarne.yaml:", ""),
    ] {
        let found = printed.lines().find(|line| line.starts_with(start));
        assert!(
            found.is_some_and(|line| line.ends_with(end)),
            "{start}: {printed}"
        );
    }
    assert!(!printed.contains("s3region"), "{printed}");

    let (code, printed) = site.lucarne(&["config", "show", "b"]);
    assert_eq!(code, 0, "{printed}");
    assert_has(&printed, "logs[b].shortname: b  # lucarne.yaml:");
    assert!(!printed.contains("logs[a]"), "{printed}");
    let (code, printed) = site.lucarne(&["config", "show", "none"]);
    assert_eq!(code, 1);
    assert_has(&printed, "there is no log `none`");
}

#[test]
fn a_wrong_configuration_is_not_shown() {
    let directory = temp_dir();
    fs::write(directory.path().join("lucarne.yaml"), "lissen: [\":1\"]\n").unwrap();
    let (code, printed) = lucarne(directory.path(), &["config", "show"]);
    assert_eq!(code, 1);
    assert_has(&printed, "problem: lucarne.yaml:1: lissen: no such key");
    assert_has(
        &printed,
        "nothing was shown; correct the configuration first",
    );
}

#[test]
fn every_file_has_a_schema() {
    let directory = temp_dir();
    for (program, key) in [
        ("serve", "read_limits"),
        ("signer", "socket"),
        ("proxy", "storememory"),
    ] {
        let (code, printed) = lucarne(directory.path(), &["config", "schema", "--for", program]);
        assert_eq!(code, 0, "{printed}");
        let schema: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(
            schema["$schema"],
            "https://json-schema.org/draft/2020-12/schema"
        );
        assert!(
            schema["properties"][key]["description"].is_string(),
            "{program}"
        );
    }
}
