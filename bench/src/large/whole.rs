//! A whole log of any size, served by the real binary.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use base64_simd::STANDARD;
use lucarne_testkit::{Server, usage};
use std::fmt::Write as _;

use super::{
    Column, Options,
    certificates::{Random, Template},
    kept::{Copied, HOST, Kept, on_disk},
};
use crate::{
    Common,
    chains::{Issuer, Store},
    connection::Pieces,
    load::{self, Arrivals, Outcome, Plan, Requests},
    table::{failures, millis},
};

const STOP_TIMEOUT: Duration = Duration::from_secs(600);
/// Number of entries of a full tile.
const TILE: u64 = 256;

/// A log under measurement.
struct Bench<'a> {
    options: &'a Options,
    binary: &'a Path,
    store: &'a Store,
    size: u64,
    kept: &'a Kept,
    copied: Copied,
    column: Column,
}

pub(super) fn measure(
    common: &Common,
    options: &Options,
    folder: &Path,
    size: u64,
) -> Result<Column> {
    let store = Store::open(&common.store)?;
    let kept = Kept::open(&store, folder, size)?;
    let binary = std::path::absolute(&common.binary)?;
    let mut bench = Bench {
        options,
        binary: &binary,
        store: &store,
        size,
        copied: kept.copy()?,
        kept: &kept,
        column: Column::new(size),
    };
    bench.disk()?;
    let mut server = bench.start("start after a clean stop", common.server_core)?;
    bench.new_entries(&server)?;
    bench.duplicates(&server)?;
    let files = fs::read_dir(format!("/proc/{}/fd", server.pid()))?.count();
    bench.column.add("descriptors", files.to_string());
    bench.memory("RSS after submissions, now and at its peak", &server)?;
    bench.reads(&server)?;
    bench.memory("RSS after reads, now and at its peak", &server)?;
    server.kill()?;
    server = bench.start("start after a kill", common.server_core)?;
    ensure!(
        server.stop(STOP_TIMEOUT)?.success(),
        "the server failed at its shutdown:\n{}",
        server.output()
    );
    bench.rebuild()?;
    Ok(bench.column)
}

/// Measures the rebuild of the index from the tiles, in this process.
pub(super) fn read_back(common: &Common, folder: &Path, size: u64) -> Result<Column> {
    let store = Store::open(&common.store)?;
    let kept = Kept::open(&store, folder, size)?;
    fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
    let before = usage(std::process::id())?;
    let seconds = kept.read_back(&store)?;
    let after = usage(std::process::id())?;
    let mut column = Column::new(size);
    let cpu_us = (after.cpu_us - before.cpu_us) as f64 / size as f64;
    let figure = rebuilt(size, seconds, cpu_us, after.peak_rss);
    column.add("index rebuilt from tiles, in this process", figure);
    Ok(column)
}

fn rebuilt(size: u64, seconds: f64, cpu_us: f64, peak_rss: u64) -> String {
    format!(
        "{:.0}/s, {cpu_us:.2} µs of CPU each, peak RSS {:.0} MB",
        size as f64 / seconds,
        peak_rss as f64 / 1e6
    )
}

impl Bench<'_> {
    fn disk(&mut self) -> Result<()> {
        let each = |bytes: u64| format!("{:.0} bytes", bytes as f64 / self.size as f64);
        let ((files, tiles), (_, index)) = (
            on_disk(&self.copied.data())?,
            on_disk(&self.copied.index())?,
        );
        self.column.add("tiles on disk per entry", each(tiles));
        self.column.add("index on disk per entry", each(index));
        self.column.add("inodes of the log", files.to_string());
        Ok(())
    }

    fn memory(&mut self, what: &str, server: &Server) -> Result<()> {
        let used = usage(server.pid())?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let (now, peak) = (megabytes(used.rss), megabytes(used.peak_rss));
        self.column.add(what, format!("{now:.0}, {peak:.0} MB"));
        Ok(())
    }

    fn start(&mut self, what: &str, core: Option<usize>) -> Result<Server> {
        let (server, seconds) = self.copied.start(self.binary, core)?;
        self.column.add(what, format!("{seconds:.2} s"));
        Ok(server)
    }

    /// Returns the CPU of the server per response in microseconds, and the outcome.
    fn load(
        &self,
        server: &Server,
        plan: &Plan,
        requests: &mut dyn Requests,
    ) -> Result<(f64, u64, Outcome)> {
        let mut marks = Vec::new();
        let mut mark = || {
            marks.push(usage(server.pid())?);
            Ok(())
        };
        let outcome =
            load::run(self.copied.address(), plan, requests, &mut mark).with_context(|| {
                format!("the load failed; the server printed:\n{}", server.output())
            })?;
        ensure!(
            outcome.failures.is_empty(),
            "requests failed: {}; the server printed:\n{}",
            failures(&outcome),
            server.output()
        );
        let cpu = marks[1].cpu_us - marks[0].cpu_us;
        Ok((cpu as f64, marks[1].written - marks[0].written, outcome))
    }

    fn plan(&self, connections: usize, seconds: f64) -> Plan {
        Plan {
            connections,
            arrivals: Arrivals::Closed,
            warm_up: Duration::from_millis(500),
            duration: Duration::from_secs_f64(seconds),
        }
    }

    fn new_entries(&mut self, server: &Server) -> Result<()> {
        let seconds = self.options.duration;
        let chains = ((seconds + 1.0) * 10_000.0) as usize;
        let path = "/test/ct/v1/add-chain";
        let mut requests = self
            .store
            .submissions(Issuer::P256, chains, HOST, path, 0.1)?;
        let (cpu, written, outcome) =
            self.load(server, &self.plan(1000, seconds), &mut requests)?;
        let new = outcome.new.max(1) as f64;
        let figure = format!("{:.1} µs at {:.0}/s", cpu / new, new / outcome.seconds);
        self.column
            .add("CPU per new entry, P-256, one in ten a duplicate", figure);
        self.column.add(
            "written per new entry",
            format!("{:.0} bytes", written as f64 / new),
        );
        let at = |percentile| millis(&outcome, percentile);
        let figure = format!("{:.0} / {:.0} / {:.0} ms", at(50.0), at(99.0), at(99.9));
        self.column
            .add("add-chain, p50 / p99 / p99.9, period 100 ms", figure);
        Ok(())
    }

    /// Submits old entries again; the server signs an SCT for each.
    fn duplicates(&mut self, server: &Server) -> Result<()> {
        let mut requests = Duplicates {
            template: self.kept.template(self.store)?,
            issuer: STANDARD.encode_to_string(self.store.pki.rsa.cert_der()),
            random: Random(self.size),
            size: self.size,
            request: String::new(),
        };
        let (cpu, _, outcome) = self.load(server, &self.plan(100, 4.0), &mut requests)?;
        let figure = format!("{:.1} µs", cpu / outcome.answered.max(1) as f64);
        self.column.add("CPU per duplicate of an old entry", figure);
        Ok(())
    }

    fn reads(&mut self, server: &Server) -> Result<()> {
        let full = self.size / TILE;
        let (old, new) = (0..full / 2, full.saturating_sub(16)..full);
        for (what, level, tiles) in [
            ("old data tiles", "data", old.clone()),
            ("new data tiles", "data", new.clone()),
            ("old hash tiles", "0", old),
            ("new hash tiles", "0", new),
        ] {
            let mut requests = Tiles {
                level,
                tiles,
                random: Random(self.size),
                request: String::new(),
            };
            let (cpu, _, outcome) = self.load(server, &self.plan(64, 2.0), &mut requests)?;
            let answered = outcome.answered.max(1) as f64;
            let figure = format!(
                "{:.1} µs, p99 {:.1} ms",
                cpu / answered,
                millis(&outcome, 99.0)
            );
            self.column
                .add(&format!("CPU per request for {what}"), figure);
        }
        Ok(())
    }

    /// Uses all cores, because no other load runs.
    fn rebuild(&mut self) -> Result<()> {
        super::kept::remove(&self.copied.index())?;
        let (mut server, seconds) = self.copied.start(self.binary, None)?;
        let now = usage(server.pid())?;
        let cpu_us = now.cpu_us as f64 / self.size as f64;
        let figure = rebuilt(self.size, seconds, cpu_us, now.peak_rss);
        self.column
            .add("index rebuilt from tiles, all cores", figure);
        ensure!(
            server.stop(STOP_TIMEOUT)?.success(),
            "the server failed at its shutdown:\n{}",
            server.output()
        );
        Ok(())
    }
}

/// Submissions of entries that are already in the log.
struct Duplicates {
    template: Template,
    issuer: String,
    random: Random,
    size: u64,
    request: String,
}

impl Requests for Duplicates {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        let number = self.random.next() % self.size;
        let leaf = STANDARD.encode_to_string(self.template.certificate(number));
        let body = format!("{{\"chain\":[\"{leaf}\",\"{}\"]}}", self.issuer);
        self.request.clear();
        let _ = write!(
            self.request,
            "POST /test/ct/v1/add-chain HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Some((load::REPEATED, [self.request.as_bytes(), b"", b"", b""]))
    }
}

/// Full tiles in any order.
struct Tiles {
    level: &'static str,
    tiles: std::ops::Range<u64>,
    random: Random,
    request: String,
}

impl Requests for Tiles {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        let count = (self.tiles.end - self.tiles.start).max(1);
        let tile = self.tiles.start + self.random.next() % count;
        let (level, mut path) = (self.level, format!("{:03}", tile % 1000));
        let mut above = tile / 1000;
        while above > 0 {
            path = format!("x{:03}/{path}", above % 1000);
            above /= 1000;
        }
        self.request.clear();
        let _ = write!(
            self.request,
            "GET /test/tile/{level}/{path} HTTP/1.1\r\nHost: {HOST}\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        Some((0, [self.request.as_bytes(), b"", b"", b""]))
    }
}
