//! The findings about the SCTs of a certificate: each read, and held against what the log of a list
//! must have signed. The proxy and the lint share it.

use std::sync::Arc;

use lucarne_x509::DerError;

use crate::certificate::Certificate;
use crate::compliance::{Delivery, ValidSct};
use crate::entry::SignedEntry;
use crate::loglist::{ListedLog, LogList};
use crate::public_key::PublicKey;
use crate::sct::{Sct, SctError};
use crate::sct_list::{SctList, delivered_entry, embedded_entry};

/// More SCTs of one delivery are not looked at; browsers ask for two or three.
pub const MOST_SCTS: usize = 32;

/// The finding about an SCT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SctFinding {
    /// The log of the list has signed it for this certificate.
    Valid,
    /// The log's key does not fit the signature: it is not for this certificate.
    BadSignature,
    /// Its time has not come yet (RFC 6962 section 5.2 calls that invalid).
    FromTheFuture,
    /// It cannot be read; why.
    Unreadable(String),
    /// The log is not in the list, or there is no list.
    UnknownLog,
    /// The issuer, whose key the log has signed too, is not known.
    NoIssuer,
    /// Certificates with the issuer's name are known, but with other keys.
    OtherIssuer,
    /// The OCSP response that it came in proves nothing.
    UnprovenStaple,
}

impl SctFinding {
    /// Returns whether the SCT is false, rather than only not known to be good.
    pub fn is_false(&self) -> bool {
        use SctFinding::{BadSignature, FromTheFuture, Unreadable};
        matches!(self, BadSignature | FromTheFuture | Unreadable(_))
    }

    /// A word for labels and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            SctFinding::Valid => "valid",
            SctFinding::BadSignature => "bad-signature",
            SctFinding::FromTheFuture => "from-the-future",
            SctFinding::Unreadable(_) => "unreadable",
            SctFinding::UnknownLog => "unknown-log",
            SctFinding::NoIssuer => "no-issuer",
            SctFinding::OtherIssuer => "other-issuer",
            SctFinding::UnprovenStaple => "unverified-staple",
        }
    }

    /// A sentence for people.
    pub fn text(&self) -> String {
        let text = match self {
            SctFinding::Valid => "valid",
            SctFinding::BadSignature => "the signature is not the log's over this certificate",
            SctFinding::FromTheFuture => "its time has not come yet",
            SctFinding::Unreadable(why) => why,
            SctFinding::UnknownLog => "not verified: the log is not in the log list",
            SctFinding::NoIssuer => {
                "not verified: the issuer is not known, and did not come with the certificate"
            }
            SctFinding::OtherIssuer => {
                "not verified: of the issuer only certificates with another key are known"
            }
            SctFinding::UnprovenStaple => "not verified: the OCSP response that it came in is not",
        };
        text.to_owned()
    }
}

/// The reasons why an SCT, or a list of some, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UnreadSct {
    /// The extension that the list is in.
    #[error(transparent)]
    Extension(#[from] DerError),
    /// The list, or the SCT.
    #[error(transparent)]
    Sct(#[from] SctError),
}

/// The SCTs of one delivery. A list that cannot be read counts as one SCT
/// that cannot.
pub fn read_scts(list: Result<Option<&[u8]>, DerError>) -> Vec<Result<Sct, UnreadSct>> {
    let list = list.map_err(UnreadSct::from);
    let list = list.and_then(|list| Ok(list.map(SctList::parse).transpose()?));
    match list {
        Ok(Some(list)) => {
            let scts = list.iter();
            scts.map(|sct| sct.map_err(UnreadSct::from)).collect()
        }
        Ok(None) => Vec::new(),
        Err(why) => vec![Err(why)],
    }
}

/// An SCT that came with a certificate.
#[derive(Debug, Clone)]
pub struct SeenSct {
    /// `None` where it could not be read.
    pub sct: Option<Sct>,
    /// The way in which it came.
    pub delivery: Delivery,
    /// The log, if the list has it.
    pub log: Option<Arc<ListedLog>>,
    /// The finding about it.
    pub finding: SctFinding,
}

impl SeenSct {
    /// Looks at an SCT, at `now_ms` since 1970.
    pub fn look_at(
        read: Result<Sct, UnreadSct>,
        delivery: Delivery,
        entries: &LoggedEntries,
        list: Option<&LogList>,
        now_ms: u64,
    ) -> Self {
        let sct = match read {
            Ok(sct) => sct,
            Err(why) => {
                return SeenSct {
                    sct: None,
                    delivery,
                    log: None,
                    finding: SctFinding::Unreadable(why.to_string()),
                };
            }
        };
        let log = list.and_then(|list| list.get(&sct.log_id)).cloned();
        let finding = match &log {
            None => SctFinding::UnknownLog,
            Some(log) => entries.verify(&sct, delivery, &log.key, now_ms),
        };
        SeenSct {
            sct: Some(sct),
            delivery,
            log,
            finding,
        }
    }

    /// The SCT for [`CtPolicy::judge`](crate::CtPolicy::judge), its log in the state that the list
    /// has; `None` if it is not valid.
    pub fn valid(&self) -> Option<ValidSct<'_>> {
        let good = self.finding == SctFinding::Valid;
        let log = self.log.as_deref().filter(|_| good)?;
        Some(ValidSct {
            log,
            state: log.state,
            timestamp_ms: self.sct.as_ref()?.timestamp,
            delivery: self.delivery,
        })
    }
}

/// The entries that logs may have signed for a certificate.
#[derive(Debug)]
pub struct LoggedEntries {
    /// With the issuer's key; why it cannot be said.
    embedded: Result<SignedEntry, SctFinding>,
    delivered: SignedEntry,
    /// True if SCTs in the stapled OCSP response count.
    stapled: bool,
}

impl LoggedEntries {
    /// The entries of `leaf`. `issuer` is the certificate whose key has signed it; if there is none,
    /// the finding that embedded SCTs get. `stapled` is true if a stapled OCSP response can be believed.
    pub fn new(
        leaf: &Certificate<'_>,
        issuer: Result<&Certificate<'_>, SctFinding>,
        stapled: bool,
    ) -> Self {
        LoggedEntries {
            embedded: issuer.map(|issuer| embedded_entry(leaf, issuer)),
            delivered: delivered_entry(leaf),
            stapled,
        }
    }

    /// The entry whose SCTs are embedded, if the issuer is known.
    pub fn embedded(&self) -> Option<&SignedEntry> {
        self.embedded.as_ref().ok()
    }

    /// The entry whose SCTs come beside the certificate.
    pub fn delivered(&self) -> &SignedEntry {
        &self.delivered
    }

    /// Verifies an SCT by the log's key, at `now_ms` since 1970.
    pub fn verify(
        &self,
        sct: &Sct,
        delivery: Delivery,
        key: &PublicKey,
        now_ms: u64,
    ) -> SctFinding {
        let entry = match (delivery, &self.embedded) {
            (Delivery::Embedded, Ok(entry)) => entry,
            (Delivery::Embedded, Err(why)) => return why.clone(),
            (Delivery::Ocsp | Delivery::Tls, _) => &self.delivered,
        };
        match sct.verify(key, entry).is_ok() {
            false => SctFinding::BadSignature,
            true if sct.timestamp > now_ms => SctFinding::FromTheFuture,
            true if delivery == Delivery::Ocsp && !self.stapled => SctFinding::UnprovenStaple,
            true => SctFinding::Valid,
        }
    }
}
