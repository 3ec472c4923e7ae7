//! Logs of Sunlight and TesseraCT in a bucket: their files are uploaded as those programs do, then
//! adopted, and the logs continue.

use std::sync::Arc;

use lucarne_storage::object::{self, ObjectStoreConfig, S3, S3Keys};
use lucarne_storage::{Asset, AssetKind, Assets, Encoding};
use lucarne_testkit::{Bucket, DatabaseKind, DatabaseServer, GcsServer, Launch, Signal};

use super::adopt::{SUNLIGHT, all_files, tesseract};
use super::*;
use crate::common::all;

/// A store for a log's files, and the settings with which Lucarne reaches it.
struct Store {
    assets: Arc<dyn Assets>,
    /// The URL of the log's data.
    url: String,
    environment: Vec<(&'static str, String)>,
    bucket: Option<Bucket>,
}

impl Store {
    async fn s3(bucket: Bucket, prefix: &str) -> Store {
        let store = &bucket.store;
        let s3 = S3 {
            region: Some(store.region.into()),
            bucket: bucket.name.clone(),
            endpoint: Some(store.endpoint.clone()),
            allow_http: true,
            keys: Some(S3Keys {
                access_key: store.access_key.into(),
                secret_key: store.secret_key.into(),
            }),
            ..S3::default()
        };
        let config = ObjectStoreConfig::new(object::Bucket::S3(s3), prefix);
        Store {
            assets: object::open(&config, Arc::new(())).await.unwrap(),
            url: format!(
                "s3://{}/{prefix}?region={}&endpoint={}",
                bucket.name, store.region, store.endpoint
            ),
            environment: vec![
                ("AWS_ACCESS_KEY_ID", store.access_key.into()),
                ("AWS_SECRET_ACCESS_KEY", store.secret_key.into()),
                ("AWS_REGION", store.region.into()),
                ("AWS_ENDPOINT_URL_S3", store.endpoint.clone()),
            ],
            bucket: Some(bucket),
        }
    }

    async fn gcs(server: &GcsServer) -> Store {
        let name = server.new_bucket().await.unwrap();
        let url = format!("gs://{name}?endpoint={}&credentials=none", server.endpoint);
        let config = ObjectStoreConfig::from_url(&url).unwrap();
        Store {
            assets: object::open(&config, Arc::new(())).await.unwrap(),
            url,
            environment: Vec::new(),
            bucket: None,
        }
    }

    /// Uploads every file of a directory with its usual headers, except the files below `but`,
    /// which a bucket does not have.
    async fn fill(&self, directory: &Path, but: &str) {
        let mut checkpoint = None;
        let mut files = Vec::new();
        for (path, bytes) in all_files(directory) {
            let path = path.strip_prefix(directory).unwrap().to_str().unwrap();
            let kind = match path {
                // An incomplete file of a killed Sunlight.
                _ if path.starts_with(but) || path.contains("/.") => continue,
                "checkpoint" => {
                    checkpoint = Some(Asset::new(path, bytes, AssetKind::Checkpoint));
                    continue;
                }
                _ if path.starts_with("tile/data/") && bytes.starts_with(&[0x1f, 0x8b]) => {
                    let encoding = Encoding::Gzip;
                    AssetKind::DataTile { encoding }
                }
                _ if path.starts_with("tile/") => AssetKind::HashTile,
                _ if path.starts_with("issuer/") => AssetKind::Issuer,
                _ => AssetKind::LogJson,
            };
            files.push(Asset::new(path, bytes, kind));
        }
        self.assets.publish(files).await.unwrap();
        let checkpoint = vec![checkpoint.unwrap()];
        self.assets.publish(checkpoint).await.unwrap();
    }

    /// Returns the objects of the bucket, if the store keeps them as files.
    fn contents(&self) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
        let bucket = self.bucket.as_ref().unwrap();
        let data = bucket.store.directory.path().join("data");
        all_files(&data.join(&bucket.name))
    }

    fn launch(&self, log: &Taken, args: &[&str]) -> Launch {
        let launch = Launch::new(LUCARNE).args(args).directory(log.path());
        let environment = self.environment.iter();
        environment.fold(launch, |launch, (name, value)| launch.env(*name, value))
    }

    #[track_caller]
    fn says(&self, log: &Taken, code: i32, args: &[&str]) -> String {
        let output = self.launch(log, args).run().unwrap();
        let said = all(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    }

    /// Checks that the log continues: it recognises old entries, accepts a new one, and is correct.
    fn goes_on(&self, log: &Taken, args: &[&str], size: u64, scts: Option<&str>) {
        let today = Timestamp::now().strftime("%F").to_string();
        let launch = self.launch(log, args).args(["--confirm-clock", &today]);
        let address = SocketAddr::from(([127, 0, 0, 1], log.port));
        let mut server = launch.start(address).unwrap();
        let audit = log.audit();
        run(async {
            log.ready().await;
            if let Some(scts) = scts {
                log.remembers(scts, &audit).await;
            }
            for index in size..size + 3 {
                assert_eq!(leaf_index(&log.takes_one_more().await), index);
            }
            let report = audit.run().await.unwrap();
            report.assert_clean();
            assert_eq!(report.size, size + 3);
        });
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    }
}

/// Returns Sunlight's log, with its data in this store.
async fn sunlight_in(bucket: Bucket, archive: &str, path: &'static str) -> Option<(Taken, Store)> {
    let log = Taken::sunlight(archive, path)?;
    log.accept_ours();
    let store = Store::s3(bucket, "logs/2027h1/").await;
    store.fill(&log.data(), ".lucarne").await;
    fs::remove_dir_all(log.data()).unwrap();
    let bucket = store.bucket.as_ref().unwrap();
    let (name, endpoint) = (&bucket.name, &bucket.store.endpoint);
    let settings = format!(
        "s3bucket: {name}\n    s3endpoint: {endpoint}\n    s3region: {}\n    \
         s3keyprefix: logs/2027h1/",
        bucket.store.region
    );
    let file = log.path().join("sunlight.yaml");
    edit(&file, "localdirectory: log/data", &settings);
    Some((log, store))
}

#[test]
fn sunlights_bucket_with_its_database() {
    let versitygw = run(Bucket::versitygw()).unwrap();
    let Some((log, store)) = run(sunlight_in(versitygw, "sunlight-clean", "sun2027h1")) else {
        return;
    };
    let before = store.contents();
    let said = store.says(&log, 0, &[&SUNLIGHT[..], &["--check"]].concat());
    assert_has(&said, "all 2915 entries lead to the signed root");
    assert_has(&said, "✓ bucket: the bucket is writable");
    assert_has(&said, "· retention: ");
    // The command follows a running Sunlight.
    let follow = store.launch(&log, &[&SUNLIGHT[..], &["--follow"]].concat());
    let mut follower = follow.spawn().unwrap();
    let indexed = "2915 of them new, from 12 data tiles";
    follower.wait_for_output(indexed, EVENT_TIMEOUT).unwrap();
    follower.signal(Signal::INT).unwrap();
    assert!(follower.wait(EVENT_TIMEOUT).unwrap().success());
    assert_has(
        &store.says(&log, 0, &SUNLIGHT),
        "0 of them new, from 0 data tiles",
    );
    assert!(before == store.contents(), "nothing is written there");
    let serve = ["serve", "-c", "sunlight.yaml"];
    store.goes_on(&log, &serve, 2915, Some("scts-p256.json"));
}

#[test]
fn a_killed_sunlights_bucket() {
    let minio = run(Bucket::minio()).unwrap();
    let Some((log, store)) = run(sunlight_in(minio, "sunlight-killed", "k")) else {
        return;
    };
    let said = store.says(&log, 0, &SUNLIGHT);
    assert_has(&said, "1 round of the journal (360 → 400)");
    store.goes_on(&log, &["serve", "-c", "sunlight.yaml"], 400, None);
}

/// A lock elsewhere is not read, and not rebuilt from the published checkpoint, which may be older.
#[test]
fn sunlights_bucket_whose_lock_is_elsewhere() {
    let versitygw = run(Bucket::versitygw()).unwrap();
    let Some((log, store)) = run(sunlight_in(versitygw, "sunlight-clean", "sun2027h1")) else {
        return;
    };
    // The bytes in the object or item that Sunlight swaps.
    let signed = locked(&log.path().join("checkpoints.db"), &log.key);
    fs::write(log.path().join("signed"), signed).unwrap();
    let (data, rest) = store.url.split_once('?').unwrap();
    let lock = format!(
        "checkpoints: {}/lock?{rest}",
        data.trim_end_matches("/logs/2027h1/")
    );
    let file = log.path().join("sunlight.yaml");
    edit(&file, "checkpoints: checkpoints.db", &lock);
    let before = store.contents();
    let said = store.says(&log, 1, &SUNLIGHT);
    assert_has(
        &said,
        "✗ lock: the lock has no checkpoint of this log, but Sunlight wrote the bucket",
    );
    assert_has(&said, "lucarne lock rebuild --known");
    assert!(before == store.contents(), "{said}");
    let rebuild = [
        "lock",
        "rebuild",
        "-c",
        "sunlight.yaml",
        "--known",
        "signed",
    ];
    assert_has(&store.says(&log, 0, &rebuild), "is now at 2915 entries");
    store.says(&log, 0, &SUNLIGHT);
    store.goes_on(&log, &["serve", "-c", "sunlight.yaml"], 2915, None);
}

/// Returns TesseraCT's log, with its data in this store. Its flags name `key.pem`.
async fn tesseract_in(store: Store) -> Option<(Taken, Vec<String>, Store)> {
    let (log, mut flags) = tesseract()?;
    log.accept_ours();
    store.fill(&log.path().join("store"), ".state").await;
    fs::remove_dir_all(log.path().join("store")).unwrap();
    flags.retain(|flag| !flag.starts_with("--storage_dir"));
    Some((log, flags, store))
}

fn with<'f>(command: &'f str, flags: &'f [String], more: &[&'f str]) -> Vec<&'f str> {
    let flags = flags.iter().map(String::as_str);
    let all = [command].into_iter().chain(flags);
    all.chain(more.iter().copied()).collect()
}

/// TesseraCT's database shows the promised entries that are not in tiles yet.
#[test]
fn tesseracts_bucket_on_aws() {
    let store = run(async { Store::s3(Bucket::versitygw().await.unwrap(), "").await });
    let Some((log, mut flags, store)) = run(tesseract_in(store)) else {
        return;
    };
    let server = DatabaseServer::shared(DatabaseKind::MariaDb).unwrap();
    let database = server.new_database().unwrap();
    let url: url::Url = server.url(&database).parse().unwrap();
    flags.extend([
        format!("--bucket={}", store.bucket.as_ref().unwrap().name),
        "--s3_use_path_style=true".to_owned(),
        format!("--db_host={}", url.host_str().unwrap()),
        format!("--db_port={}", url.port().unwrap()),
        format!("--db_user={}", url.username()),
        format!("--db_password={}", url.password().unwrap()),
        format!("--db_name={database}"),
    ]);
    let adopt = with("adopt", &flags, &[]);
    let before = store.contents();
    // The database is missing, or belongs to another log.
    let said = store.says(&log, 2, &adopt);
    assert_has(&said, "? database: ");
    assert_has(&said, "--sequenced");

    let checkpoint =
        String::from_utf8(run(store.assets.get("checkpoint")).unwrap().unwrap().into());
    let checkpoint = checkpoint.unwrap();
    let root = checkpoint.lines().nth(2).unwrap();
    let tables = format!(
        "CREATE TABLE Tessera (id INT UNSIGNED NOT NULL PRIMARY KEY, compatibilityVersion BIGINT UNSIGNED NOT NULL);
         CREATE TABLE SeqCoord (id INT UNSIGNED NOT NULL PRIMARY KEY, next BIGINT UNSIGNED NOT NULL);
         CREATE TABLE IntCoord (id INT UNSIGNED NOT NULL PRIMARY KEY, seq BIGINT UNSIGNED NOT NULL, rootHash TINYBLOB NOT NULL);
         INSERT INTO Tessera VALUES (0, 1);
         INSERT INTO SeqCoord VALUES (0, 2093);
         INSERT INTO IntCoord VALUES (0, 2091, FROM_BASE64('{root}'))"
    );
    server.admin(&database, &tables).unwrap();
    let said = store.says(&log, 1, &adopt);
    assert_has(
        &said,
        "✗ database: TesseraCT has promised 2093 entries and published 2091",
    );
    let set = |what: &str| server.admin(&database, what).unwrap();
    set("UPDATE SeqCoord SET next = 2091; UPDATE IntCoord SET rootHash = REPEAT('x', 32)");
    assert_has(&store.says(&log, 1, &adopt), "with another root");
    set(&format!(
        "UPDATE IntCoord SET rootHash = FROM_BASE64('{root}')"
    ));
    set("UPDATE Tessera SET compatibilityVersion = 2");
    assert_has(&store.says(&log, 2, &adopt), "only version 1 is supported");
    set("UPDATE Tessera SET compatibilityVersion = 1");
    assert_has(
        &store.says(&log, 0, &with("adopt", &flags, &["--check"])),
        "can be taken over",
    );
    assert!(before == store.contents());
    assert_eq!(set("SHOW TABLES LIKE 'checkpoints'"), "");

    assert_has(&store.says(&log, 0, &adopt), "is now at 2091 entries");
    store.goes_on(
        &log,
        &with("serve", &flags, &[]),
        2091,
        Some("scts-p256.json"),
    );
    // TesseraCT's tables do not know the new entries, but the lock does.
    store.says(&log, 0, &adopt);
}

/// The operator queries the Spanner database and passes the result.
#[test]
fn tesseracts_bucket_on_gcp() {
    let server = GcsServer::shared().unwrap();
    let store = run(Store::gcs(&server));
    let Some((log, mut flags, store)) = run(tesseract_in(store)) else {
        return;
    };
    let lock = run(server.new_bucket()).unwrap();
    flags.extend([
        format!("--bucket={}", store.url),
        format!(
            "--checkpoints=gs://{lock}/lock?endpoint={}&credentials=none",
            server.endpoint
        ),
        "--spanner_db_path=projects/p/instances/i/databases/d".to_owned(),
    ]);
    let said = store.says(&log, 2, &with("adopt", &flags, &[]));
    assert_has(&said, "SELECT next FROM SeqCoord");
    let said = store.says(&log, 1, &with("adopt", &flags, &["--sequenced=2092"]));
    assert_has(
        &said,
        "✗ database: TesseraCT has promised 2092 entries and published 2091",
    );
    let said = store.says(&log, 1, &with("adopt", &flags, &["--sequenced=2090"]));
    assert_has(&said, "✗ database: ");
    let said = store.says(&log, 0, &with("adopt", &flags, &["--sequenced=2091"]));
    assert_has(&said, "is now at 2091 entries");
    store.goes_on(
        &log,
        &with("serve", &flags, &[]),
        2091,
        Some("scts-p256.json"),
    );
}
