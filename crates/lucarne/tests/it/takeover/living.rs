//! The software that ran the log before is still alive: idle, paused, or started again beside
//! Lucarne.

use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::adopt::{adopted, refused, tesseract};
use super::*;

/// The interval at which an idle TesseraCT signs again in this test: longer than Sunlight's,
/// shorter than its default of 30 s.
const INTERVAL: Duration = Duration::from_secs(10);

/// A process that uses the log, killed when this value is dropped.
struct Living(Child);

impl Living {
    fn start(program: &str, args: &[&str], directory: &Path) -> Self {
        let mut command = Command::new(program);
        let command = command.args(args).current_dir(directory);
        let mut child = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut said = [0; 5];
        let out = child.0.stdout.as_mut().unwrap();
        out.read_exact(&mut said).unwrap();
        child
    }

    fn pause(&self) {
        let pid = self.0.id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &pid]).status();
        assert!(stopped.unwrap().success());
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Signs the same tree as TesseraCT would, with the current time.
fn sign_again(log: &Taken) {
    let file = log.path().join("store/checkpoint");
    let (origin, spki) = ("ct.example.org/t2027h1", log.key.public_key_spki());
    let (head, _) = verify_checkpoint(&fs::read(&file).unwrap(), origin, spki).unwrap();
    let now_ms = Timestamp::now().as_millisecond() as u64;
    let note = log
        .key
        .sign_checkpoint(origin, head.size, &head.root, now_ms);
    fs::write(file.with_extension("new"), note.unwrap()).unwrap();
    fs::rename(file.with_extension("new"), file).unwrap();
}

#[test]
fn a_tesseract_that_has_the_log_is_not_stopped() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let adopt = [&["adopt"], &flags[..]].concat();
    let antispam = log.path().join("store/.state/antispam");
    fs::create_dir_all(&antispam).unwrap();
    // TesseraCT's database holds this lock; the name of the process does not matter.
    let script = "echo open; exec sleep 600";
    let holding = ["-F", "store/.state/antispam", "sh", "-c", script];
    let living = Living::start("flock", &holding, log.path());
    fs::write(antispam.join("LOCK"), format!("{}\n", living.0.id())).unwrap();
    let pid = format!("in use by process {}", living.0.id());
    refused(&log, &adopt, &pid);
    drop(living);

    let writing = "exec 3>>store/.state/publish.lock; echo open; exec sleep 600";
    let living = Living::start("sh", &["-c", writing], log.path());
    living.pause();
    // The shell may not have executed `sleep` yet.
    let pid = format!("✗ holder: process {} (", living.0.id());
    refused(&log, &adopt, &pid);
    drop(living);
    adopted(&log, &adopt);
}

#[test]
fn a_tesseract_that_is_idle_is_seen() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (log, over) = (Arc::new(log), Arc::new(AtomicBool::new(false)));
    sign_again(&log);
    let idle = std::thread::spawn({
        let (log, over) = (log.clone(), over.clone());
        move || {
            while !over.load(Ordering::SeqCst) {
                // The interval of an idle TesseraCT: the check waits three times as long.
                std::thread::sleep(INTERVAL);
                sign_again(&log);
            }
        }
    });
    let (code, said) = lucarne(log.path(), &[&["adopt", "--check"], &flags[..]].concat());
    over.store(true, Ordering::SeqCst);
    assert_eq!(code, 1, "{said}");
    assert_has(&said, "✗ stopped: the log was signed during the check");
    idle.join().unwrap();
}

/// A TesseraCT that was paused, or runs on another machine, publishes while Lucarne serves.
#[test]
fn a_tesseract_that_publishes_beside_lucarne_stops_it() {
    let Some((log, flags)) = tesseract() else {
        return;
    };
    log.accept_ours();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let antispam = log.path().join("store/.state/antispam");
    fs::create_dir_all(&antispam).unwrap();
    adopted(&log, &[&["adopt"], &flags[..]].concat());
    let serve = [&["serve"], &flags[..]].concat();
    let site = Client::new(format!("http://127.0.0.1:{}", log.port));
    let says = async |why: &str| {
        eventually(why, async || {
            let said = site.get("health").await;
            said.is_ok_and(|said| said.status == 503 && said.text().contains(why))
        })
        .await;
    };
    let mut server = log.start(&serve);
    run(async {
        log.ready().await;
        // A TesseraCT that starts on this machine takes this lock.
        let mut flock = Command::new("flock");
        let held = flock.arg("-n").arg(&antispam).arg("true").status();
        assert!(!held.unwrap().success());
        sign_again(&log);
        says("another process publishes there").await;
        // The log does not continue by itself either.
        says("another process signs with this log's key").await;
    });
    let theirs = fs::read(log.path().join("store/checkpoint")).unwrap();
    server.stop(EVENT_TIMEOUT).unwrap();
    let _server = log.start(&serve);
    run(says("another process signs with this log's key"));
    assert_eq!(
        fs::read(log.path().join("store/checkpoint")).unwrap(),
        theirs
    );
}
