//! The recipes of `docs/how-to/disaster-recovery.md`, run command by command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lucarne_testkit::{Bucket, Launch, LogUnderTest, Place, Server};

use crate::common::load::Load;
use crate::common::{EVENT_TIMEOUT, LUCARNE, all, assert_has, log, log_at, ready, run};
use crate::lock_tools::elsewhere::{Answer, Elsewhere};

const SETTINGS: &str = "period: 20";
const ENTRIES: usize = 300;

/// A log, and an operator that follows the page.
struct Operator {
    log: LogUnderTest,
    server: Option<Server>,
    /// Names on the page, and their values in the test.
    names: Vec<(&'static str, String)>,
    /// The bucket that stands for `store:` on the page.
    bucket: Option<Bucket>,
}

impl Operator {
    /// Starts a log, fills it, and copies it completely.
    fn new(log: LogUnderTest, bucket: Option<Bucket>) -> Self {
        let here = |path: &str| log.path().join(path).display().to_string();
        let data = match &bucket {
            // A directory that does not exist, because a bucket is not a directory.
            Some(_) => here("nowhere"),
            None => here("data"),
        };
        let names = vec![
            ("https://mirror.example.net/example2026h2/", String::new()),
            ("/etc/lucarne/lucarne.yaml", here("lucarne.yaml")),
            ("/etc/lucarne/", here("")),
            ("new:/srv/lucarne/example2026h2", here("new/data")),
            (
                "new:/var/lib/lucarne-lock/checkpoints.db",
                here("new/lock.sqlite"),
            ),
            ("/var/lib/lucarne-lock/checkpoints.db", here("lock.sqlite")),
            ("/var/lib/lucarne-lock/moved.db", here("moved.sqlite")),
            ("/srv/lucarne/example2026h2", data),
            ("/backup/example2026h2", here("copy")),
        ];
        let mut operator = Operator {
            log,
            server: None,
            names,
            bucket,
        };
        operator.start();
        operator.grow();
        operator
    }

    fn start(&mut self) {
        self.server = Some(self.log.start().unwrap());
        run(ready(&self.log));
    }

    fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
        }
    }

    fn grow(&self) {
        run(async {
            let load = Arc::new(Load::new(&self.log));
            let each = |load: Arc<Load>| async move {
                while load.count() < ENTRIES {
                    assert_eq!(load.submit(&load.fresh()).await, Some(true));
                }
            };
            let tasks: Vec<_> = (0..16).map(|_| tokio::spawn(each(load.clone()))).collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    }

    /// Copies the files of the stopped log.
    fn back_up(&mut self) {
        self.stop();
        copy(&self.log.data(), &self.log.path().join("copy"));
        let copied = self.log.path().join("copy");
        fs::remove_dir_all(copied.join(".lucarne")).unwrap();
    }

    /// Runs the commands of the recipe under this heading.
    fn follow(&mut self, heading: &str) {
        let page =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/disaster-recovery.md");
        let page = fs::read_to_string(page).unwrap();
        let recipe = page.split("\n## ").find(|part| part.starts_with(heading));
        let commands = recipe.unwrap().lines();
        let commands = commands.filter_map(|line| line.strip_prefix("    "));
        let mut followed = 0;
        for command in commands {
            println!("{command}");
            self.carry_out(command);
            followed += 1;
        }
        assert!(followed > 0, "no command under {heading}");
    }

    fn carry_out(&mut self, command: &str) {
        let mut words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        let is_new = words[0] == "new";
        if is_new {
            words.remove(0);
        }
        for word in &mut words {
            for (name, here) in &self.names {
                *word = word.replace(name, here);
            }
            *word = word
                .replace("example2026h2b", "b")
                .replace("example2026h2", "test");
        }
        let directory = if is_new {
            self.log.path().join("new")
        } else {
            self.log.path().to_owned()
        };
        match (words[0].as_str(), words.get(1).map(String::as_str)) {
            ("systemctl", Some("stop")) => self.stop(),
            ("systemctl", Some("start")) if is_new => self.start_in(&directory),
            ("systemctl", Some("start")) => self.start(),
            ("lucarne", _) => self.lucarne(&directory, &words[1..]),
            ("rsync", _) => copy(Path::new(&words[2]), Path::new(&words[3])),
            ("rclone", _) => self.upload(Path::new(&words[2])),
            ("mv", _) => fs::rename(&words[1], &words[2]).unwrap(),
            _ => panic!("nobody knows how to follow `{command}`"),
        }
    }

    fn lucarne(&self, directory: &Path, words: &[String]) {
        let configuration = directory.join("lucarne.yaml").display().to_string();
        let words = words.iter().map(|word| {
            if word.ends_with("lucarne.yaml") {
                configuration.clone()
            } else {
                word.clone()
            }
        });
        let launch = self.log.command().args(words).directory(directory);
        let output = launch.run().unwrap();
        assert!(output.status.success(), "{}", all(&output));
    }

    fn start_in(&mut self, directory: &Path) {
        let launch = Launch::new(LUCARNE)
            .args(["serve", "-c", "lucarne.yaml"])
            .directory(directory);
        self.server = Some(launch.start(self.log.address()).unwrap());
        run(ready(&self.log));
    }

    fn upload(&self, from: &Path) {
        let bucket = self.bucket.as_ref().unwrap();
        let mut files = files_below(from);
        files.sort_by_key(|file| file.ends_with("checkpoint"));
        for file in files {
            let key = file.strip_prefix(from).unwrap().display().to_string();
            let bytes = fs::read(&file).unwrap();
            run(bucket.put(&format!("data/{key}"), &bytes)).unwrap();
        }
    }

    /// Checks that the log accepts submissions and passes an audit.
    fn is_well(&mut self) {
        run(async {
            ready(&self.log).await;
            let load = Load::new(&self.log);
            assert_eq!(load.submit(&load.fresh()).await, Some(true));
        });
        let audit = self.log.audit().unwrap();
        run(audit.run()).unwrap().assert_clean();
        self.stop();
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(from, to).unwrap();
        return;
    }
    fs::create_dir_all(to).unwrap();
    let status = Command::new("cp")
        .arg("-a")
        .arg(from.join("."))
        .arg(to)
        .status();
    assert!(status.unwrap().success());
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn operator() -> Operator {
    Operator::new(log(SETTINGS), None)
}

#[test]
fn a_tile_is_rotten() {
    let mut operator = operator();
    operator.back_up();
    operator.start();
    let tile = operator.log.data().join("tile/data/000");
    let mut bytes = fs::read(&tile).unwrap();
    bytes[100] ^= 1;
    fs::write(&tile, bytes).unwrap();
    operator.follow("A tile is damaged");
    operator.is_well();
}

#[test]
fn the_lock_is_lost() {
    let mut operator = operator();
    operator.back_up();
    let newest = fs::read(operator.log.data().join("checkpoint")).unwrap();
    let mirror = Elsewhere::new(Answer::Checkpoint(newest));
    operator.names[0].1 = mirror.prefix();
    for file in ["lock.sqlite", "lock.sqlite-wal", "lock.sqlite-shm"] {
        let _ = fs::remove_file(operator.log.path().join(file));
    }
    operator.follow("The lock is lost");
    operator.is_well();
}

/// The promoted replica has not received the last commits.
#[test]
fn a_replica_of_the_lock_was_promoted() {
    let mut operator = operator();
    operator.stop();
    let lock = operator.log.path().join("lock.sqlite");
    let row = || -> Vec<u8> {
        let database = rusqlite::Connection::open(&lock).unwrap();
        let query = "SELECT body FROM checkpoints";
        database.query_row(query, (), |row| row.get(0)).unwrap()
    };
    let old = row();
    operator.start();
    operator.grow();
    operator.stop();
    let newest = row();
    assert_ne!(old, newest);
    let database = rusqlite::Connection::open(&lock).unwrap();
    database
        .execute("UPDATE checkpoints SET body = ?", [&old])
        .unwrap();
    drop(database);
    let mirror = Elsewhere::new(Answer::Checkpoint(newest.clone()));
    operator.names[0].1 = mirror.prefix();
    operator.follow("A replica of the lock was promoted");
    operator.is_well();
}

#[test]
fn the_data_are_lost() {
    let mut operator = operator();
    operator.back_up();
    fs::remove_dir_all(operator.log.data()).unwrap();
    operator.follow("The data are lost");
    operator.is_well();
}

#[test]
fn the_wrong_thing_was_restored() {
    let mut operator = operator();
    let old = operator.log.path().join("old");
    operator.stop();
    copy(&operator.log.data(), &old);
    operator.start();
    operator.grow();
    operator.back_up();
    fs::remove_dir_all(operator.log.data()).unwrap();
    copy(&old, &operator.log.data());
    let check = operator.log.launch("check").run().unwrap();
    assert!(!check.status.success());
    assert_has(&all(&check), "neither journal nor storage");
    operator.follow("An older copy was restored");
    operator.is_well();
}

#[test]
fn the_log_moves() {
    let mut operator = operator();
    let new = operator.log.path().join("new");
    fs::create_dir_all(&new).unwrap();
    let configuration = fs::read_to_string(operator.log.configuration()).unwrap();
    let cache = operator.log.path().join("cache").display().to_string();
    let moved = configuration.replace(&cache, &new.join("cache").display().to_string());
    fs::write(new.join("lucarne.yaml"), moved).unwrap();
    // The newest commits are in another file than the lock.
    operator.server.take().unwrap().kill().unwrap();
    let lock = operator.log.path().join("lock.sqlite");
    assert!(lock.with_extension("sqlite-wal").exists());
    copy(&lock, &new.join("lock.sqlite"));
    copy(&operator.log.data(), &new.join("data"));
    let configuration = new.join("lucarne.yaml").display().to_string();
    let show = ["lock", "show", "-c", &configuration];
    let shown = Launch::new(LUCARNE).args(show).directory(&new).run();
    assert_has(&all(&shown.unwrap()), "-wal file is missing");
    fs::remove_file(new.join("lock.sqlite")).unwrap();
    fs::remove_dir_all(new.join("data")).unwrap();
    operator.follow("The log moves to another machine");
    operator.is_well();
}

#[test]
fn the_key_is_compromised() {
    let mut operator = operator();
    operator.follow("The key is compromised");
    assert!(operator.log.path().join("b.seed.bin").exists());
}

#[test]
fn the_bucket_was_emptied() {
    let bucket = run(Bucket::versitygw()).unwrap();
    let log = log_at(Place::bucket(&bucket, None), "period: 100");
    let mut operator = Operator::new(log, Some(bucket));
    // A copy from the public URL, as of a mirror.
    let copied = operator.log.path().join("copy");
    let paths = crate::flips::needed(&|path| {
        let answer = run(operator.log.client().get(path)).unwrap();
        assert_eq!(answer.status, 200, "{path}");
        answer.body.to_vec()
    });
    let paths = paths.into_iter().chain(["checkpoint".to_owned()]);
    for path in paths {
        let file = copied.join(&path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let answer = run(operator.log.client().get(&path)).unwrap();
        fs::write(&file, &answer.body).unwrap();
    }
    operator.stop();
    let bucket = operator.bucket.as_ref().unwrap();
    for file in files_below(&copied) {
        let key = file.strip_prefix(&copied).unwrap().display().to_string();
        run(bucket.delete(&format!("data/{key}"))).unwrap();
    }
    let check = operator.log.launch("check").run().unwrap();
    assert!(!check.status.success(), "{}", all(&check));
    operator.follow("The bucket was emptied");
    operator.is_well();
}
