//! AlgorithmIdentifier (RFC 5280 4.1.1.2).

use crate::{Der, Oid};

/// An AlgorithmIdentifier of `oid` with the parameters that `parameters`
/// writes, in DER: also for algorithms that nobody should use.
pub fn algorithm(oid: &Oid, parameters: impl FnOnce(&mut Der)) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.oid(oid);
            parameters(der);
        });
    })
}
