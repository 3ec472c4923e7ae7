//! The way from a certificate up to a root: through what the server sent, and where it left
//! something out, through what other servers have sent.

use std::sync::Arc;

use lucarne_ct::{Certificate, Issuer, Roots, is_issued_by, names_match};

/// Certificates above a leaf, from its issuer up, each kept once in memory.
pub(crate) type Issuers = Arc<[Arc<Issuer>]>;

/// Certificates above a leaf, at most.
const LONGEST: usize = 8;
/// Certificates of one name whose keys are tried, at most, of each source.
const MOST_NAMESAKES: usize = 8;

/// The certificates above a leaf. A certificate is an issuer if its key has signed, not by its
/// name alone: CAs keep their name when they take another key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// The leaf's issuer, if it is known.
    pub(crate) issuer: Option<Arc<Issuer>>,
    /// True if a certificate has the issuer's name, but another key.
    pub(crate) is_namesake: bool,
    /// From the leaf's issuer up, without a root that the server did not send.
    pub(crate) chain: Issuers,
    /// Those of them that the server did not send.
    pub(crate) added: Issuers,
    /// The name of the issuer at which the way ends too early; `None`: it reaches a root.
    pub(crate) wanted: Option<Arc<[u8]>>,
}

impl Path {
    /// The way up from `leaf` through `sent`, `roots`, and what `seen` finds by a name.
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

/// The one among these whose key has signed; whether one has the name at least.
fn issuer_of(
    below: &Certificate<'_>,
    among: &[Arc<Issuer>],
    is_namesake: &mut bool,
) -> Option<Arc<Issuer>> {
    let named = among.iter().filter(|issuer| {
        let parsed = Certificate::parse(&issuer.der);
        parsed.is_ok_and(|issuer| names_match(issuer.subject(), below.issuer()))
    });
    let mut named = named.take(MOST_NAMESAKES).inspect(|_| *is_namesake = true);
    let signer = named.find(|issuer| {
        Certificate::parse(&issuer.der).is_ok_and(|issuer| is_issued_by(below, &issuer))
    });
    signer.cloned()
}
