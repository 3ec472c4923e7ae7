//! Faults of object stores and database servers. The log reports the fault, its clients get a 503
//! with Retry-After, and it continues by itself as soon as possible. At the end no entry is lost,
//! repeated or taken back.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::load::Load;
use crate::common::site::Site;
use crate::common::{EVENT_TIMEOUT, assert_has, eventually, pki, run};
use lucarne_mint::{Authority, CaOptions, KeyType, pem};
use lucarne_testkit::{
    Bucket, DatabaseKind, DatabaseServer, Fate, Place, Report, Server, StoreProxy,
};
use tokio::task::JoinSet;

/// The name of the log in most tests.
const LOG: &str = "log";

/// Returns the duration of outages after the log has noticed them. `LUCARNE_OUTAGE=60` is realistic
/// for stores.
fn outage() -> Duration {
    let seconds = std::env::var("LUCARNE_OUTAGE").map(|seconds| seconds.parse());
    Duration::from_secs(seconds.map_or(1, |seconds| seconds.unwrap()))
}

/// A log on S3 alone, with its store behind a proxy.
struct Way {
    bucket: Bucket,
    proxy: StoreProxy,
    site: Site,
}

impl Way {
    fn new() -> Self {
        Self::with("")
    }

    fn with(settings: &str) -> Self {
        let bucket = run(Bucket::versitygw()).unwrap();
        let proxy = StoreProxy::start(bucket.store.address).unwrap();
        let place = Place::bucket(&bucket, Some(&proxy.endpoint));
        let site = Site::create_at(place, [(LOG, settings.to_owned())]);
        Way {
            bucket,
            proxy,
            site,
        }
    }

    /// Returns the number of staged rounds. versitygw stores each object as a file.
    fn staged(&self) -> usize {
        let data = self.bucket.store.directory.path().join("data");
        let journal = data
            .join(&self.bucket.name)
            .join(LOG)
            .join(".lucarne/journal");
        fs::read_dir(journal).unwrap().count()
    }
}

/// A log under load; every response is recorded.
struct Life<'s> {
    site: &'s Site,
    server: Server,
    load: Arc<Load>,
    at_work: JoinSet<()>,
}

impl<'s> Life<'s> {
    async fn begin(site: &'s Site) -> Self {
        let (server, load) = (site.start(), Arc::new(site.load(LOG)));
        site.ready(LOG).await;
        let mut at_work = JoinSet::new();
        for _ in 0..3 {
            let load = load.clone();
            at_work.spawn(async move { load.submit_on().await });
        }
        let polling = load.clone();
        at_work.spawn(async move { polling.poll_on().await });
        let life = Life {
            site,
            server,
            load,
            at_work,
        };
        life.goes_on().await;
        life
    }

    /// Waits for some more SCTs.
    async fn goes_on(&self) {
        let before = self.load.promised.load(SeqCst);
        eventually("SCTs again", async || {
            self.load.promised.load(SeqCst) > before + 10
        })
        .await;
    }

    /// Checks that the log has stopped, with these words in `/health` and on its page, and responds
    /// with 503 and Retry-After.
    async fn stands_still(&self, words: &[&str]) {
        let mut reason = self.site.reaches(LOG, "stopped").await;
        eventually(&format!("{words:?} for {reason:?}"), async || {
            // Operations in flight at the beginning may be reported first.
            reason = self.site.reaches(LOG, "stopped").await;
            words.iter().all(|words| reason.contains(words))
        })
        .await;
        println!("{reason}");
        let health = self.site.client().get("health").await.unwrap();
        assert_eq!(health.status, 503);
        let page = self.site.client_of(LOG).get("").await.unwrap();
        assert_has(&page.text(), words[0]);
        let submission = self.load.fresh();
        assert_eq!(self.load.submit(&submission).await, Some(false));
        // The outage lasts at least this long.
        tokio::time::sleep(outage()).await;
        assert_eq!(self.load.submit(&submission).await, Some(false));
    }

    /// Checks that the log has all promised entries, and no others.
    async fn end(mut self) -> Report {
        self.site.ready(LOG).await;
        self.goes_on().await;
        self.load.end();
        while let Some(done) = self.at_work.join_next().await {
            done.unwrap();
        }
        let report = self.load.settle_accounts().await;
        println!("{report}");
        report.assert_clean();
        assert!(self.server.stop(EVENT_TIMEOUT).unwrap().success());
        report
    }
}

/// Applies `fate` to all requests of the log to its store, and then ends the outage.
fn outage_by(fate: Fate, words: &[&str]) {
    let way = Way::new();
    run(async {
        let life = Life::begin(&way.site).await;
        way.proxy.judge(move |_| fate);
        life.stands_still(words).await;
        way.proxy.judge(|_| Fate::Pass);
        life.end().await;
    });
}

#[test]
fn a_store_that_is_overloaded() {
    outage_by(Fate::Status(503), &["the store is unavailable", "SlowDown"]);
}

#[test]
fn a_store_that_never_answers() {
    outage_by(Fate::Hang, &["no response in time"]);
}

/// A simulated response about clocks, because a test cannot set the clock.
#[test]
fn a_store_that_rejects_our_clock() {
    outage_by(
        Fate::Refuse("RequestTimeTooSkewed"),
        &["clock and the store", "are too far apart"],
    );
}

#[test]
fn answers_that_are_lost_after_their_effect() {
    let way = Way::new();
    run(async {
        let life = Life::begin(&way.site).await;
        let puts = AtomicU64::new(0);
        way.proxy.judge(move |request| {
            let change = request.method() != "GET";
            if change && puts.fetch_add(1, SeqCst).is_multiple_of(3) {
                Fate::LoseAnswer
            } else {
                Fate::Pass
            }
        });
        let (struck, deadline) = (
            way.proxy.struck(),
            std::time::Instant::now() + EVENT_TIMEOUT,
        );
        while way.proxy.struck() < struck + 60 {
            assert!(std::time::Instant::now() < deadline);
            life.goes_on().await;
        }
        way.proxy.judge(|_| Fate::Pass);
        life.end().await;
    });
}

#[test]
fn credentials_that_are_wrong() {
    let way = Way::new();
    let wrong = way.site.launch().env("AWS_SECRET_ACCESS_KEY", "mistyped");
    let output = wrong.run().unwrap();
    let said = crate::common::all(&output);
    assert!(!output.status.success(), "{said}");
    assert_has(&said, "credentials");
    assert!(!said.contains("mistyped"), "{said}");
    run(async {
        let life = Life::begin(&way.site).await;
        way.proxy.judge(|_| Fate::Refuse("InvalidAccessKeyId"));
        life.stands_still(&["the store refuses", "Check the credentials"])
            .await;
        way.proxy.judge(|_| Fate::Pass);
        life.end().await;
    });
}

/// A simulated response, because a pending PUT recreates a bucket that is removed from versitygw.
#[test]
fn a_bucket_that_is_missing() {
    outage_by(Fate::Refuse("NoSuchBucket"), &["no such bucket"]);
}

/// The prefixes of two logs are swapped, or a prefix is empty.
#[test]
fn a_bucket_of_another_log() {
    let place = run(Place::s3_alone()).unwrap();
    let site = Site::create_at(place, [(LOG, String::new()), ("other", String::new())]);
    let configuration = site.configuration();
    let right = fs::read_to_string(&configuration).unwrap();
    let mut server = site.start();
    let load = site.load(LOG);
    run(async {
        site.ready(LOG).await;
        site.ready("other").await;
        for load in [&load, &site.load("other")] {
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        }
    });
    server.stop(EVENT_TIMEOUT).unwrap();

    let prefix = |name: &str| format!("s3keyprefix: {name}/");
    let swapped = right
        .replace(&prefix(LOG), &prefix("swap"))
        .replace(&prefix("other"), &prefix(LOG))
        .replace(&prefix("swap"), &prefix("other"));
    let empty = right.replace(&prefix(LOG), &prefix("empty"));
    for (text, words) in [(swapped, "another log"), (empty, "emptied")] {
        fs::write(&configuration, text).unwrap();
        let mut server = site.start();
        let reason = run(site.reaches(LOG, "stopped"));
        println!("{reason}");
        assert_has(&reason.to_lowercase(), words);
        assert_eq!(run(load.submit(&load.fresh())), Some(false));
        server.stop(EVENT_TIMEOUT).unwrap();
    }
    fs::write(&configuration, right).unwrap();
    let mut server = site.start();
    let report = run(async {
        site.ready(LOG).await;
        load.settle_accounts().await
    });
    report.assert_clean();
    server.stop(EVENT_TIMEOUT).unwrap();
}

/// The requests of a start to its store, until the first SCT.
struct FirstSct {
    /// Staged rounds that the start has read.
    staged: usize,
    /// All requests, including those to the lock and repetitions.
    requests: usize,
    /// The objects of the log that were read before the first write.
    read: BTreeSet<String>,
    took: Duration,
}

impl FirstSct {
    /// Starts the log after a session of `rounds` rounds that ended with SIGKILL.
    fn after(rounds: usize, way: &Way) -> Self {
        let load = way.site.load(LOG);
        let mut server = way.site.start();
        run(async {
            way.site.ready(LOG).await;
            for _ in 0..rounds {
                // A client that waits for each response causes one round per submission.
                assert_eq!(load.submit(&load.fresh()).await, Some(true));
            }
        });
        server.kill().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        way.proxy.judge(move |request| {
            let line = format!("{} {}", request.method(), request.uri());
            noted.lock().unwrap().push(line);
            Fate::Delay(Duration::from_millis(30))
        });
        let begun = Instant::now();
        let mut server = way.site.start();
        let submission = load.fresh();
        run(eventually("the first SCT", async || {
            load.submit(&submission).await == Some(true)
        }));
        let (took, asked) = (begun.elapsed(), asked.lock().unwrap().clone());
        way.proxy.judge(|_| Fate::Pass);
        server.kill().unwrap();
        let prefix = format!("/{}/{LOG}/", way.bucket.name);
        let listing = format!("prefix={LOG}%2F");
        let of_log = |line: &&String| line.contains(&prefix) || line.contains(&listing);
        let before = asked.iter().filter(of_log);
        let read = before.take_while(|line| line.starts_with("GET "));
        let read: BTreeSet<String> = read.cloned().collect();
        let is_staged = |line: &&String| line.contains("/.lucarne/journal/");
        let this = Self {
            staged: read.iter().filter(is_staged).count(),
            requests: asked.len(),
            read,
            took,
        };
        println!(
            "after {rounds} rounds, of which {} were read: the first SCT after {} requests and {:?}",
            this.staged, this.requests, this.took
        );
        this
    }
}

/// The requests of a start do not grow with the uptime of the log.
#[test]
fn a_start_asks_for_as_much_after_many_rounds_as_after_few() {
    let way = Way::with("period: 5");
    let (few, many) = (FirstSct::after(40, &way), FirstSct::after(200, &way));
    for start in [&few, &many] {
        // The rounds since the last cut of the journal, and the rounds of a cut in progress.
        assert!(start.staged <= 32, "{} rounds are staged", start.staged);
        let others = start.requests - start.staged;
        assert!(others <= 120, "{others} requests but for them");
    }
    let but_for_rounds = |start: &FirstSct| start.read.len() - start.staged;
    let (few, many) = (but_for_rounds(&few), but_for_rounds(&many));
    assert_eq!(few, many, "reads but for the staged rounds");
}

/// The store gets few requests for a missing issuer, even if many clients request it.
#[test]
fn an_issuer_that_is_absent_is_hardly_asked_for() {
    let way = Way::new();
    let mut server = way.site.start();
    run(async {
        way.site.ready(LOG).await;
        let asked = Arc::new(AtomicU64::new(0));
        let noted = asked.clone();
        way.proxy.judge(move |request| {
            if request.uri().path().contains("/issuer/") {
                noted.fetch_add(1, SeqCst);
            }
            Fate::Pass
        });
        let begun = Instant::now();
        let ask = || {
            let client = way.site.client_of(LOG);
            let path = format!("issuer/{}", "ab".repeat(32));
            async move { assert_eq!(client.get(&path).await.unwrap().status, 404) }
        };
        let at_once: JoinSet<()> = (0..25).map(|_| ask()).collect();
        at_once.join_all().await;
        for _ in 0..25 {
            ask().await;
        }
        // The result is cached for five seconds, and a slow store is tried twice.
        let most = 2 * (1 + begun.elapsed().as_secs() / 5);
        let asked = asked.load(SeqCst);
        assert!(
            (1..=most).contains(&asked),
            "{asked} requests for one issuer"
        );
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Cutting the journal, removing superseded tiles and checking whether the store accepts writes are
/// needed neither for the next SCT nor for a clean end.
#[test]
fn a_store_that_lets_nothing_be_tidied_up() {
    let way = Way::new();
    let failures = async |metric: &str| {
        let metrics = way.site.client().get("metrics").await.unwrap().text();
        let name = format!("lucarne_{metric}_failures_total{{log=\"{LOG}\"}} ");
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix(&name));
        count.unwrap().parse::<u64>().unwrap()
    };
    run(async {
        let life = Life::begin(&way.site).await;
        way.proxy.judge(|request| {
            let probe = request.uri().path().ends_with("/lock/check");
            if is_deletion(request) || probe {
                Fate::Refuse("AccessDenied")
            } else {
                Fate::Pass
            }
        });
        eventually("it is told", async || failures("housekeeping").await >= 2).await;
        eventually("the probe is refused", async || {
            let health = way.site.client().get("health").await;
            health.unwrap().status == 503
        })
        .await;
        life.goes_on().await;
        assert_eq!(way.site.health(LOG).await["state"], "running");
        assert_eq!(failures("log").await, 0);
        // Deletions still fail when the log ends.
        way.proxy.judge(|request| {
            if is_deletion(request) {
                Fate::Refuse("AccessDenied")
            } else {
                Fate::Pass
            }
        });
        life.end().await;
    });
    assert!(way.staged() > 16, "rounds were deleted");
    // A start with all of these rounds does not need these operations either.
    let (mut server, load) = (way.site.start(), way.site.load(LOG));
    run(async {
        way.site.ready(LOG).await;
        assert_eq!(load.submit(&load.fresh()).await, Some(true));
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Returns whether the request deletes one object, or several by the S3 request for this.
fn is_deletion<B>(request: &http::Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == "DELETE" || query.starts_with("delete")
}

/// An untrusted certificate is a permanent error, which is reported at once, also by `serve`. A
/// running log continues after the certificate is replaced.
fn of_an_authority_that_nobody_named(kind: DatabaseKind) {
    const WORDS: [&str; 2] = [
        "issued by a CA that is not trusted",
        "names the authorities whose certificates are trusted",
    ];
    let other = Authority::root(&CaOptions::named("Other", KeyType::EcdsaP256)).unwrap();
    let [certificate, foreign] = [&pki().root, &other].map(|authority| {
        let leaf = authority.issue(&pki().leaf("db.example")).unwrap();
        pem::encode("CERTIFICATE", &leaf)
    });
    let key = pem::encode("PRIVATE KEY", &pki().leaf_key.to_pkcs8().unwrap());
    let mut database = DatabaseServer::start_tls(kind, &certificate, &key).unwrap();
    let mut place = Place::directory().with_lock(&database).unwrap();
    place.checkpoints += match kind {
        DatabaseKind::MariaDb => "?ssl-mode=VERIFY_CA",
        DatabaseKind::Postgres => "?sslmode=verify-ca",
    };
    let authorities = lucarne_testkit::temp_dir();
    let [right, wrong] = ["right.pem", "wrong.pem"].map(|file| authorities.path().join(file));
    fs::write(&right, pki().root.certificate_pem()).unwrap();
    fs::write(&wrong, other.certificate_pem()).unwrap();
    let right = right.display().to_string();
    place.environment.push(("SSL_CERT_FILE", right));

    let site = Site::create_at(place, [(LOG, String::new())]);
    run(async {
        let life = Life::begin(&site).await;
        database.restart_tls(&foreign, &key).unwrap();
        // At first the server was unavailable.
        eventually("the certificate is named", async || {
            let reason = site.reaches(LOG, "stopped").await;
            reason.contains(WORDS[0])
        })
        .await;
        life.stands_still(&WORDS).await;
        database.restart_tls(&certificate, &key).unwrap();
        life.end().await;
    });

    let untrusting = site
        .launch()
        .env("SSL_CERT_FILE", wrong.display().to_string());
    let mut server = untrusting.spawn().unwrap();
    let status = server.wait(EVENT_TIMEOUT).unwrap();
    let said = server.output();
    println!("{said}");
    assert!(!status.success(), "{said}");
    WORDS.iter().for_each(|words| assert_has(&said, words));
    assert!(!said.contains("is the server running"), "{said}");
    assert!(!said.contains("does not respond"), "{said}");
}

#[test]
fn a_mariadb_of_an_authority_that_nobody_named() {
    of_an_authority_that_nobody_named(DatabaseKind::MariaDb);
}

#[test]
fn a_postgresql_of_an_authority_that_nobody_named() {
    of_an_authority_that_nobody_named(DatabaseKind::Postgres);
}

/// Creates a log in MinIO with its lock on a database server.
fn on_database(kind: DatabaseKind) -> (DatabaseServer, Site) {
    let server = DatabaseServer::start(kind).unwrap();
    let bucket = run(Bucket::minio()).unwrap();
    let place = Place::bucket(&bucket, None).with_lock(&server).unwrap();
    let site = Site::create_at(place, [(LOG, String::new())]);
    (server, site)
}

/// Stops the database in order, kills it, and freezes it, each during rounds.
fn comes_and_goes(kind: DatabaseKind) {
    let (mut database, site) = on_database(kind);
    run(async {
        let life = Life::begin(&site).await;
        database.restart(&[]).unwrap();
        life.goes_on().await;
        database.kill().unwrap();
        life.stands_still(&["is the server running"]).await;
        database.begin(&[]).unwrap();
        life.goes_on().await;
        database.freeze().unwrap();
        // The outage lasts at least this long.
        tokio::time::sleep(outage()).await;
        database.thaw().unwrap();
        life.end().await;
    });
}

#[test]
fn a_mariadb_that_comes_and_goes() {
    comes_and_goes(DatabaseKind::MariaDb);
}

#[test]
fn a_postgresql_that_comes_and_goes() {
    comes_and_goes(DatabaseKind::Postgres);
}

/// The old primary first becomes a replica during a failover.
#[test]
fn a_database_that_fails_over() {
    let (database, site) = on_database(DatabaseKind::MariaDb);
    run(async {
        let life = Life::begin(&site).await;
        database.admin("", "SET GLOBAL read_only = 1").unwrap();
        life.stands_still(&["primary"]).await;
        database.admin("", "SET GLOBAL read_only = 0").unwrap();
        life.end().await;
    });
}

/// A backup was restored, or a stale replica was promoted: the store has a newer tree than the
/// lock.
#[test]
fn a_database_that_is_behind_its_store() {
    let (database, site) = on_database(DatabaseKind::MariaDb);
    let name = site.checkpoints().rsplit_once('/').unwrap().1.to_owned();
    let sql = |statements: &str| database.admin(&name, statements).unwrap();
    run(async {
        let life = Life::begin(&site).await;
        sql("CREATE TABLE backup AS SELECT * FROM checkpoints");
        life.goes_on().await;
        life.end().await;
    });
    sql("CREATE TABLE newest AS SELECT * FROM checkpoints");
    sql("REPLACE INTO checkpoints SELECT * FROM backup");
    let mut server = site.start();
    let reason = run(site.reaches(LOG, "stopped"));
    println!("{reason}");
    assert_has(&reason, "The lock was rolled back");
    server.stop(EVENT_TIMEOUT).unwrap();
    sql("REPLACE INTO checkpoints SELECT * FROM newest");
    run(async {
        let life = Life::begin(&site).await;
        life.load.end();
        assert!(life.load.promised.load(SeqCst) > 0);
    });
}
