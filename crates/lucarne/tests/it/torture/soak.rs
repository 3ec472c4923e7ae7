//! Mixed load, restarts and scrubbing for a long time: the resources of a log do not grow with the
//! number of past operations.
//!
//! The default run takes half a minute, and `LUCARNE_SOAK=3600` an hour.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use lucarne_testkit::{Place, usage};

use super::life::Life;
use crate::common::EVENT_TIMEOUT;

/// Starts of the server.
const LIVES: u32 = 3;

/// Samples of a life. The first quarter shows the initial need.
const SAMPLES: u32 = 40;

/// Maximum number of partial tiles: the partial tiles of the right edge, and superseded partial
/// tiles that are not settled yet.
const PARTIALS: usize = 2_000;

/// Maximum bytes of the journal (`maxjournal: 1MiB`), including the current round.
const JOURNAL: u64 = 3 << 20;

/// The resources of a log at one moment.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    memory: u64,
    descriptors: usize,
    journal: u64,
    partials: usize,
    temporary: usize,
}

impl Taken {
    fn by(pid: u32, data: &Path) -> Self {
        let count = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
        let (mut journal, mut partials) = (0, 0);
        for (path, bytes) in files(data) {
            let path = path.to_string_lossy();
            journal += if path.contains("/.lucarne/journal/") {
                bytes
            } else {
                0
            };
            partials += usize::from(path.contains(".p/"));
        }
        Self {
            memory: usage(pid).unwrap().rss,
            descriptors: count(Path::new(&format!("/proc/{pid}/fd"))),
            journal,
            partials,
            temporary: count(&data.join(".lucarne/tmp")),
        }
    }
}

/// Returns all files below a directory of a running log, and their lengths.
fn files(directory: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A file that is removed during the walk is left out.
        match entry.metadata() {
            Ok(status) if status.is_dir() => found.extend(files(&entry.path())),
            Ok(status) => found.push((entry.path(), status.len())),
            Err(_) => {}
        }
    }
    found
}

#[test]
fn nothing_grows_with_time() {
    let seconds = std::env::var("LUCARNE_SOAK").map(|seconds| seconds.parse());
    let time = Duration::from_secs(seconds.map_or(36, |seconds| seconds.unwrap()));
    let life = Life::with(
        Place::directory(),
        // A small read cache is full, with its files open, before the end of the first quarter of a
        // life.
        "period: 20\nscrub: 20MB/s\nmaxjournal: 1MiB\nreadcache: 1MiB",
    );
    let reading = life.read_on();
    for number in 0..LIVES {
        let mut server = life.log.start().unwrap();
        life.takes_entries(&format!("life {number}"));
        let started = Instant::now();
        let mut taken = Vec::new();
        for sample in 1..=SAMPLES {
            let due = time / LIVES * sample / SAMPLES;
            // The time of the sample: a life takes longer on a busy machine.
            std::thread::sleep(due.saturating_sub(started.elapsed()));
            taken.push(Taken::by(server.pid(), &life.log.data()));
        }
        let output = server.output();
        assert!(
            !output.contains("ERROR") && !output.contains("panic"),
            "{output}"
        );
        is_flat(number, &taken);
        assert!(server.stop(EVENT_TIMEOUT).unwrap().success());
    }
    reading.abort();
    println!("soak: {time:?}, {LIVES} lives, {} SCTs", life.promised());
    life.settle();
}

/// Checks that the last three quarters of a life need no more resources than its beginning.
fn is_flat(life: u32, taken: &[Taken]) {
    let (first, rest) = taken.split_at(taken.len() / 4);
    let most = |taken: &[Taken], of: fn(&Taken) -> u64| taken.iter().map(of).max().unwrap_or(0);
    let memory = |taken| most(taken, |t| t.memory);
    let descriptors = |taken| most(taken, |t| t.descriptors as u64);
    println!(
        "life {life}: memory {} then {} MB, descriptors {} then {}, journal {} kB, {} partials",
        memory(first) >> 20,
        memory(rest) >> 20,
        descriptors(first),
        descriptors(rest),
        most(taken, |t| t.journal) >> 10,
        most(taken, |t| t.partials as u64),
    );
    // Caches fill at first.
    assert!(
        memory(rest) < memory(first) * 3 / 2 + (48 << 20),
        "memory: {taken:?}"
    );
    assert!(
        descriptors(rest) < descriptors(first) + 64,
        "descriptors: {taken:?}"
    );
    assert!(most(taken, |t| t.journal) < JOURNAL, "journal: {taken:?}");
    assert!(
        most(taken, |t| t.partials as u64) < PARTIALS as u64,
        "partials: {taken:?}"
    );
    assert!(
        most(taken, |t| t.temporary as u64) < 300,
        "temporary: {taken:?}"
    );
}
