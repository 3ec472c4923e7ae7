//! A dedup index of any size, without a log. Each round looks up synthetic identities and then adds
//! them, like a round of a log.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use lucarne_ct::LogId;
use lucarne_log::LooseIndex;
use lucarne_testkit::{Launch, usage};
use serde::{Deserialize, Serialize};

use super::{
    Column,
    certificates::{Random, identity},
    kept::{on_disk, remove},
};

const OWNER: LogId = LogId([7; 32]);
/// Number of entries of one round, as at 10,000/s and ten rounds a second.
const ROUND: u64 = 1000;
/// Number of measured look-ups at the end.
const LOOKUPS: u64 = 500_000;
/// Number of entries added before a kill: too few for a table.
const LEFT: u64 = 60_000;

#[derive(clap::Args)]
pub(crate) struct KilledOptions {
    index: std::path::PathBuf,
}

/// Figures of the creation of an index, kept because the index is created only once.
#[derive(Serialize, Deserialize)]
struct Made {
    cpu_us: f64,
    written: f64,
    seconds: f64,
    look_up_us: [f64; 4],
    round_ms: [f64; 4],
    peak_rss: u64,
}

/// Creates an index of `size` entries in `folder`, unless it exists, and measures it.
pub(super) fn measure(folder: &Path, size: u64, keep: bool) -> Result<Column> {
    let path = folder.join(format!("index-{size}"));
    let figures = folder.join(format!("index-{size}.json"));
    let made = match fs::read(&figures) {
        Ok(json) if path.exists() => serde_json::from_slice(&json)?,
        _ => {
            remove(&path)?;
            let made = make(&path, size)?;
            fs::write(&figures, serde_json::to_vec(&made)?)?;
            made
        }
    };
    let mut column = Column::new(size);
    column.add(
        "index: CPU per new entry, look-up and merges included",
        format!("{:.2} µs", made.cpu_us),
    );
    column.add(
        "index: written per entry",
        format!("{:.0} bytes", made.written),
    );
    column.add(
        "index: created at",
        format!("{:.0}/s", size as f64 / made.seconds),
    );
    let four = |[a, b, c, d]: [f64; 4]| format!("{a:.1} / {b:.1} / {c:.1} / {d:.0}");
    column.add(
        "index: look-up during the creation, p50 / p99 / p99.9 / max",
        four(made.look_up_us) + " µs",
    );
    column.add(
        "index: 1,000 added, p50 / p99 / p99.9 / max",
        four(made.round_ms) + " ms",
    );
    let (files, bytes) = on_disk(&path)?;
    column.add(
        "index: on disk per entry",
        format!("{:.1} bytes", bytes as f64 / size as f64),
    );
    column.add("index: inodes", files.to_string());
    let began = Instant::now();
    let index = LooseIndex::open(&path, OWNER)?;
    column.add(
        "index: opened after a clean stop",
        format!("{:.2} s", began.elapsed().as_secs_f64()),
    );
    let (absent, present) = (looked(&index, size, false)?, looked(&index, size, true)?);
    column.add(
        "index: CPU to look up a new entry",
        format!("{absent:.2} µs"),
    );
    column.add(
        "index: CPU to find an old entry",
        format!("{present:.2} µs"),
    );
    let files = fs::read_dir("/proc/self/fd")?.count();
    column.add(
        "index: descriptors, of the whole process",
        files.to_string(),
    );
    let now = usage(std::process::id())?;
    column.add(
        "index: RSS after look-ups, peak while made",
        format!(
            "{:.0}, {:.0} MB",
            now.rss as f64 / 1e6,
            made.peak_rss as f64 / 1e6
        ),
    );
    drop(index);
    let launch = Launch::new(std::env::current_exe()?)
        .arg("large-killed")
        .arg(&path);
    let killed = launch.run()?;
    let said = String::from_utf8_lossy(&killed.stderr);
    ensure!(
        said.contains("ready"),
        "expected a process that prints `ready`, found the output:\n{said}"
    );
    let began = Instant::now();
    drop(LooseIndex::open(&path, OWNER)?);
    column.add(
        "index: opened and closed after a kill",
        format!("{:.2} s", began.elapsed().as_secs_f64()),
    );
    if !keep {
        remove(&path)?;
    }
    Ok(column)
}

/// Adds entries to the index and crashes.
pub(crate) fn die(options: &KilledOptions) -> Result<()> {
    let index = LooseIndex::open(&options.index, OWNER)?;
    let from = index.indexed();
    for first in (from..from + LEFT).step_by(ROUND as usize) {
        let identities: Vec<_> = (first..first + ROUND).map(identity).collect();
        index.extend(&identities, first)?;
    }
    eprintln!("ready");
    std::process::abort();
}

fn make(path: &Path, size: u64) -> Result<Made> {
    // Resets the memory peak, so that the peak belongs to this size.
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
    let before = usage(std::process::id())?;
    let began = Instant::now();
    let index = LooseIndex::open(path, OWNER)?;
    let mut look_ups = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut rounds = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3)?;
    let mut said = Instant::now();
    let mut first = 0;
    while first < size {
        let end = (first + ROUND).min(size);
        for number in first..end {
            let asked = Instant::now();
            ensure!(
                index.find(&identity(number))?.is_none(),
                "entry {number} already exists"
            );
            look_ups.saturating_record(asked.elapsed().as_nanos() as u64);
        }
        let asked = Instant::now();
        let identities: Vec<_> = (first..end).map(identity).collect();
        index.extend(&identities, first)?;
        rounds.saturating_record(asked.elapsed().as_micros() as u64);
        first = end;
        if said.elapsed() > Duration::from_secs(20) {
            let now = usage(std::process::id())?;
            let each = |amount: u64| amount as f64 / first as f64;
            eprintln!(
                "{first} of {size} entries: {:.2} µs and {:.0} bytes written each, RSS {} MB",
                each(now.cpu_us - before.cpu_us),
                each(now.written - before.written),
                now.rss / 1_000_000
            );
            said = Instant::now();
        }
    }
    index.flush()?;
    drop(index);
    let seconds = began.elapsed().as_secs_f64();
    let after = usage(std::process::id())?;
    let points = |histogram: &Histogram<u64>| {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        [at(0.5), at(0.99), at(0.999), at(1.0)]
    };
    Ok(Made {
        cpu_us: (after.cpu_us - before.cpu_us) as f64 / size as f64,
        written: (after.written - before.written) as f64 / size as f64,
        seconds,
        look_up_us: points(&look_ups),
        round_ms: points(&rounds),
        peak_rss: after.peak_rss,
    })
}

/// Measures the CPU per look-up, in microseconds.
fn looked(index: &LooseIndex, size: u64, present: bool) -> Result<f64> {
    let mut random = Random(size);
    let before = usage(std::process::id())?.cpu_us;
    for _ in 0..LOOKUPS {
        let number = random.next() % size;
        let wanted = if present {
            number
        } else {
            number + size + LEFT
        };
        let found = index.find(&identity(wanted))?;
        ensure!(
            !present || found == Some(number),
            "expected entry {number} in the index, found {found:?}"
        );
    }
    let after = usage(std::process::id())?.cpu_us;
    Ok((after - before) as f64 / LOOKUPS as f64)
}
