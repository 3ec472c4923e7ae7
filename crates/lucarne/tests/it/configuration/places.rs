//! The places of data and locks, and prefixes.

use super::*;

#[test]
fn data_may_be_in_buckets() {
    let directory = files();
    let yaml = "listen: [\":0\"]\n\
         checkpoints: postgres://u:secret@host/db\n\
         defaults: {roots: roots.pem, s3bucket: logs, s3region: eu-central-1, s3endpoint: \"http://127.0.0.1:9000\"}\n\
         logs:\n\
         - {shortname: a, submissionprefix: \"https://ct.example/a\", secret: a.bin, s3keyprefix: a/, cache: ca}\n\
         - {shortname: b, submissionprefix: \"https://ct.example/b\", secret: b.bin, localdirectory: b}\n";
    let (config, said) = read(yaml, directory.path());
    assert_eq!(said, "");
    let config = config.unwrap();
    let shown = |log: usize| config.logs[log].data.value.to_string();
    assert_eq!(shown(0), "s3://logs/a/ at http://127.0.0.1:9000");
    // The log's own place replaces the default.
    assert_eq!(shown(1), directory.path().join("b").display().to_string());
    // The default period is longer in a bucket, because each round costs requests.
    let period = |log: usize| config.logs[log].rounds.sequencer.period.as_millis();
    assert_eq!((period(0), period(1)), (1000, 200));
    assert_eq!(config.checkpoints.value.to_string(), "postgres://u@host/db");
    assert!(!format!("{config:?}").contains("secret@"));
}

#[test]
fn the_lock_is_a_path_or_a_url() {
    let directory = files();
    let shown = |place: &str| {
        let (config, said) = read(&lock(place), directory.path());
        assert_eq!(said, "", "{place}");
        let shown = config.unwrap().checkpoints.value.to_string();
        shown.replace(&directory.path().display().to_string(), "DIR")
    };
    assert_eq!(shown("sqlite:lock.db"), "DIR/lock.db");
    assert_eq!(shown("mysql://u:p@h/db"), "mysql://u@h/db");
    assert_eq!(
        shown("s3://bbb/lock?endpoint=http://h:1&region=eu"),
        "s3://bbb/lock/ at http://h:1"
    );
    assert_eq!(
        shown("gs://bbb/lock?credentials=none&endpoint=http://h:1"),
        "gs://bbb/lock/ at http://h:1"
    );
    assert_eq!(
        shown("az://ccc/lock?account=us"),
        "az://ccc/lock/ of account us"
    );
}

#[test]
fn ports_and_plain_http_in_prefixes() {
    let directory = files();
    let yaml = with("").replace("https://ct.example/a/", "http://[::1]:6962");
    let config = read(&yaml, directory.path()).0.unwrap();
    assert_eq!(config.logs[0].origin, "[::1]:6962");
    assert_eq!(config.logs[0].submission.value.url, "http://[::1]:6962/");
}

/// Credentials of a user, which have no key.
const CREDENTIALS: &str = r#"{"type": "authorized_user", "client_id": "id",
    "client_secret": "secret", "refresh_token": "token"}"#;

/// A file server, a mirror and a backup take all public files of a log.
#[test]
fn private_files_are_not_among_public_files() {
    let directory = files();
    let root = directory.path().display().to_string();
    for folder in ["data/a", "data/a/.lucarne", "private"] {
        let folder = directory.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        for name in ["a.bin", "ca.pem"] {
            fs::copy(directory.path().join(name), folder.join(name)).unwrap();
        }
        for name in ["password", "shared"] {
            lucarne_testkit::write_secret(folder.join(name), "a secret of at least 32 characters");
        }
        fs::write(folder.join("gcs.json"), CREDENTIALS).unwrap();
    }
    let second = |settings: &str| {
        let log = "  - {shortname: b, submissionprefix: \"https://ct.example/b/\", secret: b.bin, \
                   cache: cache/b, roots: roots.pem, ";
        lock("postgres://u@h/db") + log + settings + "}\n"
    };
    for (key, yaml) in [
        ("checkpoints", lock("PLACE/lock.db")),
        (
            "checkpoints",
            lock("gs://bbb/lock?credentials=ROOT/PLACE/gcs.json"),
        ),
        (
            "checkpoints",
            lock("gs://bbb/lock?credentials=PLACE/gcs.json"),
        ),
        (
            "checkpoints",
            lock("postgres://u@h/db?sslkey=PLACE/client.pem"),
        ),
        (
            "checkpoints",
            lock("postgres://u@h/db?sslkey=ROOT/PLACE/client.pem"),
        ),
        (
            "checkpoints",
            lock("mysql://u@h/db?ssl-key=ROOT/PLACE/client.pem"),
        ),
        (
            "checkpointspassword",
            lock("postgres://u@h/db") + "checkpointspassword: PLACE/password\n",
        ),
        (
            "tls.key",
            with("") + "tls: {certificate: ca.pem, key: PLACE/ca.pem}\n",
        ),
        ("logs[a].cache", with("").replace("cache/a", "PLACE/cache")),
        ("logs[a].secret", with("").replace("a.bin", "PLACE/a.bin")),
        (
            "logs[b].gcscredentials",
            second("gcsbucket: bbb, gcskeyprefix: b/, gcscredentials: PLACE/gcs.json"),
        ),
        (
            "logs[b].instances.key",
            second(
                "s3bucket: bbb, s3keyprefix: b/, \
                 instances: {address: \"10.0.0.1:6963\", key: PLACE/shared}",
            ),
        ),
    ] {
        let refused = format!("{key}: is in the public files of log `a` (DIR/data/a)");
        for (place, is_public) in [
            ("data/a", true),
            ("data/a/.lucarne", false),
            ("private", false),
        ] {
            let yaml = yaml.replace("PLACE", place).replace("ROOT", &root);
            let (_, said) = read(&yaml, directory.path());
            assert_eq!(said.contains(&refused), is_public, "{yaml}\n{said}");
        }
    }
}

/// A read server publishes the directory of a witness.
#[test]
fn private_files_of_a_witness_are_not_public() {
    let directory = files();
    fs::create_dir(directory.path().join("public")).unwrap();
    let seeds = ["a.bin", "public/a.bin"].map(|name| directory.path().join(name));
    fs::copy(&seeds[0], &seeds[1]).unwrap();
    for (lock, seed, refused) in [
        ("lock.db", "a.bin", None),
        ("public/lock.db", "a.bin", Some("checkpoints")),
        ("lock.db", "public/a.bin", Some("witness.secret")),
    ] {
        let yaml = format!(
            "listen: 127.0.0.1:80\ncheckpoints: {lock}\nwitness: {{name: w.example, secret: {seed}, \
             localdirectory: public}}\n"
        );
        let (_, said) = read(&yaml, directory.path());
        let message = "is in the public files of the witness (DIR/public)";
        match refused {
            Some(key) => assert!(said.contains(&format!("{key}: {message}")), "{said}"),
            None => assert!(!said.contains(message), "{said}"),
        }
    }
}

/// A request or a file below these names would be that of the other log.
#[test]
fn a_log_in_the_place_of_another_is_refused() {
    let second = |prefix: &str, directory: &str| {
        let yaml = with("");
        said(&format!(
            "{yaml}  - {{shortname: b, submissionprefix: \"https://{prefix}\", secret: b.bin, \
             localdirectory: {directory}, cache: cache/b, roots: roots.pem}}\n"
        ))
    };
    for (prefix, directory, key) in [
        ("ct.example/a/tile", "data/b", "submissionprefix"),
        ("other.example/a/ct/v1/", "data/b", "submissionprefix"),
        ("ct.example/b", "data/a/issuer", "localdirectory"),
        ("ct.example/b", "data/a/.lucarne/b", "localdirectory"),
    ] {
        let said = second(prefix, directory);
        let expected = format!("logs[b].{key}: is in a place that belongs to log `a` (");
        assert!(said.contains(&expected), "{said}");
    }
    assert_eq!(second("ct.example/a/b", "data/a/b"), "");
}
