//! The read endpoints of RFC 6962 (sections 4.3 to 4.6, 4.8).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rfc6962Read {
    Sth,
    SthConsistency,
    ProofByHash,
    Entries,
    EntryAndProof,
}

impl Rfc6962Read {
    /// Returns the endpoint with this path below a log's prefix.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        match path.strip_prefix("ct/v1/")? {
            "get-sth" => Some(Rfc6962Read::Sth),
            "get-sth-consistency" => Some(Rfc6962Read::SthConsistency),
            "get-proof-by-hash" => Some(Rfc6962Read::ProofByHash),
            "get-entries" => Some(Rfc6962Read::Entries),
            "get-entry-and-proof" => Some(Rfc6962Read::EntryAndProof),
            _ => None,
        }
    }
}
