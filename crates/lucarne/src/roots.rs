//! The roots that a log accepts, from all of its sources.

use std::path::Path;

use anyhow::{Context, ensure};
use lucarne_ct::{CcadbError, CcadbProgramme, Fingerprint, Roots, SkippedRoot};

use crate::ccadb;
use crate::config::{Ccadb, LogSettings, RefusedRoots, Report};

/// The purpose for which roots are read. It decides on CCADB's: whether the report is waited for,
/// and whether new roots may be written into the log's cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To look at all of them; nothing is written.
    Look,
    /// To look at what a start would use.
    LookBeforeStart,
    /// To start. A report that hangs must not delay that, even if none was ever read: it is read
    /// once the log is open.
    Start,
    /// To take up what has changed.
    Renew,
}

impl Purpose {
    fn uses_remembered(self) -> bool {
        matches!(self, Purpose::Start | Purpose::LookBeforeStart)
    }

    fn remembers(self) -> bool {
        matches!(self, Purpose::Start | Purpose::Renew)
    }
}

/// Reads all sources of `log`'s roots. Sources that fail and certificates that
/// are skipped are reported; whatever could be read is returned.
pub(crate) fn load(log: &LogSettings, purpose: Purpose, report: &mut Report) -> Roots {
    let mut roots = Roots::new();
    let files = [("roots", &log.roots.pem), ("extraroots", &log.roots.extra)];
    for (key, file) in files {
        if let Some(file) = file {
            let place = (file.line, log.key_path(key));
            match std::fs::read(&file.value) {
                Ok(pem) => add(&mut roots, &pem, &file.value, place, report),
                Err(error) => {
                    let message = format!("{} cannot be read: {error}", file.value.display());
                    report.problem(place.0, place.1, message);
                }
            }
        }
    }
    ccadb_roots(log, &mut roots, purpose, report);
    refuse(log, &mut roots, report);
    let may_come = purpose.uses_remembered() && awaits_ccadb(log);
    if roots.is_empty() && report.problems().is_empty() && !may_come {
        let message = "there is not one accepted root: every submission would be refused";
        report.problem(log.line, log.key_path("roots"), message);
    }
    roots
}

/// Takes out the roots that are refused, whatever source they came from. One
/// that no source has may come yet, and is only said.
fn refuse(log: &LogSettings, roots: &mut Roots, report: &mut Report) {
    let key = log.key_path("refusedroots");
    for refused in &log.roots.refused {
        let fingerprints = match &refused.value {
            RefusedRoots::One(fingerprint) => vec![*fingerprint],
            RefusedRoots::File(file) => match read_fingerprints(file) {
                Ok(fingerprints) => fingerprints,
                Err(error) => {
                    report.problem(refused.line, key.clone(), format!("{error:#}"));
                    continue;
                }
            },
        };
        for fingerprint in fingerprints {
            if !roots.remove(&fingerprint) {
                let message = format!("{fingerprint} is the fingerprint of none of the roots");
                report.warning(refused.line, key.clone(), message);
            }
        }
    }
}

/// One fingerprint on each line; what follows a `#` is for people.
fn read_fingerprints(file: &Path) -> anyhow::Result<Vec<Fingerprint>> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let lines = text.lines().zip(1..);
    let lines = lines.map(|(line, number)| (line.split('#').next().unwrap_or("").trim(), number));
    lines
        .filter(|(line, _)| !line.is_empty())
        .map(|(line, number)| {
            let place = || format!("{}, line {number}: `{line}`", file.display());
            line.parse::<Fingerprint>().with_context(place)
        })
        .collect()
}

/// CCADB's roots: what its report says now, and what it ever said before (a
/// root is never removed by itself). A start takes the latter, if there are any. A report out of reach is only a warning
/// if there are roots of an earlier start.
fn ccadb_roots(log: &LogSettings, roots: &mut Roots, purpose: Purpose, report: &mut Report) {
    let Some(ccadb) = &log.roots.ccadb else {
        return;
    };
    let key = log.key_path("ccadbroots");
    let file = log.ccadb_file();
    let mut known = remembered(log);
    if purpose.uses_remembered() && ccadb::is_remote(&ccadb.value.source) {
        if known.is_empty() {
            let message = format!(
                "no roots of CCADB are known yet: {} is read once the log is open, and chains to unknown \
                 roots get 503 until then",
                ccadb.value.source
            );
            report.warning(ccadb.line, key, message);
        }
        roots.merge(&known);
        return;
    }
    match fetch(&ccadb.value) {
        Ok((fetched, skipped)) => {
            for root in skipped {
                let message = format!("{}: {root}", ccadb.value.source);
                report.warning(ccadb.line, key.clone(), message);
            }
            known.merge(&fetched);
            if purpose.remembers()
                && let Err(error) = ccadb::remember(&file, &known)
            {
                report.warning(ccadb.line, key, format!("{error:#}"));
            }
        }
        Err(error) if known.is_empty() => report.problem(ccadb.line, key, format!("{error:#}")),
        Err(error) => {
            let message = format!(
                "{error:#}; the {} roots of {} are used",
                known.len(),
                file.display()
            );
            report.warning(ccadb.line, key, message);
        }
    }
    roots.merge(&known);
}

/// Returns whether a start does not know CCADB's roots, and does not wait for them.
pub(crate) fn awaits_ccadb(log: &LogSettings) -> bool {
    let ccadb = log.roots.ccadb.as_ref();
    ccadb.is_some_and(|ccadb| ccadb::is_remote(&ccadb.value.source)) && remembered(log).is_empty()
}

/// CCADB's roots of earlier starts.
fn remembered(log: &LogSettings) -> Roots {
    let pem = std::fs::read(log.ccadb_file()).unwrap_or_default();
    let (mut known, _) = Roots::from_pem(&pem);
    known.merge(&sunlights(log));
    known
}

/// Returns the roots that a Sunlight before us has accepted, if it left its
/// data here: it adds to that file, and never removes a root either.
fn sunlights(log: &LogSettings) -> Roots {
    let directory = log.data.value.directory();
    let pem = directory.and_then(|directory| std::fs::read(directory.join("_roots.pem")).ok());
    Roots::from_pem(&pem.unwrap_or_default()).0
}

fn fetch(ccadb: &Ccadb) -> anyhow::Result<(Roots, Vec<SkippedRoot>)> {
    let csv = ccadb::fetch(&ccadb.source)?;
    let read = match ccadb.programme.roots(&csv) {
        // A report without any programme's status is CCADB's list of those
        // that are included: all of it counts.
        Err(CcadbError::NoColumn(_)) => CcadbProgramme::Testing.roots(&csv),
        read => read,
    };
    let (roots, skipped) = read.with_context(|| ccadb.source.clone())?;
    ensure!(
        !roots.is_empty(),
        "{}: there is no root in it",
        ccadb.source
    );
    Ok((roots, skipped))
}

/// Adds the certificates of one PEM file; those skipped become warnings.
fn add(
    roots: &mut Roots,
    pem: &[u8],
    source: &Path,
    place: (Option<usize>, String),
    report: &mut Report,
) {
    let (read, skipped) = Roots::from_pem(pem);
    for root in skipped {
        let message = format!("{}: {root}", source.display());
        report.warning(place.0, place.1.clone(), message);
    }
    roots.merge(&read);
}

/// Returns true if Chrome's Merge Delay Monitor root is among `roots`: Chrome's
/// log policy demands it.
pub(crate) fn has_merge_delay_monitor(roots: &Roots) -> bool {
    roots
        .iter()
        .any(|root| root.subject().contains("Merge Delay Monitor Root"))
}
