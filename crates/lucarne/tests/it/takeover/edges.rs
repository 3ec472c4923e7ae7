//! Obstacles to adopting and giving back: missing write permission, a log that fails while it is
//! followed, and a kill of the command between any two of its steps.

use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use lucarne_testkit::{Plan, SmallDisk, Strike, temp_dir, tracing_is_permitted};

use super::adopt::{SUNLIGHT, adopted, all_files, refused, tesseract};
use super::*;
use crate::common::all;

/// A user that owns no file of the test.
const NOBODY: &str = "65534";

/// Kills of `adopt`; each takes some time.
const DEATHS: u64 = 12;

/// Runs `lucarne` as [`NOBODY`] with these arguments; `None` if that is not permitted.
fn as_nobody(directory: &Path, args: &[&str]) -> Option<(i32, String)> {
    // Other users may not have access to the directory of the program.
    let program = directory.join("lucarne");
    if !program.exists() {
        fs::copy(LUCARNE, &program).unwrap();
        let mut owner = Command::new("chown");
        let owner = owner.args(["-R", NOBODY]).arg(directory).output();
        if !owner.is_ok_and(|output| output.status.success()) {
            println!("another user is left out: chown is not permitted here");
            return None;
        }
    }
    let mut command = Command::new("setpriv");
    let ids = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
    let output = command.args(ids).arg(&program).args(args);
    let output = output.current_dir(directory).output().unwrap();
    Some((output.status.code().unwrap_or(-1), all(&output)))
}

fn give_to_root(place: &Path) {
    let owner = Command::new("chown").arg("0").arg(place).status();
    assert!(owner.unwrap().success());
}

#[test]
fn who_may_not_write_is_told_where() {
    let Some((log, mut flags)) = tesseract() else {
        return;
    };
    fs::create_dir(log.path().join("lock")).unwrap();
    flags.push("--checkpoints=lock/checkpoints.db".to_owned());
    let mut adopt = vec!["adopt", "--check"];
    adopt.extend(flags.iter().map(String::as_str));
    let Some((code, said)) = as_nobody(log.path(), &adopt) else {
        return;
    };
    assert_eq!(code, 0, "{said}");
    for place in ["store/tile/0/008.p", "store", "lock"] {
        let (named, place) = (place, log.path().join(place));
        give_to_root(&place);
        let before = all_files(log.path());
        let (code, said) = as_nobody(log.path(), &adopt).unwrap();
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "✗ writable: ");
        assert_has(&said, &format!("{named}: Permission denied"));
        assert!(before == all_files(log.path()));
        let owner = Command::new("chown").arg(NOBODY).arg(&place).status();
        assert!(owner.unwrap().success());
    }
    assert_eq!(as_nobody(log.path(), &adopt).unwrap().0, 0);
}

#[test]
fn a_read_only_disk_is_told_from_a_log_that_can_be_taken_over() {
    let name = "a_read_only_disk_is_told_from_a_log_that_can_be_taken_over";
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let Some(disk) = SmallDisk::inside(name, 64) else {
        return;
    };
    let mut copy = Command::new("cp");
    let copied = copy.args(["-a"]).arg(log.data()).arg(disk.path()).status();
    assert!(copied.unwrap().success());
    let there = format!("localdirectory: {}", disk.path().join("data").display());
    let file = log.path().join("sunlight.yaml");
    edit(&file, "localdirectory: log/data", &there);
    disk.make_read_only();
    refused(&log, &SUNLIGHT, "data: Read-only file system");
    disk.make_writable();
    adopted(&log, &SUNLIGHT);
}

/// A cache in the old software's directory is refused while that software runs, and a cache among
/// its public files always.
#[test]
fn a_cache_among_the_files_of_the_log_is_refused() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let file = log.path().join("sunlight.yaml");
    let follow = [&SUNLIGHT[..], &["--follow"]].concat();
    edit(&file, "cache: log/cache.db", "cache: log/data/cache");
    let public = "cache: is in the public files of log";
    refused(&log, &SUNLIGHT, public);
    refused(&log, &follow, public);
    edit(&file, "    cache: log/data/cache\n", "");
    refused(&log, &follow, "which the old software uses");
    assert_has(&adopted(&log, &SUNLIGHT), "✓ cache: in .lucarne");
}

/// Starts to follow the log, and calls `then` after the log is indexed.
fn follows(log: &Taken, then: impl FnOnce()) -> Output {
    let mut command = Command::new(LUCARNE);
    let command = command.args(SUNLIGHT).arg("--follow");
    let said = log.path().join("said");
    let out = fs::File::create(&said).unwrap();
    let child = command.current_dir(log.path()).stdout(out);
    let child = child.stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + 4 * EVENT_TIMEOUT;
    while !fs::read_to_string(&said).unwrap().contains("index: 2915") {
        assert!(Instant::now() < deadline, "it does not follow");
        // A poll with a deadline: no verdict depends on the interval.
        thread::sleep(std::time::Duration::from_millis(50));
    }
    then();
    let mut output = child.wait_with_output().unwrap();
    output.stdout = fs::read(said).unwrap();
    output
}

/// The command reports the failure each time, and ends by itself.
#[test]
fn following_a_log_that_fails_ends() {
    let damaged = |log: &Taken| {
        fs::write(log.data().join("checkpoint"), "nothing").unwrap();
    };
    let shrunken = |log: &Taken| {
        let tile = fs::read(log.data().join("tile/1/000.p/11")).unwrap();
        let root = lucarne_tlog::Hash(tile[..32].try_into().unwrap());
        let origin = "localhost/sun2027h1";
        let old = log.key.sign_checkpoint(origin, 256, &root, 1).unwrap();
        fs::write(log.data().join("checkpoint"), old).unwrap();
    };
    let gone = |log: &Taken| fs::rename(log.data(), log.path().join("log/gone")).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| follows_until(damaged, 1, "publishes no checkpoint"));
        scope.spawn(|| follows_until(shrunken, 1, "rolled back or forked"));
        scope.spawn(|| follows_until(gone, 2, "log/data"));
    });
}

/// Follows a log that `breaks` damages. The command must end with `code` and report `why`.
fn follows_until(breaks: impl Fn(&Taken), code: i32, why: &str) {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let output = follows(&log, || breaks(&log));
    let said = all(&output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert_has(&said, "5 of 5 times: ");
    assert_has(&said, why);
    assert_has(&said, "cannot follow the log; the index is kept");
}

/// A checkpoint of the same tree with an earlier timestamp is reported once, and ignored.
#[test]
fn following_does_not_go_back_in_time() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let (file, origin) = (log.data().join("checkpoint"), "localhost/sun2027h1");
    let note = fs::read(&file).unwrap();
    let (head, signed_ms) = verify_checkpoint(&note, origin, log.key.public_key_spki()).unwrap();
    let ignored = || {
        let said = fs::read_to_string(log.path().join("said")).unwrap();
        said.matches("ignored a checkpoint of 2915 entries").count()
    };
    let publish_earlier = |earlier_ms: u64| {
        let signed = log
            .key
            .sign_checkpoint(origin, head.size, &head.root, signed_ms - earlier_ms);
        fs::write(file.with_extension("new"), signed.unwrap()).unwrap();
        fs::rename(file.with_extension("new"), &file).unwrap();
    };
    let output = follows(&log, || {
        for (earlier_ms, count) in [(1, 1), (2, 2)] {
            publish_earlier(earlier_ms);
            let deadline = Instant::now() + EVENT_TIMEOUT;
            while ignored() < count {
                assert!(Instant::now() < deadline, "nothing is ignored");
                // A poll interval: the command writes to a file, which sends no event.
                thread::sleep(std::time::Duration::from_millis(50));
            }
        }
        fs::write(&file, "nothing").unwrap();
    });
    let said = all(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(ignored(), 2, "{said}");
    assert_has(&said, "an earlier pass has read one of the same tree from ");
}

/// A lock that is held or invalid is named, and nothing is written.
#[test]
fn a_lock_that_cannot_be_read_gives_nothing_back() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let give = ["give-back", "-c", "sunlight.yaml", "--to", "sunlight"];
    let file = log.path().join("checkpoints.db");
    let refuses = |why: &str| {
        let before = all_files(&log.data());
        let (code, said) = lucarne(log.path(), &give);
        assert_eq!(code, 1, "{said}");
        assert_has(&said, "✗ lock: ");
        assert_has(&said, why);
        let mut after = all_files(&log.data());
        after.retain(|path, _| !path.starts_with(log.data().join(".lucarne")));
        let ours = |path: &std::path::PathBuf| path.starts_with(log.data().join(".lucarne"));
        assert!(
            before
                .iter()
                .filter(|(path, _)| !ours(path))
                .eq(after.iter())
        );
    };
    let right = fs::read(&file).unwrap();
    let database = rusqlite::Connection::open(&file).unwrap();
    database
        .pragma_update(None, "journal_mode", "delete")
        .unwrap();
    let writing = "BEGIN EXCLUSIVE; UPDATE checkpoints SET body = zeroblob(9)";
    database.execute_batch(writing).unwrap();
    refuses("locked");
    drop(database);
    fs::write(&file, "no database").unwrap();
    refuses("checkpoints.db");
    fs::remove_file(&file).unwrap();
    refuses("checkpoints.db");
    fs::write(&file, right).unwrap();
    assert_has(&adopted(&log, &give), "nothing had to be written");
}

/// Copies the log to a new directory.
fn copy(of: &Path) -> TempDir {
    let copy = temp_dir();
    let mut command = Command::new("cp");
    let copied = command.args(["-a"]).arg(of.join(".")).arg(copy.path());
    assert!(copied.status().unwrap().success());
    copy
}

/// Runs a command to its end or its kill. Returns the number of calls that change files, and
/// whether the strike took place.
fn dies(directory: &Path, args: &[&str], strike: Option<(u64, Strike)>) -> (u64, bool) {
    let plan = Plan {
        below: directory.to_owned(),
        counted: |_| true,
        strike,
        record: false,
    };
    let launch = Launch::new(LUCARNE).args(args).directory(directory);
    let traced = launch.trace(plan).unwrap();
    // Many commands run at the same time.
    let deadline = Instant::now() + 4 * EVENT_TIMEOUT;
    while traced.ended().is_none() {
        assert!(Instant::now() < deadline, "{}", traced.output());
        // Polled, with a deadline: no verdict depends on the pace.
        thread::sleep(std::time::Duration::from_millis(5));
    }
    (traced.calls(), traced.struck().is_some())
}

#[test]
fn adopt_that_is_killed_ends_well_the_next_time() {
    if !tracing_is_permitted() {
        return;
    }
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let mut adopt = vec!["adopt"];
    adopt.extend(flags.iter().map(String::as_str));
    let whole = copy(log.path());
    let (calls, _) = dies(whole.path(), &adopt, None);
    // Several threads write the index, so the number of calls varies.
    let struck = AtomicU64::new(0);
    assert!(calls > DEATHS, "{calls} calls");
    thread::scope(|scope| {
        for case in 0..DEATHS {
            // The last calls, which create the lock, matter most.
            let number = if case < DEATHS / 2 {
                1 + case * (calls - DEATHS / 2) / (DEATHS / 2)
            } else {
                calls - (DEATHS - 1 - case)
            };
            let strike = match case % 2 {
                0 => Strike::KillBefore,
                _ => Strike::KillAfter,
            };
            let (log, adopt, struck) = (&log, &adopt, &struck);
            scope.spawn(move || {
                let copy = copy(log.path());
                let (_, is_struck) = dies(copy.path(), adopt, Some((number, strike)));
                struck.fetch_add(is_struck.into(), Relaxed);
                let (code, said) = lucarne(copy.path(), adopt);
                assert_eq!(code, 0, "{strike:?} at call {number} of {calls}: {said}");
                let checkpoint = fs::read(copy.path().join("store/checkpoint")).unwrap();
                let lock = copy.path().join("store.checkpoints.db");
                assert_eq!(locked(&lock, &log.key), checkpoint);
            });
        }
    });
    assert!(struck.into_inner() >= DEATHS / 2);
}

#[test]
fn give_back_that_is_killed_ends_well_the_next_time() {
    if !tracing_is_permitted() {
        return;
    }
    let Some((log, flags)) = tesseract() else {
        return;
    };
    log.accept_ours();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let with = |command: &[&'static str]| [command, &flags[..]].concat();
    adopted(&log, &with(&["adopt"]));
    let mut server = log.start(&with(&["serve"]));
    run(async {
        log.ready().await;
        // Beyond the end of a tile, so that two tiles must be decompressed.
        let more = std::iter::repeat_with(|| log.takes_one_more()).take(230);
        futures_util::future::join_all(more).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let give = with(&["give-back", "--to", "tesseract"]);
    let whole = copy(log.path());
    let (calls, _) = dies(whole.path(), &give, None);
    let given = all_files(&whole.path().join("store"));
    let theirs = |path: &Path| !path.components().any(|part| part.as_os_str() == ".lucarne");
    let relative = |files: &std::collections::BTreeMap<std::path::PathBuf, Vec<u8>>,
                    root: &Path| {
        let ours = files.iter().filter(|(path, _)| theirs(path));
        let named =
            ours.map(|(path, bytes)| (path.strip_prefix(root).unwrap().to_owned(), bytes.clone()));
        named.collect::<Vec<_>>()
    };
    let given = relative(&given, whole.path());
    let dies_at = |number: u64, strike: Strike| {
        let copy = copy(log.path());
        let (_, is_struck) = dies(copy.path(), &give, Some((number, strike)));
        assert!(is_struck, "{strike:?} at call {number} of {calls}");
        let (code, said) = lucarne(copy.path(), &give);
        assert_eq!(code, 0, "{strike:?} at call {number} of {calls}: {said}");
        let again = relative(&all_files(&copy.path().join("store")), copy.path());
        assert!(again == given, "{strike:?} at call {number} of {calls}");
    };
    let numbers: Vec<u64> = (1..=calls).collect();
    for some in numbers.chunks(4) {
        thread::scope(|scope| {
            for number in some {
                scope.spawn(|| dies_at(*number, Strike::KillBefore));
                scope.spawn(|| dies_at(*number, Strike::KillAfter));
            }
        });
    }
}
