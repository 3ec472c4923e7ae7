//! Issuers of the submitted certificates: a single issuer, or a mix as in the WebPKI.

use lucarne_mint::{Authority, KeyType};

use super::Roots;

pub(crate) const DAY: i64 = 86_400;

/// Issuers of the submitted certificates.
///
/// `webpki` is a mix modelled on public logs. Most certificates are short-lived, and issued by two
/// automated CAs. Others are of a cloud provider whose chain goes through a cross-signed root, or
/// of organisations with RSA keys, and a few have dozens of names. Final certificates embed two
/// SCTs.
///
/// | of 100 | issuer | subject's key | names | days | certificates sent |
/// |---:|---|---|---:|---:|---:|
/// | 34 | P-384 | P-256 | 2 | 90 | 2 |
/// | 14 | RSA-2048 | P-256 | 1 | 90 | 2 |
/// | 20 | RSA-2048 | RSA-2048 | 2 | 90 | 2 |
/// | 18 | P-256, cross-signed | P-256 | 3 | 47 | 3 |
/// | 9 | RSA-2048 | RSA-2048 | 4 | 199 | 2 |
/// | 5 | P-256 | P-384 | 40 | 90 | 2 |
///
/// A signature with RSA-2048 takes half a millisecond: create this mix in advance for high rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Issuers {
    /// An RSA-2048 intermediate
    Rsa,
    /// A P-256 intermediate
    P256,
    /// A P-384 intermediate
    P384,
    /// A realistic mix of issuers, sizes, key types and chain lengths
    #[default]
    Webpki,
}

/// Certificates of one kind.
pub(crate) struct Profile<'a> {
    /// Weight of this kind in the sum of all weights.
    pub(crate) weight: u64,
    pub(crate) issuer: &'a Authority,
    pub(crate) subject: KeyType,
    pub(crate) names: usize,
    pub(crate) days: i64,
    /// Number of SCTs that a final certificate embeds.
    pub(crate) scts: usize,
}

impl<'a> Profile<'a> {
    /// Returns the only profile of certificates of one issuer.
    pub(crate) fn of(issuer: &'a Authority) -> Self {
        Profile {
            weight: 1,
            issuer,
            subject: KeyType::EcdsaP256,
            names: 2,
            days: 90,
            scts: 0,
        }
    }
}

impl Issuers {
    /// Returns the profiles of this choice.
    pub(crate) fn profiles(self, roots: &Roots) -> Vec<Profile<'_>> {
        let only = |issuer| vec![Profile::of(issuer)];
        match self {
            Issuers::Rsa => only(&roots.rsa),
            Issuers::P256 => only(&roots.p256),
            Issuers::P384 => only(&roots.p384),
            Issuers::Webpki => webpki(roots),
        }
    }
}

fn webpki(roots: &Roots) -> Vec<Profile<'_>> {
    let rsa = KeyType::Rsa(2048);
    let (p256, p384) = (KeyType::EcdsaP256, KeyType::EcdsaP384);
    [
        (34, &roots.p384, p256, 2, 90),
        (14, &roots.rsa, p256, 1, 90),
        (20, &roots.rsa, rsa, 2, 90),
        (18, &roots.cross, p256, 3, 47),
        (9, &roots.rsa, rsa, 4, 199),
        (5, &roots.p256, p384, 40, 90),
    ]
    .into_iter()
    .map(|(weight, issuer, subject, names, days)| Profile {
        weight,
        issuer,
        subject,
        names,
        days,
        scts: 2,
    })
    .collect()
}
