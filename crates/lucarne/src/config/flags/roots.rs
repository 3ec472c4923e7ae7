//! Flags for the accepted roots.

use lucarne_ct::CcadbProgramme;

use super::Flags;
use super::parse::{Parse, unplaced};
use crate::config::root_sources::{Ccadb, RefusedRoots, RootSources};
use crate::config::{accept, values};

/// Text for an invalid fingerprint.
const NO_FINGERPRINT: &str = "is not a SHA-256 fingerprint (64 hexadecimal digits)";

impl Flags {
    pub(super) fn roots(&self, parse: &mut Parse<'_>) -> Option<RootSources> {
        let ccadb = self.ccadb(parse);
        let pem = match &ccadb {
            None => parse.present("roots-pem-file", self.roots_pem_file.as_ref()),
            Some(_) => self.roots_pem_file.as_ref(),
        };
        if pem.is_none() && ccadb.is_none() {
            return None;
        }
        let refused = self.roots_reject_fingerprints.iter().filter_map(|text| {
            let read = |text: &str| text.parse().map_err(|_| NO_FINGERPRINT);
            let fingerprint = parse.value("roots-reject-fingerprints", text, read)?;
            Some(unplaced(RefusedRoots::One(fingerprint)))
        });
        let refused = refused.collect();
        Some(RootSources {
            pem: pem.cloned().map(unplaced),
            ccadb: ccadb.map(unplaced),
            refused,
            ..RootSources::default()
        })
    }

    /// Reads the CCADB flags. TesseraCT accepts every root of a fetched report.
    fn ccadb(&self, parse: &mut Parse<'_>) -> Option<Ccadb> {
        let interval = self.roots_remote_fetch_interval.as_deref()?;
        let interval = parse.value("roots-remote-fetch-interval", interval, values::duration)?;
        let source = match &self.roots_remote_fetch_url[..] {
            [] => accept::CCADB_TRUSTED,
            [url] => url,
            _ => {
                let message = "is given more than once: only one report is read. Add other roots \
                               to --roots-pem-file";
                parse.problem("roots-remote-fetch-url", message);
                return None;
            }
        };
        (!interval.is_zero()).then(|| Ccadb {
            source: source.to_owned(),
            programme: CcadbProgramme::Testing,
        })
    }
}
