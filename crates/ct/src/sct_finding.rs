//! The findings about the SCTs of a certificate: each SCT is parsed, and verified with the entry
//! that the log must have signed. The proxy and the lint share this module.

use std::sync::Arc;

use lucarne_x509::DerError;

use crate::certificate::Certificate;
use crate::compliance::{Delivery, ValidSct};
use crate::entry::SignedEntry;
use crate::loglist::{ListedLog, LogList};
use crate::public_key::PublicKey;
use crate::sct::{Sct, SctError, SctList, delivered_entry, embedded_entry};

/// Maximum number of SCTs of one certificate that are checked; browsers require two or three.
pub const MOST_SCTS: usize = 32;

/// The finding about an SCT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SctFinding {
    /// A listed log has signed the SCT for this certificate.
    Valid,
    /// The signature does not verify: the SCT is not for this certificate.
    BadSignature,
    /// The timestamp is in the future, which RFC 6962, section 5.2 calls invalid.
    FromTheFuture,
    /// The SCT cannot be parsed, for this reason.
    Unreadable(String),
    /// The log is not in the list, or there is no list.
    UnknownLog,
    /// The issuer is unknown. The log has also signed the hash of the issuer's key.
    NoIssuer,
    /// Only certificates with other keys are known for the issuer's name.
    OtherIssuer,
    /// The SCT is in an OCSP response that proves nothing.
    UnprovenStaple,
}

impl SctFinding {
    /// Returns `true` if the SCT is proven to be wrong, and not only unverified.
    pub fn is_false(&self) -> bool {
        use SctFinding::{BadSignature, FromTheFuture, Unreadable};
        matches!(self, BadSignature | FromTheFuture | Unreadable(_))
    }

    /// Returns the name for labels and JSON.
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

    /// Returns the finding as a sentence.
    pub fn text(&self) -> String {
        let text = match self {
            SctFinding::Valid => "valid",
            SctFinding::BadSignature => "the log's signature does not verify for this certificate",
            SctFinding::FromTheFuture => "the timestamp is in the future",
            SctFinding::Unreadable(why) => why,
            SctFinding::UnknownLog => "not verified: the log is not in the log list",
            SctFinding::NoIssuer => {
                "not verified: the issuer is unknown, and was not sent with the certificate"
            }
            SctFinding::OtherIssuer => {
                "not verified: only certificates with another key are known for the issuer"
            }
            SctFinding::UnprovenStaple => {
                "not verified: the OCSP response with the SCT proves nothing"
            }
        };
        text.to_owned()
    }
}

/// The reasons why an SCT, or a list of SCTs, cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum UnreadSct {
    /// The extension of the list is invalid.
    #[error(transparent)]
    Extension(#[from] DerError),
    /// The list or the SCT is invalid.
    #[error(transparent)]
    Sct(#[from] SctError),
}

/// Parses the SCTs of one delivery. A list that cannot be parsed counts as one unreadable SCT.
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

/// An SCT that was delivered with a certificate.
#[derive(Debug, Clone)]
pub struct SeenSct {
    /// The SCT; `None` if it could not be parsed.
    pub sct: Option<Sct>,
    /// Method of delivery.
    pub delivery: Delivery,
    /// The log that the SCT names, if the list has this log.
    pub log: Option<Arc<ListedLog>>,
    /// The result of the verification.
    pub finding: SctFinding,
}

impl SeenSct {
    /// Verifies an SCT for the entries of its certificate. `now_ms` is the time in milliseconds
    /// since 1970.
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

    /// Returns the SCT for [`CtPolicy::judge`](crate::CtPolicy::judge), with the state of its log
    /// in the list; `None` if the SCT is not valid.
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
    /// The entry with the issuer's key, or the reason why the issuer is unknown.
    embedded: Result<SignedEntry, SctFinding>,
    delivered: SignedEntry,
    /// Whether SCTs in the stapled OCSP response count.
    stapled: bool,
}

impl LoggedEntries {
    /// Creates the entries of `leaf`. `issuer` is the certificate whose key has signed the leaf, or
    /// the finding for embedded SCTs if the issuer is unknown. `stapled` states whether the stapled
    /// OCSP response is valid.
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

    /// Returns the entry for embedded SCTs, if the issuer is known.
    pub fn embedded(&self) -> Option<&SignedEntry> {
        self.embedded.as_ref().ok()
    }

    /// Returns the entry for SCTs in the TLS handshake or in an OCSP response.
    pub fn delivered(&self) -> &SignedEntry {
        &self.delivered
    }

    /// Verifies an SCT with the log's key. `now_ms` is the time in milliseconds since 1970.
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
        if sct.verify(key, entry).is_err() {
            SctFinding::BadSignature
        } else if sct.timestamp > now_ms {
            SctFinding::FromTheFuture
        } else if delivery == Delivery::Ocsp && !self.stapled {
            SctFinding::UnprovenStaple
        } else {
            SctFinding::Valid
        }
    }
}
