//! `lucarne adopt`: a refusal leaves no trace, and an adopted log continues.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use lucarne_testkit::temp_dir;
use lucarne_tlog::EMPTY_ROOT;

use super::*;

pub(super) const SUNLIGHT: [&str; 3] = ["adopt", "-c", "sunlight.yaml"];

/// Returns every file below a directory, with its bytes.
pub(super) fn all_files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_files(&path));
        } else {
            drop(found.insert(path.clone(), fs::read(path).unwrap()));
        }
    }
    found
}

/// Asserts that adopting is refused for this reason, and leaves no trace.
#[track_caller]
pub(super) fn refused(log: &Taken, args: &[&str], why: &str) {
    let before = all_files(log.path());
    let (code, said) = lucarne(log.path(), args);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, why);
    assert_has(&said, "nothing was written");
    let after = all_files(log.path());
    assert!(before.keys().eq(after.keys()), "{said}");
    assert!(before == after, "{said}");
}

pub(super) fn adopted(log: &Taken, args: &[&str]) -> String {
    let (code, said) = lucarne(log.path(), args);
    assert_eq!(code, 0, "{said}");
    said
}

pub(super) fn tesseract() -> Option<(Taken, Vec<String>)> {
    let directory = takeover("tesseract")?;
    let pem = fs::read_to_string(directory.path().join("key.pem")).unwrap();
    let log = Taken {
        port: free_port(),
        key: LogKey::from_pem(&pem).unwrap(),
        origin: ("ct.example.org", "t2027h1"),
        directory,
    };
    let flags = [
        "--origin=ct.example.org/t2027h1",
        "--private_key=key.pem",
        "--storage_dir=store",
        "--roots_pem_file=roots.pem",
        "--cache=cache",
        &format!("--http_endpoint=127.0.0.1:{}", log.port),
    ];
    Some((log, flags.map(str::to_owned).to_vec()))
}

/// Returns the URL of a CCADB report with the test root.
fn report_at_a_url() -> String {
    let ours = pki().root.certificate_pem();
    let report = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{ours}'\",Included\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("content-length: {}\r\nconnection: close", report.len());
            write!(stream, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n{report}").unwrap();
        }
    });
    format!("http://{address}/report.csv")
}

/// The roots come from a URL, as in most configurations of Sunlight.
#[test]
fn sunlights_roots_from_a_url() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let yaml = log.path().join("sunlight.yaml");
    let pem = "roots: roots.pem";
    let ccadb = |which: &str| format!("ccadbroots: {which}\n    rootsurl: {}", report_at_a_url());
    let file = "ccadbroots: trusted\n    rootsurl: report.csv".to_owned();
    let ours = pki().root.certificate_pem();
    let report = format!("\"X.509 Certificate (PEM)\",\"Mozilla Status\"\n\"'{ours}'\",Included\n");
    fs::write(log.path().join("report.csv"), report).unwrap();
    for roots in [ccadb("trusted"), ccadb("testing"), file] {
        edit(&yaml, pem, &roots);
        let said = adopted(&log, &[&SUNLIGHT[..], &["--check"]].concat());
        assert_has(&said, "are accepted");
        edit(&yaml, &roots, pem);
    }
}

/// The roots come from a URL, with TesseraCT's flags, and with one dash as Go programs accept.
#[test]
fn tesseracts_roots_from_a_url() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let remote = [
        "-roots_remote_fetch_interval=1h".to_owned(),
        format!("-roots_remote_fetch_url={}", report_at_a_url()),
    ];
    let (pem, flags): (Vec<String>, Vec<String>) = flags
        .into_iter()
        .map(|flag| flag.replacen("--", "-", 1))
        .partition(|flag| flag.starts_with("-roots_pem_file"));
    for roots in [[&remote[..], &pem].concat(), remote.to_vec()] {
        let flags: Vec<&str> = flags.iter().chain(&roots).map(String::as_str).collect();
        let said = adopted(&log, &[&["adopt", "-check"], &flags[..]].concat());
        assert_has(&said, "✓ roots");
        // The log last signed long ago, so the output names the next command.
        let today = Timestamp::now().strftime("%F");
        assert_has(&said, &format!("lucarne serve --confirm-clock {today}"));
    }
}

#[test]
fn a_sunlight_that_ended_well() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let data = log.data();
    let _immutable = Immutable::set(&data);
    let before = all_files(log.path());
    let said = adopted(&log, &[&SUNLIGHT[..], &["--check"]].concat());
    assert_has(&said, "all 2915 entries lead to the signed root");
    assert!(before == all_files(log.path()), "{said}");
    let said = adopted(&log, &SUNLIGHT);
    assert_has(&said, "2915 of them new, from 12 data tiles");
    // Only the cache is new.
    let cache = log.path().join("log/cache.db.lucarne");
    let mut after = all_files(log.path());
    after.retain(|path, _| !path.starts_with(&cache) && !path.ends_with("checkpoints.db"));
    let others = |path: &&PathBuf| !path.ends_with("checkpoints.db");
    assert!(before.keys().filter(others).eq(after.keys()));
    assert!(after.iter().all(|(path, bytes)| before[path] == *bytes));
    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    let audit = log.audit();
    run(async {
        log.ready().await;
        log.remembers("scts-p256.json", &audit).await;
        // The names tiles that Sunlight wrote, including superseded ones.
        let names = data.join("tile/names");
        let files = all_files(&names);
        for (path, bytes) in &files {
            let place = path.strip_prefix(&data).unwrap().display().to_string();
            let served = log.client().get(&place).await.unwrap().ok().unwrap();
            assert!(plain(&served) == plain(bytes), "{place}");
        }
        assert!(files.len() > 11, "{}", files.len());
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_killed_sunlight_is_taken_over_with_its_round() {
    let Some(log) = Taken::sunlight("sunlight-killed", "k") else {
        return;
    };
    log.accept_ours();
    assert_has(&adopted(&log, &SUNLIGHT), "360 of them new");
    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    run(async {
        log.ready().await;
        assert_eq!(leaf_index(&log.takes_one_more().await), 400);
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

#[test]
fn a_killed_sunlight_without_its_round_is_refused() {
    let Some(log) = Taken::sunlight("sunlight-killed", "k") else {
        return;
    };
    fs::remove_dir_all(log.data().join("staging")).unwrap();
    refused(&log, &SUNLIGHT, "✗ lock: ");
}

#[test]
fn tesseract_gets_a_lock() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let adopt = [&["adopt"], &flags[..]].concat();
    // An entry is integrated, but not published.
    let state = log.path().join("store/.state/treeState");
    edit(&state, "2091", "2092");
    refused(&log, &adopt, "integrated 2092 entries and published 2091");
    edit(&state, "2092", "2091");
    assert_has(&adopted(&log, &adopt), "is now at 2091 entries");
    let said = adopted(&log, &adopt);
    assert_has(&said, "0 of them new, from 0 data tiles");
    let mut server = log.start(&[&["serve"], &flags[..]].concat());
    let audit = log.audit();
    run(async {
        log.ready().await;
        log.remembers("scts-p256.json", &audit).await;
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Each fault is named, and every byte stays unchanged.
#[test]
fn what_is_not_right_is_refused() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let data = log.data();
    let swapped = |file: &Path, bytes: &[u8], why: &str| {
        let right = fs::read(file).unwrap();
        fs::write(file, bytes).unwrap();
        refused(&log, &SUNLIGHT, why);
        fs::write(file, right).unwrap();
    };
    swapped(&log.path().join("seed.bin"), &[7; 32], "✗ checkpoint: ");
    let tile = data.join("tile/data/003");
    let mut rotten = fs::read(&tile).unwrap();
    let middle = rotten.len() / 2;
    rotten[middle] ^= 1;
    swapped(&tile, &rotten, "tile/data/003");

    // A lock restored from a backup.
    let file = log.path().join("checkpoints.db");
    let row = locked(&file, &log.key);
    let put = |row: &[u8]| {
        let database = rusqlite::Connection::open(&file).unwrap();
        let update = "UPDATE checkpoints SET body = ?";
        assert_eq!(database.execute(update, [row]).unwrap(), 1);
    };
    let origin = "localhost/sun2027h1";
    let old = log.key.sign_checkpoint(origin, 0, &EMPTY_ROOT, 1).unwrap();
    put(old.as_bytes());
    refused(&log, &SUNLIGHT, "The lock was rolled back");
    put(&row);

    // Sunlight's log without its lock.
    let elsewhere = log.path().join("elsewhere.db");
    fs::rename(&file, &elsewhere).unwrap();
    refused(
        &log,
        &SUNLIGHT,
        "✗ lock: the lock has no checkpoint of this log",
    );
    fs::rename(&elsewhere, &file).unwrap();

    let set = |what: &str| Command::new("chattr").arg(what).arg(&data).status();
    if set("+i").is_ok_and(|status| status.success()) {
        refused(
            &log,
            &SUNLIGHT,
            "✗ immutable: set on files that must change",
        );
        set("-i").unwrap();
    } else {
        println!("an immutable directory is left out: chattr +i is not permitted here");
    }
    adopted(&log, &SUNLIGHT);
}

/// A follower of a running log, killed when this value is dropped.
struct Follower(Child);

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Follower {
    fn start(directory: &Path, said: &Path) -> Follower {
        let mut command = Command::new(LUCARNE);
        let command = command.args(SUNLIGHT).args(["--follow"]);
        let command = command.current_dir(directory).stderr(Stdio::null());
        Follower(
            command
                .stdout(fs::File::create(said).unwrap())
                .spawn()
                .unwrap(),
        )
    }

    fn interrupt(&mut self) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        assert!(self.0.wait().unwrap().success());
    }
}

/// The index is created in a separate cache while the old log runs. Only the tile at the right edge
/// is read at the switch.
#[test]
fn the_index_is_made_beside_the_old_log() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    log.accept_ours();
    // The old log has its cache elsewhere.
    let old = temp_dir();
    let yaml = fs::read_to_string(log.path().join("sunlight.yaml")).unwrap();
    let cache = format!("cache: {}", old.path().display());
    fs::write(
        log.path().join("old.yaml"),
        yaml.replace("cache: log/cache.db", &cache),
    )
    .unwrap();
    let mut server = log.start(&["serve", "-c", "old.yaml"]);
    let said = log.path().join("said");
    let follows = async |entries: u64| {
        eventually("it follows", async || {
            let said = fs::read_to_string(&said).unwrap();
            said.contains(&format!("index: {entries} entries"))
        })
        .await;
    };
    let mut follower = run(async {
        log.ready().await;
        let follower = Follower::start(log.path(), &said);
        follows(2915).await;
        for _ in 0..3 {
            log.takes_one_more().await;
        }
        follows(2918).await;
        follower
    });
    let (code, refused) = lucarne(log.path(), &[&SUNLIGHT[..], &["--check"]].concat());
    assert_eq!(code, 1, "{refused}");
    assert_has(&refused, "✗ stopped: the log was signed during the check");
    follower.interrupt();
    run(async { drop(log.takes_one_more().await) });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let said = adopted(&log, &SUNLIGHT);
    // The entries before them were not read again, and the output states that.
    assert_has(
        &said,
        "the 103 entries after the first 2816 lead to the signed root",
    );
    assert_has(&said, "read the entries before them");
    assert!(!said.contains("all 2919 entries lead"), "{said}");
    assert_has(&said, "1 of them new, from 1 data tile");
}

/// Properties of Sunlight: lock and checkpoint have the same bytes, tiles are gzip.
#[test]
fn given_back_to_sunlight() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    log.accept_ours();
    adopted(&log, &SUNLIGHT);
    let mut server = log.start(&["serve", "-c", "sunlight.yaml"]);
    let give = ["give-back", "-c", "sunlight.yaml", "--to", "sunlight"];
    run(async {
        log.ready().await;
        log.takes_one_more().await;
    });
    let (code, said) = lucarne(log.path(), &give);
    assert_eq!(code, 1, "it runs: {said}");
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let theirs = || {
        let mut files = all_files(&log.data());
        files.retain(|path, _| !path.starts_with(log.data().join(".lucarne")));
        files
    };
    let before = theirs();
    assert_has(&adopted(&log, &give), "nothing had to be written");
    assert!(before == theirs());
    assert!(log.path().join("log/cache.db").is_file());
    let row = locked(&log.path().join("checkpoints.db"), &log.key);
    assert_eq!(row, before[&log.data().join("checkpoint")]);
}

/// Sunlight's cache is a file, so Lucarne must not leave a directory with that name.
#[test]
fn given_back_to_sunlight_with_lucarnes_own_cache() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let cache = log.path().join("log/cache.db");
    fs::remove_file(&cache).unwrap();
    adopted(&log, &SUNLIGHT);
    assert!(cache.is_dir());
    let give = ["give-back", "-c", "sunlight.yaml", "--to", "sunlight"];
    let said = adopted(&log, &give);
    assert_has(&said, "log/cache.db.lucarne");
    assert!(!cache.exists());
    // Lucarne finds its own cache after Sunlight has created a new one.
    fs::write(&cache, "Sunlight's").unwrap();
    assert_has(&adopted(&log, &SUNLIGHT), "0 of them new");
}

/// Properties of TesseraCT: uncompressed data tiles, and its own record of size and root.
#[test]
fn given_back_to_tesseract_and_taken_again() {
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
        for _ in 0..20 {
            log.takes_one_more().await;
        }
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    let store = log.path().join("store");
    let checkpoint = fs::read_to_string(store.join("checkpoint")).unwrap();
    assert_eq!(size(&checkpoint), 2111);
    let give = with(&["give-back", "--to", "tesseract"]);
    assert_has(&adopted(&log, &give), "1 data tiles were unpacked");
    let root = checkpoint.lines().nth(2).unwrap();
    let state = fs::read_to_string(store.join(".state/treeState")).unwrap();
    assert_eq!(state, format!(r#"{{"size":2111,"root":"{root}"}}"#));
    let edge = fs::read(store.join("tile/data/008.p/63")).unwrap();
    assert!(edge.starts_with(&[0, 0]), "it is plain");

    let mut server = log.start(&with(&["serve"]));
    let audit = log.audit();
    run(async {
        log.ready().await;
        log.remembers("scts-p256.json", &audit).await;
        assert_eq!(leaf_index(&log.takes_one_more().await), 2111);
        audit.run().await.unwrap().assert_clean();
    });
    assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
}

/// Sunlight writes no line for a certificate that Go cannot parse. Names tiles are not signed.
#[test]
fn names_tiles_that_lack_lines_are_written_again() {
    let Some(log) = Taken::sunlight("sunlight-clean", "sun2027h1") else {
        return;
    };
    let files = all_files(log.path());
    let names = files
        .keys()
        .filter(|path| path.to_string_lossy().contains("tile/names/"));
    let names: Vec<&PathBuf> = names.collect();
    assert!(!names.is_empty(), "Sunlight writes names tiles");
    // The gzip of nothing.
    let nothing = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for path in &names {
        fs::write(path, nothing).unwrap();
    }
    let said = adopted(&log, &[&SUNLIGHT[..], &["--check"]].concat());
    assert_has(&said, "names tiles do not match their entries");
    assert_eq!(
        fs::read(names[0]).unwrap(),
        nothing,
        "a check writes nothing"
    );
    let said = adopted(&log, &SUNLIGHT);
    assert_has(&said, "written: ");
    let (code, said) = lucarne(log.path(), &["fsck", "-c", "sunlight.yaml"]);
    assert_eq!(code, 0, "{said}");
}
