//! Locks on database servers: the conformance tests, and tests that are specific to servers. Each
//! test has a separate database on a shared server.

use std::sync::Arc;

use async_trait::async_trait;
use lucarne_storage::conformance::LockBackend;
use lucarne_storage::{Lock, LockError, SqlLock};
use lucarne_testkit::{DatabaseKind, DatabaseServer, block_until, in_time};

const LOG: [u8; 32] = [9; 32];

/// A database on a server.
struct Place {
    server: Arc<DatabaseServer>,
    name: String,
}

impl Place {
    fn empty(kind: DatabaseKind) -> Self {
        let server = DatabaseServer::shared(kind).unwrap();
        let name = server.new_database().unwrap();
        Self { server, name }
    }

    async fn new(kind: DatabaseKind) -> Self {
        let place = Self::empty(kind);
        place.create().await;
        place
    }

    fn url(&self) -> String {
        self.server.url(&self.name)
    }

    async fn create(&self) -> SqlLock {
        SqlLock::create(&self.url()).await.unwrap()
    }

    fn admin(&self, statements: &str) -> String {
        self.server.admin(&self.name, statements).unwrap()
    }

    async fn failure(&self, url: &str) -> LockError {
        let Err(error) = SqlLock::open(url).await else {
            panic!("it was opened");
        };
        let message = error.to_string();
        assert!(!message.contains(self.server.password()), "{message}");
        error
    }

    async fn refusal(&self, url: &str) -> String {
        match self.failure(url).await {
            error @ LockError::Unusable { .. } => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the error for a table that another program created.
    async fn refusal_of(&self, schema: &str) -> String {
        self.admin("DROP TABLE IF EXISTS checkpoints");
        self.admin(schema);
        self.refusal(&self.url()).await
    }
}

#[async_trait]
impl LockBackend for Place {
    async fn open(&self) -> Box<dyn Lock> {
        Box::new(SqlLock::open(&self.url()).await.unwrap())
    }
}

macro_rules! both {
    ($($case:ident)*) => {
        mod mariadb {
            use super::*;
            const KIND: DatabaseKind = DatabaseKind::MariaDb;
            lucarne_storage::lock_conformance!(Place::new(KIND).await);
            $( #[tokio::test] async fn $case() { super::$case(KIND).await } )*
        }
        mod postgres {
            use super::*;
            const KIND: DatabaseKind = DatabaseKind::Postgres;
            lucarne_storage::lock_conformance!(Place::new(KIND).await);
            $( #[tokio::test] async fn $case() { super::$case(KIND).await } )*
        }
    };
}

both! {
    a_missing_table_is_made_by_creating_only
    the_table_may_be_made_by_an_administrator
    wrong_credentials_and_databases_are_named
    an_address_without_a_server_is_named
    sockets_are_addresses_too
    few_rights_are_enough
    missing_rights_are_named
    a_row_that_another_session_holds_is_named
    logs_do_not_wait_for_each_other
    a_read_only_session_is_named
    the_clock_of_the_server_is_known
}

async fn a_missing_table_is_made_by_creating_only(kind: DatabaseKind) {
    let place = Place::empty(kind);
    let refused = place.refusal(&place.url()).await;
    assert!(refused.contains("lucarne init") && refused.contains("CREATE TABLE checkpoints"));
    let lock = place.create().await;
    lock.create(&LOG, b"0").await.unwrap();
    let again = SqlLock::create(&place.url()).await.err().unwrap();
    assert!(again.to_string().contains("never overwritten"), "{again}");
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    lock.close().await;
    assert!(lock.load(&LOG).await.is_err());
}

async fn the_table_may_be_made_by_an_administrator(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    place.admin("DROP TABLE checkpoints");
    let schema = SqlLock::schema(&place.url()).unwrap();
    let grant = match kind {
        DatabaseKind::MariaDb => "",
        DatabaseKind::Postgres => "; GRANT SELECT, INSERT, UPDATE ON checkpoints TO lucarne",
    };
    place.admin(&format!("{schema}{grant}"));
    let lock = SqlLock::open(&place.url()).await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

async fn wrong_credentials_and_databases_are_named(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let url = place.url();
    let password = place.server.password();
    let refused = place.refusal(&url.replace(password, "wrong")).await;
    assert!(refused.contains("user or password"), "{refused}");
    let elsewhere = place.server.url("nowhere");
    let refused = place.refusal(&elsewhere).await;
    // MariaDB does not reveal databases without permission.
    let told = ["CREATE DATABASE", "needs the privileges"];
    assert!(told.iter().any(|told| refused.contains(told)), "{refused}");
}

async fn an_address_without_a_server_is_named(kind: DatabaseKind) {
    let place = Place::empty(kind);
    let mut url = url::Url::parse(&place.url()).unwrap();
    url.set_port(Some(lucarne_testkit::free_port())).unwrap();
    // The error is temporary: the server may come back.
    let failure = place.failure(url.as_str()).await;
    assert!(matches!(failure, LockError::Failed { .. }), "{failure:?}");
    let said = failure.to_string();
    assert!(said.contains("is the server running"), "{said}");
}

async fn sockets_are_addresses_too(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let lock = SqlLock::open(&place.server.socket_url(&place.name))
        .await
        .unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    let socket = lock.location();
    assert!(socket.contains(&place.name) && !socket.contains(place.server.password()));
    let lock = place.open().await;
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    assert!(!lock.location().contains(place.server.password()));
}

/// Creates a user who may neither delete rows nor change the table, and returns the URL.
fn careful_user(place: &Place, rights: &str) -> String {
    let (name, user) = (&place.name, format!("{}_careful", place.name));
    if place.url().starts_with("mysql") {
        place.admin(&format!(
            "CREATE USER {user}@'%' IDENTIFIED BY 'x'; \
             GRANT {rights} ON {name}.checkpoints TO {user}@'%'"
        ))
    } else {
        place.admin(&format!(
            "CREATE USER {user} PASSWORD 'x'; GRANT {rights} ON checkpoints TO {user}"
        ))
    };
    let mut url = url::Url::parse(&place.url()).unwrap();
    url.set_username(&user).unwrap();
    url.set_password(Some("x")).unwrap();
    url.into()
}

async fn few_rights_are_enough(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let url = careful_user(&place, "SELECT, INSERT, UPDATE");
    let lock = SqlLock::open(&url).await.unwrap();
    lock.check().await.unwrap();
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"1");
}

async fn missing_rights_are_named(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let lock = SqlLock::open(&careful_user(&place, "SELECT"))
        .await
        .unwrap();
    assert_eq!(lock.load(&LOG).await.unwrap(), None);
    for refused in [lock.check().await, lock.create(&LOG, b"0").await] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("SELECT, INSERT and UPDATE"), "{refused}");
    }
}

/// An operator's shell with an open transaction on the log's row.
struct Shell<'p> {
    place: &'p Place,
    running: tokio::task::JoinHandle<()>,
}

impl<'p> Shell<'p> {
    /// Starts the shell, and waits until it holds the row.
    fn holds(place: &'p Place) -> Self {
        let (row, wait) = if place.url().starts_with("mysql") {
            ("REPEAT(CHAR(9), 32)", "SLEEP")
        } else {
            ("decode(repeat('09', 32), 'hex')", "pg_sleep")
        };
        let hold = format!(
            "BEGIN; UPDATE checkpoints SET body = body WHERE logID = {row}; \
             SELECT {wait}(100); ROLLBACK"
        );
        let (server, name) = (place.server.clone(), place.name.clone());
        let running = tokio::task::spawn_blocking(move || {
            // The shell is killed, which is an error.
            let _ = server.admin(&name, &hold);
        });
        let look = format!("SELECT 1 FROM checkpoints WHERE logID = {row} FOR UPDATE NOWAIT");
        block_until("the shell holds the row", || {
            place.server.admin(&place.name, &look).is_err()
        });
        Shell { place, running }
    }

    async fn end(self) {
        let (server, name) = (&self.place.server, &self.place.name);
        let admin = |statement: &str| server.admin(name, statement).unwrap();
        if self.place.url().starts_with("mysql") {
            let find = "SELECT id FROM information_schema.processlist \
                        WHERE db = DATABASE() AND info LIKE 'SELECT SLEEP%'";
            admin(&format!("KILL {}", admin(find)));
        } else {
            admin(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND query LIKE 'BEGIN; UPDATE%'",
            );
        }
        self.running.await.unwrap();
    }
}

async fn a_row_that_another_session_holds_is_named(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let lock = place.open().await;
    lock.create(&LOG, b"0").await.unwrap();
    let shell = Shell::holds(&place);
    let refused = lock
        .replace(&LOG, b"0", b"1")
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("another session"), "{refused}");
    // Neither readers nor other logs wait.
    assert_eq!(lock.load(&LOG).await.unwrap().unwrap(), b"0");
    lock.create(&[1; 32], b"0").await.unwrap();
    lock.replace(&[1; 32], b"0", b"1").await.unwrap();
    shell.end().await;
    lock.replace(&LOG, b"0", b"1").await.unwrap();
}

/// The commit of one log waits for its row while ten others commit.
async fn logs_do_not_wait_for_each_other(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let lock: Arc<dyn Lock> = Arc::from(place.open().await);
    lock.create(&LOG, b"0").await.unwrap();
    // The connections are opened first, because that takes longer than a commit.
    let mut made = tokio::task::JoinSet::new();
    for log in 10..20 {
        let lock = lock.clone();
        made.spawn(async move { lock.create(&[log; 32], b"0").await.unwrap() });
    }
    made.join_all().await;
    let shell = Shell::holds(&place);
    let (mut step, mut hanging) = (0, None);
    let all_but_one_commit = async {
        loop {
            let waiting = tokio::spawn({
                let lock = lock.clone();
                async move { lock.replace(&LOG, b"0", b"1").await }
            });
            let mut others = tokio::task::JoinSet::new();
            for log in 10..20 {
                let (lock, log) = (lock.clone(), [log; 32]);
                let (old, new) = (step.to_string(), (step + 1).to_string());
                others.spawn(async move {
                    let replaced = lock.replace(&log, old.as_bytes(), new.as_bytes());
                    replaced.await.unwrap();
                });
            }
            step += 1;
            others.join_all().await;
            if !waiting.is_finished() {
                hanging = Some(waiting);
                break;
            }
            // On a very busy machine the server may have given up this commit.
            waiting.await.unwrap().unwrap_err();
        }
    };
    in_time("ten logs commit while another hangs", all_but_one_commit).await;
    shell.end().await;
    // As above.
    if hanging.unwrap().await.unwrap().is_err() {
        lock.replace(&LOG, b"0", b"1").await.unwrap();
    }
}

/// A replica returns the same error as a read-only server, database or user.
async fn a_read_only_session_is_named(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    if kind == DatabaseKind::MariaDb {
        return; // Only for a whole server: see the faults.
    }
    let name = &place.name;
    place.admin(&format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on"
    ));
    let lock = SqlLock::open(&place.url()).await.unwrap();
    for refused in [lock.check().await, lock.create(&LOG, b"0").await] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("primary"), "{refused}");
    }
}

#[tokio::test]
async fn tables_of_mariadb_that_lose_or_mix_are_refused() {
    let place = Place::empty(DatabaseKind::MariaDb);
    for schema in [
        "CREATE TABLE checkpoints (logID BINARY(32) PRIMARY KEY, body MEDIUMBLOB NOT NULL)",
        "CREATE TABLE checkpoints (logID BINARY(32), body BLOB NOT NULL, commits BIGINT)",
        "CREATE TABLE checkpoints (logID BINARY(32), n INT, body BLOB, commits BIGINT, \
         PRIMARY KEY (logID, n))",
        "CREATE TABLE checkpoints (logID BINARY(32) PRIMARY KEY, body TEXT, commits BIGINT)",
        "CREATE TABLE checkpoints (logID CHAR(32) PRIMARY KEY, body BLOB, commits BIGINT)",
        "CREATE TABLE checkpoints (logID BINARY(32) PRIMARY KEY, body BLOB, commits BIGINT) \
         ENGINE = MyISAM",
        "CREATE TABLE checkpoints (something INT)",
    ] {
        let refused = place.refusal_of(schema).await;
        assert!(refused.contains("ENGINE = InnoDB"), "{schema}: {refused}");
    }
}

#[tokio::test]
async fn tables_of_postgres_that_lose_or_mix_are_refused() {
    let place = Place::empty(DatabaseKind::Postgres);
    for schema in [
        "CREATE TABLE checkpoints (logID BYTEA, body BYTEA NOT NULL)",
        "CREATE TABLE checkpoints (logID BYTEA, n INT, body BYTEA, PRIMARY KEY (logID, n))",
        "CREATE TABLE checkpoints (logID BYTEA PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE TABLE checkpoints (logID TEXT PRIMARY KEY, body BYTEA NOT NULL)",
        "CREATE UNLOGGED TABLE checkpoints (logID BYTEA PRIMARY KEY, body BYTEA NOT NULL)",
        "CREATE TABLE checkpoints (logID BYTEA, body BYTEA); \
         CREATE UNIQUE INDEX ON checkpoints (logID) WHERE body IS NOT NULL",
        "CREATE TABLE checkpoints (something INT)",
    ] {
        let refused = place.refusal_of(schema).await;
        assert!(
            refused.contains("logID BYTEA PRIMARY KEY"),
            "{schema}: {refused}"
        );
    }
}

/// The session's part of the durability settings is set instead of checked.
#[tokio::test]
async fn postgres_commits_synchronously_whatever_was_set() {
    let place = Place::new(DatabaseKind::Postgres).await;
    let name = &place.name;
    for (set, used) in [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        place.admin(&format!(
            "ALTER DATABASE {name} SET synchronous_commit = {set}"
        ));
        place.admin(
            "DROP TABLE IF EXISTS seen; CREATE TABLE seen (said TEXT); \
             GRANT ALL ON seen TO PUBLIC; \
             CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN INSERT INTO seen VALUES (current_setting(''synchronous_commit'') || '' '' || \
             current_setting(''transaction_isolation'')); RETURN NEW; END'; \
             CREATE OR REPLACE TRIGGER see AFTER UPDATE ON checkpoints \
             FOR EACH ROW EXECUTE FUNCTION see()",
        );
        place.admin(&format!(
            "ALTER DATABASE {name} SET default_transaction_isolation = serializable"
        ));
        let lock = SqlLock::open(&place.url()).await.unwrap();
        let _ = lock.create(&LOG, b"0").await;
        lock.replace(&LOG, b"0", b"0").await.unwrap();
        assert_eq!(
            place.admin("SELECT said FROM seen"),
            format!("{used} read committed")
        );
    }
}

/// A server may be configured without automatic commits.
#[tokio::test]
async fn mariadb_commits_each_statement() {
    let place = Place::new(DatabaseKind::MariaDb).await;
    let lock = place.open().await;
    lock.create(&LOG, b"0").await.unwrap();
    lock.replace(&LOG, b"0", b"1").await.unwrap();
    lock.replace(&LOG, b"1", b"1").await.unwrap();
    let seen = place.admin("SELECT body, commits FROM checkpoints");
    assert_eq!(seen, "1\t2");
}

/// The server is on this machine. Its time zone has no effect.
async fn the_clock_of_the_server_is_known(kind: DatabaseKind) {
    let place = Place::new(kind).await;
    let lock = SqlLock::open(&place.url()).await.unwrap();
    let before = lucarne_x509::now_ms() / 1000;
    let date = lock.date().await.unwrap().unwrap();
    let after = lucarne_x509::now_ms() / 1000;
    assert!(
        (before..=after).contains(&(date.unix_ms / 1000)),
        "{date:?}"
    );
    lock.close().await;
    assert!(lock.date().await.is_err());
}
