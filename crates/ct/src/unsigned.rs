//! The bytes around the signed part of a certificate, in the one form that a log takes.
//!
//! A signature covers the TBSCertificate. The lengths around it, the AlgorithmIdentifier beside
//! the signature and the BIT STRING that holds it are covered by nothing: whoever has a
//! certificate can write them anew, with text of his own in them, and it verifies as before. A
//! log that took them as they come would log one certificate any number of times, and serve
//! anybody's text as an issuer's certificate. So what nobody signed is DER, and says nothing that
//! the signed part does not say; what was signed stays as lax as its authority wrote it.
//!
//! The signature value has one form, too, by the rules of those who verify it (aws-lc-rs, and the
//! crates `ecdsa` and `rsa` before it): RSA's is as long as the modulus and below it, Ed25519's
//! second half is below the order of the group, ECDSA's two integers are positive, below the
//! order, and in DER. All that is left is (r, n − s), which is as good as (r, s): nobody can tell
//! which of them the authority made.

use lucarne_x509::der::{DerError, Problem, Tlv, tag};

use crate::certificate::Certificate;
use crate::rejection::{Code, Rejection};
use crate::roots::Roots;

/// Checks the certificate at `index` of a chain, unless it is an accepted root: of those the
/// operator gave the bytes, and no others are taken for it.
///
/// That the algorithm is the signed one is for
/// [`SignatureAlgorithm::of`](crate::algorithm::SignatureAlgorithm::of) to say.
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

const ACCEPTED: &str = "what surrounds the signed part is accepted in DER only, with the parameters of the signed algorithm (NULL as 05 00) and no unused bits";

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
    // Others than NULL are the signed ones, byte for byte.
    let parameters = fields.any("parameters")?;
    if parameters.tag == tag::NULL && parameters.raw.len() != 2 {
        let problem = Problem::LongNull(parameters.raw.len());
        return Err(parameters.error("parameters", problem));
    }
    fields.finish("parameters")
}
