//! `lucarne load from-access-log`: a plan from the access log of a server.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::Timestamp;
use jiff::fmt::strtime;
use url::Url;

use super::exit_code::misconfigured;
use super::from_har::write;
use super::recorded::{Recorded, RecordedPlan, Variables, origin, quoted};

/// Options of `lucarne load from-access-log`.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Access log in the common or the combined format; `-` is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// URL of the server under test [default: the variable BASE_URL of the plan]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<Url>,

    /// Host of absolute URLs in the log whose requests become part of the plan. May be repeated
    #[arg(long, value_name = "HOST")]
    pub include: Vec<String>,

    /// Number of requests in the plan, the most frequent first
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub requests: u64,

    /// Write the plan to FILE; `-` is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Limit of a line in bytes; a longer line is left out.
const LONGEST: u64 = 64 << 10;

/// Limit of the different requests in memory; further ones are left out.
const MOST: usize = 1 << 20;

/// Reasons why a file is not an access log.
#[derive(Debug, thiserror::Error)]
enum LogError {
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error(
        "has no GET or HEAD request in the combined format: expected lines such as `192.0.2.1 - - \
         [28/Nov/2026:15:00:00 +0000] \"GET /path HTTP/1.1\" 200 512 \"-\" \"-\"`"
    )]
    Nothing,
}

/// A request of the log.
#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Key {
    method: String,
    target: String,
}

/// Requests of a log by frequency.
#[derive(Debug, Default)]
struct Counted {
    requests: HashMap<Key, (u64, BTreeSet<u16>)>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    total: u64,
    /// Number of lines that are not part of the plan.
    left_out: u64,
}

pub(super) fn run(options: &Options) -> ExitCode {
    match plan(options) {
        Ok(plan) => write(&options.output, &plan),
        Err(why) => misconfigured(format_args!("{}: {why}", options.file.display())),
    }
}

fn plan(options: &Options) -> Result<String, LogError> {
    let counted = if options.file == Path::new("-") {
        Counted::read(io::stdin().lock(), options)?
    } else {
        Counted::read(BufReader::new(File::open(&options.file)?), options)?
    };
    if counted.total == 0 {
        return Err(LogError::Nothing);
    }
    let mut all: Vec<_> = counted.requests.into_iter().collect();
    all.sort_by(|(one, (few, _)), (other, (many, _))| {
        many.cmp(few).then_with(|| one.target.cmp(&other.target))
    });
    let rare: u64 = all
        .iter()
        .skip(options.requests as usize)
        .map(|(_, (count, _))| count)
        .sum();
    all.truncate(options.requests as usize);
    if counted.left_out + rare > 0 {
        noteln!(
            "left out {} lines without a usable request (other methods need bodies, other hosts \
             --include), and {rare} rare requests (see --requests)",
            counted.left_out
        );
    }
    let seconds = match (counted.first, counted.last) {
        (Some(first), Some(last)) => last.as_second() - first.as_second(),
        _ => 0,
    };
    let rate = counted.total as f64 / (seconds.max(1)) as f64;
    let mut variables = Variables::default();
    let requests = all.into_iter().map(|(key, (count, statuses))| {
        let base = Url::parse("http://localhost/").ok();
        let parsed = base.and_then(|base| base.join(&key.target).ok());
        let path = parsed
            .as_ref()
            .map(|url| variables.path(url))
            .unwrap_or_default();
        let absolute = parsed.as_ref().filter(|_| key.target.contains("://"));
        Recorded {
            name: Recorded::name_of(&key.method, parsed.as_ref().map_or("/", |url| url.path())),
            method: key.method,
            url: absolute.map_or(path.clone(), |url| format!("{}{path}", origin(url))),
            expect: statuses.into_iter().collect(),
            weight: Some(count),
            ..Recorded::default()
        }
    });
    let requests = requests.collect();
    let base = match &options.base_url {
        Some(url) => quoted(url.as_str().trim_end_matches('/')),
        None => "${BASE_URL}".to_owned(),
    };
    let plan = RecordedPlan {
        executor: &format!("executor: constant-arrival-rate\nrate: {rate:.3}\nduration: 60s"),
        options: &format!("baseUrl: {base}"),
        list: "requests",
        requests,
    };
    Ok(plan.yaml(&variables))
}

impl Counted {
    fn read(mut log: impl BufRead, options: &Options) -> Result<Self, LogError> {
        let mut counted = Self::default();
        let mut line = Vec::new();
        while let Some(whole) = next_line(&mut log, &mut line)? {
            let text = std::str::from_utf8(&line).ok().filter(|_| whole);
            let known = text
                .and_then(Line::parse)
                .filter(|it| it.is_usable(options));
            let Some(known) = known else {
                counted.left_out += 1;
                continue;
            };
            counted.add(&known);
        }
        Ok(counted)
    }

    fn add(&mut self, line: &Line<'_>) {
        let key = Key {
            method: line.method.to_owned(),
            target: line.target.to_owned(),
        };
        if self.requests.len() >= MOST && !self.requests.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let (count, statuses) = self.requests.entry(key).or_default();
        *count += 1;
        statuses.insert(line.status);
        self.total += 1;
        self.first = self.first.or(line.time).min(line.time.or(self.first));
        self.last = self.last.max(line.time);
    }
}

/// Reads a line of limited length. Returns whether the line is complete; `None` at the end.
fn next_line(log: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    if log.by_ref().take(LONGEST).read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    let whole = line.ends_with(b"\n") || (line.len() as u64) < LONGEST;
    let mut rest = Vec::new();
    let mut ended = whole;
    while !ended {
        rest.clear();
        let read = log.by_ref().take(LONGEST).read_until(b'\n', &mut rest)?;
        ended = read == 0 || rest.ends_with(b"\n");
    }
    Ok(Some(whole))
}

/// A line of the log.
struct Line<'l> {
    time: Option<Timestamp>,
    method: &'l str,
    target: &'l str,
    status: u16,
}

impl<'l> Line<'l> {
    /// Parses `host ident user [time] "METHOD TARGET PROTOCOL" status …`.
    fn parse(text: &'l str) -> Option<Self> {
        let (_, rest) = text.split_once('[')?;
        let (time, rest) = rest.split_once(']')?;
        let (_, rest) = rest.split_once('"')?;
        let (request, rest) = rest.split_once('"')?;
        let mut words = request.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let status = rest.split_ascii_whitespace().next()?.parse().ok()?;
        let time = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok();
        Some(Line {
            time: time.and_then(|time| time.to_timestamp().ok()),
            method,
            target,
            status,
        })
    }

    /// Returns whether the request can be repeated without a body, and belongs to the plan.
    fn is_usable(&self, options: &Options) -> bool {
        let url = Url::parse(self.target).ok();
        let host = url.as_ref().and_then(Url::host_str);
        let own = match host {
            Some(host) => options.include.iter().any(|known| known == host),
            None => self.target.starts_with('/'),
        };
        own && matches!(self.method, "GET" | "HEAD") && (200..600).contains(&self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_combined_format_are_parsed() {
        let line =
            "192.0.2.1 - me [28/Nov/2026:15:00:01 +0100] \"GET /a?b HTTP/1.1\" 200 5 \"-\" \"x\"";
        let parsed = Line::parse(line).unwrap();
        assert_eq!(
            (parsed.method, parsed.target, parsed.status),
            ("GET", "/a?b", 200)
        );
        let expected: Timestamp = "2026-11-28T14:00:01Z".parse().unwrap();
        assert_eq!(parsed.time, Some(expected));
        for wrong in ["", "GET / 200", "[x] \"\" 200", "[x] \"GET / HTTP/1.1\" -"] {
            assert!(Line::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn long_lines_are_left_out() {
        let mut text = "x".repeat(3 * LONGEST as usize).into_bytes();
        text.extend(b"\nshort\n");
        let mut log = text.as_slice();
        let mut line = Vec::new();
        assert_eq!(next_line(&mut log, &mut line).unwrap(), Some(false));
        assert_eq!(next_line(&mut log, &mut line).unwrap(), Some(true));
        assert_eq!(line, b"short\n");
        assert_eq!(next_line(&mut log, &mut line).unwrap(), None);
    }
}
