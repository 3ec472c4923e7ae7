//! Processes a submission from its body to the tile. The last certificate of the chain is the
//! accepted root, so that an input needs no other file.

use std::sync::Arc;

use lucarne_ct::{
    Certificate, Chain, ChainLimits, EntryKind, Policy, Require, Roots, TileLeaf, TileLeafRef,
    Validator,
};
use lucarne_mint::Der;

const NOW_MS: u64 = 1_790_000_000_000;

pub(crate) fn run(body: &[u8]) {
    let Ok(chain) = Chain::decode_json(body, &ChainLimits::default()) else {
        return;
    };
    let mut roots = Roots::new();
    let _ = chain.iter().last().map(|root| roots.add(root));
    let roots = Arc::new(roots);
    for require in [Require::ServerAuth, Require::Any] {
        let validator = Validator::new(
            roots.clone(),
            Policy {
                require,
                ..Policy::default()
            },
        );
        submit(&validator, &chain, EntryKind::X509);
        submit(&validator, &chain, EntryKind::Precert);
    }
}

/// Checks that an accepted entry has the predicted identity, and the same identity when read from
/// the tile.
fn submit(validator: &Validator, chain: &Chain, kind: EntryKind) {
    let Ok(examined) = validator.examine(chain, kind, NOW_MS) else {
        return;
    };
    let identity = examined.identity().copied();
    let Ok(entry) = validator.verify(examined) else {
        return;
    };
    assert!(identity.is_none_or(|identity| identity == entry.identity));
    let root = chain.iter().last();
    for der in chain.iter().filter(|der| Some(*der) != root) {
        assert_only_form(der);
    }

    let mut tile = Vec::new();
    TileLeaf::encode(NOW_MS, &entry, 7, &mut tile);
    let mut rest = tile.as_slice();
    let leaf = TileLeafRef::read(&mut rest).expect("its own tile");
    assert!(rest.is_empty());
    assert_eq!((leaf.timestamp, leaf.index), (NOW_MS, 7));
    assert_eq!(leaf.identity(), entry.identity);
    assert!(
        leaf.fingerprints
            .eq(entry.issuers.iter().map(|issuer| issuer.fingerprint))
    );
}

/// Checks that the signed part and the signature determine all other bytes of a certificate.
fn assert_only_form(der: &[u8]) {
    let certificate = Certificate::parse(der).expect("an accepted certificate");
    let (signed, beside) = (certificate.tbs_algorithm(), certificate.algorithm());
    let again = Der::build(|out| {
        out.sequence(|out| {
            out.raw(certificate.tbs());
            out.raw(beside);
            out.bit_string(certificate.signature());
        });
    });
    assert_eq!(again, der);
    assert!(beside == signed || beside.len() < signed.len());
}
