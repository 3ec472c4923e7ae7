//! Roots that a log accepts, from all of its sources.

use std::path::Path;

use anyhow::{Context, ensure};
use lucarne_ct::{CcadbError, CcadbProgramme, Fingerprint, Roots, SkippedRoot};
use lucarne_mint::pem;
use lucarne_net::{counted, without_secrets};
use lucarne_settings::read_text;

use crate::ccadb;
use crate::config::{Ccadb, LogSettings, RefusedRoots, Report};
use crate::files;

/// Purpose of a read of the roots. For roots of CCADB, the purpose decides whether to download the
/// report, and whether to write new roots to the log's cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Check of all sources. Nothing is written.
    Look,
    /// Check of the sources on this machine, because a network request cannot change the result:
    /// there are problems already.
    LookHere,
    /// Check of the roots that a start would use.
    LookBeforeStart,
    /// Start. The report is read after the log is open, so that a hung download does not delay the
    /// start, even if no roots are cached.
    Start,
    /// Update of the roots of a running log.
    Renew,
}

impl Purpose {
    fn uses_remembered(self) -> bool {
        matches!(
            self,
            Purpose::Start | Purpose::LookBeforeStart | Purpose::LookHere
        )
    }

    fn remembers(self) -> bool {
        matches!(self, Purpose::Start | Purpose::Renew)
    }
}

/// Returns whether the files with roots of `log` can be read.
pub(crate) fn has_files(log: &LogSettings) -> bool {
    let mut files = log.roots.pem.iter().chain(&log.roots.extra);
    files.all(|file| std::fs::File::open(&file.value).is_ok())
}

/// Reads all sources of `log`'s roots. Failed sources and skipped certificates are reported; all
/// readable roots are returned.
pub(crate) fn load(log: &LogSettings, purpose: Purpose, report: &mut Report) -> Roots {
    let mut roots = Roots::new();
    let files = [("roots", &log.roots.pem), ("extraroots", &log.roots.extra)];
    for (key, file) in files {
        if let Some(file) = file {
            let place = (file.line, log.key_path(key));
            match files::read(&file.value) {
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
        let message = "there are no accepted roots: every submission would be refused";
        let message = match files.iter().find_map(|(_, file)| file.as_ref()) {
            Some(file) => format!("{message}: {}", no_certificate(&file.value)),
            None => message.to_owned(),
        };
        report.problem(log.line, log.key_path("roots"), message);
    }
    roots
}

/// Removes refused roots from the merged roots. A refused root that no source contains is only a
/// warning, because a source may add it later.
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
                let message = format!("{fingerprint} is not the fingerprint of any root");
                report.warning(refused.line, key.clone(), message);
            }
        }
    }
}

/// Reads fingerprints, one per line. A `#` starts a comment.
fn read_fingerprints(file: &Path) -> anyhow::Result<Vec<Fingerprint>> {
    let text = read_text(file).with_context(|| format!("{} cannot be read", file.display()))?;
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

/// Adds the roots of CCADB's current report and of all earlier reports. A root is never removed
/// automatically. A start uses only cached roots. An unavailable report is only a warning if there
/// are cached roots.
fn ccadb_roots(log: &LogSettings, roots: &mut Roots, purpose: Purpose, report: &mut Report) {
    let Some(ccadb) = &log.roots.ccadb else {
        return;
    };
    let key = log.key_path("ccadbroots");
    let file = log.ccadb_file();
    let mut known = remembered(log);
    if purpose.uses_remembered() && ccadb::is_remote(&ccadb.value.source) {
        if purpose == Purpose::LookHere {
            let message = format!(
                "{} is not requested: correct the problems first",
                without_secrets(&ccadb.value.source)
            );
            report.warning(ccadb.line, key, message);
        } else if known.is_empty() {
            let message = format!(
                "no roots of CCADB are known yet: {} is read once the log is open, and chains to unknown \
                 roots get 503 until then",
                without_secrets(&ccadb.value.source)
            );
            report.warning(ccadb.line, key, message);
        }
        roots.merge(&known);
        return;
    }
    match fetch(&ccadb.value) {
        Ok((fetched, skipped)) => {
            for root in skipped {
                let message = format!("{}: {root}", without_secrets(&ccadb.value.source));
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
                "{error:#}; now in use: {} of {}",
                counted(known.len(), "root"),
                file.display()
            );
            report.warning(ccadb.line, key, message);
        }
    }
    roots.merge(&known);
}

/// Returns whether a start proceeds without CCADB's roots, because none are cached.
pub(crate) fn awaits_ccadb(log: &LogSettings) -> bool {
    let ccadb = log.roots.ccadb.as_ref();
    ccadb.is_some_and(|ccadb| ccadb::is_remote(&ccadb.value.source)) && remembered(log).is_empty()
}

/// Returns the roots of CCADB that earlier processes stored, and the roots that Sunlight accepted
/// before.
fn remembered(log: &LogSettings) -> Roots {
    let pem = std::fs::read(log.ccadb_file()).unwrap_or_default();
    let (mut known, _) = Roots::from_pem(&pem);
    known.merge(&sunlights(log));
    known
}

/// Returns the roots that Sunlight accepted before, if its file is in the data. Sunlight adds roots
/// to this file and never removes any.
fn sunlights(log: &LogSettings) -> Roots {
    let directory = log.data.value.directory();
    let pem = directory.and_then(|directory| std::fs::read(directory.join("_roots.pem")).ok());
    Roots::from_pem(&pem.unwrap_or_default()).0
}

fn fetch(ccadb: &Ccadb) -> anyhow::Result<(Roots, Vec<SkippedRoot>)> {
    let csv = ccadb::fetch(&ccadb.source)?;
    let read = match ccadb.programme.roots(&csv) {
        // A report without status columns is CCADB's list of included roots, so all of its roots
        // apply.
        Err(CcadbError::NoColumn(_)) => CcadbProgramme::Testing.roots(&csv),
        read => read,
    };
    let (roots, skipped) = read.with_context(|| {
        let source = without_secrets(&ccadb.source);
        format!("cannot read CCADB's roots in {source}")
    })?;
    ensure!(
        !roots.is_empty(),
        "{}: expected roots, found none",
        without_secrets(&ccadb.source)
    );
    Ok((roots, skipped))
}

/// Describes a file of roots without a usable certificate.
fn no_certificate(file: &Path) -> String {
    let text = files::read_regular(file).unwrap_or_default();
    let why = match pem::certificates(&text) {
        Err(error) => error.to_string(),
        Ok(_) => "no certificate is usable".to_owned(),
    };
    format!("{}: {why}", file.display())
}

/// Adds the certificates of a PEM file. Skipped certificates become warnings.
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

/// Returns whether Chrome's Merge Delay Monitor root is among `roots`, as Chrome's log policy
/// requires.
pub(crate) fn has_merge_delay_monitor(roots: &Roots) -> bool {
    roots
        .iter()
        .any(|root| root.subject().contains("Merge Delay Monitor Root"))
}
