//! `lucarne load s3`, configured by flags.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::common::{LUCARNE, assert_has};
use lucarne_testkit::{Launch, ObjectStore, temp_dir};

/// Runs a short test against `store` with more flags and only the keys of the credentials file.
/// Returns the exit code and the whole output.
fn load(store: &ObjectStore, directory: &Path, more: &[&str]) -> (i32, String) {
    let mut launch = Launch::new(LUCARNE)
        .args(["load", "s3", "--create-bucket", "--no-ui"])
        .args([
            "--sizes=100",
            "--concurrency=1",
            "--objects=2",
            "--cell-duration=200ms",
        ])
        .args(["--endpoint", &store.endpoint])
        .args(more.iter().copied())
        .directory(directory);
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
    ] {
        launch = launch.env(name, "");
    }
    let output = launch
        .env(
            "AWS_SHARED_CREDENTIALS_FILE",
            directory.join("credentials").display().to_string(),
        )
        .env(
            "AWS_CONFIG_FILE",
            directory.join("config").display().to_string(),
        )
        .run()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout) + &text(&output.stderr),
    )
}

#[test]
fn keys_come_from_profiles() {
    let store = ObjectStore::versitygw().unwrap();
    let here = temp_dir();
    let credentials = format!(
        "[ct]\naws_access_key_id = {}\naws_secret_access_key = {}\n",
        store.access_key, store.secret_key
    );
    fs::write(here.path().join("credentials"), credentials).unwrap();
    let (code, said) = load(&store, here.path(), &["--profile=ct"]);
    assert_eq!(code, 0, "{said}");
    // A default threshold, without a flag.
    assert_has(&said, "✓ 'rate==1'");
    let (code, said) = load(&store, here.path(), &["--profile=other"]);
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "profile `other` not found");
}

#[test]
fn a_prefix_stays_in_its_bucket() {
    let store = ObjectStore::versitygw().unwrap();
    let here = temp_dir();
    let keys = [
        "--access-key",
        store.access_key,
        "--secret-key",
        store.secret_key,
    ];
    let (code, said) = load(
        &store,
        here.path(),
        &[&keys[..], &["--prefix=../other/"]].concat(),
    );
    assert_eq!(code, 104, "{said}");
    assert_has(&said, "`--prefix` has a part");
}
