//! Common code of the tests with generated chains.

#![allow(dead_code)] // not every test uses everything

use std::sync::Arc;

use lucarne_ct::{Chain, Code, Entry, EntryKind, Policy, Rejection, Roots, Validator};
pub(crate) use lucarne_mint::now_ms;
use lucarne_mint::{Authority, CaOptions, KeyPair, KeyType, Template, testing::Pki};

/// Returns a log that accepts these roots.
pub(crate) fn log(roots: &[&[u8]], policy: Policy) -> Validator {
    let mut accepted = Roots::new();
    for root in roots {
        accepted.add(root).unwrap();
    }
    Validator::new(Arc::new(accepted), policy)
}

/// Returns the usual log: one root, the default policy.
pub(crate) fn usual() -> Validator {
    log(&[Pki::shared().root.cert_der()], Policy::default())
}

pub(crate) fn submit<D: AsRef<[u8]>>(
    log: &Validator,
    kind: EntryKind,
    chain: impl IntoIterator<Item = D>,
) -> Result<Entry, Rejection> {
    let chain = Chain::from_ders(chain)?;
    let examined = log.examine(&chain, kind, now_ms())?;
    let early = examined.identity().copied();
    let entry = log.verify(examined)?;
    assert!(early.is_none_or(|early| early == entry.identity));
    assert_eq!(entry.identity, entry.signed.identity());
    Ok(entry)
}

pub(crate) fn add_chain<D: AsRef<[u8]>>(
    chain: impl IntoIterator<Item = D>,
) -> Result<Entry, Rejection> {
    submit(&usual(), EntryKind::X509, chain)
}

pub(crate) fn add_pre_chain<D: AsRef<[u8]>>(
    chain: impl IntoIterator<Item = D>,
) -> Result<Entry, Rejection> {
    submit(&usual(), EntryKind::Precert, chain)
}

pub(crate) fn refused(result: Result<Entry, Rejection>) -> (Code, Option<usize>) {
    let rejection = result.unwrap_err();
    assert!(!rejection.detail.is_empty());
    (rejection.code, rejection.certificate_index)
}

pub(crate) fn pki() -> &'static Pki {
    Pki::shared()
}

pub(crate) fn leaf(issuer: &Authority) -> Vec<u8> {
    issuer.issue(&pki().leaf("example.test")).unwrap()
}

/// Returns a leaf that differs from the usual one.
pub(crate) fn odd_leaf(issuer: &Authority, change: impl FnOnce(&mut Template)) -> Vec<u8> {
    let mut template = issuer.leaf_template(&pki().leaf("example.test")).unwrap();
    change(&mut template);
    issuer.sign(&template).unwrap()
}

/// Returns an intermediate that differs from the usual one.
pub(crate) fn odd_ca(
    issuer: &Authority,
    name: &str,
    change: impl FnOnce(&mut Template),
) -> Authority {
    let key = KeyPair::generate(KeyType::EcdsaP256).unwrap();
    let options = CaOptions::named(name, KeyType::EcdsaP256);
    let mut template = issuer.ca_template(&options, &key).unwrap();
    change(&mut template);
    issuer.subordinate(key, &template).unwrap()
}

pub(crate) fn chain(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}
