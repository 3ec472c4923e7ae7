//! Accepted roots, and accepted certificates below them.

use std::path::PathBuf;

use lucarne_ct::{CcadbProgramme, Policy};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Located, Reader};

use super::keys::acceptance::{self, KEYS};
use super::keys::roots;
use super::root_sources::{Ccadb, RefusedRoots, RootSources};
use crate::files::{self, is_absent};

/// URLs of CCADB's reports: the roots of a programme, and the roots of applicants.
pub(super) const CCADB_TRUSTED: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV";
const CCADB_TESTING: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV";

/// Reads the sources of accepted roots.
pub(super) fn roots(reader: &mut Reader<'_, '_>) -> RootSources {
    let pem = file(reader, &roots::KEYS.roots);
    let extra = file(reader, &roots::KEYS.extraroots);
    let programme = reader.read(&roots::KEYS.ccadbroots);
    let url = reader.url_or_path(&roots::KEYS.rootsurl);
    // A log without a roots file accepts the roots that CCADB lists as trusted, like Sunlight.
    let programme = match programme {
        None if reader.has(&roots::KEYS.ccadbroots) => None,
        None if !reader.has(&roots::KEYS.roots) || url.is_some() => Some(Located {
            value: CcadbProgramme::Trusted,
            line: url.as_ref().and_then(|url| url.line),
        }),
        programme => programme,
    };
    let ccadb = programme.map(|programme| {
        programme.map(|programme| Ccadb {
            source: url.map_or_else(|| report_of(programme).to_owned(), |url| url.value),
            programme,
        })
    });
    let refused = refused(reader);
    RootSources {
        pem,
        extra,
        ccadb,
        refused,
    }
}

/// Reads a list of fingerprints and of files of fingerprints.
fn refused(reader: &mut Reader<'_, '_>) -> Vec<Located<RefusedRoots>> {
    let directory = reader.directory();
    reader.list(&roots::KEYS.refusedroots, |text| {
        if let Ok(fingerprint) = text.parse() {
            return Ok(RefusedRoots::One(fingerprint));
        }
        let file = directory.join(text);
        if file.is_file() {
            Ok(RefusedRoots::File(file))
        } else {
            Err(
                "is neither a SHA-256 fingerprint (64 hexadecimal digits) nor a file of \
                 fingerprints",
            )
        }
    })
}

/// Returns the URL of CCADB's report for a programme.
fn report_of(programme: CcadbProgramme) -> &'static str {
    match programme {
        CcadbProgramme::Trusted => CCADB_TRUSTED,
        CcadbProgramme::Testing => CCADB_TESTING,
    }
}

/// Reads the path of a file that must exist.
fn file(reader: &mut Reader<'_, '_>, key: &Key<Shape>) -> Option<Located<PathBuf>> {
    let path = reader.path(key)?;
    let found = files::named(&path.value, || path.value.metadata());
    // A shell passes the output of a command as the path of a pipe.
    if !found.as_ref().is_ok_and(|found| !found.is_dir()) {
        let shown = path.value.display();
        let message = match found {
            Err(error) if !is_absent(&path.value) => format!("{shown} cannot be read: {error}"),
            _ => format!("{shown} does not exist, or is not a file"),
        };
        reader.problem(path.line, key, message);
        return None;
    }
    Some(path)
}

/// Reads the conditions for accepted certificates.
pub(super) fn policy(reader: &mut Reader<'_, '_>) -> Policy {
    let mut policy = Policy::default();
    acceptance::read(reader, &mut policy);
    let (start, limit) = (policy.not_after_start, policy.not_after_limit);
    if start.is_some() && limit.is_some() && start >= limit {
        let key = &KEYS.notafterlimit;
        let message = "must be later than `notafterstart`: no certificate fits into the interval";
        reader.problem(reader.line(key), key, message);
    }
    if policy.reject_expired && policy.reject_unexpired {
        let message = "cannot be combined with `reject_expired`: no certificate would be accepted";
        reader.problem(None, &KEYS.reject_unexpired, message);
    }
    policy
}
