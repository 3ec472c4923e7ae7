//! Paths from a certificate up to a root, through the certificates of the server and, if some are
//! missing, of other servers.

use std::sync::Arc;

use lucarne_ct::{Certificate, Issuer, Roots, is_issued_by, names_match};

/// Certificates above a leaf, from its issuer upwards, each stored once in memory.
pub(crate) type Issuers = Arc<[Arc<Issuer>]>;

/// Limit of certificates above a leaf.
const LONGEST: usize = 8;
/// Maximum number of certificates with the same name whose keys are tried, for each source.
const MAX_NAMESAKES: usize = 8;

/// Certificates above a leaf. An issuer is found by its signature, not by name alone, because CAs
/// keep their name when they change keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// The leaf's issuer, if known.
    pub(crate) issuer: Option<Arc<Issuer>>,
    /// True if a certificate has the name of the issuer but another key.
    pub(crate) is_namesake: bool,
    /// Certificates from the leaf's issuer upwards, without a root that the server did not send.
    pub(crate) chain: Issuers,
    /// Certificates of the chain that the server did not send.
    pub(crate) added: Issuers,
    /// Name of the first missing issuer; `None` if the path reaches a root.
    pub(crate) wanted: Option<Arc<[u8]>>,
}

impl Path {
    /// Builds the path from `leaf` through `sent`, `roots`, and the certificates that `seen`
    /// returns for a name.
    pub(crate) fn of(
        leaf: &[u8],
        sent: &[Arc<Issuer>],
        roots: &Roots,
        seen: impl Fn(&[u8]) -> Vec<Arc<Issuer>>,
    ) -> Self {
        let mut path = Path::default();
        let (mut chain, mut added) = (Vec::new(), Vec::new());
        let mut top: Option<Arc<Issuer>> = None;
        while chain.len() < LONGEST {
            let below = top.as_ref().map_or(leaf, |top| &top.der);
            let Ok(below) = Certificate::parse(below) else {
                break;
            };
            if top.is_some() && names_match(below.subject(), below.issuer()) {
                break;
            }
            let mut is_namesake = false;
            let mut find = |among: &[Arc<Issuer>]| issuer_of(&below, among, &mut is_namesake);
            let trusted = roots.find_by_subject(below.issuer());
            let trusted: Vec<_> = trusted.map(|root| root.issuer().clone()).collect();
            let next = if let Some(next) = find(sent) {
                next
            } else if let Some(root) = find(&trusted) {
                path.issuer.get_or_insert(root);
                break;
            } else if let Some(next) = find(&seen(below.issuer())) {
                added.push(next.clone());
                next
            } else {
                path.wanted = Some(below.issuer().into());
                path.is_namesake = chain.is_empty() && is_namesake;
                break;
            };
            path.issuer.get_or_insert_with(|| next.clone());
            chain.push(next.clone());
            top = Some(next);
        }
        path.chain = chain.into();
        path.added = added.into();
        path
    }
}

/// Returns the certificate whose key signed `below`. Sets `is_namesake` if at least one certificate
/// has the name of the issuer.
fn issuer_of(
    below: &Certificate<'_>,
    among: &[Arc<Issuer>],
    is_namesake: &mut bool,
) -> Option<Arc<Issuer>> {
    let named = among.iter().filter(|issuer| {
        let parsed = Certificate::parse(&issuer.der);
        parsed.is_ok_and(|issuer| names_match(issuer.subject(), below.issuer()))
    });
    let mut named = named.take(MAX_NAMESAKES).inspect(|_| *is_namesake = true);
    let signer = named.find(|issuer| {
        Certificate::parse(&issuer.der).is_ok_and(|issuer| is_issued_by(below, &issuer))
    });
    signer.cloned()
}
