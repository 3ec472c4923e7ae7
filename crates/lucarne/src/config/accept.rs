//! Accepted roots, and accepted certificates below them.

use std::path::PathBuf;

use lucarne_ct::{CcadbProgramme, Policy, Require};
use lucarne_settings::form::Shape;
use lucarne_settings::{Key, Located, Reader};

use super::keys::acceptance::{
    ACCEPT_SHA1, MAXCHAIN, NOTAFTERLIMIT, NOTAFTERSTART, REJECT_EXPIRED, REJECT_EXTENSIONS,
    REJECT_UNEXPIRED, REQUIRE,
};
use super::keys::roots;
use super::root_sources::{Ccadb, RefusedRoots, RootSources};
use super::values;
use crate::files::is_absent;

/// URLs of CCADB's reports: the roots of a programme, and the roots of applicants.
pub(super) const CCADB_TRUSTED: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesIncludedByRSReportCSV";
const CCADB_TESTING: &str =
    "https://ccadb.my.salesforce-sites.com/ccadb/RootCACertificatesInclusionReportCSV";

/// Reads the sources of accepted roots.
pub(super) fn roots(reader: &mut Reader<'_, '_>) -> RootSources {
    let pem = file(reader, &roots::ROOTS);
    let extra = file(reader, &roots::EXTRAROOTS);
    let programme = reader.read(&roots::CCADBROOTS);
    let url = reader.url_or_path(&roots::ROOTSURL);
    // A log without a roots file accepts the roots that CCADB lists as trusted, like Sunlight.
    let programme = match programme {
        None if reader.has(&roots::CCADBROOTS) => None,
        None if !reader.has(&roots::ROOTS) || url.is_some() => Some(Located {
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
    reader.list(&roots::REFUSEDROOTS, |text| {
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
    let found = path.value.metadata();
    if !found.as_ref().is_ok_and(std::fs::Metadata::is_file) {
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
    let start = reader.get(&NOTAFTERSTART);
    let limit = reader.read(&NOTAFTERLIMIT);
    if let (Some(start), Some(limit)) = (&start, &limit)
        && *start >= limit.value
    {
        let message = "must be later than `notafterstart`: no certificate fits into the interval";
        reader.problem(limit.line, &NOTAFTERLIMIT, message);
    }
    let reject_expired = reader.get(&REJECT_EXPIRED).unwrap_or(false);
    let reject_unexpired = reader.get(&REJECT_UNEXPIRED).unwrap_or(false);
    let max_chain = reader.get(&MAXCHAIN);
    if reject_expired && reject_unexpired {
        let message = "cannot be combined with `reject_expired`: no certificate would be accepted";
        reader.problem(None, &REJECT_UNEXPIRED, message);
    }
    Policy {
        require: reader.get(&REQUIRE).unwrap_or(Require::ServerAuth),
        accept_sha1: reader.get(&ACCEPT_SHA1).unwrap_or(true),
        reject_expired,
        reject_unexpired,
        reject_extensions: reader.values(&REJECT_EXTENSIONS, values::oid),
        not_after_start: start,
        not_after_limit: limit.map(|located| located.value),
        max_chain: max_chain.map_or(Policy::DEFAULT_MAX_CHAIN, |max| max as usize),
    }
}
