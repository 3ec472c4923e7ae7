use lucarne_x509::pem::PemError;

/// Reasons why a key or a certificate could not be created or parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The cryptographic library failed during this operation.
    #[error("the cryptographic library failed: {0}")]
    Crypto(&'static str),
    /// The size of RSA keys is not supported.
    #[error("cannot generate RSA keys of {0} bits: use 2048, 3072, 4096 or 8192")]
    RsaSize(u32),
    /// The signature algorithm does not fit the key.
    #[error("a key of the kind {key} cannot sign with {algorithm:?}")]
    Algorithm {
        /// Kind of the key.
        key: crate::KeyType,
        /// Requested algorithm.
        algorithm: crate::SignatureAlgorithm,
    },
    /// The PEM text is invalid.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// The private key of a CA is encrypted.
    #[error(
        "the private key is encrypted with a passphrase: decrypt the key (openssl pkey \
         -in KEY -out NEW)"
    )]
    Encrypted,
    /// The private key of a CA has an older format than PKCS#8.
    #[error(
        "expected a PRIVATE KEY (PKCS#8), found {label}: convert the key (openssl pkey -in KEY \
         -out NEW)"
    )]
    OldKeyFormat {
        /// The words after BEGIN.
        label: String,
    },
    /// A CA file has a block of another kind.
    #[error(
        "unexpected PEM block {label}: a CA file must have only PRIVATE KEY and CERTIFICATE blocks"
    )]
    UnexpectedBlock {
        /// The words after BEGIN.
        label: String,
    },
    /// A CA file does not have exactly one private key.
    #[error("expected one PRIVATE KEY (PKCS#8) in the CA file, found {found}")]
    KeyCount {
        /// Number of private keys.
        found: usize,
    },
    /// The private key of a certificate cannot be parsed.
    #[error("the private key cannot be parsed: {0}")]
    PrivateKey(&'static str),
    /// The CA certificate is not usable for issuing.
    #[error("not a usable CA certificate: {0}")]
    Certificate(&'static str),
    /// The private key does not belong to the certificate.
    #[error("the private key does not belong to the CA certificate beside it")]
    Mismatch,
    /// The leaf certificate is not usable.
    #[error("not a usable certificate: {0}")]
    Leaf(&'static str),
    /// The CA has expired, so clients would refuse its certificates.
    #[error(
        "the CA's certificate expired at {}: create a new CA, and use the new CA instead",
        lucarne_x509::time::display(ended.saturating_mul(1000))
    )]
    CaExpired {
        /// End of the CA's validity, in seconds since 1970.
        ended: i64,
    },
    /// TLS cannot use the certificate or its key.
    #[cfg(feature = "store")]
    #[error("TLS cannot use the certificate: {}", tls_reason(.0))]
    Tls(rustls::Error),
}

/// The error of TLS is not a source, because the text has its words already.
#[cfg(feature = "store")]
impl From<rustls::Error> for MintError {
    fn from(error: rustls::Error) -> Self {
        MintError::Tls(error)
    }
}

/// Formats why TLS cannot use a certificate, with plain words for a key of another certificate.
#[cfg(feature = "store")]
fn tls_reason(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
            "the private key does not belong to the certificate".to_owned()
        }
        rustls::Error::InvalidCertificate(_) => "the certificate cannot be read".to_owned(),
        other => other.to_string(),
    }
}
