//! AlgorithmIdentifier (RFC 5280, section 4.1.1.2).

use crate::{Der, Oid};

/// Encodes an AlgorithmIdentifier of `oid` with the parameters that `parameters` writes, in DER.
pub fn algorithm(oid: &Oid, parameters: impl FnOnce(&mut Der)) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.oid(oid);
            parameters(der);
        });
    })
}
