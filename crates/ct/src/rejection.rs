//! The reasons why a submission is refused: a stable code for programs, and a sentence.

use std::fmt;

/// A refused submission.
///
/// `detail` states the found value and the accepted values, such as the window, the EKU, or the
/// subject of the missing root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {detail}", .code.as_str(), At(*.certificate_index))]
pub struct Rejection {
    /// The reason, from a closed list of stable codes.
    pub code: Code,
    /// Index of the certificate at fault, if any; 0 is the leaf.
    pub certificate_index: Option<usize>,
    /// The value found, and the values accepted.
    pub detail: String,
}

impl Rejection {
    /// Creates a rejection of the submission as a whole.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            certificate_index: None,
            detail: detail.into(),
        }
    }

    /// Creates a rejection because of the certificate at `index` (0 is the leaf).
    pub fn of(index: usize, code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            certificate_index: Some(index),
            detail: detail.into(),
        }
    }

    /// Returns the HTTP status of the response: 413 for a body over the limit, else 400.
    pub fn status(&self) -> u16 {
        match self.code {
            Code::BodyTooLarge => 413,
            _ => 400,
        }
    }
}

struct At(Option<usize>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(index) => write!(f, " (certificate {index})"),
            None => Ok(()),
        }
    }
}

/// Defines [`Code`] together with the stable names.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The closed list of reasons for a refusal. Names are stable, so that programs may match
        /// on them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Returns the stable snake_case name, as it appears in responses and metrics.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $name,)* }
            }
        }
    };
}

codes! {
    /// The body is larger than the limit. Accepted: a body up to the limit named in the detail.
    BodyTooLarge = "body_too_large",
    /// The body is not JSON, or has another structure. Accepted: an object as in RFC 6962 section
    /// 4.1, `{"chain":["…"]}`.
    InvalidJson = "invalid_json",
    /// The object has no `chain`, or `chain` is null.
    MissingChain = "missing_chain",
    /// The chain is empty. Accepted: at least the leaf.
    EmptyChain = "empty_chain",
    /// An element of the chain is not base64. Accepted: standard alphabet, white space tolerated.
    InvalidBase64 = "invalid_base64",
    /// The chain has more certificates than the log accepts. The detail names the limit.
    ChainTooLong = "chain_too_long",
    /// An element is not exactly one DER certificate. The detail names the field and the byte.
    InvalidCertificate = "invalid_certificate",
    /// The unsigned bytes around the signed part of a certificate are not in their only accepted
    /// form: DER, the parameters of the signed algorithm (NULL is `05 00`), no unused bits; an
    /// accepted root byte for byte. The detail names the field and the byte.
    NotCanonical = "not_canonical",
    /// The chain has a certificate more than once. Accepted: each certificate once.
    DuplicateCertificate = "duplicate_certificate",
    /// A certificate's issuer is not the subject of the next certificate. Accepted: leaf first,
    /// each certificate directly certifying the certificate before (RFC 6962 section 4.1).
    WrongOrder = "wrong_order",
    /// The chain ends neither in an accepted root nor below an accepted root. Accepted: the roots
    /// of `get-roots`; the detail names the subject of the missing root.
    UnknownRoot = "unknown_root",
    /// An intermediate is not a certificate authority: an X.509 v1 certificate, or one without
    /// `basicConstraints` CA:TRUE. Accepted roots are exempt.
    NotACertificateAuthority = "not_a_certificate_authority",
    /// `signatureAlgorithm` differs inside and outside the signed part (RFC 5280 section 4.1.1.2).
    AlgorithmMismatch = "algorithm_mismatch",
    /// Signed with MD2, MD4 or MD5. Accepted: SHA-1 (unless configured otherwise) and SHA-2.
    WeakAlgorithm = "weak_algorithm",
    /// Signed with SHA-1, and this log is configured to refuse SHA-1.
    Sha1Refused = "sha1_refused",
    /// The signature algorithm, or the combination of key and algorithm, is unknown.
    /// Accepted: RSA PKCS#1 and PSS, ECDSA on P-256, P-384, P-521, Ed25519.
    UnsupportedAlgorithm = "unsupported_algorithm",
    /// The issuer's public key cannot be used: unknown type or curve, RSA outside 1024–8192 bits.
    UnsupportedKey = "unsupported_key",
    /// A signature does not verify with the key of the next certificate, or of any accepted root
    /// with the issuer's name at the end of the chain.
    InvalidSignature = "invalid_signature",
    /// The leaf has neither of the extended key usages serverAuth and anyExtendedKeyUsage, and
    /// this log requires one of them.
    MissingServerAuth = "missing_server_auth",
    /// The leaf's notAfter is outside the log's window, which the detail names.
    OutsideWindow = "outside_window",
    /// The leaf has expired, and this log is configured to refuse expired certificates.
    Expired = "expired",
    /// The leaf has not expired yet, and this log is configured to accept only expired
    /// certificates.
    NotExpired = "not_expired",
    /// The leaf's validity cannot be parsed, and this log has rules about it.
    InvalidValidity = "invalid_validity",
    /// The leaf has an extension that this log is configured to refuse. The detail names the
    /// extension.
    ExtensionRefused = "extension_refused",
    /// A precertificate was sent to `add-chain`. Submit it to `add-pre-chain`.
    PrecertificateOnAddChain = "precertificate_on_add_chain",
    /// A certificate without poison was sent to `add-pre-chain`. Submit it to `add-chain`.
    CertificateOnAddPreChain = "certificate_on_add_pre_chain",
    /// The poison is not exactly one critical extension with the value NULL (RFC 6962 section 3.1).
    InvalidPoison = "invalid_poison",
    /// The precertificate is itself an accepted root and names no other issuer: there is no issuer
    /// key to log.
    MissingIssuer = "missing_issuer",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_snake_case() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(
            names
                .iter()
                .flat_map(|name| name.chars())
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn reads_as_a_sentence() {
        let rejection = Rejection::of(1, Code::WrongOrder, "issuer is not the next subject");
        assert_eq!(
            rejection.to_string(),
            "wrong_order (certificate 1): issuer is not the next subject"
        );
        assert_eq!(rejection.status(), 400);
        assert_eq!(Rejection::new(Code::BodyTooLarge, "").status(), 413);
    }
}
