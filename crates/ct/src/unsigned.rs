//! The bytes around the signed part of a certificate, in the only form that a log accepts.
//!
//! A signature covers the TBSCertificate. It does not cover the lengths around it, the
//! AlgorithmIdentifier next to the signature, or the BIT STRING of the signature. Anyone can
//! rewrite these bytes, even with additional text, and the certificate still verifies. A log that
//! accepted any form would log one certificate any number of times, and would serve arbitrary text
//! as an issuer's certificate. The unsigned bytes must therefore be DER and agree with the signed
//! part. The signed part may have any encoding that its authority chose and that the parser
//! accepts.
//!
//! The signature value has one form, too, by the rules of the verifiers (aws-lc-rs, and the crates
//! `ecdsa` and `rsa` before it). An RSA signature is as long as the modulus, and below the modulus.
//! The second half of an Ed25519 signature is below the order of the group. The two integers of an
//! ECDSA signature are positive, below the order, and in DER. One ambiguity remains: (r, n − s) is
//! as valid as (r, s), and it is impossible to determine which of them the authority created.

use lucarne_x509::der::{DerError, Problem, Tlv, tag};

use crate::certificate::Certificate;
use crate::rejection::{Code, Rejection};
use crate::roots::Roots;

/// Checks the certificate at `index` of a chain, unless it is an accepted root: the operator chose
/// the bytes of a root, and no other form of this root is accepted.
///
/// [`SignatureAlgorithm::of`](crate::algorithm::SignatureAlgorithm::of) checks that the algorithm
/// equals the signed algorithm.
///
/// # Errors
/// [`Code::NotCanonical`].
pub(crate) fn check(
    index: usize,
    certificate: &Certificate<'_>,
    roots: &Roots,
) -> Result<(), Rejection> {
    match check_form(certificate) {
        Err(error) if roots.find(certificate).is_none() => {
            let detail = format!("{error}; {ACCEPTED}");
            Err(Rejection::of(index, Code::NotCanonical, detail))
        }
        _ => Ok(()),
    }
}

const ACCEPTED: &str = "the bytes around the signed part must be DER, with the parameters of the \
                        signed algorithm (NULL as 05 00) and no unused bits";

fn check_form(certificate: &Certificate<'_>) -> Result<(), DerError> {
    certificate.whole_tlv().check_shortest("Certificate")?;
    check_algorithm(certificate.algorithm_tlv())?;
    let signature = certificate.signature_tlv();
    signature.check_shortest("signatureValue")?;
    match signature.value {
        [] | [_] => Err(signature.error("signatureValue", Problem::NoSignature)),
        [0, ..] => Ok(()),
        [unused, ..] => Err(signature.error("signatureValue", Problem::UnusedBits(*unused))),
    }
}

fn check_algorithm(identifier: Tlv<'_>) -> Result<(), DerError> {
    identifier.check_shortest("signatureAlgorithm")?;
    let mut fields = identifier.reader();
    let oid = fields.expect(tag::OID, "algorithm")?;
    oid.check_shortest("algorithm")?;
    if fields.is_empty() {
        return Ok(());
    }
    // Parameters other than NULL equal the signed parameters, byte for byte.
    let parameters = fields.any("parameters")?;
    if parameters.tag == tag::NULL && parameters.raw.len() != 2 {
        let problem = Problem::LongNull(parameters.raw.len());
        return Err(parameters.error("parameters", problem));
    }
    fields.finish("parameters")
}
