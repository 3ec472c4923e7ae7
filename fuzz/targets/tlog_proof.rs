//! A proof file that parses is written with the same bytes.

use lucarne_tlog::TlogProof;

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(proof) = TlogProof::parse(bytes) {
        assert_eq!(proof.to_string().as_bytes(), bytes);
    }
}
